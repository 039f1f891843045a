"""`sandlot tasks export | audit`: generated terminal tasks as folders, and what is wrong with tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(no_args_is_help=True, help="Write terminal tasks as folders, and find what is wrong with tasks.")

Families = Annotated[
    list[str] | None, typer.Option("--family", help="A family of generated tasks. Repeatable; all by default.")
]
Levels = Annotated[list[int] | None, typer.Option("--level", help="1, 2 or 3. Repeatable; all by default.")]
Seeds = Annotated[str, typer.Option(help="Seeds: 7, or 0:10 for 0 to 9.")]
Split = Annotated[str, typer.Option(help="train, valid_seen, valid_unseen or test.")]


@app.command()
def export(
    out: Annotated[Path, typer.Argument(help="Where the task folders are made.")],
    format: Annotated[str, typer.Option(help="harbor or terminal-bench.")] = "harbor",
    family: Families = None,
    level: Levels = None,
    seeds: Seeds = "0:10",
    split: Split = "train",
) -> None:
    """Write generated tasks as folders that other programs can play.

    [bold]Example[/]

      sandlot tasks export tasks --format harbor --family git --level 2 --seeds 0:20
    """
    from sandlot.envs.terminal.export import export as write

    count = 0
    for task in _generated(family, level, seeds, split):
        write(task, out, format)
        count += 1
    typer.echo(f"{count} tasks in {out}")


@app.command()
def audit(
    path: Annotated[
        Path | None, typer.Argument(help="A task folder, or a folder of them; else generated tasks.")
    ] = None,
    family: Families = None,
    level: Levels = None,
    seeds: Seeds = "0:1",
    split: Split = "train",
    backend: Annotated[str, typer.Option(help="auto, namespace, oci or docker.")] = "auto",
    repeats: Annotated[int, typer.Option(min=1, help="How often the same outcome is judged.")] = 3,
) -> None:
    """Play tasks with the author's solution, with nothing and with nonsense, and look for leaks.

    Exit code 1 where something is wrong with a task.

    [bold]Examples[/]

      sandlot tasks audit my-tasks

      sandlot tasks audit --family archive --seeds 0:5
    """
    from sandlot.envs.terminal.audit import audit as examine
    from sandlot.envs.terminal.backends import workspaces
    from sandlot.envs.terminal.folders import find_folders, load_task
    from sandlot.envs.terminal.workspace import CannotPlay

    console = Console(highlight=False)
    tasks = map(load_task, find_folders(path)) if path else _generated(family, level, seeds, split)
    agent, other = workspaces(backend)
    bad = count = 0
    try:
        for task in tasks:
            count += 1
            try:
                found = examine(task, agent, other, repeats=repeats)
            except CannotPlay as error:
                console.print(f"[yellow]refused[/] {error}")
                continue
            bad += bool(found.findings)
            verdict = f"[red]{', '.join(found.labels)}[/]" if found.findings else "[green]good[/]"
            console.print(f"{verdict} {task.name}: oracle {_score(found.oracle)}, nothing {_score(found.nothing)}")
            for finding in found.findings:
                console.print(f"    {finding.label}: {finding.reason}", markup=False)
    finally:
        agent.close()
        other.close()
    console.print(f"{count} tasks, {bad} with something wrong")
    if bad:
        raise typer.Exit(1)


def _generated(family: list[str] | None, level: list[int] | None, seeds: str, split: str):
    from sandlot.envs.core.errors import InvalidArgument
    from sandlot.envs.core.tasks import check_split
    from sandlot.envs.terminal.generator import generate
    from sandlot.envs.terminal.tasks import check_families, check_levels

    first, colon, last = seeds.partition(":")
    if not first.isdecimal() or (colon and not last.isdecimal()):
        raise InvalidArgument(f"--seeds must be a number or FROM:TO, not {seeds!r}")
    numbers = range(int(first), int(last) if colon else int(first) + 1)
    check_split(split)
    chosen = [(name, number) for name in check_families(family) for number in check_levels(level)]
    return (generate(name, number, seed, split) for name, number in chosen for seed in numbers)


def _score(value: float | None) -> str:
    return "no verdict" if value is None else f"{value:g}"
