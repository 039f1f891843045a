"""WebShop's rewards: every golden case of the original, official human logs, and its matcher, quirks included."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sandlot.envs.core import InvalidArgument, MissingExtra
from sandlot.envs.webshop.goals import Goal
from sandlot.envs.webshop.nouns import MODELS, heuristic_nouns, tagger
from sandlot.envs.webshop.product import Product, parse_options, parse_prices
from sandlot.envs.webshop.reward import alike, colour_or_same, judge, title_score, total, type_factor

DATA = Path(os.environ.get("SANDLOT_TEST_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data"))
SHOP = DATA / "webshop"
needs_data = pytest.mark.skipif(not SHOP.is_dir(), reason=f"no golden values in {SHOP} (SANDLOT_TEST_DATA)")


def golden(name: str) -> Any:
    return json.loads((SHOP / name).read_text(encoding="utf-8"))


def product(**fields: Any) -> Product:
    plain: dict[str, Any] = {"asin": "B000000001", "title": "Red Sofa", "category": "garden", "query": "sofas"}
    return Product(**{**plain, "product_category": "Home › Furniture › Sofas", **fields})


def goal(**fields: Any) -> Goal:
    plain: dict[str, Any] = {"asin": "B000000001", "instruction": "i want a sofa", "title": "Red Sofa"}
    plain |= {"category": "garden", "query": "sofas", "product_category": "Home › Furniture › Sofas"}
    return Goal(**{**plain, "attributes": ("easy clean",), "options": (), "price_upper": 50.0, **fields})


def worth(bought: Product, wanted: Goal, chosen: dict[str, str], quirks: bool) -> float:
    nouns = ("red", "sofa")
    return judge(bought, wanted, chosen, nouns=nouns, goal_nouns=nouns, quirks=quirks).reward


@needs_data
def test_every_golden_case_is_rewarded_as_the_original_does() -> None:
    cases = golden("golden_reward.json")["cases"]
    assert cases
    for case in cases:
        sold, asked, wanted = case["product"], case["goal"], case["goal"]["goal_options"]
        bought = product(
            title=sold["Title"],
            query=sold["query"],
            product_category=sold["product_category"],
            description=sold["Description"],
            bullets=tuple(sold["BulletPoints"]),
            attributes=tuple(sold["Attributes"]),
            price=case["price"],
        )
        named = wanted.items() if isinstance(wanted, dict) else [("", value) for value in wanted]
        aim = goal(
            title=asked["name"],
            query=asked["query"],
            product_category=asked["product_category"],
            attributes=tuple(asked["attributes"]),
            options=tuple(named),
            price_upper=asked["price_upper"],
        )
        nouns = {"nouns": case["nouns_product"], "goal_nouns": case["nouns_goal"]}
        if case["error"]:
            with pytest.raises((TypeError, ZeroDivisionError)) as caught:
                judge(bought, aim, case["options"], **nouns, quirks=True)
            assert type(caught.value).__name__ == case["error"]
            continue
        verdict = judge(bought, aim, case["options"], **nouns, quirks=True)
        assert verdict.reward == case["reward"], case["tag"]
        expected = {key: case["info"].get(key) for key in ("r_type", "r_att", "r_option", "r_price", "title_score")}
        assert {key: getattr(verdict, key) for key in expected} == expected, case["tag"]
        assert verdict.query_match == case["info"]["query_match"]
        assert verdict.category_match == case["info"]["category_match"]


@needs_data
def test_official_human_logs_have_the_rewards_of_the_formula() -> None:
    records = golden("golden_official_human_logs.json")
    for record in records if isinstance(records, list) else [records]:
        said, aim = record["reward_info"], record["goal"]
        factor = type_factor(said["query_match"], said["category_match"], said["title_score"])
        assert factor == said["r_type"]
        attributes, options = len(aim["attributes"]), len(aim["goal_options"])
        met = round(said["r_att"] * attributes) + round((said.get("r_option") or 0) * options) + said["r_price"]
        assert total(met, attributes + options, factor) == pytest.approx(record["reward"], abs=1e-12)


@needs_data
def test_colours_are_normalised_as_the_original_does() -> None:
    for value, colour in golden("golden_normalize_color.json").items():
        assert colour_or_same(value) == colour


@pytest.mark.slow
@needs_data
def test_nouns_are_those_of_spacy_where_it_is_installed() -> None:
    if tagger().name == "heuristic":
        pytest.skip(f"spaCy or its model ({' or '.join(MODELS)}) is not installed")
    known = golden("golden_nouns.json")
    for title, nouns in zip(known["titles"], known["nouns_spacy_sm_3.8"], strict=True):
        assert tagger("spacy").nouns(title) == tuple(nouns)


@needs_data
def test_the_heuristic_gives_the_same_type_in_nineteen_of_twenty_pairs() -> None:
    known = golden("golden_nouns.json")
    ours = [heuristic_nouns(title) for title in known["titles"]]
    theirs = known["nouns_spacy_sm_3.8"]
    pairs = [(i, j) for i in range(len(ours)) for j in range(len(ours)) if i != j]
    same = sum(
        type_factor(False, False, title_score(ours[i], ours[j]))
        == type_factor(False, False, title_score(theirs[i], theirs[j]))
        for i, j in pairs
    )
    assert same / len(pairs) > 0.94


def test_the_formula_by_hand() -> None:
    bought = product(attributes=("easy clean",), price=40.0)
    wanted = goal(attributes=("easy clean", "solid wood"), options=(("color", "red"),))
    # One of two attributes, no option, the price: (1 + 0 + 1) / (2 + 1 + 1) = 0.5; with the option 0.75.
    assert worth(bought, wanted, {}, quirks=False) == 0.5
    assert worth(bought, wanted, {"color": "red"}, quirks=False) == 0.75
    assert worth(product(attributes=("easy clean",), price=50.01), wanted, {"color": "red"}, quirks=False) == 0.5
    assert type_factor(False, False, 0.2) == 0.5  # more than a fifth is needed
    assert type_factor(True, True, 0.05) == 0.1  # a title with hardly a common noun outweighs query and category
    assert type_factor(True, True, 0.0) == 0.0
    assert title_score(("shoe", "shoe"), ("shoe", "shoe", "lace")) == pytest.approx(1 / 3)
    assert title_score(("shoe",), ()) == 0.2


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        (("", "xx-large"), {"size": "x-large"}),  # "x large" has all the words of "xx large" but one letter
        (("", "x-large"), {"size": "large"}),  # the words of one among the other's
        (("", "light blue"), {"color": "navy blue"}),  # both are "blue"
        (("", "tailored"), {"fit": "red"}),  # "red" is in "tailored"
        (("", "red"), {"size": "red"}),  # whatever the option is called
        (("color", "navy blue"), {"size": "blue"}),  # a pair keeps its words, what was bought becomes a colour
    ],
)
def test_the_originals_loose_options_are_quirks_only(wanted: tuple[str, str], chosen: dict[str, str]) -> None:
    bought, aim = product(attributes=("easy clean",), price=10.0), goal(options=(wanted,))
    assert worth(bought, aim, chosen, quirks=True) == 1.0
    exact = wanted[1] in chosen.values() and wanted[0] in ("", *chosen)
    assert (worth(bought, aim, chosen, quirks=False) == 1.0) == exact


def test_attributes_are_found_in_lists_titles_features_and_descriptions() -> None:
    aim = goal(attributes=("non slip",))
    assert worth(product(attributes=("slip",), price=1.0), aim, {}, quirks=False) == 1.0  # a word of two is enough
    assert worth(product(title="Non Slip Sofa", price=1.0), aim, {}, quirks=False) == 1.0
    assert worth(product(bullets=("Soft", "NON SLIP feet"), price=1.0), aim, {}, quirks=False) == 1.0
    assert worth(product(description="with non slip feet", price=1.0), aim, {}, quirks=False) == 1.0
    assert worth(product(attributes=("rubber sole",), price=1.0), aim, {}, quirks=False) == 0.5
    assert alike("Café crème", "caf crme")  # the original's matcher drops accented letters


def test_official_prices_and_options_are_read_as_the_original_reads_them() -> None:
    assert parse_prices("$19.99") == (19.99,)
    assert parse_prices("$1,299.00") == (1299.0,)
    assert parse_prices("$10.00 - $25.50 - $99.00") == (10.0, 25.5)
    for nothing in (None, "", "free", "$1.2.3"):
        assert parse_prices(nothing) == (100.0,)
    assert product(prices=(10.0, 25.5)).price_tag == "$10.0 to $25.5"
    given = {"Size/Fit": [{"value": " Small/Medium "}, {"value": "L", "image": None}], "Color": None}
    assert parse_options(given) == (("size/fit", ("small | medium", "l")),)


def test_without_spacy_the_heuristic_takes_over_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandlot.envs.webshop.nouns.find_spec", lambda name: None)
    tagger.cache_clear()
    try:
        assert tagger("auto").name == "heuristic"
        assert tagger("auto").nouns("Red Running Shoes for Men") == ("red", "running", "shoes", "men")
        with pytest.raises(MissingExtra, match=r"sandlot\[nouns\]"):
            tagger("spacy")
    finally:
        tagger.cache_clear()


def test_an_unknown_tagger_is_a_users_mistake() -> None:
    with pytest.raises(InvalidArgument, match="nouns must be one of"):
        tagger("nltk")
