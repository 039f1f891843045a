"""The comparison of SPADE with a fixed pool: in this process it comes to the same numbers as in sandboxes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "spade.py"


@pytest.fixture(scope="module")
def spade() -> Any:
    spec = importlib.util.spec_from_file_location("spade_benchmark", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def play(spade: Any, folder: Path) -> Any:
    spade.make_pool(folder, 3, "train", [1, 2])
    about = {"dialect": spade.DIALECT, "mechanics": spade.MECHANICS, **spade.EASY, **spade.OPTIONS}
    recipe = spade.make_recipe("spade", **{**about, "groups": 2, "instances": 1, "designs": 1})
    policy, how = spade.ReaderPolicy(), spade.rollout(folder, "train")
    history = spade.train(recipe, policy, how, how.env.tasks(), spade.Schedule(2, 0))
    untimed = [{name: value for name, value in step.items() if not name.startswith("time/")} for step in history]
    return policy.weights.detach().numpy().tolist(), untimed


def test_the_same_numbers_in_this_process_as_in_sandboxes(spade: Any, tmp_path: Path) -> None:
    with spade.here():
        here = play(spade, tmp_path / "here")
    assert play(spade, tmp_path / "there") == here
    assert any(here[0])


def test_the_table_by_hand(spade: Any) -> None:
    # bands: (.3 + .2 + .1) / 3 = .2, (.4 x 4) / 4, (.9 x 3) / 3; the margin .6 - .2
    sizes = {"1": 0.3, "2": 0.2, "3": 0.1, **dict.fromkeys("4567", 0.4), **dict.fromkeys(("8", "9", "10"), 0.9)}
    row = {"arm": "spade", "seed": 0, "steps": 5, "environment steps": 12345.0, "before": 0.1, "after": 0.6}
    row |= {"between": {5_000: 0.2, 10_000: 0.4}, "by difficulty": sizes}
    rows = [row, {**row, "arm": "fixed", "after": 0.2}]
    lines = spade.table(rows).splitlines()
    numbers = "0.100 | 0.200 | 0.400 | nan | nan | 0.600 | 0.200 | 0.400 | 0.900"
    assert lines[2] == f"| spade | 0 | 5 | 12,345 | {numbers} |"
    assert "spade - fixed, after: +0.400 (+0.400)" in lines and "spade - fixed, 10k: +0.000 (+0.000)" in lines
