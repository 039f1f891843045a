"""What too long an answer costs, what a cut episode teaches, and dynamic sampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sandlot.envs.core.errors import InvalidArgument
from sandlot.harness.loop import EnvMaker, Rollout
from sandlot.harness.policies.tabular import TabularPolicy
from sandlot.harness.records import Group, StopReason
from sandlot.trainers.collect import Collected, collect, describe, mixed, plans
from sandlot.trainers.loop import Schedule, train
from sandlot.trainers.methods import make_recipe
from sandlot.trainers.samplers import UniformSampler
from sandlot.trainers.shapers import Overlong, SkipCut


@pytest.mark.parametrize(
    ("tokens", "penalty"),
    [(0, 0), (12, 0), (14, -0.25), (18, -0.75), (20, -1), (25, -1)],  # L 20, c 8: (12 - 14) / 8 = -.25
)
def test_overlong_by_hand(tokens: int, penalty: float) -> None:
    assert Overlong(20, 8).penalty(tokens) == pytest.approx(penalty)


def test_overlong_is_taken_from_the_turn(returns: Callable[..., Group]) -> None:
    group = returns(1.0, 0.0)
    group.members[0].turns[0].call.completion_ids = tuple(range(18))
    Overlong(20, 8, scale=2.0)([group])
    assert group.rewards.tolist() == pytest.approx([1 - 1.5, 0.0])
    for wrong in ((10, 0), (10, 11)):
        with pytest.raises(InvalidArgument, match="buffer"):
            Overlong(*wrong)


def test_a_cut_episode_teaches_nothing(returns: Callable[..., Group]) -> None:
    group = returns(1.0, 0.0, 2.0)
    group.members[0].stop = StopReason.STEP_LIMIT
    group.members[1].turns[0].call.finish = "length"
    ones = [[[np.ones(1)] for _ in group.members]]
    assert [float(member[0][0]) for member in SkipCut()(ones, [group], None)[0]] == [0, 0, 1]


ENV = EnvMaker("sandlot/Corridor-v0", {"rooms": 4})


def play_step(**options: Any) -> tuple[list[Group], dict[str, float]]:
    recipe = make_recipe("dapo", **{"groups": 6, "group_size": 3, **options})
    sampler = UniformSampler(ENV().tasks, recipe.groups, recipe.group_size, 0)
    rounds = plans(sampler, recipe, 2)
    played: Collected = collect(TabularPolicy(key="obs_key"), recipe, rounds, Rollout(ENV), step=2, seed=5)
    return played.groups, describe(played, recipe, 3)


def test_dynamic_sampling_replaces_groups_that_teach_nothing() -> None:
    once, plain = play_step(resample=0)
    several, metrics = play_step(resample=8)
    assert len(once) == 6 and not all(map(mixed, once))
    assert len(several) == 6 and all(map(mixed, several))
    first = [group.task.id for group in once if mixed(group)]
    assert [group.task.id for group in several][: len(first)] == first  # the first round is the same one
    assert metrics["episodes"] == 3 * (6 + metrics["dropped_groups"]) > plain["episodes"]
    assert metrics["rounds"] > 1
    again, _ = play_step(resample=8)
    assert [g.rewards.tolist() for g in again] == [g.rewards.tolist() for g in several]


def test_dynamic_sampling_gives_up_after_its_rounds() -> None:
    groups, metrics = play_step(groups=2, group_size=1, resample=2)  # a lone member never differs
    recipe = make_recipe("dapo", groups=2, group_size=1, resample=2)
    assert metrics["staleness"] == metrics["staleness_max"] == 3  # the policy was at version 0
    assert groups == [] and metrics["rounds"] == 3 and metrics["dropped_groups"] == 6
    history = train(recipe, TabularPolicy(key="obs_key"), Rollout(ENV), ENV().tasks, Schedule(steps=1))
    assert history[0]["rollout/episodes"] == 6  # nothing to learn is no error
