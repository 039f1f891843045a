"""`sandlot sandbox check | reap | base`: what works on this machine, what dead sessions left, and the base image."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(no_args_is_help=True, help="Sandboxes: which kinds work here, and what is left of old ones.")


@app.command()
def check() -> None:
    """Start one sandbox of each kind and say what works, and what would help. Exit code 1 if none does."""
    from sandlot.sandboxes.choose import ORDER, Probe, probe

    console = Console(highlight=False)
    found: list[Probe] = []
    with console.status("trying") as status:
        for backend in ORDER:
            status.update(f"trying {backend}")
            found.append(probe(backend))
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("backend", no_wrap=True)
    table.add_column("works", no_wrap=True)
    table.add_column("start", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for one in found:
        mark = "[green]yes[/]" if one.works else "[red]no[/]"
        start = f"{one.start_ms:.0f} ms" if one.works else ""
        help_ = f"\n[yellow]what helps:[/] {one.fix}" if one.fix else ""
        table.add_row(one.backend, mark, start, one.reason + help_)
    console.print(table)
    best = next((one.backend for one in found if one.works), None)
    if best is None:
        console.print("\nNo sandbox works here. docs/sandboxes.md says what each one needs.")
        raise typer.Exit(1)
    console.print(f"\nWithout a choice of yours, {best} is used.")


@app.command()
def reap() -> None:
    """Remove what dead sessions left: containers, control groups, temporary folders. Live ones are not touched."""
    from sandlot.sandboxes.reap import reap_all

    console = Console(highlight=False)
    removed, why = reap_all()
    for line in removed:
        console.print(f"removed {line}", soft_wrap=True)
    console.print("Nothing was left." if not removed else f"{len(removed)} removed.")
    if why:
        console.print(f"Docker was not asked: {why}", soft_wrap=True)


@app.command()
def base() -> None:
    """Build the base image for tasks that name none: a small Debian, 230 MB in the cache, in a few minutes, as root."""
    from sandlot.sandboxes.debian import base_folder, build_base

    console = Console(highlight=False)
    if base_folder().is_dir():
        console.print(f"The base image is there: {base_folder()}", soft_wrap=True)
        return
    with console.status("debootstrap"):
        folder = build_base()
    console.print(f"Built {folder}", soft_wrap=True)
