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


def designed(folder: Path) -> list[dict[str, float]]:
    """Two steps of the recipe that plays designed programs, in a pool of one."""
    from sandlot.envs.selfplay.designer import GrammarDesigner
    from sandlot.envs.selfplay.gates import Gates
    from sandlot.envs.selfplay.pool import Pool
    from sandlot.harness.loop import EnvMaker, Limits, Rollout
    from sandlot.harness.policies.reader import ReaderPolicy
    from sandlot.trainers.loop import Schedule, train
    from sandlot.trainers.methods import make_recipe

    with Gates() as gates, Pool(folder) as pool:
        program = GrammarDesigner(3).compose(0, difficulty=2, tags=("locks",))
        pool.add(program, gates.check(program))
    rollout = Rollout(EnvMaker("sandlot/SelfPlay-v0", {"pool": folder}), limits=Limits(concurrency=1))
    recipe = make_recipe("spade", groups=1, group_size=2, hinted=2, designs=1, mechanics=("dialogue",), hardest=2)
    return train(recipe, ReaderPolicy(), rollout, rollout.env.tasks(), Schedule(steps=2))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names that two steps of each recipe write."""
    from sandlot.harness.loop import EnvMaker, Rollout
    from sandlot.harness.policies.tabular import TabularPolicy
    from sandlot.trainers.loop import Schedule, train
    from sandlot.trainers.methods import make_recipe, recipe_names

    rollout = Rollout(EnvMaker("sandlot/Corridor-v0", {"rooms": 3, "verbs": 3}))
    tasks = rollout.env().tasks
    extras: dict[str, dict[str, Any]] = {"grpo": {"kl_coef": 0.1}, "rloo": {"aux": (Hug(),)}}
    names = {name for step in designed(tmp_path_factory.mktemp("pool")) for name in step}
    for name in recipe_names():
        if name == "spade":
            continue
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
