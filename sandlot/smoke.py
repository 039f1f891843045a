"""`sandlot smoke`: every environment under the oracle, a policy that does nothing and a random one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from sandlot.catalogue import missing_packages
from sandlot.envs.core.errors import MissingExtra
from sandlot.envs.core.registry import REGISTRY, find
from sandlot.harness.loop import EnvMaker, Rollout, play
from sandlot.harness.policies.scripted import BASELINES
from sandlot.harness.summary import summarise

POLICIES = ("oracle", "noop", "random")
EXPECTED = {"oracle": 1.0, "noop": 0.0}


@dataclass
class Result:
    """What one environment did."""

    env_id: str
    success: dict[str, float] = field(default_factory=dict)
    turns: float = 0.0
    """The oracle's mean number of turns."""
    rate: float = 0.0
    """Turns per second under the random policy, resets included."""
    skipped: str = ""
    """Why it was not run."""
    problem: str = ""
    """What is wrong, or ""."""


def smoke(console: Console, names: Sequence[str], *, episodes: int = 5, seed: int = 0) -> list[Result]:
    """Run the named environments (all of them, if none are named), print a table, return the results."""
    ids = [find(name).id for name in names] or list(REGISTRY)
    results: list[Result] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=console, transient=True) as progress:
            bar = progress.add_task("", total=len(ids) * len(POLICIES))
            for env_id in ids:
                progress.update(bar, description=env_id)
                results.append(run_one(env_id, episodes, seed, lambda: progress.advance(bar)))
                progress.update(bar, completed=len(results) * len(POLICIES))
    finally:
        console.print(_table(results))  # also what was found before an interruption
    return results


def run_one(env_id: str, episodes: int, seed: int, on_policy: Callable[[], None]) -> Result:
    """All policies on the first tasks of one environment. Whatever goes wrong is in the result."""
    result = Result(env_id)
    missing = missing_packages(find(env_id).extra)
    if missing:
        result.skipped = str(MissingExtra(missing[0], find(env_id).extra or ""))
        return result
    try:
        maker = EnvMaker(env_id)
        env = maker()
        tasks = env.tasks.first(episodes)
        env.close()
        for name in POLICIES:
            began = time.perf_counter()
            trajectories = play(BASELINES[name](), tasks, Rollout(maker), seed=seed)
            numbers = summarise(trajectories)
            result.success[name] = numbers["success"]
            if name == "oracle":
                result.turns = numbers["turns"]
            if name == "random":
                result.rate = sum(len(t.turns) for t in trajectories) / (time.perf_counter() - began)
            if numbers["void"]:
                result.problem = f"{name}: {next(t.error for t in trajectories if t.void)}"
            elif name in EXPECTED and numbers["success"] != EXPECTED[name]:
                result.problem = f"{name} has success {numbers['success']:.2f}, not {EXPECTED[name]:.2f}"
            on_policy()
    except MissingExtra as error:
        result.skipped = str(error)
    except Exception as error:  # the table must show every environment, whatever one of them does
        result.problem = f"{type(error).__name__}: {error}"
    return result


def _table(results: Iterable[Result]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("environment", no_wrap=True)
    for name in (*POLICIES, "oracle turns", "turns/s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for r in results:
        cells = [f"{r.success[name]:.2f}" if name in r.success else "" for name in POLICIES]
        cells += [f"{r.turns:.1f}", f"{r.rate:,.0f}"] if "random" in r.success else ["", ""]
        verdict = (
            f"[red]{_escape(r.problem)}" if r.problem else f"[yellow]{_escape(r.skipped)}" if r.skipped else "[green]ok"
        )
        table.add_row(r.env_id, *cells, verdict)
    return table


def _escape(text: str) -> str:
    from rich.markup import escape

    from sandlot.harness.report import visible

    return escape(visible(text))
