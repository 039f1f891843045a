"""The generated shop: its kinds and families, and goals that their product satisfies and nothing next to it."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs import make
from sandlot.envs.core import SPLITS, InvalidArgument, UnknownTask, text_key
from sandlot.envs.webshop import generator
from sandlot.envs.webshop.attributes import phrases
from sandlot.envs.webshop.made_goals import VARIANTS, best, made_goal
from sandlot.envs.webshop.phrasing import LANGUAGES
from sandlot.envs.webshop.reward import alike, colour_or_same, judge, title_score, type_factor
from sandlot.envs.webshop.shop import made_shop, open_shop
from sandlot.envs.webshop.sources import WebShopTasks
from sandlot.envs.webshop.tasks import MadeTasks, find_made, smallest, split_of
from sandlot.envs.webshop.wares import DEPARTMENTS, VALUES, kinds

SHOP, ASKED = "bb19a9c3897bc40d", "cc0b4c86878a601f"
numbers = st.integers(0, 2_000_000)


def test_there_are_many_kinds_in_many_departments() -> None:
    assert len(kinds()) == 48
    assert len({kind.category for kind in kinds()}) == 8
    assert Counter(kind.unseen for kind in kinds()) == {"": 32, "valid_unseen": 8, "test": 8}


def test_no_kind_passes_for_another() -> None:
    words = {kind: " ".join((*kind.heads, *kind.uses)).lower().split() for kind in kinds()}
    assert all(len(set(found)) == len(found) for found in words.values())
    for kind, other in itertools.permutations(kinds(), 2):
        sections = {part.strip() for part in kind.path.split("›")} & {part.strip() for part in other.path.split("›")}
        # All heads and two of three uses are in a title: the fewest nouns make the highest score.
        similarity = title_score(words[other], words[kind][: len(words[kind]) - 1])
        assert type_factor(kind.query == other.query, len(sections) >= 2, similarity) <= 0.5


def test_not_even_the_originals_matcher_confuses_values_or_attributes() -> None:
    for kind in kinds():
        assert len(kind.attributes) >= 10 and set(kind.attributes) <= set(phrases())
        for one, two in itertools.combinations(kind.attributes, 2):
            assert not alike(one, two) and one not in two and two not in one, (kind.query, one, two)
        values = [value for _, name in kind.options for value in VALUES[name]]
        for one, two in itertools.combinations(values, 2):
            assert not alike(colour_or_same(one), colour_or_same(two)), (kind.query, one, two)


def test_products_depend_on_seed_and_number_only() -> None:
    many = list(generator.products(500, seed=3))
    assert many[:100] == list(generator.products(100, seed=3))
    assert generator.product(3, 433) == many[433]
    assert len({product.asin for product in many}) == 500
    assert all(len(product.asin) == 10 for product in many)
    assert {asin for asin in map(generator.asin, range(3000), itertools.repeat(3))}.isdisjoint(
        generator.asin(number, 3) for number in range(10**6, 10**6 + 3000)
    )
    assert many[0] != generator.product(4, 0)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), numbers)
def test_no_member_of_a_family_has_all_attributes_of_another(seed: int, number: int) -> None:
    members = generator.family(seed, number // generator.FAMILY)
    for one, two in itertools.permutations(members, 2):
        assert len(one.attributes) == len(set(one.attributes)) == 5
        assert not set(one.attributes) <= set(two.attributes)
        assert len(set(one.attributes) & set(two.attributes)) >= 3  # hard to tell apart
        assert one.query == two.query


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 1000), numbers, st.integers(0, VARIANTS - 1), st.booleans())
def test_a_goals_product_is_worth_one_and_every_single_violation_less(
    seed: int, number: int, variant: int, quirks: bool
) -> None:
    goal = made_goal(seed, number, variant, "human")
    product = generator.product(seed, number)
    chosen = dict(goal.options)

    def worth(bought: object = product, options: dict[str, str] = chosen) -> float:
        assert isinstance(bought, type(product))
        names = {"nouns": bought.nouns or (), "goal_nouns": goal.nouns or ()}
        return judge(bought, goal, options, **names, quirks=quirks).reward

    assert product.asin == goal.asin and worth() == 1.0
    for other in generator.family(seed, number // generator.FAMILY):
        assert other is product or best(other, goal).reward < 1.0
    for name, value in goal.options:
        assert worth(options={key: chosen[key] for key in chosen if key != name}) < 1.0
        for wrong in dict(product.options)[name]:
            assert wrong == value or worth(options={**chosen, name: wrong}) < 1.0
    for attribute in goal.attributes:
        without = replace(
            product,
            title=product.title.replace(attribute.title(), ""),
            description=product.description.replace(attribute, ""),
            bullets=tuple(line for line in product.bullets if attribute not in line.lower()),
            attributes=tuple(name for name in product.attributes if name != attribute),
        )
        assert worth(without) < 1.0, attribute
    assert worth(replace(product, price=goal.price_upper + 0.01)) < 1.0
    assert worth(generator.product(seed, number + generator.FAMILY)) < 1.0  # another kind


def test_instructions_say_what_is_wanted() -> None:
    openings = set()
    for number, variant in itertools.product(range(0, 3000, 37), range(3)):
        goal = made_goal(0, number, variant, "human")
        text = goal.instruction
        openings.add(" ".join(text.split()[:3]))
        for attribute in goal.attributes:
            assert any(said in text for said in (attribute, *phrases()[attribute])), (attribute, text)
        assert all(value in text for _, value in goal.options)
        assert (f"{goal.price_upper:.0f}" in text) or goal.price_upper == 1_000_000
        assert goal.asin not in text and goal.title.split()[0] not in text
        plain = made_goal(0, number, variant, "template")
        assert plain.instruction.startswith("Find me ") and plain.attributes == goal.attributes
    assert len(openings) > 10


def test_splits_are_disjoint_in_products_and_unseen_in_kinds() -> None:
    owners: dict[str, set[int]] = defaultdict(set)
    wanted: dict[str, set[str]] = defaultdict(set)
    for split in SPLITS:
        tasks = MadeTasks(split, 4000, 0, "human")
        for index in range(0, len(tasks), 7):
            number = tasks.at(index).params["number"]
            owners[split].add(number)
            wanted[split].add(generator.kind_of(number).query)
            assert split_of(number) == split
    for one, two in itertools.combinations(SPLITS, 2):
        assert not owners[one] & owners[two]
    for products in (smallest(), 1439, 1440, 1441, 4000):
        found = [task.params["number"] for split in SPLITS for task in MadeTasks(split, products, 0, "human")]
        assert sorted(found) == sorted(list(range(products)) * VARIANTS)
    assert wanted["train"] == wanted["valid_seen"]
    assert not wanted["train"] & (wanted["valid_unseen"] | wanted["test"])
    assert not wanted["valid_unseen"] & wanted["test"]
    assert all(len(MadeTasks(split, smallest(), 0, "human")) for split in SPLITS)


def test_goals_can_be_of_some_departments_only() -> None:
    for split in SPLITS:
        everything = MadeTasks(split, 1000, 0, "human")
        wanted = [t for t in everything if generator.kind_of(t.params["number"]).category in ("pets", "beauty")]
        assert list(WebShopTasks(split, products=1000, departments=["pets", "beauty"])) == wanted != []
    assert list(WebShopTasks(products=1000, departments=DEPARTMENTS)) == list(WebShopTasks(products=1000))
    assert len(DEPARTMENTS) == 8


def test_ids_name_the_same_task_everywhere() -> None:
    tasks = WebShopTasks(products=600, seed=5, language="template")
    task = tasks.at(123)
    assert WebShopTasks().get(task.id) == task == find_made(task.id)
    assert task.id == "webshop/gen1-600-5/template/train/123"  # a place in a list, no product's number
    some = WebShopTasks(products=600, seed=5, language="template", departments=["pets"]).at(3)
    assert find_made(some.id) == some and some.id != "webshop/gen1-600-5/template/train/3"
    wrong = [task.id.replace("/train/", "/test/0"), task.id.replace("gen1-600", "gen1-100"), task.id + "45"]
    wrong += [task.id.replace("template", "verse"), task.id.replace("train", "dream"), task.id.replace("123", "0123")]
    for name in wrong:
        with pytest.raises(UnknownTask, match="webshop/gen1"):
            find_made(name)


def test_wrong_arguments_are_users_mistakes() -> None:
    wrong: list[dict[str, Any]] = [{"products": 5}, {"products": True}, {"seed": -1}, {"language": "verse"}]
    wrong += [{"goals": "robot"}, {"departments": []}, {"departments": "pets"}, {"departments": ["x"]}]
    for arguments in wrong:
        with pytest.raises(InvalidArgument, match=next(iter(arguments))):
            WebShopTasks(**arguments)
    assert set(LANGUAGES) == {"human", "template"}


MAKE = "import sys; from sandlot.envs.webshop.shop import made_shop; print(made_shop(300, 1, sys.argv[1]))"


def test_processes_that_start_together_make_a_shop_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAKE, str(tmp_path)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    folders = {worker.communicate(timeout=60)[0].strip() for worker in workers}
    (kept,) = tmp_path.iterdir()
    assert folders == {str(kept / "gen1-300-1")}
    assert {path.name for path in kept.iterdir()} == {"gen1-300-1", "gen1-300-1.lock"}
    shop = open_shop(made_shop(300, 1, tmp_path))
    for number in (0, 150, 299):
        product = generator.product(1, number)
        assert shop.catalogue.product(number) == shop.catalogue.find(product.asin) == product
        assert number in shop.index.search(product.title)[:3]
    with pytest.raises(KeyError):
        shop.catalogue.find("B0NOTHERE0")


def test_a_shop_that_could_not_be_made_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(count: int, seed: int) -> list[object]:
        raise OSError("disk full")

    monkeypatch.setattr(generator, "products", broken)
    with pytest.raises(OSError, match="disk full"):
        made_shop(300, 2, tmp_path)
    assert [path.name for path in tmp_path.glob("*/*")] == ["gen1-300-2.lock"]


def test_what_a_killed_process_left_is_cleared_away(tmp_path: Path) -> None:
    left = tmp_path / "format-1" / "gen1-300-2.part-abc"
    left.mkdir(parents=True)
    (left / "products.sqlite").write_text("half")
    kept = made_shop(300, 2, tmp_path)
    assert kept.parent == left.parent and {path.name for path in left.parent.iterdir()} == {
        "gen1-300-2",
        "gen1-300-2.lock",
    }


def test_a_place_that_cannot_hold_a_shop_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgument, match=r"cannot keep a shop in .*choose cache="):
        make("WebShop", cache=tmp_path / "file").reset(seed=0)


def test_shop_and_goals_are_those_of_this_version() -> None:
    """Task ids promise the same task for ever: who changes the generator makes a new `VERSION`, and new sums here."""
    shop = text_key(*map(repr, generator.products(600)))
    asked = text_key(
        *(repr(made_goal(0, number, 1, language)) for number in range(0, 600, 7) for language in LANGUAGES)
    )
    assert (generator.VERSION, shop, asked) == ("gen1", SHOP, ASKED)
