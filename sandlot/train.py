"""`sandlot train` and `sandlot compare`: the command line's side of `trainers.job` and `trainers.compare`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from sandlot.arguments import make_env, parse_pairs
from sandlot.envs.core.errors import InvalidArgument
from sandlot.harness.runs import RunFolder
from sandlot.trainers.compare import compare as run_comparison
from sandlot.trainers.job import MODEL, Job, Outcome, run_job, table
from sandlot.trainers.methods import make_recipe
from sandlot.trainers.presets import preset
from sandlot.version import VERSION


class Bars:
    """Progress on a terminal: one bar per stage, with how it is going and the time left.

    Args:
        console: where to draw.
        keep: leave finished bars on the screen.
    """

    def __init__(self, console: Console, *, keep: bool = True) -> None:
        self.keep = keep
        self.console = console
        self.progress = Progress(
            TextColumn("{task.description:<22}"),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
        )
        self.bar: Any = None
        self.printed = 0.0

    def __enter__(self) -> Bars:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def stage(self, name: str, total: int) -> None:
        """A new bar."""
        if self.bar is not None and not self.keep:
            self.progress.remove_task(self.bar)
        self.bar = self.progress.add_task(name, total=total, note="")
        self.printed = time.monotonic()
        if not self.console.is_terminal:
            self.console.print(f"{name} ({total})")

    def advance(self, n: int = 1, note: str = "") -> None:
        """Move the bar; where output is no terminal, print a line now and then."""
        self.progress.update(self.bar, advance=n, note=note)
        if not self.console.is_terminal and time.monotonic() - self.printed > 20:
            self.printed = time.monotonic()
            task = self.progress.tasks[-1]
            left = f", {task.time_remaining:.0f} s left" if task.time_remaining else ""
            self.console.print(f"  {task.completed:.0f} of {task.total:.0f}  {note}{left}", highlight=False)


def build_job(
    env: str,
    model: str | None,
    recipe: str | None,
    *,
    env_pairs: Sequence[str] = (),
    recipe_pairs: Sequence[str] = (),
    settings: Sequence[str] = (),
    **asked: Any,
) -> Job:
    """The preset of the environment and model, with everything that was asked for on top.

    Args:
        env: the environment.
        model: the policy's model, or None for the environment's own choice.
        recipe: the method, or None for the preset's.
        env_pairs: KEY=VALUE constructor arguments.
        recipe_pairs: KEY=VALUE options of the recipe.
        settings: KEY=VALUE fields of `Job`.
        asked: fields of `Job`; None leaves the preset's.

    Raises:
        InvalidArgument: a setting, a recipe, an option or an environment that does not exist.
    """
    job = preset(env, model)
    values = {key: value for key, value in asked.items() if value is not None} | parse_pairs(settings)
    known = [f.name for f in fields(Job)]
    for key in values:
        if key not in known:
            raise InvalidArgument(f"no setting {key!r}; the settings are {', '.join(known)}")
    merged: dict[str, Any] = {
        "env_kwargs": {**job.env_kwargs, **parse_pairs(env_pairs)},
        "recipe": recipe or job.recipe,
        "recipe_kwargs": {**job.recipe_kwargs, **parse_pairs(recipe_pairs)},
    }
    if "split" in merged["env_kwargs"]:
        raise InvalidArgument("a run has two splits: set them with -s split=… (training) and -s eval_split=…")
    job = replace(job, **merged, **values)
    make_recipe(job.recipe, **job.recipe_kwargs)  # what is wrong is said before anything is written or run
    make_env(job.env, {**job.env_kwargs, "split": job.split}).close()
    return job


def train(console: Console, job: Job, *, out: Path, resume: Path | None) -> Outcome:
    """Run the job with progress bars, then print the short table and where everything is."""
    if resume is not None:
        run = RunFolder(resume)
        job = job_from(run.config())
    else:
        run = RunFolder.create(f"train-{job.recipe}-{job.env.split('/')[-1]}", job_config(job), root=out)
    _quiet()
    console.print(f"[bold]{job.recipe}[/] on [bold]{job.env}[/] with model [bold]{job.model}[/]: {run.folder}")
    try:
        with Bars(console) as bars:
            outcome = run_job(job, run, resume=resume is not None, reporter=bars)
    except KeyboardInterrupt:
        console.print(f"stopped; go on with: sandlot train --resume {run.folder}", highlight=False)
        raise
    show(console, job, outcome)
    console.print(f"report   {run.folder / 'report.html'}\ncurve    {run.folder / 'curve.png'}", highlight=False)
    if (run.folder / MODEL).is_dir():
        console.print(f"model    {run.folder / MODEL}", highlight=False)
    return outcome


def _quiet() -> None:
    """Keep transformers' own bars for single files out of ours."""
    from transformers.utils import logging

    logging.disable_progress_bar()


def show(console: Console, job: Job, outcome: Outcome) -> None:
    """The short table."""
    shown = Table(title=f"{job.eval_tasks} tasks of {job.eval_split}, {outcome.seconds / 60:.1f} min", box=None)
    for column in ("policy", "success", "95 % interval", "turns"):
        shown.add_column(column, justify="left" if column == "policy" else "right")
    for row in table(outcome):
        shown.add_row(row["policy"], f"{row['success']:.3f}", row["95 % interval"], f"{row['turns']:.1f}")
    console.print(shown)


def job_config(job: Job) -> dict[str, Any]:
    """The job as `config.toml` holds it, with the version that ran it."""
    return {"sandlot": VERSION, **{f.name: getattr(job, f.name) for f in fields(job)}}


def job_from(config: Mapping[str, Any]) -> Job:
    """The job that a `config.toml` describes."""
    return Job(**{f.name: config[f.name] for f in fields(Job) if f.name in config})


def compare(console: Console, job: Job, recipes: Sequence[str], seeds: Sequence[int], *, out: Path) -> None:
    """Run the comparison with progress bars, then print its table."""
    config = {**job_config(job), "recipes": list(recipes), "seeds": list(seeds)}
    for name in recipes:
        make_recipe(name, **job.recipe_kwargs)  # a wrong name fails before anything is run
    run = RunFolder.create(f"compare-{job.env.split('/')[-1]}", config, root=out)
    _quiet()
    with Bars(console, keep=False) as bars:
        rows = [found.row for found in run_comparison(job, recipes, seeds, run, reporter=bars)]
    shown = Table(title=f"{job.env}, {job.model}, {job.steps} steps, {len(seeds)} seeds", box=None)
    for column in rows[0]:
        shown.add_column(column, justify="left" if column == "recipe" else "right")
    for row in rows:
        shown.add_row(*(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()))
    console.print(shown)
    console.print(f"report   {run.folder / 'report.html'}\nplot     {run.folder / 'compare.png'}", highlight=False)
