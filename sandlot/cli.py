"""The command line (`sandlot --help` lists the commands). Commands import what is heavy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from sandlot import pool_commands, sandbox_commands, serve_commands, shop_commands, task_commands
from sandlot.envs.core.errors import EnvironmentFault, UserError


class Guarded(TyperGroup):
    """Turns a user's mistake into one line and exit code 2, Ctrl-C into one line and exit code 130."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except UserError as error:
            typer.secho(f"error: {' '.join(str(error).split())}", fg="red", err=True)
            raise typer.Exit(2) from None
        except EnvironmentFault as error:
            typer.secho(f"failed: {' '.join(str(error).split())}", fg="red", err=True)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            typer.secho("interrupted; what was finished is kept", err=True)
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=Guarded,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Text environments for language agents: play them, evaluate on them, train on them.\n\n"
    "[bold]Start here[/]\n\n"
    "  sandlot list                                    what there is\n\n"
    "  sandlot play ALFWorld                           play an episode yourself\n\n"
    "  sandlot eval KeyDoor --policy random --tasks 50 measure a policy\n\n"
    "  sandlot train --env Corridor --recipe gigpo     train one\n\n"
    "Names may be short: ALFWorld is sandlot/ALFWorld-v0.",
)

Env = Annotated[str, typer.Argument(help="An environment, e.g. ALFWorld or sandlot/ALFWorld-v0.")]
Pairs = Annotated[
    list[str] | None,
    typer.Option("-k", metavar="KEY=VALUE", help="A constructor argument, e.g. -k split=valid_seen. Repeatable."),
]
Seed = Annotated[int, typer.Option(help="Decides everything random.")]
Out = Annotated[Path, typer.Option(help="Where run folders are made.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        from sandlot.version import VERSION

        typer.echo(VERSION)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None: ...


@app.command("list")
def list_environments(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show every environment."""
    from sandlot.catalogue import rows

    if as_json:
        import dataclasses
        import json

        typer.echo(json.dumps([dataclasses.asdict(row) for row in rows()], indent=2))
        return
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("environment", no_wrap=True)
    table.add_column("family")
    table.add_column("steps", justify="right")
    table.add_column("extra")
    table.add_column("", overflow="fold")
    for row in rows():
        extra = "" if not row.extra else row.extra if row.installed else f"[yellow]{row.extra} (not installed)[/]"
        table.add_row(row.id, row.family, str(row.steps), extra, row.summary)
    console = Console()
    console.print(table)
    if any(not row.installed for row in rows()):
        console.print("\nInstall an extra with: pip install 'sandlot\\[NAME]'", highlight=False)


@app.command()
def play(
    env: Env,
    task: Annotated[str | None, typer.Option(help="A task id; without it one is drawn.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seeds the draw.")] = None,
    oracle: Annotated[bool, typer.Option("--oracle", help="Watch the oracle play.")] = False,
    delay: Annotated[float, typer.Option(min=0, help="Seconds between the oracle's actions.")] = 0.5,
    pairs: Pairs = None,
) -> None:
    """Play an episode in the terminal, or watch the oracle.

    [bold]Examples[/]

      sandlot play KeyDoor

      sandlot play ALFWorld --oracle --delay 1 -k split=valid_unseen
    """
    from sandlot.arguments import parse_pairs
    from sandlot.play import play as run

    run(Console(highlight=False), env, parse_pairs(pairs or ()), task=task, seed=seed, oracle=oracle, delay=delay)


@app.command()
def smoke(
    env: Annotated[list[str] | None, typer.Option(help="Only this environment. Repeatable.")] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes per policy.")] = 5,
    seed: Seed = 0,
) -> None:
    """Run every environment with the oracle, a policy that does nothing, and a random one.

    The oracle must solve everything and doing nothing must solve nothing; otherwise the exit code is 1.
    """
    from sandlot.smoke import smoke as run

    results = run(Console(highlight=False), env or (), episodes=episodes, seed=seed)
    if any(result.problem for result in results):
        raise typer.Exit(1)


@app.command("eval")
def evaluate(
    env: Env,
    policy: Annotated[
        str,
        typer.Option(
            help="oracle, random, noop, a run of train, a model (folder or name), vllm:FOLDER, openai:MODEL@URL."
        ),
    ] = "random",
    tasks: Annotated[int, typer.Option(min=1, help="How many tasks, spread evenly over the split.")] = 100,
    split: Annotated[str, typer.Option(help="train, valid_seen, valid_unseen or test.")] = "valid_unseen",
    format: Annotated[
        str, typer.Option(help="How an action is read from an answer: plain (its first line), tags or json.")
    ] = "plain",
    decode: Annotated[
        str | None,
        typer.Option(help="free text (the default), trie (token by token among the actions) or choice."),
    ] = None,
    temperature: Annotated[float | None, typer.Option(min=0, help="0, the default, is greedy.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Per answer; 64 by default.")] = None,
    history: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="What the prompt shows: window=2, brief=true, remind=true. Repeatable."),
    ] = None,
    list_actions: Annotated[bool, typer.Option("--list-actions", help="Show the actions in the prompt.")] = False,
    concurrency: Annotated[int, typer.Option(min=1, help="Episodes at once.")] = 64,
    seed: Seed = 0,
    out: Out = Path("runs"),
    pairs: Pairs = None,
) -> None:
    """Measure a policy on the tasks of a split and write a run folder.

    A run of `sandlot train` plays as it was trained: what is not asked for comes from its config.toml.

    [bold]Examples[/]

      sandlot eval KeyDoor --policy oracle --tasks 20

      sandlot eval ALFWorld --policy runs/20260101-120000-train-grpo-ALFWorld-v0 --split test

      sandlot eval ALFWorld --policy openai:my-model@http://localhost:8000/v1 --list-actions
    """
    from sandlot.arguments import parse_pairs
    from sandlot.evaluate import Evaluation
    from sandlot.evaluate import evaluate as run

    plan = Evaluation(
        env=env,
        policy=policy,
        split=split,
        tasks=tasks,
        seed=seed,
        format=format,
        decode=decode,
        temperature=temperature,
        max_tokens=max_tokens,
        history=parse_pairs(history or ()) | ({"list_actions": True} if list_actions else {}),
        concurrency=concurrency,
        arguments=parse_pairs(pairs or ()),
    )
    run(Console(highlight=False), plan, out=out)


@app.command()
def train(
    env: Annotated[str, typer.Option(help="What to train on.")] = "ALFWorld",
    model: Annotated[
        str | None,
        typer.Option(help="tabular, bag, tiny (a language model from scratch), smollm2-135m, or a model folder."),
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="grpo, rloo, reinforcepp, ppo, or a published system such as gigpo.")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps.")] = None,
    seed: Annotated[int | None, typer.Option(help="Decides everything random.")] = None,
    demonstrations: Annotated[int | None, typer.Option(min=0, help="Demonstrated episodes to imitate first.")] = None,
    eval_tasks: Annotated[int | None, typer.Option(min=1, help="Held-out tasks to evaluate on.")] = None,
    recipe_pairs: Annotated[
        list[str] | None, typer.Option("-r", metavar="KEY=VALUE", help="An option of the recipe, e.g. -r lr=1e-4.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("-s", metavar="KEY=VALUE", help="Any other setting, e.g. -s threads=2.")
    ] = None,
    pairs: Pairs = None,
    resume: Annotated[Path | None, typer.Option(help="A run folder to go on with; its own settings hold.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="A run's config.toml, to do that run again: all settings come from it.")
    ] = None,
    out: Out = Path("runs"),
) -> None:
    """Train a policy and write a run folder. Without options: a small language model on generated ALFWorld games.

    What is not asked for comes from a preset that suits the environment and the model.

    [bold]Examples[/]

      sandlot train

      sandlot train --env KeyDoor -k doors=2 -k decoys=1 --recipe ecpo

      sandlot train --model smollm2-135m --steps 2 -r groups=2

      sandlot train --resume runs/20260101-120000-train-grpo-ALFWorld-v0

      sandlot train --config runs/20260101-120000-train-grpo-ALFWorld-v0/config.toml
    """
    from sandlot.train import build_job, job_again
    from sandlot.train import train as run

    if config is not None:
        asked = (model, recipe, steps, seed, demonstrations, eval_tasks, recipe_pairs, settings, pairs, resume)
        run(Console(highlight=False), job_again(config, asked), out=out, resume=None)
        return
    job = build_job(
        env,
        model,
        recipe,
        env_pairs=pairs or (),
        recipe_pairs=recipe_pairs or (),
        settings=settings or (),
        steps=steps,
        seed=seed,
        demonstrations=demonstrations,
        eval_tasks=eval_tasks,
    )
    run(Console(highlight=False), job, out=out, resume=resume)


@app.command()
def compare(
    recipes: Annotated[list[str], typer.Argument(help="Two or more recipes.")],
    env: Annotated[str, typer.Option(help="What to train on.")] = "Corridor",
    model: Annotated[str | None, typer.Option(help="As in train.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs per recipe, with seeds 0, 1, ...")] = 3,
    recipe_pairs: Annotated[
        list[str] | None, typer.Option("-r", metavar="KEY=VALUE", help="An option of every recipe.")
    ] = None,
    settings: Annotated[list[str] | None, typer.Option("-s", metavar="KEY=VALUE", help="As in train.")] = None,
    pairs: Pairs = None,
    out: Out = Path("runs"),
) -> None:
    """Run several recipes on equal work: the same tasks, episodes, seeds and starting weights.

    [bold]Examples[/]

      sandlot compare grpo gigpo ecpo --env Corridor --steps 20 --seeds 4
    """
    from sandlot.train import build_job
    from sandlot.train import compare as run

    job = build_job(
        env,
        model,
        None,
        env_pairs=pairs or (),
        recipe_pairs=recipe_pairs or (),
        settings=settings or (),
        several=True,
        steps=steps,
    )
    run(Console(highlight=False), job, recipes, list(range(seeds)), out=out)


app.add_typer(serve_commands.app, name="serve")
app.add_typer(shop_commands.app, name="shop")
app.add_typer(sandbox_commands.app, name="sandbox")
app.add_typer(pool_commands.app, name="pool")
app.add_typer(task_commands.app, name="tasks")


def main() -> None:
    """The console script."""
    app()


if __name__ == "__main__":
    main()
