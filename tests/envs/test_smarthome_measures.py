"""What episodes add to an evaluation: clarification, refusals, side effects, calls and energy by family."""

from __future__ import annotations

from typing import Any

import pytest

from sandlot.envs.smarthome.env import SmartHomeEnv
from sandlot.envs.smarthome.measures import tallies
from sandlot.envs.smarthome.tasks.make import NAMES
from sandlot.harness.loop import EnvMaker, Rollout, play
from sandlot.harness.policies.scripted import OraclePolicy
from sandlot.harness.summary import by_group


def last(kind: str, *actions: str, oracle: bool = False, max_steps: int | None = None) -> dict[str, Any]:
    env = SmartHomeEnv(max_steps=max_steps)
    _, info = env.reset(options={"task": f"train-any-{NAMES.index(kind)}"})
    for action in actions:
        info = env.step(action)[4]
    for action in env.oracle() if oracle else ():
        info = env.step(action)[4]
    return info


def test_questions_and_refusals_are_counted_against_what_was_wanted() -> None:
    """Two questions, of which one is the right one: 1 / 2 and 1 / 1. Two refusals, one right and one wanted: 2 / 3."""
    asked = tallies(last("ask_which", "ask(question=How bright?)", oracle=True))
    assert asked["clarification precision"] == (1, 2) and asked["clarification recall"] == (1, 1)
    assert asked["refusal F1"] == (0, 0) and asked["partial"] == (1.0, 1) and asked["side effects"] == (0, 1)
    refused = tallies(last("missing", "refuse(reason=past, about=it)", oracle=True))
    assert refused["refusal F1"] == (2, 3) and refused["clarification recall"] == (0, 0)
    needless = tallies(last("single", "ask(question=Which one?)", "refuse(reason=past, about=it)", "finish()"))
    assert needless["clarification precision"] == (0, 1) and needless["refusal F1"] == (0, 1)
    assert needless["calls / oracle"] == (0, 0) and needless["partial"] == (0.0, 1)
    missed = tallies(last("ask_which", "finish()"))
    assert missed["clarification recall"] == (0, 1) and missed["clarification precision"] == (0, 0)


def test_an_episode_that_runs_out_of_steps_counts_and_one_that_goes_on_does_not() -> None:
    assert tallies(last("single", "list_areas()")) == {}
    cut = tallies(last("single", "list_areas()", "call_service(service=light.toggle, entity_id=all)", max_steps=2))
    assert cut["side effects"][0] > 0 and cut["partial"][1] == 1


def test_an_evaluation_shows_every_family() -> None:
    maker = EnvMaker("sandlot/SmartHome-v0", {"split": "valid_seen"})
    rows = by_group(play(OraclePolicy(), maker().tasks.first(len(NAMES)), Rollout(maker)), SmartHomeEnv)
    assert len(rows) == 9 and rows["all"]["episodes"] == len(NAMES)
    assert rows["ambiguous"]["clarification recall"] == rows["infeasible"]["refusal F1"] == 1.0
    assert rows["all"]["side effects"] == 0.0 and rows["all"]["calls / oracle"] == pytest.approx(1.0, abs=0.05)
    assert rows["all"]["kWh"] > 0
