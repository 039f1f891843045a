"""`ShopCore`: the shop as a pure function, (session, action) -> (session, page).

It holds a catalogue, a search engine and a judge, none of which changes; sessions are values. The text environment,
the web site and anything else that lets somebody shop (a shopper who talks, say) stand on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, Protocol

from .goals import Goal
from .page import PER_PAGE, SUB_PAGES, Kind, Page, Receipt, clickables
from .product import Product
from .session import Session

HITS = 50
"""How many products a search finds at most."""
_ACTION = re.compile(r"(.+)\[(.+)\]")
_REMEMBERED = 512  # searches; paging and coming back to results search again
_SUB_PAGE = {name.lower(): name for name in SUB_PAGES}
SEARCH, CLICK = "search", "click"
BACK, PREV, NEXT, BUY = "back to search", "< prev", "next >", "buy now"


class Shelf(Protocol):
    """Products, by number and by ASIN."""

    def product(self, number: int, /) -> Product:
        """The product with this number in the index."""
        ...

    def find(self, asin: str, /) -> Product:
        """The product with this ASIN. Raises KeyError."""
        ...


class Searcher(Protocol):
    """Finds products."""

    def search(self, query: str, k: int = HITS) -> Sequence[int]:
        """The numbers of up to `k` products, the best first."""
        ...


@dataclass(frozen=True, slots=True)
class Rules:
    """What the original's site allows and a shop should not."""

    search_anywhere: bool = False
    """`search[...]` works on pages without a search bar."""
    endless_next: bool = False
    """`next >` goes on past the last results."""
    shop_on: bool = False
    """After a purchase the session goes on, and the next purchase pays again."""


ORIGINAL = Rules(search_anywhere=True, endless_next=True, shop_on=True)


class Step(NamedTuple):
    """What an action led to."""

    session: Session
    reward: float = 0.0
    bought: bool = False
    refusal: str = ""
    """Why the action was refused, "" if it was not. A refused action changes nothing."""


class ShopCore:
    """The shop.

    Args:
        shelf: the products.
        searcher: the search engine over them.
        judge: the reward of buying a product with these options for this goal.
        rules: what is allowed beyond what the pages offer.
        per_page: products on one page of results.
    """

    def __init__(
        self,
        shelf: Shelf,
        searcher: Searcher,
        judge: Callable[[Product, Goal, dict[str, str]], float],
        rules: Rules = Rules(),
        per_page: int = PER_PAGE,
    ) -> None:
        self.shelf, self.rules, self.per_page = shelf, rules, per_page
        self._judge = judge
        self.search = lru_cache(_REMEMBERED)(lambda query: tuple(searcher.search(query, HITS)))

    def start(self, goal: Goal, name: str) -> Session:
        """A new session, on the start page."""
        return Session(goal, name)

    def step(self, session: Session, action: str, page: Page | None = None) -> Step:
        """Carry out `search[words]` or `click[what is shown]`; `page` is the session's, if it is at hand."""
        parsed = parse(action)
        if parsed is None:
            return Step(session, refusal="An action is search[words] or click[a button, product or option].")
        name, argument = parsed
        if session.kind is Kind.DONE and not self.rules.shop_on:
            return Step(session, refusal="You have bought something. Nothing more can be done.")
        if name == SEARCH:
            if session.kind is not Kind.START and not self.rules.search_anywhere:
                return Step(session, refusal="There is no search bar here: click[back to search] leads to it.")
            return Step(self._results(session, tuple(argument.split(" ")), 1))
        page = page or self.page(session)
        if argument == SEARCH or argument not in clickables(page):
            return Step(session, refusal=f"There is no {argument[:100]!r} to click here.")
        return self._click(session, page, argument)

    def page(self, session: Session) -> Page:
        """What the session's page shows."""
        goal, kind = session.goal.instruction, session.kind
        if kind is Kind.START:
            return Page(kind, session.name, goal)
        if kind is Kind.RESULTS:
            found = self.found(session)
            shown = found[(session.number - 1) * self.per_page : session.number * self.per_page]
            return Page(
                kind,
                session.name,
                goal,
                keywords=session.keywords,
                number=session.number,
                total=len(found),
                cards=tuple(self.shelf.product(number).card for number in shown),
                visited=session.visited,
            )
        return Page(
            kind,
            session.name,
            goal,
            keywords=session.keywords,
            number=session.number,
            item=None if kind is Kind.DONE else self.shelf.find(session.asin).item,
            chosen=session.chosen,
            sub_page=session.sub_page,
            receipt=Receipt(session.asin, session.reward or 0.0) if kind is Kind.DONE else None,
        )

    def found(self, session: Session) -> tuple[int, ...]:
        """The numbers of what the session's search finds, the best first."""
        return self.search(session.query)

    def more(self, session: Session) -> bool:
        """Whether `next >` leads on from this page of results."""
        return self.rules.endless_next or session.number * self.per_page < len(self.found(session))

    def _click(self, session: Session, page: Page, what: str) -> Step:
        kind = session.kind
        if what == BUY:
            product, chosen = self.shelf.find(session.asin), dict(session.chosen)
            reward = self._judge(product, session.goal, chosen)
            return Step(replace(session, kind=Kind.DONE, sub_page="", reward=reward), reward, True)
        if what == BACK:
            return Step(replace(self.start(session.goal, session.name), reward=session.reward))
        if what == NEXT and kind is Kind.RESULTS:
            if not self.more(session):
                return Step(session, refusal="These are the last results.")
            return Step(self._results(session, session.keywords, session.number + 1))
        if what == PREV and kind is Kind.SUB:
            return Step(replace(session, kind=Kind.ITEM, sub_page=""))
        if what == PREV:
            number = session.number - 1 if kind is Kind.RESULTS else session.number
            return Step(self._results(session, session.keywords, number))
        if kind is Kind.RESULTS:
            asin = next(card.asin for card in page.cards if card.asin.lower() == what)
            return Step(replace(session, kind=Kind.ITEM, asin=asin, visited=session.visited | {asin}))
        if what in _SUB_PAGE:
            return Step(replace(session, kind=Kind.SUB, sub_page=_SUB_PAGE[what]))
        option = self.shelf.find(session.asin).option_of[what]
        return Step(replace(session, chosen=tuple({**dict(session.chosen), option: what}.items())))

    def _results(self, session: Session, keywords: tuple[str, ...], number: int) -> Session:
        return replace(session, kind=Kind.RESULTS, keywords=keywords, number=number, asin="", sub_page="", chosen=())


def parse(action: str) -> tuple[str, str] | None:
    """("search" or "click", its argument in lower case), by the original's rule; None for anything else.

    What follows the last bracket is ignored, the verb's case is not: "search[x] now" is a search, "Search[x]" is not.
    """
    match = _ACTION.match(action)
    if match is None or match[1] not in (SEARCH, CLICK):
        return None
    return match[1], match[2].lower()
