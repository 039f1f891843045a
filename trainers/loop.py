"""`train`: plan -> roll out -> shape -> estimate -> modulate -> replay -> update -> observe. The one training loop.

An interrupted run resumes to the same numbers: everything random is a function of (seed, step), and every stateful
part is in the checkpoint that is written after each step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..envs.core.tasks import Task, TaskSet
from ..harness.loop import Rollout, derive_seed, play, play_groups
from ..harness.records import Group, Trajectory
from ..harness.summary import summarise
from . import checkpoint
from .estimators import subtract_kl
from .learner import Learner, reference_logprobs
from .recipe import Recipe, Trainable
from .samplers import UniformSampler


class RunLog(Protocol):
    """Where a run's numbers and episodes go (`harness/runs.py`)."""

    folder: Path

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Append one line of metrics."""
        ...

    def trajectory(self, trajectory: Trajectory) -> None:
        """Append one episode."""
        ...

    def rewind(self, step: int) -> None:
        """Drop the metrics of steps from `step` on, which will be logged again."""
        ...


@dataclass(frozen=True)
class Schedule:
    """How long, how often, from which seed."""

    steps: int = 30
    seed: int = 0
    eval_every: int = 0
    """Evaluate after every so many steps (and before the first and after the last); 0 never evaluates."""
    checkpoint_every: int = 1


def train(
    recipe: Recipe,
    policy: Trainable,
    rollout: Rollout,
    tasks: TaskSet,
    schedule: Schedule,
    *,
    eval_tasks: Sequence[Task] = (),
    eval_rollout: Rollout | None = None,
    run: RunLog | None = None,
    resume: bool = False,
    on_step: Callable[[int, dict[str, float]], None] | None = None,
    on_trajectory: Callable[[Trajectory], None] | None = None,
) -> list[dict[str, float]]:
    """Train `policy` in place.

    Args:
        recipe: the method.
        policy: what learns; it also plays.
        rollout: how episodes are played.
        tasks: what to train on.
        schedule: steps, seed, evaluation and checkpoints.
        eval_tasks: what to evaluate on.
        eval_rollout: how to play them (its own split, sampling ...); None plays them like the others.
        run: where metrics, trajectories and checkpoints are written; None keeps nothing.
        resume: go on from the run's last checkpoint.
        on_step: called with the step (-1: before training) and its metrics.
        on_trajectory: called with each training episode as it ends.

    Returns:
        One dict of metrics per step (glossary: docs/metrics.md), preceded by the first evaluation, if any.
    """
    make_sampler = recipe.make_sampler or UniformSampler
    sampler = make_sampler(tasks, recipe.groups, recipe.group_size, schedule.seed)
    learner = Learner(policy, recipe, seed=schedule.seed)
    parts = {"policy": policy, "sampler": sampler, "learner": learner, "replay": recipe.replay, **_stateful(recipe)}
    history: list[dict[str, float]] = []
    start = 0
    if resume:
        assert run is not None
        state = checkpoint.load(run.folder)
        checkpoint.load_parts(parts, state["parts"])
        start, history = state["step"] + 1, state["history"]
        run.rewind(start)

    def finish(step: int, metrics: dict[str, float]) -> None:
        if schedule.eval_every and ((step + 1) % schedule.eval_every == 0 or step + 1 == schedule.steps):
            began = time.perf_counter()
            results = summarise(play(policy, eval_tasks, eval_rollout or rollout, seed=schedule.seed))
            metrics |= {f"eval/{name}": value for name, value in results.items()}
            metrics["time/eval"] = time.perf_counter() - began
        history.append(metrics)
        if run is not None:
            run.log(step, metrics)
            if step + 1 == schedule.steps or (step + 1) % schedule.checkpoint_every == 0:
                checkpoint.save(run.folder, {"step": step, "history": history, "parts": checkpoint.parts_state(parts)})
        if on_step:
            on_step(step, metrics)

    if start == 0 and schedule.eval_every and not resume:
        finish(-1, {})
    for step in range(start, schedule.steps):
        began = time.perf_counter()

        def record(trajectory: Trajectory) -> None:
            if run is not None:
                run.trajectory(trajectory)
            if on_trajectory:
                on_trajectory(trajectory)

        requests = [(request.task, request.n, request.mode) for request in sampler.plan(step)]
        seed = derive_seed(schedule.seed, step)
        groups = play_groups(policy, requests, rollout, seed=seed, on_trajectory=record)
        played = time.perf_counter()
        metrics = {f"rollout/{name}": value for name, value in describe(groups).items()}
        sampler.observe(groups)
        for shaper in recipe.shapers:
            shaper(groups)
        if recipe.objective.kl_in_reward and recipe.objective.kl_coef:
            subtract_kl(groups, reference_logprobs(learner.reference, groups), recipe.objective.kl_coef)
        batch = list(groups)
        if recipe.replay is not None:  # stored groups carry the rewards that they were shaped with
            batch += recipe.replay.select(policy, len(groups))
            recipe.replay.add(groups)
        advantages = recipe.estimator(batch)
        for modulator in recipe.modulators:
            advantages = modulator(advantages, batch, policy)
        metrics |= {f"update/{name}": value for name, value in learner.update(batch, advantages).items()}
        policy.version += 1
        metrics |= {"time/rollout": played - began, "time/update": time.perf_counter() - played}
        finish(step, metrics)
    return history


def describe(groups: Sequence[Group]) -> dict[str, float]:
    """The summary of a step's episodes, and the share of groups whose outcomes differ (the others teach nothing)."""
    members = [member for group in groups for member in group.members]
    rewards = [[member.reward for member in group.members if not member.void] for group in groups]
    mixed = [float(np.ptp(row) > 0) for row in rewards if row]
    units = sum(len(call.logprobs) for member in members for call in member.calls)
    return summarise(members) | {"mixed_groups": float(np.mean(mixed)) if mixed else 0.0, "units": float(units)}


def _stateful(recipe: Recipe) -> dict[str, Any]:
    """The recipe's own parts by a stable name; those without `state_dict` are skipped when saving."""
    kinds = {
        "estimator": [recipe.estimator],
        "shaper": recipe.shapers,
        "modulator": recipe.modulators,
        "aux": recipe.aux,
    }
    return {f"{kind}{i}": part for kind, row in kinds.items() for i, part in enumerate(row)}
