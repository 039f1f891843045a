"""Rolling out a step: the sampler's requests, and with dynamic sampling more of them until enough groups teach."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..harness.loop import Rollout, derive_seed
from ..harness.records import Group, Trajectory
from ..harness.summary import summarise
from .recipe import Recipe, Request, Sampler
from .sharded import play_shared


@dataclass
class Collected:
    """What a step played."""

    groups: list[Group]
    """To learn from."""
    played: list[Group]
    """All of them, those that dynamic sampling dropped included: what the sampler observes."""
    rounds: int = 1


def plans(sampler: Sampler, recipe: Recipe, step: int) -> list[list[Request]]:
    """The requests of a step: the first round's, then those of each further round that dynamic sampling may need."""
    return [sampler.plan(step, retry) for retry in range(recipe.resample + 1)]


def collect(
    policy: Any,
    recipe: Recipe,
    rounds: Sequence[Sequence[Request]],
    rollout: Rollout,
    *,
    step: int,
    seed: int,
    on_trajectory: Callable[[Trajectory], None] | None = None,
) -> Collected:
    """Play the groups of one step.

    With `recipe.resample` > 0 groups whose returns are all equal are dropped and others are played in their place, in
    at most so many further rounds (DAPO's dynamic sampling, arXiv 2503.14476). Where even then too few differ, the
    step goes on with those that do.

    Args:
        policy: plays.
        recipe: `groups`, `resample`.
        rounds: from `plans`.
        rollout: how to play.
        step: number of the step.
        seed: of the run; everything random is a function of (seed, step, round).
        on_trajectory: called with each episode as it ends.
    """
    result = Collected([], [], 0)
    for retry, requests in enumerate(rounds):
        wanted = recipe.groups - len(result.groups)
        if retry and wanted < 1:
            break
        fresh = play_shared(
            policy,
            [(request.task, request.n, request.mode) for request in (requests[:wanted] if retry else requests)],
            rollout,
            seed=derive_seed(seed, step, retry) if retry else derive_seed(seed, step),
            on_trajectory=on_trajectory,
        )
        result.played += fresh
        result.groups += [group for group in fresh if mixed(group)] if recipe.resample else fresh
        result.rounds += 1
    return result


def mixed(group: Group) -> bool:
    """Whether the returns of its members that are not void differ: only then do group-relative methods learn."""
    returns = [member.reward for member in group.members if not member.void]
    return bool(returns) and bool(np.ptp(returns) > 0)


def describe(collected: Collected, recipe: Recipe, version: int) -> dict[str, float]:
    """The summary of a step's episodes, the share of groups whose outcomes differ, and how old the weights were.

    Args:
        collected: the step's groups.
        recipe: whether it samples dynamically.
        version: of the weights that are about to learn; a call's staleness is the number of updates since its own.
    """
    members = [member for group in collected.played for member in group.members]
    sound = [group for group in collected.played if not all(member.void for member in group.members)]
    units = sum(len(call.logprobs) for member in members for call in member.calls)
    share = float(np.mean([mixed(group) for group in sound])) if sound else 0.0
    metrics = summarise(members) | {"mixed_groups": share, "units": float(units)}
    ages = [version - call.version for member in members for call in member.calls]
    metrics |= {"staleness": float(np.mean(ages or [0])), "staleness_max": float(max(ages, default=0))}
    if recipe.resample:
        dropped = len(collected.played) - len(collected.groups)
        metrics |= {"rounds": float(collected.rounds), "dropped_groups": float(dropped)}
    return metrics
