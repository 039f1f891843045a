"""`sandlot shop serve`: the command line of `sandlot/shop.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(no_args_is_help=True, help="WebShop for people.")


@app.callback()
def _root() -> None: ...


@app.command()
def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, help="To listen on; 0 takes a free one.")] = 8765,
    task: Annotated[
        str | None, typer.Option(help="The task for everybody; without it each visit gets another.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws the tasks.")] = 0,
    pairs: Annotated[
        list[str] | None,
        typer.Option("-k", metavar="KEY=VALUE", help="An argument of sandlot/WebShop-v0, e.g. -k products=20000."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where run folders are made.")] = Path("runs"),
) -> None:
    """Open the shop in a browser on this machine. Every visit is recorded as a trajectory in a run folder.

    [bold]Examples[/]

      sandlot shop serve

      sandlot shop serve --port 9000 --seed 5 -k split=test -k products=20000

      sandlot shop serve -k data=path/to/webshop
    """
    from sandlot.arguments import parse_pairs
    from sandlot.shop import serve as run

    run(Console(highlight=False), port=port, seed=seed, task=task, arguments=parse_pairs(pairs or ()), out=out)
