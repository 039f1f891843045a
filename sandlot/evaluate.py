"""`sandlot eval`: a policy on the tasks of a split, written down as a run folder."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from sandlot.arguments import make_env
from sandlot.envs.core.errors import EnvironmentFault, InvalidArgument
from sandlot.envs.core.registry import find
from sandlot.envs.core.tasks import Task
from sandlot.harness.codec import make_codec
from sandlot.harness.context import History
from sandlot.harness.drawing import film
from sandlot.harness.loop import EnvMaker, Limits, Rollout, play
from sandlot.harness.policy import Sampling
from sandlot.harness.records import Trajectory
from sandlot.harness.report import report_html
from sandlot.harness.runs import RunFolder, plain
from sandlot.harness.summary import by_group, summarise
from sandlot.models import load_policy
from sandlot.version import VERSION

SHOWN = 4  # episodes of each outcome in the report
COLUMNS = 5  # of one table of groups


@dataclass(frozen=True)
class Evaluation:
    """What to evaluate and how."""

    env: str
    policy: str
    """A baseline's name, a model's name or folder, a run folder of `sandlot train`, or `openai:MODEL@URL`."""
    split: str = "valid_unseen"
    tasks: int = 100
    """How many tasks of the split, spread evenly over it."""
    seed: int = 0
    format: str = "plain"
    """How an action is read from an answer: "plain" (its first line), "tags" (`<action>…</action>`) or "json"."""
    decode: str | None = None
    """None: as the policy's run was trained, else "free"."""
    temperature: float | None = None
    """None: as trained, else 0."""
    max_tokens: int | None = None
    """None: as trained, else 64."""
    history: Mapping[str, Any] = field(default_factory=dict)
    """What of an episode the prompt shows: fields of `harness.context.History`, on top of those trained with."""
    concurrency: int = 64
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The environment's constructor arguments, `split` apart, on top of those trained with."""


def as_trained(plan: Evaluation) -> Evaluation:
    """`plan` with nothing left open: what it does not say is as in the run that trained the policy, if it is one.

    The run's environment arguments are taken over where the environment is the same; its split is not.

    Raises:
        MissingData: the run's `config.toml` cannot be read.
    """
    config: dict[str, Any] = {}
    if (Path(plan.policy) / "config.toml").is_file():
        config = RunFolder(plan.policy).config()
    arguments = config.get("env_kwargs", {}) if config.get("env") == find(plan.env).id else {}
    asked = {"decode": plan.decode, "temperature": plan.temperature, "max_tokens": plan.max_tokens}
    defaults = {"decode": "free", "temperature": 0.0, "max_tokens": 64}
    return replace(
        plan,
        **{key: config.get(key, defaults[key]) if value is None else value for key, value in asked.items()},
        history={**config.get("history", {}), **plan.history},
        arguments={**{key: value for key, value in arguments.items() if key != "split"}, **plan.arguments},
    )


def evaluate(console: Console, plan: Evaluation, *, out: Path) -> RunFolder:
    """Play, write `config.toml`, `calls/`, `metrics.jsonl` and `report.html`, and print the summary.

    An interruption still leaves the metrics and the report of the episodes that finished.

    Raises:
        UserError: the environment, the split, the policy or the folder cannot be used; nothing was written.
        EnvironmentFault: every episode is void.
    """
    plan = as_trained(plan)
    arguments = {"split": plan.split, **plan.arguments}
    env_id = find(plan.env).id
    sampling = Sampling(**{key: getattr(plan, key) for key in ("temperature", "max_tokens", "decode")})
    if sampling.decode not in ("free", "trie", "choice"):
        raise InvalidArgument(f"decode must be free, trie or choice, not {sampling.decode!r}")
    if plan.tasks < 1:
        raise InvalidArgument(f"the number of tasks must be at least 1, not {plan.tasks}")
    known = [f.name for f in fields(History)]
    for name in plan.history:
        if name not in known:
            raise InvalidArgument(f"a history has no {name!r}; it has {', '.join(known)}")
    history = History(**plan.history)
    env = make_env(env_id, arguments)
    tasks = env.tasks.first(plan.tasks)
    env.close()
    policy = load_policy(plan.policy)
    rollout = Rollout(
        EnvMaker(env_id, arguments),
        sampling,
        context=history,
        parse=make_codec(plan.format),
        limits=Limits(concurrency=plan.concurrency),
    )
    run = RunFolder.create(f"eval-{env_id.rpartition('/')[2]}", {"sandlot": VERSION, "eval": plan}, root=out)
    finished: list[Trajectory] = []
    try:
        _play(console, policy, tasks, rollout, plan.seed, run, finished)
    finally:
        numbers, groups = summarise(finished), by_group(finished, type(env))
        by = f"by {env.breakdown}"
        run.log(0, numbers | {f"{by}/{name}/{key}": n for name, row in groups.items() for key, n in row.items()})
        run.write("report.html", _report(plan, env_id, numbers, groups, finished, len(tasks)))
        console.print(_table(f"{plan.policy} on {env_id}, {plan.split}", [_cells(numbers)]))
        if groups:
            console.print(*_group_tables(by, groups))
        console.print(f"run folder: {run.folder}", soft_wrap=True, markup=False, highlight=False)
    if all(trajectory.void for trajectory in finished):
        raise EnvironmentFault(f"no episode could be played; the first failed with {finished[0].error}")
    return run


def _play(
    console: Console,
    policy: Any,
    tasks: Sequence[Task],
    rollout: Rollout,
    seed: int,
    run: RunFolder,
    finished: list[Trajectory],
) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("solved {task.fields[solved]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("episodes", total=len(tasks), solved=0)

        def record(trajectory: Trajectory) -> None:
            run.trajectory(trajectory)
            finished.append(trajectory)
            progress.update(bar, advance=1, solved=sum(t.success for t in finished))

        play(policy, tasks, rollout, seed=seed, on_trajectory=record)


def _table(title: str, rows: Sequence[Mapping[str, str]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.title, table.title_justify = title, "left"
    for name in rows[0]:
        widest = max(len(text) for text in (*name.split(), *(row[name] for row in rows)))
        table.add_column(name, justify="right" if name else "left", no_wrap=len(rows) == 1, min_width=widest)
    for row in rows:
        table.add_row(*row.values())
    return table


def _group_tables(title: str, groups: Mapping[str, Mapping[str, float]]) -> Iterator[Table]:
    """A few columns at a time: terminals are narrow."""
    rows = _group_cells(groups)
    names = [name for name in rows[0] if name]
    for first in range(0, len(names), COLUMNS):
        chosen = ["", *names[first : first + COLUMNS]]
        yield _table(title if not first else "", [{name: row[name] for name in chosen} for row in rows])


def _cells(numbers: Mapping[str, float]) -> dict[str, str]:
    return {
        "episodes": f"{numbers['episodes']:.0f}",
        "success": f"{numbers['success']:.1%}" if numbers["episodes"] else "–",
        "95 % interval": f"{numbers['success_low']:.1%} – {numbers['success_high']:.1%}",
        "score": f"{numbers['score']:.3f}",
        "return": f"{numbers['return']:.3f}",
        "turns": f"{numbers['turns']:.1f}",
        "refused": f"{numbers['invalid']:.1%}",
        "void": f"{numbers['void']:.0f}",
    }


def _group_cells(groups: Mapping[str, Mapping[str, float]]) -> list[dict[str, str]]:
    """A row for each group; shares as percentages where the summary's are."""
    names = list(dict.fromkeys(name for row in groups.values() for name in row))
    shown = {"episodes": "{:.0f}", "success": "{:.1%}", "turns": "{:.1f}", "invalid": "{:.1%}"}
    heads = {"invalid": "refused"}
    return [
        {
            "": group,
            **{
                heads.get(name, name): "–"
                if math.isnan(row.get(name, math.nan))
                else shown.get(name, "{:.3f}").format(row[name])
                for name in names
            },
        }
        for group, row in groups.items()
    ]


def _report(
    plan: Evaluation,
    env_id: str,
    numbers: Mapping[str, float],
    groups: Mapping[str, Mapping[str, float]],
    finished: Sequence[Trajectory],
    wanted: int,
) -> str:
    solved = [t for t in finished if t.success and not t.void]
    failed = [t for t in finished if not t.success and not t.void]
    reasons = [{"ended by": name[5:], "share": value} for name, value in numbers.items() if name.startswith("stop/")]
    shown = [*solved[:SHOWN], *failed[:SHOWN], *[t for t in finished if t.void][:SHOWN]]
    pictures = film(lambda: make_env(env_id, {"split": plan.split, **plan.arguments}), shown)
    complete = "" if len(finished) == wanted else f" Interrupted after {len(finished)} of {wanted} episodes."
    return report_html(
        f"{plan.policy} on {env_id}",
        lead=f"Evaluation on the split {plan.split}, one episode per task.{complete}",
        tables={
            "Result": [_cells(numbers)],
            f"Results by {find(env_id).load().breakdown}": _group_cells(groups),
            "How episodes ended": [row for row in reasons if row["share"]],
        },
        episodes=shown,
        pictures=pictures,
        config=plain(plan),
    )
