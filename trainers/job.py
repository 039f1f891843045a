"""A whole training run: policy, warm start, training, evaluation before and after, and the files that remain.

This is what `sandlot train` runs. With its defaults it is the project's main job: a small language model, warm-started
on oracle episodes of generated ALFWorld games, trained by reinforcement learning and evaluated on unseen rooms.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from ..envs.core.errors import InvalidArgument
from ..envs.core.registry import find
from ..envs.core.tasks import Task
from ..harness.context import History
from ..harness.loop import EnvMaker, Limits, Rollout, play
from ..harness.policies.scripted import OraclePolicy, RandomPolicy
from ..harness.policy import Sampling
from ..harness.records import Trajectory
from ..harness.report import curve_png, report_html
from ..harness.runs import RunFolder
from ..harness.summary import summarise
from .checkpoint import LAST
from .loop import Schedule, train
from .methods import make_recipe
from .recipe import Recipe
from .sft import SFT, demonstrations, sft

MODEL = "model"  # folder of the trained policy inside a run


@dataclass(frozen=True)
class Job:
    """The settings of a run; `config.toml` holds them all, so that a run can be repeated."""

    env: str = "sandlot/ALFWorld-v0"
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    model: str = "tiny"
    """"tabular", "bag", "tiny" (a language model from scratch), "smollm2-135m", or a local model directory."""
    recipe: str = "grpo"
    recipe_kwargs: dict[str, Any] = field(default_factory=dict)
    steps: int = 20
    seed: int = 0
    split: str = "train"
    eval_split: str = "valid_unseen"
    eval_tasks: int = 128
    eval_every: int = 0
    """Also evaluate after every so many steps; 0: only before and after."""
    demonstrations: int = 0
    """Oracle episodes to imitate before training; 0 starts from the weights as they are."""
    demonstrator: str = "oracle"
    """The environment's method that demonstrates."""
    noise: float = 0.0
    """Share of random actions in the demonstrations."""
    sft: dict[str, Any] = field(default_factory=dict)
    """Fields of `trainers.sft.SFT`."""
    decode: str = "trie"
    """How a language model's actions are sampled: "free", "trie" or "choice" (`harness.policy.Sampling`)."""
    temperature: float = 1.0
    max_tokens: int = 32
    history: dict[str, Any] = field(default_factory=dict)
    """What of an episode the prompt shows: fields of `harness.context.History`."""
    lora: int = 0
    """Rank of LoRA adapters; 0 trains all weights."""
    tiny: dict[str, Any] = field(default_factory=dict)
    """Arguments of `harness.policies.tiny.tiny_llama` for the "tiny" model."""
    concurrency: int = 64
    threads: int = 0
    """Threads of torch; 0 takes one per core, at most four (more slow small models down)."""


class Reporter(Protocol):
    """Who is told how far the run is."""

    def stage(self, name: str, total: int) -> None:
        """A new stage of `total` units begins."""
        ...

    def advance(self, n: int = 1, note: str = "") -> None:
        """`n` units are done; `note` says how it is going."""
        ...


class Silent:
    """Tells nobody."""

    def stage(self, name: str, total: int) -> None:
        """Nothing."""

    def advance(self, n: int = 1, note: str = "") -> None:
        """Nothing."""


@dataclass
class Outcome:
    """What a run came to: evaluation summaries (see `harness.summary.summarise`) by name, and the metrics' history."""

    results: dict[str, dict[str, float]]
    history: list[dict[str, float]]
    folder: Path | None
    seconds: float


def run_job(
    job: Job,
    run: RunFolder | None,
    *,
    resume: bool = False,
    reporter: Reporter | None = None,
    warm: Path | None = None,
) -> Outcome:
    """Carry out `job`.

    Args:
        job: what to do.
        run: where config, metrics, episodes, checkpoint, curve and report go; None keeps nothing.
        resume: go on where the run's last checkpoint left off.
        reporter: told about progress.
        warm: folder of the warm-started policy: used if it is there, written if not. None: a folder of the run.

    Raises:
        UserError: an unknown environment, model or recipe, a missing extra, a folder that cannot be written.
    """
    began = time.monotonic()
    reporter = reporter or Silent()
    torch.set_num_threads(job.threads or min(4, torch.get_num_threads()))
    recipe = make_recipe(job.recipe, **job.recipe_kwargs)
    rollout, held_out = rollouts(job)
    tasks = rollout.env.tasks()
    eval_tasks = held_out.env.tasks().first(job.eval_tasks)
    results = {
        "random": _evaluate("random policy", RandomPolicy(), eval_tasks, held_out, job, reporter)[0],
        "oracle": _evaluate("oracle", OraclePolicy(), eval_tasks, held_out, job, reporter)[0],
    }
    if warm is None and run is not None:
        warm = run.folder / "warm"
    if warm is not None and (warm / "config.json").exists():
        policy = load_policy(str(warm), recipe, job)
    else:
        policy = warm_start(job, recipe, rollout, reporter)
        if warm is not None and hasattr(policy, "save"):
            policy.save(warm)
    results["before"], _ = _evaluate("before training", policy, eval_tasks, held_out, job, reporter)
    reporter.stage("training", job.steps * recipe.groups * recipe.group_size)
    recent: deque[bool] = deque(maxlen=recipe.groups * recipe.group_size)

    def told(trajectory: Trajectory) -> None:
        if not trajectory.void:
            recent.append(trajectory.success)
        reporter.advance(1, f"success {sum(recent) / max(len(recent), 1):.0%}")

    history = train(
        recipe,
        policy,
        rollout,
        tasks,
        Schedule(steps=job.steps, seed=job.seed, eval_every=job.eval_every),
        eval_tasks=eval_tasks,
        eval_rollout=held_out,
        run=run,
        resume=resume and run is not None and (run.folder / LAST).exists(),
        on_trajectory=told,
    )
    results["after"], episodes = _evaluate("after training", policy, eval_tasks, held_out, job, reporter)
    outcome = Outcome(results, history, None if run is None else run.folder, time.monotonic() - began)
    if run is not None:
        if hasattr(policy, "save"):
            policy.save(run.folder / MODEL)
        write_report(job, run, outcome, episodes)
    return outcome


def rollouts(job: Job) -> tuple[Rollout, Rollout]:
    """How training and held-out episodes are played."""
    find(job.env)
    rollout = Rollout(
        EnvMaker(job.env, {**job.env_kwargs, "split": job.split}),
        Sampling(temperature=job.temperature, decode=job.decode, max_tokens=job.max_tokens),
        History(**job.history),
        limits=Limits(concurrency=job.concurrency),
    )
    return rollout, replace(rollout, env=EnvMaker(job.env, {**job.env_kwargs, "split": job.eval_split}))


def warm_start(job: Job, recipe: Recipe, rollout: Rollout, reporter: Reporter) -> Any:
    """The policy to train: built or loaded, then warm-started if the job says so."""
    shown = demonstrate(job, rollout, job.demonstrations, reporter) if job.demonstrations else []
    if job.model == "tiny":
        policy = tiny_policy(job, recipe, shown or demonstrate(job, rollout, 200, reporter))
    else:
        policy = load_policy(job.model, recipe, job)
    if job.lora:
        policy = policy.with_lora(job.lora, 2.0 * job.lora, seed=job.seed)
    if shown:
        if not hasattr(policy, "format"):
            raise InvalidArgument(f"model {job.model!r} cannot be warm-started: set demonstrations to 0")
        settings = SFT(**{"seed": job.seed, **job.sft})
        episodes = demonstrations(policy.format, shown)
        reporter.stage("imitating the oracle", settings.epochs * -(-len(episodes) // settings.batch))
        sft(policy, episodes, settings, on_step=lambda step, steps, loss: reporter.advance(1, f"loss {loss:.2f}"))
    return policy


def demonstrate(job: Job, rollout: Rollout, n: int, reporter: Reporter) -> list[Trajectory]:
    """`n` episodes of the demonstrator on training tasks, the successful ones."""
    reporter.stage("collecting demonstrations", n)
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence((job.seed, 0xDE30))))
    tasks = rollout.env.tasks()
    policy = OraclePolicy(job.demonstrator, job.noise)
    played = play(
        policy,
        [tasks.sample(rng) for _ in range(n)],
        rollout,
        seed=job.seed,
        on_trajectory=lambda _: reporter.advance(1),
    )
    return [trajectory for trajectory in played if trajectory.success]


def tiny_policy(job: Job, recipe: Recipe, shown: Sequence[Trajectory]) -> Any:
    """A language model from scratch whose vocabulary is taken from `shown`."""
    from ..harness.policies.hf import HFPolicy
    from ..harness.policies.tiny import build_word_tokenizer, tiny_llama

    texts: dict[str, None] = {}
    for trajectory in shown:
        texts.setdefault(trajectory.first_observation)
        for turn in trajectory.turns:
            texts.setdefault(turn.action)
            texts.setdefault(turn.observation)
    tokenizer = build_word_tokenizer(texts)
    model = tiny_llama(len(tokenizer), **{"seed": job.seed, **job.tiny})
    return HFPolicy(model, tokenizer, critic=recipe.critic, name="tiny")


def load_policy(model: str, recipe: Recipe, job: Job) -> Any:
    """A policy by name: "tabular", "bag", or whatever `harness.policies.models.load` knows."""
    if model == "tabular":
        from ..harness.policies.tabular import TabularPolicy

        return TabularPolicy(key="obs_key", critic=recipe.critic)
    if model == "bag":
        from ..harness.policies.bag import BagPolicy

        return BagPolicy(critic=recipe.critic)
    from ..harness.policies.smollm import load

    return load(model, critic=recipe.critic)


def write_report(job: Job, run: RunFolder, outcome: Outcome, episodes: Sequence[Trajectory]) -> None:
    """`curve.png` and `report.html`."""
    training = training_curve(outcome.history)
    results = outcome.results
    held_out = [(-0.5, results["before"]["success"]), (len(training) - 0.5, results["after"]["success"])]
    between = [m["eval/success"] for m in outcome.history if "eval/success" in m]
    if job.eval_every:  # the first evaluation precedes the first step, the last one follows the last
        at = [-1, *(step for step in range(job.steps) if (step + 1) % job.eval_every == 0 or step + 1 == job.steps)]
        held_out = [(step + 0.5, value) for step, value in zip(at, between)]
    series: dict[str, Sequence[tuple[float, float]]] = {
        "training episodes": training,
        f"held out ({job.eval_split})": held_out,
    }
    png = curve_png(series, title=f"{job.recipe} on {job.env}, {job.model}", x="training step")
    run.write("curve.png", png)
    solved = [episode for episode in episodes if episode.success]
    failed = [episode for episode in episodes if not episode.success]
    html = report_html(
        f"{job.recipe} on {job.env}",
        lead=f"{job.model}, {job.steps} steps, seed {job.seed}, {outcome.seconds / 60:.1f} minutes.",
        tables={f"Success on {job.eval_tasks} tasks of {job.eval_split}": table(outcome)},
        curve=png,
        episodes=[*solved[:4], *failed[:4]],
        config=vars(job),
    )
    run.write("report.html", html)


def table(outcome: Outcome) -> list[dict[str, Any]]:
    """The short table: one row per policy."""
    rows = []
    for name in ("random", "before", "after", "oracle"):
        result = outcome.results[name]
        interval = f"{result['success_low']:.2f} - {result['success_high']:.2f}"
        rows.append({"policy": name, "success": result["success"], "95 % interval": interval, "turns": result["turns"]})
    return rows


def training_curve(history: Sequence[Mapping[str, float]]) -> list[tuple[float, float]]:
    """(step, success of its training episodes)."""
    return list(enumerate(metrics["rollout/success"] for metrics in history if "rollout/success" in metrics))


def _evaluate(
    name: str, policy: Any, tasks: Sequence[Task], rollout: Rollout, job: Job, reporter: Reporter
) -> tuple[dict[str, float], list[Trajectory]]:
    reporter.stage(name, len(tasks))
    told: Callable[[Trajectory], None] = lambda trajectory: reporter.advance(1)  # noqa: E731
    episodes = play(policy, tasks, rollout, seed=job.seed, on_trajectory=told)
    return summarise(episodes), episodes
