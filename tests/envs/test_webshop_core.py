"""`ShopCore`: the original's recorded sessions, step by step, and what a shop refuses that the original allows."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs.webshop.core import ORIGINAL, Rules, ShopCore, parse
from sandlot.envs.webshop.goals import Goal
from sandlot.envs.webshop.nouns import heuristic_nouns
from sandlot.envs.webshop.page import Kind, clickables, has_search_bar, nodes, text, text_rich, url
from sandlot.envs.webshop.product import Product, parse_product
from sandlot.envs.webshop.reward import judge
from sandlot.envs.webshop.session import Session

DATA = Path(os.environ.get("SANDLOT_TEST_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data"))
SHOP = DATA / "webshop"


class Stub:
    """A shelf, and the search that the recordings were made with: any word of the query in name or description."""

    def __init__(self, products: Sequence[Product]) -> None:
        self.products = list(products)

    def product(self, number: int) -> Product:
        return self.products[number]

    def find(self, asin: str) -> Product:
        return next(product for product in self.products if product.asin == asin)

    def search(self, query: str, k: int = 50) -> list[int]:
        texts = [f"{product.title} {product.description}".lower() for product in self.products]
        return [i for i, text in enumerate(texts) if any(word in text for word in query.split(" "))][:k]


def worth(product: Product, goal: Goal, chosen: dict[str, str]) -> float:
    nouns = {"nouns": heuristic_nouns(product.title), "goal_nouns": heuristic_nouns(goal.title)}
    return judge(product, goal, chosen, **nouns, quirks=True).reward


def small_shop(rules: Rules | None = None) -> tuple[ShopCore, Goal]:
    options = (("color", ("red", "blue", "one size")), ("size", ("small", "one size")))
    plain = Product("B000000000", "Lamp 0", "home", "lamps", "Home › Lamps", "a lamp", ("bright",), attributes=("x",))
    products = [replace(plain, asin=f"B{i:09d}", title=f"Lamp {i}", options=options) for i in range(23)]
    goal = Goal("B000000003", "i want lamp 3", "Lamp 3", "home", "lamps", "Home › Lamps", ("x",), (("", "red"),), 200.0)
    stub = Stub(products)
    return ShopCore(stub, stub, worth, rules or Rules()), goal


def walk(core: ShopCore, session: Session, *actions: str) -> Session:
    for action in actions:
        step = core.step(session, action)
        assert not step.refusal, f"{action}: {step.refusal}"
        session = step.session
    return session


@pytest.mark.skipif(not SHOP.is_dir(), reason=f"no golden values in {SHOP} (SANDLOT_TEST_DATA)")
def test_every_recorded_session_of_the_original_is_played_again() -> None:
    said = json.loads((SHOP / "toy" / "items_ins_v2_toy.json").read_text())
    entries = json.loads((SHOP / "toy" / "items_shuffle_toy.json").read_text())
    parsed = [parse_product(entry, tuple(said[entry["asin"]]["attributes"]), seed=0) for entry in entries]
    stub = Stub([product for product in parsed if product])
    recorded = json.loads((SHOP / "golden_text_env.json").read_text())
    core = ShopCore(stub, stub, worth, ORIGINAL)
    assert recorded["traces"]
    for trace in recorded["traces"]:
        given = recorded["goals_human1"][trace["goal_index"]]
        asked = stub.find(given["asin"])
        about = (asked.title, asked.category, asked.query, asked.product_category)
        goal = Goal(asked.asin, given["instruction_text"], *about, ("easy clean",), (), given["price_upper"])
        session = core.start(goal, str(trace["goal_index"]))
        for record in trace["steps"]:
            reward, bought = 0.0, False
            if record["action"] is not None:
                session, reward, bought, _ = core.step(session, record["action"])
            page = core.page(session)
            shown = {"text": text(nodes(page)), "url": url(page), "html": record["obs"]}
            shown["text_rich"] = text_rich(nodes(page), url(page))
            case = f"{trace['name']}, {trace['mode']}: {record['action']}"
            assert shown[trace["mode"]] == record["obs"], case  # the HTML is our own; its texts are tested elsewhere
            assert url(page) == record["url"], case
            assert list(clickables(page)) == record["avail"]["clickables"], case
            assert has_search_bar(page) == record["avail"]["has_search_bar"], case
            assert (reward, bought) == (record.get("reward", 0.0), record.get("done", False)), case


def test_a_shop_refuses_what_the_original_allows() -> None:
    strict, goal = small_shop()
    loose, _ = small_shop(ORIGINAL)
    results = walk(strict, strict.start(goal, "0"), "search[lamp]", "click[next >]", "click[next >]")
    last = strict.step(results, "click[next >]")
    assert last.session == results and "last results" in last.refusal
    assert loose.page(walk(loose, results, "click[next >]", "click[next >]")).cards == ()
    again = strict.step(results, "search[lamp]")
    assert again.session == results and "no search bar" in again.refusal
    assert walk(loose, results, "search[lamp]").number == 1
    done = walk(strict, results, "click[b000000020]", "click[buy now]")
    for action in ("search[lamp]", "click[buy now]", "click[back to search]"):
        assert strict.step(done, action).session == done and strict.step(done, action).refusal
    twice = loose.step(walk(loose, done, "search[lamp]", "click[b000000003]", "click[red]"), "click[buy now]")
    assert (twice.reward, twice.bought) == (1.0, True)


def test_pages_lead_where_the_original_leads() -> None:
    core, goal = small_shop()
    item = walk(core, core.start(goal, "0"), "search[lamp]", "click[next >]", "click[b000000011]", "click[red]")
    assert item.chosen == (("color", "red"),) and item.number == 2
    sub = walk(core, item, "click[features]")
    assert walk(core, sub, "click[< prev]") == item  # options are kept
    assert walk(core, item, "click[blue]").chosen == (("color", "blue"),)  # and overwritten
    assert walk(core, item, "click[one size]").chosen == (("color", "red"), ("size", "one size"))  # the last option's
    back = walk(core, item, "click[< prev]")
    assert (back.kind, back.number, back.chosen) == (Kind.RESULTS, 2, ())  # options are gone
    assert walk(core, back, "click[back to search]") == core.start(goal, "0")  # everything is


def test_values_that_look_like_buttons_or_brackets_do_no_harm() -> None:
    core, goal = small_shop()
    shelf = core.shelf
    assert isinstance(shelf, Stub)
    odd = ("next >", "buy now", "description", "a [b]", "search", "x")
    shelf.products[5] = replace(shelf.products[5], asin="b00lower05", options=(("style", odd),))
    item = walk(core, core.start(goal, "0"), "search[lamp]", "click[b00lower05]")
    assert item.asin == "b00lower05"
    assert walk(core, item, "click[next >]").chosen == (("style", "next >"),)  # no such button here: the option
    assert walk(core, item, "click[description]").kind is Kind.SUB  # buttons come first
    assert walk(core, item, "click[buy now]").kind is Kind.DONE
    for action in ("click[a [b]]", "click[search]"):
        assert core.step(item, action).refusal


def test_actions_are_read_as_the_original_reads_them() -> None:
    assert parse("search[red lamp] please") == ("search", "red lamp")
    assert parse("click[Buy Now]") == ("click", "buy now")
    for action in ("search[]", "Search[x]", " search[x]", "think\nsearch[x]", "search[a][x]", "click", "", "[x]"):
        assert parse(action) is None


WORDS = ["search[lamp]", "click[next >]", "click[< prev]", "click[back to search]", "click[buy now]", "click[search]"]
WORDS += ["click[b000000003]", "click[b000000012]", "click[red]", "click[one size]", "click[description]", "click[x]"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=20)), max_size=25), st.booleans())
def test_any_actions_lead_to_a_page_and_refused_ones_nowhere(actions: list[str], original: bool) -> None:
    core, goal = small_shop(ORIGINAL if original else Rules())
    session = core.start(goal, "0")
    for action in actions:
        step = core.step(session, action)
        assert core.step(session, action) == step  # a pure function
        assert not step.refusal or step.session == session
        assert step.bought == (step.session.kind is Kind.DONE and not step.refusal)
        session = step.session
        page = core.page(session)
        assert core.page(session) == page
        assert set(clickables(page)) >= ({"back to search"} if session.kind not in (Kind.START, Kind.DONE) else set())
