"""A shopper without privileges: it reads the instruction and the pages, and knows the usual ways to say things.

It searches for what the instruction names, opens the most promising products within the price, reads their features,
and buys the first that has all it looks for, with the options that the instruction names, or else the best it has seen.
On the benchmark's own instructions it knows attributes by their plain names only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from .attributes import phrases
from .core import BACK, BUY, CLICK, PREV, SEARCH
from .page import Card, Item, Kind, Page

PATIENCE = 3
"""How many products it looks at before it buys the best."""
_PRICE = re.compile(
    r"(?:,? and price|,|\.)? ?(?:lower than|less than|under|below|up to) \$?(\d+(?:\.\d+)?)(?: dollars)?"
)
_WORD = re.compile(r"[a-z0-9]+")
_FILLER = """
    a am an and are be below broke buy by can color costs dollars find for friend from get have help i im in is it less
    like look looking lower me my need of old one or please prefer price shopping should show size so some spend
    than that the this to under up want what which with without would you your
""".split()  # noqa: SIM905 (a list of strings would fill a page)


@lru_cache(256)
def searches(instruction: str, most: int) -> tuple[str, ...]:
    """Up to `most` searches made of the instruction's words: all that matter, then stretches of them.

    They are derived from what the agent sees and nothing else.
    """
    words = keywords(instruction)
    length = max(2, (len(words) + 1) // 2)
    stretches = [words[i : i + length] for i in range(0, max(1, len(words) - 1), max(1, length // 2))]
    found = [" ".join(part) for part in (words, *stretches, *([word] for word in words)) if part]
    return tuple(dict.fromkeys(found))[:most]


def keywords(instruction: str) -> list[str]:
    """The words of an instruction that matter, in order, without its price."""
    text = _PRICE.sub(" ", instruction.lower())
    return [word for word in _WORD.findall(text) if word not in _FILLER]


class Expert:
    """Shops through one episode from what an agent sees.

    Args:
        instruction: as `info["instruction"]` gives it.
        hasty: judge products by their titles and options only. What a hasty shopper does follows from the page alone,
            so that an agent without a memory can learn it.
    """

    def __init__(self, instruction: str, *, hasty: bool = False) -> None:
        self.hasty = hasty
        text = instruction.lower()
        price = _PRICE.search(text)
        self._bound = float(price[1]) if price else float("inf")
        self._text = _PRICE.sub(" ", text)
        self._attributes = [name for name, others in phrases().items() if self._says(name, *others)]
        self._met: dict[str, int] = {}  # product -> wanted attributes seen on its pages
        self._read: set[str] = set()  # products whose features were seen
        self._decided = ""

    def act(self, page: Page) -> str:
        """The next action on this page."""
        if page.kind is Kind.START:
            return f"{SEARCH}[{' '.join(self._query())}]"
        if page.kind is Kind.RESULTS:
            return self._choose(page)
        item = page.item
        if item is None:
            return f"{CLICK}[{BACK}]"
        if page.kind is Kind.SUB:
            self._note(item, *item.features)
            self._read.add(item.asin)
            return f"{CLICK}[{PREV}]"
        return self._consider(page, item)

    def _query(self) -> list[str]:
        text = self._text
        for name, others in phrases().items():
            for other in others:
                text = text.replace(other, f" {name} ")
        return keywords(text) or ["anything"]

    def _choose(self, page: Page) -> str:
        within = [card for card in page.cards if _price(card) <= self._bound] or list(page.cards)
        if not within:
            return f"{CLICK}[{BACK}]"
        new = [card for card in within if card.asin not in self._met]
        if not new or len(self._met) >= PATIENCE or self._decided:
            best = max(self._met, key=lambda asin: self._met[asin], default=within[0].asin)
            self._decided = self._decided or best
            shown = [card.asin for card in page.cards]
            return f"{CLICK}[{(self._decided if self._decided in shown else within[0].asin).lower()}]"
        return f"{CLICK}[{max(new, key=self._promise).asin.lower()}]"

    def _consider(self, page: Page, item: Item) -> str:
        self._note(item, item.title)
        missing = [value for name, value in self._wishes(item) if dict(page.chosen).get(name) != value]
        lacks = any(not value for value in missing)
        if item.asin != self._decided:
            unsure = self._met[item.asin] < len(self._attributes) and not self.hasty
            if unsure and item.asin not in self._read and not lacks:
                return f"{CLICK}[features]"
            if lacks or unsure:
                return f"{CLICK}[{PREV}]"
        return next((f"{CLICK}[{value}]" for value in missing if value), f"{CLICK}[{BUY}]")

    def _wishes(self, item: Item) -> Iterator[tuple[str, str]]:
        """(option, value) that the instruction names; the value is "" where it names the option and no value of it."""
        for name, values in item.options:
            named = [value for value in values if self._says(value)]
            if named:
                yield name, max(named, key=len)
            elif self._says(name):
                yield name, ""

    def _note(self, item: Item, *texts: str) -> None:
        seen = " ".join(texts).lower()
        self._met[item.asin] = max(self._met.get(item.asin, 0), sum(name in seen for name in self._attributes))

    def _promise(self, card: Card) -> int:
        title = card.title.lower()
        return sum(name in title for name in self._attributes)

    def _says(self, *texts: str) -> bool:
        return any(re.search(rf"(?<!\w){re.escape(text)}(?!\w)", self._text) for text in texts)


def _price(card: Card) -> float:
    return float(card.price.split(" to ")[-1].strip("$"))
