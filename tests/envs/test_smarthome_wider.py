"""The wider proposals: a search with them finds several ways in every family, and they know nothing of the goal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandlot.envs.smarthome.blueprint.text import parse
from sandlot.envs.smarthome.env import SmartHomeEnv
from sandlot.envs.smarthome.flow.search import search, verifies
from sandlot.envs.smarthome.flow.wider import wide_candidates
from sandlot.envs.smarthome.task import FAMILIES
from sandlot.envs.smarthome.tasks.make import KINDS, NAMES

EASY = ("state", "single", "brighter", "ask_which", "after_device", "preference", "missing", "unavailable")


def test_several_ways_are_found_in_every_family() -> None:
    env = SmartHomeEnv()
    assert {KINDS[kind][0] for kind in EASY} == set(FAMILIES)
    for kind in EASY:
        found = search(env, f"train-small-{NAMES.index(kind)}", propose=wide_candidates)
        assert len(found.trajectories) >= 2, kind
        assert all(verifies(env, item) for item in found.trajectories)


@pytest.mark.slow
def test_several_ways_are_found_for_most_tasks_of_all_kinds() -> None:
    env = SmartHomeEnv("valid_seen")
    tasks = [f"valid_seen-any-{number}" for number in range(2 * len(NAMES))]
    found = [search(env, task, simulations=192, propose=wide_candidates) for task in tasks]
    assert sum(len(item.trajectories) >= 2 for item in found) >= 0.85 * len(tasks)


def test_they_know_nothing_of_the_goal() -> None:
    env = SmartHomeEnv()
    for number in range(0, len(NAMES), 3):
        env.reset(options={"task": f"train-any-{number}"})
        person = env.session.task.home.residents[0].name
        for action in ("list_entities(domain=light)", f"get_preferences(person={person})"):
            env.step(action)
            before, task = wide_candidates(env), env.session.task
            assert len(before) <= 61 and sum(prior for _, prior in before) == pytest.approx(1.0)
            env.session.task = replace(task, goal=parse("must light.none is on"), answer="x", about="y", answers={})
            assert wide_candidates(env) == before
            env.session.task = task
