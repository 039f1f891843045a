"""A whole training run: policy, warm start, training, evaluation before and after, and the files that remain.

This is what `sandlot train` runs. With its defaults it is the project's main job: a small language model, warm-started
on oracle episodes of generated ALFWorld games, trained by reinforcement learning and evaluated on unseen rooms.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np
import torch

from ..envs.core.errors import InvalidArgument
from ..envs.core.registry import find
from ..envs.core.tasks import Task
from ..harness.context import History
from ..harness.drawing import film
from ..harness.loop import EnvMaker, Limits, Rollout, play
from ..harness.policies.scripted import OraclePolicy, RandomPolicy
from ..harness.policy import Sampling
from ..harness.records import Trajectory
from ..harness.report import curve_png, report_html
from ..harness.runs import RunFolder
from ..harness.summary import paired, summarise
from .alarms import Alarms
from .checkpoint import LAST
from .engines import Decoupled, VLLMSettings, check, vllm_engine
from .loop import Schedule, train
from .methods import make_recipe
from .recipe import Recipe
from .settings import Tiny, check_types, read
from .settings import table as settings_table
from .sft import SFT, demonstrations, sft
from .sharded import ShardedPolicy, play_shared, ranks
from .watch import BEST, Best, EarlyStop, trackers
from .ways import find_ways, play_ways, read_ways, write_ways

MODEL = "model"  # folder of the trained policy inside a run
WAYS = "ways.jsonl"  # what was imitated, where a search found it
RESULTS = "results.json"  # the evaluations' figures, the gain, and success before and after by task


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
    mode: str = "sync"
    """"sync", "ahead" (off-policy by `staleness` updates, repeatable) or "stream" (fully asynchronous)."""
    staleness: int = 1
    """See `trainers.loop.Schedule`."""
    eval_every: int = 0
    """Also evaluate after every so many steps; 0: only before and after."""
    early_stop: int = 0
    """Stop after so many evaluations without a better one; 0 never stops. Needs `eval_every`."""
    keep_best: bool = False
    """Keep the policy of the best evaluation in the run's folder `best`. Needs `eval_every`."""
    trackers: list[str] = field(default_factory=list)
    """Where metrics go besides the run folder: "tensorboard", "wandb"."""
    demonstrations: int = 0
    """Oracle episodes to imitate before training; 0 starts from the weights as they are."""
    demonstrator: str = "oracle"
    """The environment's method that demonstrates."""
    ways: int = 0
    """Imitate up to so many ways per task that the environment's own search finds, with their values (`trainers.ways`);
    `demonstrations` then counts tasks. 0: the demonstrator's episodes. The run's `ways.jsonl` holds what was found."""
    ways_from: str = ""
    """Such a file, to be imitated instead of searching; `ways` and `demonstrations` then count for nothing."""
    noise: float = 0.0
    """Share of random actions in the demonstrations."""
    sft: SFT = field(default_factory=SFT)
    """How to imitate: a table of `trainers.sft.SFT`."""
    decode: str = "trie"
    """How a language model's actions are sampled: "free", "trie" or "choice" (`harness.policy.Sampling`)."""
    temperature: float = 1.0
    max_tokens: int = 32
    history: History = field(default_factory=History)
    """What of an episode the prompt shows: a table of `harness.context.History`."""
    lora: int = 0
    """Rank of LoRA adapters; 0 trains all weights."""
    lora_targets: list[str] = field(default_factory=list)
    """Names of the linear layers that get adapters, e.g. ["q_proj", "v_proj"]; empty: all but the output layer."""
    engine: str = "hf"
    """What a language model plays with: "hf" (transformers, here) or "vllm"."""
    vllm: VLLMSettings = field(default_factory=VLLMSettings)
    """How: a table of `trainers.engines.VLLMSettings`."""
    precision: str = "auto"
    """"float32"; "mixed" (float32 weights, computed with in bfloat16); "bfloat16" (weights in bfloat16, moved by way of
    float32 copies); "auto": "mixed" on a GPU, else "float32"."""
    checkpointing: bool = False
    """Compute activations again for the gradients instead of keeping them: slower, much less memory."""
    offload: bool = False
    """Keep the optimiser's state in the CPU's memory."""
    attention: str = "auto"
    """Over packed trees: "blocks" (one call of torch's attention per branch or so), "dense" (a mask), "flex" (torch's
    FlexAttention), "auto" (blocks; on a GPU a mask, and flex for long ones)."""
    batch_tokens: int = 4096
    """Token slots per micro-batch when a language model learns."""
    tiny: Tiny = field(default_factory=Tiny)
    """The "tiny" model: a table of `trainers.settings.Tiny`."""
    concurrency: int = 64
    threads: int = 0
    """Threads of torch; 0 takes one per core, at most four (more slow small models down)."""

    def __post_init__(self) -> None:
        """Tables become dataclasses.

        Raises:
            InvalidArgument: a wrong key or a value of a wrong type.
        """
        for name, kind in (("sft", SFT), ("history", History), ("tiny", Tiny), ("vllm", VLLMSettings)):
            object.__setattr__(self, name, read(kind, getattr(self, name), name))
        check_types(self)

    def table(self) -> dict[str, Any]:
        """As `config.toml` holds it."""
        return settings_table(self)


class Reporter(Protocol):
    """Who is told how far the run is."""

    def stage(self, name: str, total: int) -> None:
        """A new stage of `total` units begins."""
        ...

    def advance(self, n: int = 1, note: str = "") -> None:
        """`n` units are done; `note` says how it is going."""
        ...

    def warn(self, text: str) -> None:
        """Something is going wrong."""
        ...


class Silent:
    """Tells nobody."""

    def stage(self, name: str, total: int) -> None:
        """Nothing."""

    def advance(self, n: int = 1, note: str = "") -> None:
        """Nothing."""

    def warn(self, text: str) -> None:
        """Nothing."""


@dataclass
class Outcome:
    """What a run came to: evaluation summaries (see `harness.summary.summarise`) by name, and the metrics' history."""

    results: dict[str, dict[str, float]]
    history: list[dict[str, float]]
    folder: Path | None
    seconds: float
    gain: dict[str, float] = field(default_factory=dict)
    """Of the success by training, on the same tasks (see `harness.summary.paired`)."""


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
    with ExitStack() as stack:
        return _run_job(job, run, stack, resume=resume, reporter=reporter, warm=warm)


@contextmanager
def flushed_subnormals() -> Iterator[None]:
    """A peaked policy's gradients are full of subnormals, at which CPUs are slow; what comes after gets them back."""
    had = bool((torch.tensor([1e-40]) * 1.0).item() == 0.0)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(had)


def _run_job(
    job: Job,
    run: RunFolder | None,
    stack: ExitStack,
    *,
    resume: bool,
    reporter: Reporter | None,
    warm: Path | None,
) -> Outcome:
    began = time.monotonic()
    reporter = reporter or Silent()
    torch.set_num_threads(job.threads or min(4, torch.get_num_threads()))
    stack.enter_context(flushed_subnormals())
    recipe = make_recipe(job.recipe, **job.recipe_kwargs)
    check(job.engine, job.mode, job.vllm, ranks().world)
    if (job.early_stop or job.keep_best) and not job.eval_every:
        raise InvalidArgument("early_stop and keep_best need evaluations: set eval_every")
    watchers = [] if run is None or ranks().rank else trackers(job.trackers, run.folder, job.table())
    rollout, held_out = rollouts(job)
    tasks = rollout.env.tasks()
    eval_tasks = held_out.env.tasks().first(job.eval_tasks)
    results = {
        "random": _evaluate("random policy", RandomPolicy(), eval_tasks, held_out, job, reporter)[0],
        "oracle": _evaluate("oracle", OraclePolicy(), eval_tasks, held_out, job, reporter)[0],
    }
    if warm is None and run is not None:
        warm = run.folder / "warm"
    here = ranks()
    if here.gather(warm is not None and (warm / "config.json").exists())[0]:  # the first process says
        policy = load_policy(str(warm), recipe, job)
    else:
        ways = None if run is None else run.folder / WAYS
        policy = warm_start(job, recipe, rollout, reporter, ways)
        if warm is not None and hasattr(policy, "save") and here.rank == 0:
            policy.save(warm)
    policy: Any = ShardedPolicy(policy) if here.world > 1 else policy
    if job.engine == "vllm":
        policy = stack.enter_context(closing(with_vllm(policy, job)))
    results["before"], first = _evaluate("before training", policy, eval_tasks, held_out, job, reporter)
    reporter.stage("training", job.steps * recipe.groups * recipe.group_size)
    recent: deque[bool] = deque(maxlen=recipe.groups * recipe.group_size)

    def told(trajectory: Trajectory) -> None:
        if not trajectory.void:
            recent.append(trajectory.success)
        reporter.advance(1, f"success {sum(recent) / max(len(recent), 1):.0%}")

    def alarm(step: int, text: str) -> None:
        reporter.warn(f"step {step}: {text}")
        if run is not None and here.rank == 0:
            with (run.folder / "alarms.log").open("a") as file:
                file.write(f"step {step}: {text}\n")

    watchers.append(Alarms(alarm))
    if job.early_stop:
        watchers.append(EarlyStop(job.early_stop))
    if job.keep_best and run is not None and hasattr(policy, "save"):
        watchers.append(Best(policy, run.folder / BEST))
    history = train(
        recipe,
        policy,
        rollout,
        tasks,
        Schedule(job.steps, job.seed, job.eval_every, mode=job.mode, staleness=job.staleness),
        eval_tasks=eval_tasks,
        eval_rollout=held_out,
        run=run,
        resume=resume and run is not None and (run.folder / LAST).exists(),
        on_trajectory=told,
        watchers=watchers,
    )
    results["after"], episodes = _evaluate("after training", policy, eval_tasks, held_out, job, reporter)
    seconds = time.monotonic() - began
    both = [(a, b) for a, b in zip(first, episodes, strict=True) if not (a.void or b.void)]
    gain = paired([(a.success, b.success) for a, b in both])
    outcome = Outcome(results, history, None if run is None else run.folder, seconds, gain)
    if run is not None and here.rank == 0:
        tasks = [{"task": a.task.id, "before": a.success, "after": b.success} for a, b in both]
        run.write(RESULTS, json.dumps({"results": results, "gain": gain, "tasks": tasks}, indent=1))
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
        job.history,
        limits=Limits(concurrency=job.concurrency),
    )
    return rollout, replace(rollout, env=EnvMaker(job.env, {**job.env_kwargs, "split": job.eval_split}))


def warm_start(job: Job, recipe: Recipe, rollout: Rollout, reporter: Reporter, ways: Path | None = None) -> Any:
    """The policy to train: built or loaded, then warm-started if the job says so; `ways`: where found ways are kept."""
    if job.ways_from:
        shown = play_ways(read_ways(job.ways_from), rollout, seed=job.seed)
    else:
        shown = demonstrate(job, rollout, job.demonstrations, reporter) if job.demonstrations else []
    if job.ways and ways is not None and ranks().rank == 0:
        write_ways(ways, shown)
    if job.model == "tiny":
        policy = tiny_policy(job, recipe, shown or demonstrate(job, rollout, 200, reporter))
    else:
        policy = load_policy(job.model, recipe, job)
    if job.lora:
        policy = policy.with_lora(job.lora, 2.0 * job.lora, job.lora_targets or "all-linear", seed=job.seed)
    if shown:
        if not hasattr(policy, "format"):
            raise InvalidArgument(f"model {job.model!r} cannot be warm-started: set demonstrations to 0")
        settings = job.sft if job.sft.seed is not None else replace(job.sft, seed=job.seed)
        episodes = demonstrations(policy.format, shown)
        reporter.stage("imitating the oracle", settings.epochs * -(-len(episodes) // settings.batch))
        sft(policy, episodes, settings, on_step=lambda step, steps, loss: reporter.advance(1, f"loss {loss:.2f}"))
    return policy


def with_vllm(policy: Any, job: Job) -> Decoupled:
    """`policy`, played with by vLLM."""
    if not hasattr(policy, "format"):
        raise InvalidArgument(f"model {job.model!r} is no language model: set engine to 'hf'")
    with TemporaryDirectory(prefix="sandlot-") as folder:
        if not job.vllm.url:
            policy.save(folder)  # adapters lie beside the base model, and come with the first `sync`
        return Decoupled(policy, vllm_engine(policy, Path(folder), job.vllm, lora=job.lora), nap=job.vllm.sleep)


def demonstrate(job: Job, rollout: Rollout, n: int, reporter: Reporter) -> list[Trajectory]:
    """`n` episodes of the demonstrator on training tasks, the successful ones."""
    reporter.stage("collecting demonstrations", n)
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence((job.seed, 0xDE30))))
    tasks = rollout.env.tasks()
    drawn = [tasks.sample(rng) for _ in range(n)]
    if job.ways:
        drawn = list({task.id: task for task in drawn}.values())
        found = find_ways(drawn, rollout, job.ways, on_task=lambda: reporter.advance(1))
        return play_ways(found, rollout, seed=job.seed)
    policy = OraclePolicy(job.demonstrator, job.noise)
    played = play(
        policy,
        drawn,
        rollout,
        seed=job.seed,
        on_trajectory=lambda _: reporter.advance(1),
    )
    return [trajectory for trajectory in played if trajectory.success]


def tiny_policy(job: Job, recipe: Recipe, shown: Sequence[Trajectory]) -> Any:
    """A language model from scratch whose vocabulary is taken from `shown`."""
    from ..harness.policies.hf import HFPolicy
    from ..harness.policies.tiny import build_word_tokenizer, relate, tiny_llama

    texts: dict[str, None] = {}
    for trajectory in shown:
        texts.setdefault(trajectory.first_observation)
        for turn in trajectory.turns:
            texts.setdefault(turn.action)
            texts.setdefault(turn.observation)
    tokenizer = build_word_tokenizer(texts)
    settings = {"seed": job.seed, **settings_table(job.tiny)}
    kinship = settings.pop("kinship", None)
    model = tiny_llama(len(tokenizer), **settings)
    if kinship is not None:
        relate(model, tokenizer, kinship)
    return HFPolicy(model, tokenizer, critic=recipe.critic, name="tiny", **hf_options(job))


def hf_options(job: Job) -> dict[str, Any]:
    """Arguments of `HFPolicy` that the job sets for every language model."""
    return {
        "precision": job.precision,
        "checkpointing": job.checkpointing,
        "offload": job.offload,
        "attention": job.attention,
        "max_tokens": job.batch_tokens,
    }


def load_policy(model: str, recipe: Recipe, job: Job) -> Any:
    """A policy by name: "tabular", "bag", or whatever `harness.policies.models.load` knows."""
    if model == "tabular":
        from ..harness.policies.tabular import TabularPolicy

        return TabularPolicy(key="obs_key", critic=recipe.critic)
    if model == "bag":
        from ..harness.policies.bag import BagPolicy

        return BagPolicy(critic=recipe.critic)
    from ..harness.policies.smollm import load

    return load(model, critic=recipe.critic, **hf_options(job))


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
    shown = [*solved[:4], *failed[:4]]
    html = report_html(
        f"{job.recipe} on {job.env}",
        lead=f"{job.model}, {job.steps} steps, seed {job.seed}, {outcome.seconds / 60:.1f} minutes. {gained(outcome)}.",
        tables={f"Success on {job.eval_tasks} tasks of {job.eval_split}": table(outcome)},
        curve=png,
        episodes=shown,
        pictures=film(rollouts(job)[1].env, shown),
        config=job.table(),
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


def gained(outcome: Outcome) -> str:
    """What training changed, in words."""
    of = outcome.gain
    between = f"{of['gain_low']:+.3f} to {of['gain_high']:+.3f}"
    won = f"{of['won']:.0f} won and {of['lost']:.0f} lost of {of['pairs']:.0f} tasks"
    return f"Gain by training {of['gain']:+.3f} ({between}, paired: {won})"


def training_curve(history: Sequence[Mapping[str, float]]) -> list[tuple[float, float]]:
    """(step, success of its training episodes)."""
    return list(enumerate(metrics["rollout/success"] for metrics in history if "rollout/success" in metrics))


def _evaluate(
    name: str, policy: Any, tasks: Sequence[Task], rollout: Rollout, job: Job, reporter: Reporter
) -> tuple[dict[str, float], list[Trajectory]]:
    reporter.stage(name, len(tasks))
    told: Callable[[Trajectory], None] = lambda trajectory: reporter.advance(1)  # noqa: E731
    requests = [(task, 1, "explore") for task in tasks]
    groups = play_shared(policy, requests, rollout, seed=job.seed, on_trajectory=told)
    episodes = [group.members[0] for group in groups]
    return summarise(episodes), episodes
