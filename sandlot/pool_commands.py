"""`sandlot pool list | show | check | export | import`: generated environments in their pools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(no_args_is_help=True, help="Look at pools of generated environments, judge programs, move pools.")

Where = Annotated[
    Path | None, typer.Argument(help="The folder of a pool; without it the pool that is shipped.", show_default=False)
]


@app.command("list")
def list_programs(
    pool: Where = None,
    retired: Annotated[bool, typer.Option("--retired", help="Also those that were retired.")] = False,
) -> None:
    """Show the programs of a pool, with what is known of them."""
    from rich.table import Table

    from sandlot.envs.selfplay.pool import Pool, starter

    opened = None if pool is None else Pool.open(pool)
    entries = starter() if opened is None else opened.entries()
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("program", "for", "title", "mechanics", "horizon", "regret", "potential"):
        table.add_column(column, no_wrap=column == "program", justify="right" if column == "horizon" else "left")
    for name, entry in entries.items():
        if entry.live or retired:
            manifest = entry.program.manifest
            known = None if opened is None else opened.statistics(name)
            numbers = [known.regret, known.potential] if known and known.plain is not None else [None, None]
            cells = ["" if number is None else f"{number:.2f}" for number in numbers]
            role = f"{entry.role or ''}{'' if entry.live else ' (retired)'}"
            table.add_row(name, role, manifest.title, ", ".join(manifest.mechanics), str(manifest.horizon), *cells)
    Console(highlight=False).print(table)


@app.command()
def show(
    program: Annotated[str, typer.Argument(help="The id of a program.")],
    pool: Where = None,
    source: Annotated[bool, typer.Option("--source", help="With its source and solution.")] = False,
) -> None:
    """Show one program: its texts, where it comes from, how it was played."""
    from sandlot.envs.core.errors import InvalidArgument
    from sandlot.envs.selfplay.pool import Pool, starter

    opened = None if pool is None else Pool.open(pool)
    entries = starter() if opened is None else opened.entries()
    if program not in entries:
        raise InvalidArgument(f"no program {program!r} there; `sandlot pool list {pool or ''}` shows them")
    found = entries[program].program
    manifest, lineage = found.manifest, found.lineage
    parts = {
        "Rules": manifest.rules,
        "Actions": manifest.actions,
        "Hint": manifest.hint,
        "Horizon": str(manifest.horizon),
        "Mechanics": ", ".join(manifest.mechanics),
        "Lineage": f"{lineage.designer} {lineage.operation} {', '.join(lineage.parents)} "
        f"generation {lineage.generation}",
    }
    if opened is not None:
        parts["Played"] = str(opened.statistics(program))
        parts["Measured by the gates"] = str(opened.measures(program))
    if source:
        parts |= {"env.py": found.source, "solution.py": manifest.solution}
    console = Console(highlight=False)
    console.print(f"[bold]{program}[/] ", end="")
    console.print(manifest.title, markup=False)
    for heading, text in parts.items():
        console.print(f"\n[bold]{heading}[/]")
        console.print(text.strip(), markup=False, soft_wrap=True)


@app.command()
def check(
    path: Annotated[Path, typer.Argument(help="A program (a .toml file or a folder), or a folder of .toml files.")],
    pool: Annotated[
        Path | None, typer.Option(help="Programs must differ from those of this pool; those that pass enter it.")
    ] = None,
    backend: Annotated[str, typer.Option(help="auto, oci, namespace or docker.")] = "auto",
) -> None:
    """Put programs through the gates. Exit code 1 where one does not pass.

    [bold]Examples[/]

      sandlot pool check my-program.toml

      sandlot pool check programs --pool my-pool
    """
    from sandlot.envs.selfplay.gates import Gates
    from sandlot.envs.selfplay.pool import Pool
    from sandlot.envs.selfplay.program import Program

    single = path.is_file() or (path / "env.py").exists() or not path.is_dir()
    paths = [path] if single else sorted(path.rglob("*.toml"))
    opened = None if pool is None else Pool(pool)
    console = Console(highlight=False)
    bad = 0
    with Gates(backend) as gates:
        for place in paths:
            program = Program.load(place)
            verdict = gates.check(program, [] if opened is None else opened.known())
            console.print(f"{place}: {program.id}", "[green]passes[/]" if verdict.passed else "[red]fails[/]")
            console.print(verdict.report(), markup=False, end="\n" if verdict.findings else "")
            bad += not verdict.passed
            if opened is not None:
                opened.add(program, verdict) if verdict.passed else opened.reject(program, verdict)
    console.print(f"{len(paths)} programs, {bad} with something wrong")
    if bad:
        raise typer.Exit(1)


@app.command()
def export(
    pool: Annotated[Path, typer.Argument(help="The folder of a pool.")],
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
) -> None:
    """Write a pool as a folder: programs to read, and what is known of them."""
    from sandlot.envs.selfplay.pool import Pool

    with Pool.open(pool) as opened:
        opened.export(folder)
        typer.echo(f"{len(opened.ids(retired=True))} programs in {folder}")


@app.command("import")
def import_(
    folder: Annotated[
        str, typer.Argument(help="A folder that `export` wrote, or `starter`: the pool that is shipped.")
    ],
    pool: Annotated[Path, typer.Argument(help="The folder of the new pool.")],
    backend: Annotated[str, typer.Option(help="Where the shipped programs are judged.")] = "auto",
) -> None:
    """Make a pool from an exported folder, or from the programs that are shipped, which are judged again."""
    from sandlot.envs.selfplay.gates import Gates
    from sandlot.envs.selfplay.pool import Pool, starter

    if folder != "starter":
        opened = Pool.load(Path(folder), pool)
    else:
        from rich.progress import track

        opened = Pool(pool)
        with Gates(backend) as gates:
            for entry in track(list(starter().values()), description="judging", transient=True):
                verdict = gates.check(entry.program)
                opened.add(entry.program, verdict, entry.role or "train") if verdict.passed else opened.reject(
                    entry.program, verdict
                )
    with opened:
        typer.echo(f"{len(opened.ids(retired=True))} programs in {pool}")
