"""docs/metrics.md lists exactly what runs write."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sandlot.harness.records import Call
from sandlot.harness.summary import summarise

torch = pytest.importorskip("torch", reason="torch is not installed (extra: train)")

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def listed() -> set[str]:
    """The names in the first columns of the page's tables."""
    names = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(names) == len(set(names))
    return set(names)


def short(name: str) -> str:
    """The name under which the page lists what training writes."""
    bare = name.removeprefix("rollout/").removeprefix("eval/")
    return bare if bare in summarise([]) else name


class Hug:
    """An auxiliary loss, to have one."""

    def __call__(self, policy: Any, calls: Sequence[Call]) -> dict[str, Any]:
        return {"hug": sum(parameter.square().sum() for parameter in policy.trainable_parameters())}


@pytest.fixture(scope="module")
def written() -> set[str]:
    """The names that two steps of each recipe write."""
    from sandlot.harness.loop import EnvMaker, Rollout
    from sandlot.harness.policies.tabular import TabularPolicy
    from sandlot.trainers.loop import Schedule, train
    from sandlot.trainers.methods import make_recipe, recipe_names

    rollout = Rollout(EnvMaker("sandlot/Corridor-v0", {"rooms": 3, "verbs": 3}))
    tasks = rollout.env().tasks
    extras: dict[str, dict[str, Any]] = {"grpo": {"kl_coef": 0.1}, "rloo": {"aux": (Hug(),)}}
    names: set[str] = set()
    for name in recipe_names():
        recipe = make_recipe(name, groups=2, group_size=4, **extras.get(name, {}))
        policy: Any = TabularPolicy(critic=recipe.critic)
        history = train(recipe, policy, rollout, tasks, Schedule(steps=2, eval_every=1), eval_tasks=tasks.first(2))
        names.update(*history)
    return names


def test_every_metric_is_in_the_glossary(written: set[str]) -> None:
    assert {"rollout/success", "eval/success", "update/loss/value", "update/loss/hug"} <= written
    unlisted = {short(name) for name in written} - listed()
    assert unlisted == {"update/loss/hug"}  # listed as update/loss/<name>
    assert "update/loss/<name>" in listed()


def test_every_name_in_the_glossary_is_written(written: set[str]) -> None:
    assert listed() - {short(name) for name in written} == {"update/loss/<name>"}


def test_evaluations_alone_write_the_bare_names() -> None:
    assert set(summarise([])) <= listed()
