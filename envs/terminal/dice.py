"""`Dice`: random choices that depend on a key only, the same with every version of Python and every machine."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")

# Two pools without a common word: tasks of `valid_unseen` and `test` are about other things than those of `train`.
_SEEN = """
alpha anchor apple arrow badge banner barley basin beacon birch bottle branch bridge bronze candle canyon cedar cherry
clover cobalt comet copper coral cotton crater delta ember falcon fern garnet ginger harbor hazel island ivory jasper
kettle lantern laurel lemon linen lotus maple marble meadow mercury
"""
_UNSEEN = """
acorn agate amber basil bison breeze cactus camel canvas carbon cello cliff cloud cosmos crane dahlia desert dolphin
dune eagle fjord flint glacier granite hornet indigo iris juniper lagoon lilac magnet mango meteor nectar nickel oasis
olive onyx opal orchid otter pebble pepper plum quartz
"""
_SEEN_NAMES = "ana ben carla david elena felix greta hugo ines jonas klara liam mona nora otto paula"
_UNSEEN_NAMES = "arne bella cyrus dora emil fiona gus heidi ivan jade kurt lena milo nina oscar petra"
WORDS = {"seen": tuple(_SEEN.split()), "unseen": tuple(_UNSEEN.split())}
NAMES = {"seen": tuple(_SEEN_NAMES.split()), "unseen": tuple(_UNSEEN_NAMES.split())}


class Dice:
    """A stream of choices.

    Args:
        key: what the stream depends on.
        pool: "seen" or "unseen", the words and names that are drawn.
    """

    def __init__(self, key: str, pool: str = "seen") -> None:
        self._key, self._count = key.encode(), 0
        self._words, self._names = WORDS[pool], NAMES[pool]

    def number(self, low: int, high: int) -> int:
        """An integer in `low .. high`, both included."""
        self._count += 1
        digest = blake2b(self._key + b"/" + str(self._count).encode(), digest_size=8).digest()
        return low + int.from_bytes(digest, "big") % (high - low + 1)

    def choice(self, items: Sequence[T]) -> T:
        """One of `items`."""
        return items[self.number(0, len(items) - 1)]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in another order."""
        found = list(items)
        for last in range(len(found) - 1, 0, -1):
            other = self.number(0, last)
            found[last], found[other] = found[other], found[last]
        return found

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """`count` different items."""
        return self.shuffled(items)[:count]

    def words(self, count: int) -> list[str]:
        """`count` different words."""
        return self.sample(self._words, count)

    def word(self) -> str:
        """A word."""
        return self.choice(self._words)

    def names(self, count: int) -> list[str]:
        """`count` different first names."""
        return self.sample(self._names, count)

    def hex(self, length: int) -> str:
        """Hexadecimal digits."""
        return "".join(self.choice("0123456789abcdef") for _ in range(length))
