"""The benchmark's own files: streamed, kept by content, goals in the official order, splits, weights, memory."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sandlot.envs import make
from sandlot.envs.core import InvalidArgument, MissingData, UnknownTask
from sandlot.envs.webshop.env import WebShopEnv
from sandlot.envs.webshop.official import OfficialGoals, data_files, official_shop, split_bounds
from sandlot.envs.webshop.shop import open_shop
from sandlot.envs.webshop.sources import WebShopTasks
from sandlot.envs.webshop.tasks import OfficialTasks

DATA = Path(os.environ.get("SANDLOT_TEST_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data"))
SHOP = DATA / "webshop"
needs_data = pytest.mark.skipif(not SHOP.is_dir(), reason=f"no WebShop data in {SHOP} (SANDLOT_TEST_DATA)")


def entry(number: int, **fields: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {"asin": f"B{number:09d}", "name": f"Oak Lamp {number}", "category": "home"}
    plain |= {"query": " Lamps ", "product_category": "Home › Lamps", "full_description": "bright", "pricing": "$20.00"}
    plain |= {"small_description": ["easy clean", "tall"], "customization_options": {}, "images": ["x"], "brand": "x"}
    return plain | fields


def write(folder: Path, products: list[dict[str, Any]], said: dict[str, Any], people: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "items_shuffle.json").write_text(json.dumps(products))
    (folder / "items_ins_v2.json").write_text(json.dumps(said))
    (folder / "items_human_ins.json").write_text(json.dumps(people))
    return folder


def some_files(folder: Path, count: int = 40) -> Path:
    colors = {"Color": [{"value": "Red"}, {"value": "Blue/Green"}], "Size": [{"value": "S"}, {"value": "M"}]}
    said = {"attributes": ["easy clean"], "instruction": "Find me lamps", "instruction_attributes": ["easy clean"]}
    asked = {"instruction": "i want a lamp.", "instruction_attributes": ["easy clean"], "instruction_options": ["red"]}
    products = [entry(i, customization_options=colors if i % 2 else None) for i in range(count)]
    ins = {item["asin"]: said if i % 3 else {"attributes": []} for i, item in enumerate(products)}
    people = {item["asin"]: [asked, {**asked, "instruction_attributes": []}, asked] for item in products[::4]}
    return write(folder, products, {**ins, "NOT SOLD": said}, {**people, "NOT SOLD": [asked]})


@needs_data
def test_goals_of_the_original_come_in_its_order_with_its_weights(tmp_path: Path) -> None:
    recorded = json.loads((SHOP / "golden_text_env.json").read_text())
    folder = official_shop(SHOP / "toy", None, 0, tmp_path)

    def without_price(text: str) -> str:  # the original draws its bounds from a global generator
        return re.sub(r", and price lower than [\d.]+ dollars$", "", text)

    for which, expected in (("human", recorded["goals_human1"]), ("synthetic", recorded["goals_human0"])):
        goals = OfficialGoals(folder, which)
        assert len(goals) == len(expected)
        for number, known in enumerate(expected):
            goal = goals.get(number)
            assert (goal.asin, without_price(goal.instruction)) == (
                known["asin"],
                without_price(known["instruction_text"]),
            )
            pairs = known["goal_options"]
            named = pairs.items() if isinstance(pairs, dict) else [("", value) for value in pairs]
            assert goal.options == tuple(named)
            assert goal.weight == pytest.approx(known["weight"])
            price = open_shop(folder).catalogue.find(goal.asin).price
            assert goal.price_upper == 1_000_000 or (
                goal.price_upper % 10 == 0 and 10 < goal.price_upper - price + 10 <= 50
            )
            assert (f"lower than {goal.price_upper:.2f} dollars" in goal.instruction) == (goal.price_upper < 1_000_000)


@needs_data
def test_the_official_attributes_of_a_thousand_real_products_are_read(tmp_path: Path) -> None:
    said = json.loads((SHOP / "items_ins_v2_1000.json").read_text())
    folder = tmp_path / "data"
    write(folder, [entry(0, asin=asin, name=f"Thing {asin}") for asin in said], {}, {})
    (folder / "items_ins_v2.json").write_text((SHOP / "items_ins_v2_1000.json").read_text())
    shop = official_shop(folder, None, 0, tmp_path / "cache")
    catalogue = open_shop(shop).catalogue
    assert len(catalogue) == 1000
    for asin, about in said.items():
        assert catalogue.find(asin).attributes == (tuple(about["attributes"]) or ("DUMMY_ATTR",))
    # A product without options has one synthetic goal if it has an instruction.
    assert (
        len(OfficialGoals(shop, "synthetic")) == sum(bool(about.get("instruction")) for about in said.values()) == 415
    )


def test_files_become_products_and_goals(tmp_path: Path) -> None:
    data = some_files(tmp_path / "data")
    folder = official_shop(data, None, 0, tmp_path / "cache")
    catalogue = open_shop(folder).catalogue
    assert len(catalogue) == 40
    lamp = catalogue.product(1)
    assert lamp.query == "lamps"
    assert lamp.options == (("color", ("red", "blue | green")), ("size", ("s", "m")))
    assert lamp.index_text == "oak lamp 1 bright easy clean color: red, blue | green, and size: s, m"
    # Ten products have two instructions with attributes each; all products but every third have a synthetic one, those
    # with odd numbers in four combinations: of the 26 numbers that 3 does not divide, 13 are odd: 13 * 4 + 13 = 65.
    assert len(OfficialGoals(folder, "human")) == 20
    synthetic = OfficialGoals(folder, "synthetic")
    assert len(synthetic) == 65
    combinations = Counter(goal.options for goal in map(synthetic.get, range(65)))
    assert combinations[(("color", "red"), ("size", "m"))] == 13 and combinations[()] == 13
    goal = next(goal for goal in map(synthetic.get, range(65)) if goal.options == (("color", "red"), ("size", "m")))
    assert goal.instruction.startswith("Find me lamps with color: red, and size: m, and price lower than ")
    assert sorted(path.name for path in folder.iterdir())[:2] == ["about.json", "human-ends.npy"]


def test_a_shop_is_made_once_per_content_and_size(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = official_shop(some_files(tmp_path / "a"), None, 0, cache)
    assert official_shop(some_files(tmp_path / "b"), None, 0, cache) == first  # the same content elsewhere
    part = official_shop(tmp_path / "a", 10, 0, cache)
    assert part != first and len(open_shop(part).catalogue) == 10
    assert official_shop(tmp_path / "a", None, 1, cache) != first
    assert official_shop(some_files(tmp_path / "a", count=41), None, 0, cache) != first


def test_odd_entries_are_left_out_as_the_original_does(tmp_path: Path) -> None:
    odd = [entry(1), entry(1, name="again"), entry(2, asin="nan"), entry(3, asin="B0TOOLONG00"), entry(4, pricing=None)]
    odd += [entry(5, small_description="one line"), entry(6, full_description=None, pricing="$10.00$20.00")]
    folder = official_shop(write(tmp_path / "data", odd, {}, {}), None, 0, tmp_path)
    catalogue = open_shop(folder).catalogue
    found = [catalogue.product(number) for number in range(len(catalogue))]
    assert [product.title for product in found] == ["Oak Lamp 1", "Oak Lamp 4", "Oak Lamp 5", "Oak Lamp 6"]
    assert found[1].prices == (100.0,) and found[2].bullets == ("one line",)
    assert found[3].price_tag == "$10.0 to $20.0" and 10 <= found[3].price <= 20


def test_splits_are_the_benchmarks_by_number(tmp_path: Path) -> None:
    assert split_bounds(12_087) == {"test": (0, 500), "valid_unseen": (500, 1500), "train": (1500, 12_087)}
    folder = official_shop(some_files(tmp_path / "data", 200), None, 0, tmp_path)
    sets = {split: OfficialTasks(folder, split, "human") for split in ("train", "valid_unseen", "test")}
    numbers = {split: [task.params["number"] for task in tasks] for split, tasks in sets.items()}
    assert [*numbers["test"], *numbers["valid_unseen"], *numbers["train"]] == list(range(100))
    for split, tasks in sets.items():
        assert all(tasks.get(task.id) == task and task.split == split for task in sets[split])
    with pytest.raises(UnknownTask, match="test, train, valid_unseen"):
        OfficialTasks(folder, "valid_seen", "human")
    for wrong in ("webshop/official1-0123456789abcdef/human/1", f"webshop/{folder.name}/synthetic/1", "x"):
        with pytest.raises(UnknownTask, match="ids look like"):
            sets["train"].get(wrong)
    with pytest.raises(UnknownTask, match="there are 100 goals"):
        sets["train"].get(f"webshop/{folder.name}/human/100")


def test_goals_are_drawn_by_weight(tmp_path: Path) -> None:
    products = [entry(i) for i in range(30)]
    rare = {"instruction": "Find me", "instruction_attributes": ["rare"]}
    common = {"instruction": "Find me", "instruction_attributes": ["common"]}
    said = {item["asin"]: rare if i == 0 else common for i, item in enumerate(products)}
    goals = OfficialGoals(official_shop(write(tmp_path / "data", products, said, {}), None, 0, tmp_path), "synthetic")
    weights = [goals.get(number).weight for number in range(30)]
    assert sorted(weights)[-2:] == pytest.approx([1 / 29, 1.0])  # an attribute of one goal; one of 29
    rng = np.random.default_rng(0)
    drawn = Counter(goals.draw(rng, 0, 30) for _ in range(2000))
    assert drawn[weights.index(max(weights))] / 2000 == pytest.approx(1 / 2, abs=0.05)  # 1 of 1 + 29 * 1/29
    assert len(drawn) == 30


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=r"no items_shuffle\*.json in"):
        data_files(tmp_path)
    (tmp_path / "items_shuffle_1000.json").write_text("[]")
    with pytest.raises(MissingData, match=r"no items_ins_v2\*.json in"):
        data_files(tmp_path)
    with pytest.raises(MissingData, match="needs data="):
        WebShopTasks(source="official")
    with pytest.raises(InvalidArgument, match="leave it out"):
        WebShopTasks(source="generated", data=tmp_path)
    data = some_files(tmp_path / "both")
    (data / "items_shuffle_1000.json").write_text("[]")
    assert data_files(data)[0].name == "items_shuffle.json"  # the whole set, where there are several


def test_broken_files_are_named(tmp_path: Path) -> None:
    data = some_files(tmp_path / "data")
    (data / "items_shuffle.json").write_text('[{"asin": "B000000001", ')
    with pytest.raises(MissingData, match=r"items_shuffle\.json"):
        official_shop(data, None, 0, tmp_path)
    assert not list(tmp_path.glob("official1-*/")), "a half-made shop was left behind"
    (data / "items_shuffle.json").write_text('[{"asin": "B000000001"}]')
    with pytest.raises(MissingData, match="name"):
        official_shop(data, None, 0, tmp_path)


def test_the_official_shop_is_played(tmp_path: Path) -> None:
    env = make("WebShop", data=some_files(tmp_path / "data"), cache=tmp_path, nouns="heuristic")
    assert isinstance(env, WebShopEnv)
    _, info = env.reset(seed=0)
    assert info["noun_tagger"] == "heuristic" and info["instruction"].startswith("i want a lamp")
    played = [env.step(action) for action in env.oracle()]
    assert played[-1][2] and all(info["valid"] for *_, info in played)
    again = make("WebShop", cache=tmp_path, data=tmp_path / "data", split="test", nouns="heuristic")
    assert again.reset(options={"task": info["task_id"]})[1]["task_id"] == info["task_id"]


STREAM = """
import resource, sys
from pathlib import Path
from sandlot.envs.webshop.official import official_shop
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
official_shop(sys.argv[1], None, 0, sys.argv[2])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def test_files_are_never_in_memory(tmp_path: Path) -> None:
    # 1,500 products with 40 KB each of text that no index reads: 60 MB of JSON, which would be several times that as
    # Python objects.
    folder = tmp_path / "data"
    write(folder, [], {}, {})
    padding = "x" * 40_000
    with (folder / "items_shuffle.json").open("w") as file:
        file.write("[" + ",".join(json.dumps(entry(i, product_information=padding)) for i in range(1500)) + "]")
    command = [sys.executable, "-c", STREAM, str(folder), str(tmp_path)]
    grown = float(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)
    assert grown < 50, f"{grown:.0f} MB more for 60 MB of JSON"
