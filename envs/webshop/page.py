"""What a shop shows: the `Page` that a state renders to, and its text forms. No page knows the goal.

The strings and their order are those of WebShop (Yao et al., NeurIPS 2022; https://github.com/princeton-nlp/WebShop,
MIT), which makes HTML and takes the text out of it again at every step. Here a page becomes a list of `Node`s, the
visible texts in document order, without the detour; `html/` has the same texts as a web page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

PER_PAGE = 10
"""Products on one page of results, where nobody asks for fewer or more."""
SUB_PAGES = ("Description", "Features", "Reviews")
ROOT = "http://127.0.0.1:3000"
SEPARATOR = " [SEP] "
_ASCII_SPACE = " \n\t\f\r"  # what the original's HTML parser folds


class Kind(StrEnum):
    """Which page it is; the values are those in the original's URLs."""

    START = "start"
    RESULTS = "search_results"
    ITEM = "item_page"
    SUB = "item_sub_page"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Card:
    """A product in a list of results."""

    asin: str
    title: str
    price: str
    """As shown: "$19.99" or "$10.0 to $25.5"."""


@dataclass(frozen=True, slots=True)
class Item:
    """A product on its own page."""

    asin: str
    title: str
    price: str
    """As shown, see `Card`."""
    options: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(name, values) in the shop's order, in lower case."""
    description: str = ""
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the last page says about the purchase. Nothing of the goal."""

    asin: str
    reward: float


@dataclass(frozen=True, slots=True)
class Page:
    """One page, complete: two equal pages look the same in every mode."""

    kind: Kind
    session: str
    """The session's name in URLs."""
    instruction: str
    """Without the prefix "Instruction:"."""
    keywords: tuple[str, ...] = ()
    number: int = 1
    """The page of results, from 1."""
    total: int = 0
    """How many results there are on all pages."""
    cards: tuple[Card, ...] = ()
    """Results only: the products on this page."""
    visited: frozenset[str] = frozenset()
    """Results only: ASINs whose page has been opened in this session."""
    item: Item | None = None
    """Item and sub pages."""
    chosen: tuple[tuple[str, str], ...] = ()
    """(name, value) of the chosen options, in the order in which their names were first chosen."""
    sub_page: str = ""
    """Sub pages: one of `SUB_PAGES`."""
    receipt: Receipt | None = None
    """The last page only."""


class Node(NamedTuple):
    """A visible text of a page."""

    text: str
    role: str = "text"
    """"button", "option" (of a product), "link" (to a product), "visited" (such a link, opened before) or "text"."""


def nodes(page: Page) -> list[Node]:
    """The visible texts in document order."""
    return [Node(folded, role) for text, role in _nodes(page) if (folded := fold(text))]


def text(shown: Sequence[Node]) -> str:
    """Observation mode `text`: the stripped texts, joined with `[SEP]`."""
    return SEPARATOR.join([node.text.strip() for node in shown])


def text_rich(shown: Sequence[Node], address: str) -> str:
    """Observation mode `text_rich`: one text per line, with marks for what can be clicked and what was.

    An option counts as chosen where the address has it in double quotes: the original's rule, with its quirks (a quoted
    search word marks the option of that name; a value outside ASCII is never marked).
    """
    lines, clicked = [], []
    for node in shown:
        if node.role == "button":
            lines.append(f"[button] {node.text} [button_]\n")
        elif node.role == "option" and f'"{node.text}"' in address:
            lines.append(f"  [clicked button] {node.text} [clicked button_]\n")
            clicked.append(f"You have clicked {node.text}.\n")
        elif node.role == "option":
            lines.append(f"  [button] {node.text} [button_]\n")
        elif node.role == "visited":
            lines.append(f"\n[clicked button] {node.text} [clicked button_]\n")
        elif node.role == "link":
            lines.append(f"\n[button] {node.text} [button_]\n")
        else:
            lines.append(f"{node.text}\n")
    return "".join([*reversed(clicked), *lines])


def url(page: Page) -> str:
    """Observation mode `url`: the address, in the original's two notations for options."""
    chosen = dict(page.chosen)
    if page.kind is Kind.START:
        return f"{ROOT}/{page.session}"
    if page.kind is Kind.DONE:
        return f"{ROOT}/{page.kind}/{page.session}/{page.receipt.asin if page.receipt else ''}/{chosen}"
    words = "+".join(page.keywords)
    if page.kind is Kind.RESULTS:
        return f"{ROOT}/{page.kind}/{page.session}/{words}/{page.number}"
    where = f"{ROOT}/{page.kind}/{page.session}/{page.item.asin if page.item else ''}/{words}/{page.number}"
    return f"{where}/{json.dumps(chosen)}" if page.kind is Kind.ITEM else f"{where}/{page.sub_page}/{chosen}"


def clickables(page: Page) -> tuple[str, ...]:
    """What `click[...]` accepts on this page, in the original's order, each once: buttons, products, options."""
    found = {text.lower(): None for text, role in _nodes(page) if role == "button"}
    found |= {card.asin.lower(): None for card in page.cards}
    if page.kind is Kind.ITEM and page.item:
        found |= {value: None for _, values in page.item.options for value in values}
    return tuple(found)


def has_search_bar(page: Page) -> bool:
    """Whether the page has a search bar."""
    return page.kind is Kind.START


def fold(text: str) -> str:
    """A text of white space only becomes one space; with a line break in it, nothing."""
    if text.strip(_ASCII_SPACE):
        return text
    return "" if "\n" in text else text[:1] and " "


def _nodes(page: Page) -> Iterator[tuple[str, str]]:
    if page.kind is Kind.DONE:
        yield from _done(page)
        return
    if page.kind is Kind.START:
        yield "WebShop", "text"
        yield "Instruction: ", "text"
        yield page.instruction, "text"
        yield "Search", "button"
        return
    yield "Instruction:", "text"
    yield page.instruction, "text"
    yield "Back to Search", "button"
    if page.kind is Kind.RESULTS:
        yield f"Page {page.number} (Total results: {page.total})", "text"
        if page.number > 1:
            yield "< Prev", "button"
        yield "Next >", "button"
        for card in page.cards:
            yield card.asin, "visited" if card.asin in page.visited else "link"
            yield card.title, "text"
            yield card.price, "text"
        return
    yield "< Prev", "button"
    if page.item is None:
        return
    if page.kind is Kind.SUB:
        if page.sub_page == "Description":
            yield page.item.description, "text"
        elif page.sub_page == "Features":
            for feature in page.item.features:
                yield f" {feature}", "text"
        return
    for name, values in page.item.options:
        yield name, "text"
        for value in values:
            yield value, "option"
    yield page.item.title, "text"
    yield f"Price: {page.item.price}", "text"
    yield "Rating: N.A.", "text"
    for name in SUB_PAGES:
        yield name, "button"
    yield "Buy Now", "button"


def _done(page: Page) -> Iterator[tuple[str, str]]:
    """The original lists purchase and goal here; in its text environment the fields of the goal are empty."""
    asin, reward = (page.receipt.asin, str(page.receipt.reward)) if page.receipt else ("", "")
    texts = ("Thank you for shopping with us!", "Your code: ", "None", " (Paste it in your MTurk interface.)")
    bought = ("Purchased", "asin", asin, "options", json.dumps(dict(page.chosen)), "attrs", "None", "category", "None")
    empty = ("query", "None", "product category", "None", "Target", "asin", "options", "attrs", "price upper")
    goal = ("instuction text", "category", "product category", "query", "Goal ", "None", "Reward")
    for shown in (*texts, *bought, *empty, *goal, "Your score (min 0.0, max 1.0)", reward, "Reward Details ", "None"):
        yield shown, "text"
