"""The text space: any Unicode string up to a length, usable in every Gymnasium vector mode."""

from __future__ import annotations

import string
from collections.abc import Sequence
from multiprocessing.context import BaseContext
from typing import Any, overload

import multiprocessing as mp  # isort: skip
from gymnasium.spaces import Text
from gymnasium.vector.utils import shared_memory as _shm

_SAMPLE_CHARSET = string.ascii_letters + string.digits + " .,:()[]<>{}'\"\n"
_BYTES_PER_CHARACTER = 4  # the most that UTF-8 needs
_SAMPLE_LENGTH = 64


class UnicodeText(Text):
    """Any `str` of at most `max_length` characters, the empty string included.

    `gymnasium.spaces.Text` fixes an alphabet, which real observations do not have. This subclass tests the length
    only, samples short printable strings, and travels through `AsyncVectorEnv`'s shared memory as UTF-8.
    """

    def __init__(self, max_length: int, *, seed: Any = None) -> None:
        super().__init__(max_length, min_length=0, charset=_SAMPLE_CHARSET, seed=seed)

    def contains(self, x: Any) -> bool:
        """True for a string within the length."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """A short random printable string (the policy's text is not expected to look like it)."""
        length = int(self.np_random.integers(1, min(self.max_length, _SAMPLE_LENGTH) + 1))
        return "".join(self.np_random.choice(list(_SAMPLE_CHARSET), size=length))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and self.max_length == other.max_length

    def __hash__(self) -> int:
        return hash(("UnicodeText", self.max_length))

    def __repr__(self) -> str:
        return f"UnicodeText({self.max_length})"


@_shm.create_shared_memory.register(UnicodeText)
def _create(space: UnicodeText, n: int = 1, ctx: BaseContext | Any = mp) -> Any:
    return ctx.Array("B", n * (4 + space.max_length * _BYTES_PER_CHARACTER))


@_shm.write_to_shared_memory.register(UnicodeText)
def _write(space: UnicodeText, index: int, value: str, shared_memory: Any) -> None:
    if len(value) > space.max_length:
        raise ValueError(f"a text of {len(value)} characters in a space of {space.max_length}")
    data = value.encode("utf-8", "surrogatepass")
    start = index * (4 + space.max_length * _BYTES_PER_CHARACTER)
    view = memoryview(shared_memory.get_obj()).cast("B")
    view[start : start + 4] = len(data).to_bytes(4, "little")
    view[start + 4 : start + 4 + len(data)] = data


@_shm.read_from_shared_memory.register(UnicodeText)
def _read(space: UnicodeText, shared_memory: Any, n: int = 1) -> Any:
    return _SharedTexts(space, shared_memory, n)


class _SharedTexts(Sequence[str]):
    """The texts that lie in shared memory now; a deep copy is a plain tuple of them.

    `AsyncVectorEnv` reads its buffer once, when it is built, and later returns deep copies of what it got then: it
    counts on arrays that are views of the buffer. This is such a view for texts.
    """

    def __init__(self, space: UnicodeText, shared_memory: Any, n: int) -> None:
        self._memory, self._n = shared_memory, n
        self._stride = 4 + space.max_length * _BYTES_PER_CHARACTER

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(self._n)))
        start = range(self._n)[index] * self._stride
        view = memoryview(self._memory.get_obj()).cast("B")
        size = int.from_bytes(view[start : start + 4], "little")
        return bytes(view[start + 4 : start + 4 + size]).decode("utf-8", "surrogatepass")

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        return tuple(self)
