"""WebShop's pages: the direct texts are those of the HTML, by the original's own rules, whatever a page holds."""

from __future__ import annotations

import json
import os
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bs4 import BeautifulSoup
from bs4.element import Comment
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs.webshop import generator
from sandlot.envs.webshop.core import ORIGINAL, ShopCore
from sandlot.envs.webshop.goals import Goal
from sandlot.envs.webshop.html import ASSETS, FOLDER, render
from sandlot.envs.webshop.index import Index
from sandlot.envs.webshop.made_goals import made_goal
from sandlot.envs.webshop.page import Card, Item, Kind, Page, Receipt, clickables, nodes, text, text_rich, url
from sandlot.envs.webshop.pictures import draw
from sandlot.envs.webshop.product import Product, parse_product
from sandlot.envs.webshop.wares import kinds

DATA = Path(os.environ.get("SANDLOT_TEST_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data"))


def visible(html: str) -> list[Any]:
    """The texts that the original takes out of its HTML."""
    found = BeautifulSoup(html, "html.parser").find_all(string=True)
    unseen = ("style", "script", "head", "title", "meta", "[document]")
    return [
        t
        for t in found
        if t.parent is not None and t.parent.name not in unseen and not isinstance(t, Comment) and t != "\n"
    ]


def extracted(html: str) -> str:
    return " [SEP] ".join(part.strip() for part in visible(html))


def extracted_rich(html: str, address: str, visited: frozenset[str]) -> str:
    """The original's `text_rich`, rule by rule."""
    shown = ""
    for part in visible(html):
        if part.parent.name == "button":
            line = f"[button] {part} [button_]"
        elif part.parent.name == "label":
            if f'"{part}"' in address:
                line = f"  [clicked button] {part} [clicked button_]"
                shown = f"You have clicked {part}.\n" + shown
            else:
                line = f"  [button] {part} [button_]"
        elif part.parent.get("class") == ["product-link"]:
            line = f"\n[clicked button] {part} [clicked button_]" if part in visited else f"\n[button] {part} [button_]"
        else:
            line = str(part)
        shown += line + "\n"
    return shown


def extracted_clickables(html: str) -> list[str]:
    soup = BeautifulSoup(html, "html.parser")
    found = [e.get_text().lower() for kind in (".btn", ".product-link") for e in soup.select(kind)]
    return list(dict.fromkeys([*found, *(str(e["value"]) for e in soup.select("input[type=radio]"))]))


class WellFormed(HTMLParser):
    """Every element is closed where it should be."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "br", "img", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check(page: Page) -> None:
    html = render(page)
    WellFormed(html)
    assert extracted(html) == text(nodes(page))
    assert extracted_rich(html, url(page), page.visited) == text_rich(nodes(page), url(page))
    assert extracted_clickables(html) == list(clickables(page))


# What a catalogue, an instruction or a query may hold: markup, quotes, entities, templates, white space, all scripts.
TEXT = st.one_of(
    st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=12),
    st.sampled_from(
        ["", " ", "  \n ", "<b>bold</b>", "</p><script>alert(1)</script>", "&lt;&amp;", '"red"', "{{ 7*7 }}"]
    ),
    st.sampled_from([" a  b ", "a\n\nb", "size/fit", "<!-- x -->", "]]>", "'; --", "100% & more", "naïve 漢字 👍🏽"]),
)
ASIN = st.text(st.sampled_from("B0123456789XYZ"), min_size=1, max_size=10)
OPTION = st.one_of(TEXT.map(str.lower), st.sampled_from(["red", "navy blue", "small | medium"]))
OPTIONS = st.lists(
    st.tuples(OPTION, st.lists(OPTION.filter(bool), min_size=1, max_size=4).map(tuple)),
    max_size=3,
    unique_by=lambda o: o[0],
).map(tuple)


@st.composite
def pages(draw: st.DrawFn) -> Page:
    kind = draw(st.sampled_from(list(Kind)))
    cards = tuple(draw(st.lists(st.builds(Card, ASIN, TEXT, TEXT), max_size=10)))
    item = Item(draw(ASIN), draw(TEXT), draw(TEXT), draw(OPTIONS), draw(TEXT), tuple(draw(st.lists(TEXT, max_size=4))))
    chosen = tuple((name, draw(st.sampled_from(values))) for name, values in item.options if draw(st.booleans()))
    return Page(
        kind,
        draw(ASIN),
        draw(TEXT),
        keywords=tuple(draw(st.lists(TEXT, max_size=3))),
        number=draw(st.integers(1, 6)),
        total=draw(st.integers(0, 50)),
        cards=cards if kind is Kind.RESULTS else (),
        visited=frozenset(card.asin for card in cards if draw(st.booleans())),
        item=item if kind in (Kind.ITEM, Kind.SUB) else None,
        chosen=chosen if kind in (Kind.ITEM, Kind.SUB, Kind.DONE) else (),
        sub_page=draw(st.sampled_from(["Description", "Features", "Reviews"])) if kind is Kind.SUB else "",
        receipt=Receipt(item.asin, draw(st.sampled_from([0.0, 0.1, 1 / 3, 1.0]))) if kind is Kind.DONE else None,
    )


@settings(max_examples=250, deadline=None)
@given(pages())
def test_any_page_says_the_same_in_html(page: Page) -> None:
    check(page)


@pytest.fixture(scope="module")
def core() -> ShopCore:
    products = list(generator.products(600))
    shelf = dict(enumerate(products)) | {product.asin: product for product in products}

    class Shelf:
        product = find = staticmethod(shelf.__getitem__)

    return ShopCore(Shelf(), Index.build([p.index_text for p in products]), lambda *_: 0.5, ORIGINAL)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 599), st.lists(st.integers(0, 1000), min_size=1, max_size=25))
def test_every_page_of_a_walk_says_the_same_in_html(core: ShopCore, number: int, choices: list[int]) -> None:
    goal = made_goal(0, number, 0, "human")
    session = core.start(goal, "0")
    for choice in choices:
        page = core.page(session)
        check(page)
        assert goal.title not in render(page) or page.kind is not Kind.DONE
        what = clickables(page)
        clicks = [f"click[{name}]" for name in what if name != "search"]
        session = core.step(session, [*clicks, f"search[{goal.query}]"][choice % (len(clicks) + 1)]).session


def test_recorded_pages_of_the_original() -> None:
    """The original's own HTML gives the original's own text by these rules, and by them our `text_rich`."""
    shop = DATA / "webshop"
    if not (shop / "golden_text_env.json").exists():
        pytest.skip(f"no recorded episodes in {shop}")
    recorded = json.loads((shop / "golden_text_env.json").read_text())
    traces = {(t["name"], t["mode"]): t for t in recorded["traces"]}
    html, plain = traces["happy path", "html"], traces["happy path", "text"]
    assert [extracted(step["obs"]) for step in html["steps"]] == [step["obs"] for step in plain["steps"]]

    entries = json.loads((shop / "toy" / "items_shuffle_toy.json").read_text())
    products = [product for entry in entries if (product := parse_product(entry, (), seed=0))]
    shelf = dict(enumerate(products)) | {product.asin: product for product in products}

    class Stub:
        product = find = staticmethod(shelf.__getitem__)

        @staticmethod
        def search(query: str, k: int = 50) -> list[int]:
            return list(range(len(products)))  # every product of the recorded search is one of "acme"

    given = recorded["goals_human1"][html["goal_index"]]
    asked = shelf[given["asin"]]
    about = (asked.title, asked.category, asked.query, asked.product_category, (), (), 1.0)
    core = ShopCore(Stub(), Stub(), lambda *_: 1.0, ORIGINAL)
    session = core.start(Goal(asked.asin, given["instruction_text"], *about), str(html["goal_index"]))
    for step in html["steps"]:
        if step["action"] is not None:
            session = core.step(session, step["action"]).session
        page = core.page(session)
        assert text_rich(nodes(page), url(page)) == extracted_rich(step["obs"], step["url"], session.visited)
        assert list(clickables(page)) == extracted_clickables(step["obs"])
    assert len(html["steps"]) == 14


def test_a_refusal_is_shown_to_people_and_is_no_text_of_the_page() -> None:
    page = Page(Kind.START, "0", "buy a sofa")
    html = render(page, 'There is no "<b>x</b>" to click here.')
    assert "data-notice=" in html and "<b>x" not in html
    assert extracted(html) == extracted(render(page)) == text(nodes(page))


def test_nothing_comes_from_elsewhere() -> None:
    for path in [*FOLDER.glob("*.html"), *FOLDER.glob("*.css"), *FOLDER.glob("*.js")]:
        assert "//" not in path.read_text().replace("// ", "").replace("http://www.w3.org", ""), path.name
    served = {path.name for path in FOLDER.iterdir() if path.suffix in (".css", ".js", ".svg")} - {"pictures.svg"}
    assert served == set(ASSETS)


def test_every_kind_of_product_has_a_picture_of_its_own() -> None:
    drawn = {}
    for kind in kinds():
        for which in range(8):
            product: Product = generator.family(0, kinds().index(kind) + which * len(kinds()))[0]
            assert product.query == kind.query
            picture = draw("B000000000", product.title, {})
            ElementTree.fromstring(picture)
            drawn.setdefault(kind.query, set()).add(picture.split("</title>")[1])
    assert all(len(shapes) == 1 for shapes in drawn.values()), {k: len(v) for k, v in drawn.items() if len(v) > 1}
    assert len(set().union(*drawn.values())) >= 36
    box = draw("B000000000", "Zyx", {}).split("</title>")[1]
    assert not any(box in shapes for shapes in drawn.values())


@settings(max_examples=100, deadline=None)
@given(TEXT, TEXT, st.dictionaries(TEXT, TEXT, max_size=2))
def test_any_picture_is_well_formed_and_the_same_again(asin: str, title: str, chosen: dict[str, str]) -> None:
    picture = draw(asin, title, chosen)
    ElementTree.fromstring(picture)
    assert picture == draw(asin, title, chosen)


def test_a_chosen_colour_shows() -> None:
    plain, red = draw("B0", "Running Shoes", {}), draw("B0", "Running Shoes", {"size": "9", "color": "ruby red"})
    assert "hsl(348,75%,38%)" in red and "hsl(348,75%,38%)" not in plain
