"""The privileged shopper: from any session, the next action on the way to the goal's product and its purchase."""

from __future__ import annotations

from .catalogue import Catalogue
from .core import BACK, BUY, CLICK, HITS, NEXT, PREV, SEARCH, ShopCore, parse
from .goals import Goal
from .page import Kind
from .product import Product
from .reward import alike, colour_or_same
from .session import Session


def next_action(session: Session, core: ShopCore, catalogue: Catalogue) -> str:
    """The next action; `session` has not ended."""
    product = catalogue.find(session.goal.asin)
    if session.kind is Kind.START:
        return f"{SEARCH}[{_query(product, core, catalogue)}]"
    if session.kind is Kind.RESULTS:
        return _browse(session, core, catalogue, product)
    if session.asin != product.asin or session.kind is Kind.SUB:
        return f"{CLICK}[{PREV}]"
    chosen = dict(session.chosen)
    for name, value in wanted(product, session.goal):
        if chosen.get(name) != value:
            return f"{CLICK}[{value}]"
    return f"{CLICK}[{BUY}]"


def wanted(product: Product, goal: Goal) -> list[tuple[str, str]]:
    """The product's own (option, value) for each wish of the goal that it can meet."""
    offered = [(name, value) for name, values in product.options for value in values if parse(f"{CLICK}[{value}]")]
    found = []
    for name, value in goal.options:
        exact = [option for option in offered if option[1] == value and name in ("", option[0])]
        close = [option for option in offered if alike(colour_or_same(option[1]), colour_or_same(value))]
        found += (exact or close)[:1]
    return found


def _browse(session: Session, core: ShopCore, catalogue: Catalogue, product: Product) -> str:
    found = core.found(session)
    number = catalogue.number(product.asin)
    if number not in found:
        return f"{CLICK}[{BACK}]"
    page = found.index(number) // core.per_page + 1
    if page == session.number:
        return f"{CLICK}[{product.asin.lower()}]"
    return f"{CLICK}[{NEXT if page > session.number else PREV}]"


def _query(product: Product, core: ShopCore, catalogue: Catalogue) -> str:
    """A search that finds the product, near the top where possible."""
    number, text = catalogue.number(product.asin), product.index_text
    queries = (product.title.lower(), text)
    places = []
    for query in queries:
        found = list(core.search(query))[:HITS]
        places.append(found.index(number) if number in found else HITS)
    return " ".join(queries[places.index(min(places))].split())[:2000]
