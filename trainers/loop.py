"""`train`: plan -> roll out -> shape -> estimate -> modulate -> replay -> update -> observe. The one training loop.

An interrupted run resumes to the same numbers: everything random is a function of (seed, step), and every stateful
part is in the checkpoint that is written after each step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..envs.core.tasks import Task, TaskSet
from ..harness.loop import Rollout
from ..harness.records import Trajectory
from ..harness.summary import summarise
from . import checkpoint
from .collect import describe
from .estimators import subtract_kl
from .learner import Learner, reference_logprobs
from .pipeline import make_pipeline
from .recipe import Recipe, Trainable
from .samplers import UniformSampler
from .sharded import play_shared, ranks
from .watch import Watcher


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
    mode: str = "sync"
    """"sync", "ahead" or "stream": whether episodes are played while the learner works (`trainers/pipeline.py`)."""
    staleness: int = 1
    """By how many updates episodes may be older than the weights that learn from them; only where they overlap."""


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
    watchers: Sequence[Watcher] = (),
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
        on_trajectory: called with each training episode as it ends (from the playing thread, where there is one).
        watchers: called with the history after each step; one that returns a reason ends the run there
            (`trainers/watch.py`).

    Returns:
        One dict of metrics per step (glossary: docs/metrics.md), preceded by the first evaluation, if any.
    """
    make_sampler = recipe.make_sampler or UniformSampler
    sampler = make_sampler(tasks, recipe.groups, recipe.group_size, schedule.seed)
    learner = Learner(policy, recipe, seed=schedule.seed)

    def record(trajectory: Trajectory) -> None:
        if run is not None:
            run.trajectory(trajectory)
        if on_trajectory:
            on_trajectory(trajectory)

    pipeline = make_pipeline(
        schedule.mode,
        schedule.staleness,
        policy,
        recipe,
        sampler,
        rollout,
        tasks,
        steps=schedule.steps,
        seed=schedule.seed,
        on_trajectory=record,
    )
    parts = {"policy": policy, "sampler": sampler, "learner": learner, "replay": recipe.replay, "pipeline": pipeline}
    parts |= _stateful(recipe)
    history: list[dict[str, float]] = []
    start = 0
    if resume:
        assert run is not None
        state = checkpoint.load(run.folder)
        checkpoint.load_parts(parts, state["parts"])
        start, history = state["step"] + 1, state["history"]
        run.rewind(start)

    def finish(step: int, metrics: dict[str, float]) -> bool:
        if schedule.eval_every and ((step + 1) % schedule.eval_every == 0 or step + 1 == schedule.steps):
            began = time.perf_counter()
            requests = [(task, 1, "explore") for task in eval_tasks]
            played = play_shared(policy, requests, eval_rollout or rollout, seed=schedule.seed)
            results = summarise([group.members[0] for group in played])
            metrics |= {f"eval/{name}": value for name, value in results.items()}
            metrics["time/eval"] = time.perf_counter() - began
        history.append(metrics)
        if run is not None:
            run.log(step, metrics)
            if step + 1 == schedule.steps or (step + 1) % schedule.checkpoint_every == 0:
                state = {"step": step, "history": history, "parts": checkpoint.parts_state(parts)}  # asks all ranks
                if ranks().rank == 0:
                    checkpoint.save(run.folder, state)
        if on_step:
            on_step(step, metrics)
        return any([watcher(history) for watcher in watchers])  # all of them are asked

    if start == 0 and schedule.eval_every and not resume:
        finish(-1, {})
    with closing(pipeline):
        for step in range(start, schedule.steps):
            began = time.perf_counter()
            collected = pipeline.take(step)
            groups, played = collected.groups, time.perf_counter()
            described = describe(collected, recipe, policy.version)
            metrics = {f"rollout/{name}": value for name, value in described.items()}
            sampler.observe(collected.played)
            metrics |= getattr(sampler, "metrics", dict)()
            for shaper in recipe.shapers:
                shaper(groups)
            if recipe.objective.kl_in_reward and recipe.objective.kl_coef:
                subtract_kl(groups, reference_logprobs(learner.reference, groups), recipe.objective.kl_coef)
            batch = list(groups)
            if recipe.replay is not None:  # stored groups carry the rewards that they were shaped with
                batch += recipe.replay.select(policy, len(groups))
                recipe.replay.add(groups)
            if hasattr(recipe.estimator, "prepare"):
                recipe.estimator.prepare(policy, batch)  # pyright: ignore[reportAttributeAccessIssue]
            advantages = recipe.estimator(batch)
            for modulator in recipe.modulators:
                advantages = modulator(advantages, batch, policy)
            metrics |= {f"update/{name}": value for name, value in learner.update(batch, advantages).items()}
            policy.version += 1
            pipeline.publish(step)
            metrics |= {"time/rollout": played - began, "time/update": time.perf_counter() - played}
            if finish(step, metrics):
                break
    return history


def _stateful(recipe: Recipe) -> dict[str, Any]:
    """The recipe's own parts by a stable name; those without `state_dict` are skipped when saving."""
    kinds = {
        "estimator": [recipe.estimator],
        "shaper": recipe.shapers,
        "modulator": recipe.modulators,
        "aux": recipe.aux,
    }
    return {f"{kind}{i}": part for kind, row in kinds.items() for i, part in enumerate(row)}
