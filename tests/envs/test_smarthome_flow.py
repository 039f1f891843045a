"""MCTS-Flow: distinct verified ways with values, more of them than random search finds, exported and read again."""

from __future__ import annotations

from pathlib import Path
from random import Random

from sandlot.envs.smarthome.env import SmartHomeEnv
from sandlot.envs.smarthome.flow.candidates import candidates
from sandlot.envs.smarthome.flow.search import Found, export, load, random_search, search, verifies
from sandlot.envs.smarthome.tasks.make import NAMES

TASKS = [f"train-small-{NAMES.index(kind)}" for kind in ("single", "multi", "ask_which", "at_time", "in_a_while")]


def searched(env: SmartHomeEnv) -> list[Found]:
    return [search(env, task, simulations=64) for task in TASKS]


def test_every_trajectory_verifies_and_differs_from_the_others(tmp_path: Path) -> None:
    env = SmartHomeEnv()
    found = searched(env)
    made = [item for result in found for item in result.trajectories]
    assert len(made) >= 8 and all(1 <= len(result.trajectories) <= 4 for result in found)
    for item in made:
        assert item.success and verifies(env, item) and item.steps[-1].action.startswith("finish")
        assert all(-0.01 <= step.value <= 1.0 for step in item.steps)
    for result in found:
        sets = {tuple(sorted(step.action for step in item.steps)) for item in result.trajectories}
        assert len(sets) == len(result.trajectories)
        for item in result.failed:
            assert not item.success and not verifies(env, item)
    assert export(tmp_path / "ways.jsonl", made) == len(made)
    assert load(tmp_path / "ways.jsonl") == tuple(made)


def test_it_finds_more_than_random_search_with_the_same_steps() -> None:
    env = SmartHomeEnv()
    found = searched(env)
    again = searched(env)
    assert [result.trajectories for result in found] == [result.trajectories for result in again]
    random = [
        random_search(env, task, Random(1), steps=result.steps) for task, result in zip(TASKS, found, strict=True)
    ]
    assert sum(len(result.trajectories) for result in found) > 3 * sum(len(result.trajectories) for result in random)


def test_a_wrong_trajectory_does_not_verify() -> None:
    env = SmartHomeEnv()
    good = search(env, TASKS[0]).trajectories[0]
    shorter = good.__class__(good.task, good.instruction, good.steps[-1:], True)
    assert not verifies(env, shorter)


def test_candidates_know_nothing_of_the_goal() -> None:
    """Another goal behind the same request and home changes no proposal."""
    from dataclasses import replace

    from sandlot.envs.smarthome.blueprint.text import parse

    env = SmartHomeEnv()
    for task in TASKS:
        env.reset(options={"task": task})
        before = candidates(env)
        assert abs(sum(prior for _, prior in before)) <= 1.0 + 1e-9 and len(before) <= 24
        env.session.task = replace(
            env.session.task, goal=parse("must light.none is on"), answer="x", about="y", answers={}
        )
        assert candidates(env) == before
