"""`sandlot train` and `sandlot compare`: the command line's side of `trainers.job` and `trainers.compare`."""

from __future__ import annotations

import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from sandlot.arguments import make_env, parse_pairs
from sandlot.envs.core.errors import InvalidArgument, MissingData
from sandlot.harness.runs import FollowerRun, RunFolder
from sandlot.trainers import sharded
from sandlot.trainers.compare import compare as run_comparison
from sandlot.trainers.job import MODEL, Job, Outcome, gained, run_job, table
from sandlot.trainers.methods import make_recipe
from sandlot.trainers.presets import otherwise, preset
from sandlot.version import VERSION

# What of a preset's recipe options another recipe takes over: how much is played and how fast it learns. The rest is
# what makes the preset's own recipe that recipe.
SHARED = ("groups", "group_size", "minibatches", "lr", "warmup")


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

    def warn(self, text: str) -> None:
        """A line above the bars."""
        self.console.print("look:", text, style="yellow", markup=False, highlight=False)


OWN_OPTIONS = {
    "env_kwargs": "each argument by itself, -k KEY=VALUE",
    "recipe": "--recipe NAME",
    "recipe_kwargs": "each option by itself, -r KEY=VALUE",
}
"""Fields of `Job` that the command line sets in another way than by `-s`."""


def build_job(
    env: str,
    model: str | None,
    recipe: str | None,
    *,
    env_pairs: Sequence[str] = (),
    recipe_pairs: Sequence[str] = (),
    settings: Sequence[str] = (),
    several: bool = False,
    **asked: Any,
) -> Job:
    """The preset of the environment and model, with everything that was asked for on top.

    Of the preset's recipe options, a recipe other than its own takes over only those in `SHARED`, and has its own where
    `presets.otherwise` knows better ones.

    Args:
        env: the environment.
        model: the policy's model, or None for the environment's own choice.
        recipe: the method, or None for the preset's.
        env_pairs: KEY=VALUE constructor arguments.
        recipe_pairs: KEY=VALUE options of the recipe.
        settings: KEY=VALUE fields of `Job`.
        several: the job is for several recipes on equal terms.
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
        if key in OWN_OPTIONS:
            raise InvalidArgument(f"{key!r} is no setting for -s: give {OWN_OPTIONS[key]}")
    options = job.recipe_kwargs
    if several or recipe not in (None, job.recipe):
        options = {key: options[key] for key in SHARED if key in options}
        options |= {} if several else otherwise(job, recipe or job.recipe)
    merged: dict[str, Any] = {
        "env_kwargs": {**job.env_kwargs, **parse_pairs(env_pairs)},
        "recipe": recipe or job.recipe,
        "recipe_kwargs": {**options, **parse_pairs(recipe_pairs)},
    }
    if "split" in merged["env_kwargs"]:
        raise InvalidArgument("a run has two splits: set them with -s split=… (training) and -s eval_split=…")
    job = replace(job, **merged, **values)
    make_recipe(job.recipe, **job.recipe_kwargs)  # what is wrong is said before anything is written or run
    make_env(job.env, {**job.env_kwargs, "split": job.split}).close()
    return job


def train(console: Console, job: Job, *, out: Path, resume: Path | None) -> Outcome:
    """Run the job with progress bars, then print the short table and where everything is."""
    here = sharded.start()
    if resume is not None:
        job = job_from(RunFolder(resume).config())
    made = resume
    if made is None and here.rank == 0:  # the first process makes the folder, and speaks
        made = RunFolder.create(f"train-{job.recipe}-{job.env.split('/')[-1]}", job_config(job), root=out).folder
    folder = here.gather(made)[0]
    run = FollowerRun(folder, here.rank) if here.rank else RunFolder(folder)
    console = Console(file=io.StringIO()) if here.rank else console
    _quiet()
    console.print(f"[bold]{job.recipe}[/] on [bold]{job.env}[/] with model [bold]{job.model}[/]: {run.folder}")
    try:
        with Bars(console) as bars:
            outcome = run_job(job, run, resume=resume is not None, reporter=bars)
    except KeyboardInterrupt:
        console.print(f"stopped; go on with: sandlot train --resume {run.folder}", highlight=False)
        raise
    finally:
        sharded.stop()
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
    console.print(gained(outcome), highlight=False)


def job_config(job: Job) -> dict[str, Any]:
    """The job as `config.toml` holds it, with the version that ran it."""
    return {"sandlot": VERSION, **job.table()}


def job_from(config: Mapping[str, Any]) -> Job:
    """The job that a `config.toml` describes."""
    return Job(**{f.name: config[f.name] for f in fields(Job) if f.name in config})


def job_again(config: Path, asked: Sequence[Any]) -> Job:
    """The job of a run's `config.toml`.

    Args:
        config: the file, or the run folder.
        asked: other settings of the command line, None or empty where they were not given.

    Raises:
        InvalidArgument: some were given.
        MissingData: there is no such file, or it is none of a training run.
    """
    if any(value not in (None, (), []) for value in asked):
        raise InvalidArgument(
            "--config repeats a run: change settings in a copy of the file, and give only --out beside it"
        )
    folder, name = (config, None) if config.is_dir() else (config.parent, config.name)
    table = RunFolder(folder).config(name)
    if "recipe" not in table or "env" not in table:
        raise MissingData(f"{config} is not the config.toml of a training run")
    return job_from(table)


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
