"""SQL: speed of the engines against a file copy per episode and SkyRL-gym, memory of workers, strictness of scorers.

Run: python benchmarks/sql.py --data DIR [--skyrl DIR] [--groups 50] [--skip-strictness]
DIR holds Spider's questions.jsonl and <database>/schema.sql. `pip install --target DIR skyrl-gym` makes the other one.
The contenders take turns. Medians are what one waits for on this machine; lower deciles what the work takes while
nothing else interrupts it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path.pop(0)  # this folder, in which this file's own name is in the way

from rich.console import Console
from rich.table import Table

from sandlot.envs.core import MissingData, MissingExtra
from sandlot.envs.sql.backends import outcomes
from sandlot.envs.sql.backends.base import SqlBackend, SqlLimits
from sandlot.envs.sql.backends.database import Database
from sandlot.envs.sql.backends.outcomes import Outcomes
from sandlot.envs.sql.backends.sqlite import SqliteBackend
from sandlot.envs.sql.backends.worker_backend import WorkerBackend
from sandlot.envs.sql.read import SqlReadEnv
from sandlot.envs.sql.scoring.compare import compare
from sandlot.envs.sql.scoring.compat import SCORERS
from sandlot.envs.sql.scoring.fuzz import copies, fuzzed
from sandlot.envs.sql.scoring.judge import Judge
from sandlot.envs.sql.scoring.mutants import mutants

WITNESSES = range(1000, 1020)  # further fuzzed copies, which no scorer sees: they tell which mutants are wrong
PATIENT = SqlLimits(timeout=30.0)  # a busy machine must not change what is measured
MEMORY = Path("/dev/shm")  # a file system in memory
QUERIES = 5  # of an episode
GROUP = 4  # episodes that ask the same
GREEDY = (
    "SELECT " + ", ".join(["replace(printf('%.*c', 9999, 'x'), 'x', printf('%.*c', 100, 'a'))"] * 400),
    "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT hex(hex(x)) || x FROM t ORDER BY 1",
    "WITH RECURSIVE t(x, y) AS (SELECT 1, '' UNION SELECT x + 1, hex(printf('%.*c', 9999, 'x')) FROM t)"
    " SELECT count(*) FROM t",
    "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT length(group_concat(x)) FROM t",
    "SELECT printf('%.*c', 900000000, 'x')",
)
GREEDY_DUCKDB = (
    "SELECT repeat('x', 7000000) FROM range(1000)",
    "SELECT len(range(2000000000))",
    "SELECT length(lpad('x', 900000000, 'y'))",
    "SELECT list(x) FROM range(1000000000) t(x)",
    "SELECT length(string_agg(CAST(x AS TEXT), '')) FROM range(1000000000) t(x)",
    "SELECT length(repeat('x', 2000000000))",
)


Times = dict[str, dict[str, list[float]]]
"""Seconds by contender and part of an episode."""


class Question(NamedTuple):
    """One of Spider's, with its place among them."""

    number: int
    database: Database
    text: str
    gold: str


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


class Copying:
    """A plain file copy and `sqlite3.connect` per episode, in this process, without any limit."""

    def __init__(self, folder: Path, target: Path) -> None:
        self.folder, self.target, self.connection = folder, target, sqlite3.connect(":memory:")

    def cool(self, database: Database) -> None:
        """Have the kernel forget the file's content, as if it were read for the first time."""
        with (self.folder / f"{database.name}.sqlite").open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def reset(self, database: Database, question: Question) -> None:  # noqa: D102
        self.connection.close()
        shutil.copyfile(self.folder / f"{database.name}.sqlite", self.target)
        self.connection = sqlite3.connect(self.target)

    def execute(self, sql: str) -> None:  # noqa: D102
        self.connection.execute(sql).fetchall()

    def submit(self, sql: str, gold: str) -> None:
        """As BIRD does: both statements run on the connection, and their sets of rows are compared."""
        given, right = (set(self.connection.execute(each).fetchall()) for each in (sql, gold))
        assert given == right

    def close(self) -> None:  # noqa: D102
        self.connection.close()
        self.target.unlink(missing_ok=True)


class SkyRL:
    """SkyRL-gym's SQL environment."""

    def __init__(self, folder: Path, package: Path) -> None:
        sys.path.append(str(package))
        from skyrl_gym.envs.sql.env import SQLEnv, Text2SQLEnvConfig  # pyright: ignore[reportMissingImports]

        self._make, self._config = SQLEnv, Text2SQLEnvConfig(db_path=str(folder))
        self._env: Any = None

    def reset(self, database: Database, question: Question) -> None:  # noqa: D102
        extras = {"db_id": database.name, "reward_spec": {"ground_truth": question.gold}, "data": "spider"}
        self._env = self._make(self._config, {**extras, "max_turns": 99})
        self._talk = [{"role": "user", "content": question.text}]
        self._env.init(self._talk)

    def execute(self, sql: str) -> None:  # noqa: D102
        found = self._env.step(f"<think>x</think><sql>{sql}</sql>")
        assert "Error executing" not in found["observations"][0]["content"]

    def submit(self, sql: str, gold: str) -> None:
        """It wants the whole talk in its form: what was thought, asked and seen before does not change the verdict."""
        found = self._env.step(f"<think>x</think><solution>{sql}</solution>")
        assert found["done"] and found["reward"] == 1

    def close(self) -> None:  # noqa: D102
        self._env.close()


class Session:
    """A session of ours; what is submitted is judged without copies, or in a write session a change that is made."""

    def __init__(self, backend: SqlBackend, judge: Judge, *, write: bool) -> None:
        self.backend, self.judge, self.write = backend, judge, write
        self._database: Database | None = None

    def reset(self, database: Database, question: Question) -> None:  # noqa: D102
        self._database = database
        self.backend.reset(database, write=self.write)

    def execute(self, sql: str) -> None:  # noqa: D102
        assert self.backend.execute(sql, PATIENT).ok

    def submit(self, sql: str, gold: str) -> None:  # noqa: D102
        assert self._database is not None
        if self.write:  # so that the next reset has something to undo
            assert self.backend.execute("CREATE TABLE made (a INTEGER)", PATIENT).ok
        else:
            assert self.judge.answer(self._database, gold, sql, PATIENT).match

    def close(self) -> None:  # noqa: D102
        self.backend.close()
        self.judge.close()


class Environment:
    """The whole environment: text in, text out, progress, verdict."""

    def __init__(self, folder: Path, copies: int) -> None:
        self.env = SqlReadEnv("valid_unseen", source="spider", path=folder, copies=copies)
        self.backend = self.env.session

    def reset(self, database: Database, question: Question) -> None:  # noqa: D102
        self.env.reset(options={"task": f"sql/spider/dev/{question.number}"})

    def execute(self, sql: str) -> None:  # noqa: D102
        assert not self.env.step(f"execute({sql})")[4]["error_class"]

    def submit(self, sql: str, gold: str) -> None:  # noqa: D102
        assert self.env.step(f"submit({sql})")[1] == 1

    def close(self) -> None:  # noqa: D102
        self.env.close()


def cpu(contender: Any) -> float:
    """Seconds of processor time so far: of this process, and of the contender's workers."""
    seconds = time.process_time()
    backend = getattr(contender, "backend", None)
    if isinstance(backend, WorkerBackend) and backend._pool:
        for pid in backend._pool.pids():
            seconds += int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    return seconds


def speed(contenders: dict[str, Any], questions: list[Question], groups: int, rng: random.Random) -> Times:
    """Seconds of whole episodes: a reset, `QUERIES` different questions of one database, one of them submitted.

    The episodes of a group ask the same, no two groups share a question, and no contender what it remembers with
    another. The first episode of a group is cold: its statements are new, and the file that is copied is not in the
    kernel's cache. The others are warm.
    """
    by_database: dict[str, list[Question]] = defaultdict(list)
    for question in rng.sample(questions, len(questions)):
        by_database[question.database.name].append(question)
    memories = {name: Outcomes() for name in contenders}
    times: Times = defaultdict(lambda: defaultdict(list))
    for number in range(groups + groups // 10):
        left = [name for name in sorted(by_database) if len(by_database[name]) >= QUERIES]
        if not left:
            break
        pool = by_database[rng.choice(left)]
        asked = [pool.pop() for _ in range(QUERIES)]
        goal = asked[-1]
        for episode in range(GROUP):
            for name, one in contenders.items():
                outcomes._SHARED[:] = [memories[name]]
                if not episode and hasattr(one, "cool"):
                    one.cool(goal.database)
                texts = [f"{question.gold} /* {name} */" for question in asked]  # nobody has prepared another's
                worked = cpu(one)
                reset = timed(partial(one.reset, goal.database, goal))
                queries = [timed(partial(one.execute, sql)) for sql in texts]
                submitted = timed(partial(one.submit, texts[-1], goal.gold))
                worked = cpu(one) - worked
                if number < groups // 10:  # the first groups start workers and build databases
                    continue
                row = times[f"{name}, {'warm' if episode else 'cold'}"]
                row["reset"].append(reset)
                row["first query"].append(queries[0])
                row["later query"].extend(queries[1:])
                row["submit"].append(submitted)
                row["episode"].append(reset + sum(queries) + submitted)
                row["processor"].append(worked)
    return times


def summary(times: Times, share: float) -> dict[str, dict[str, float]]:
    """The quantile `share` of every series."""
    return {
        name: {what: sorted(series)[int(len(series) * share)] for what, series in row.items()}
        for name, row in times.items()
    }


def speed_table(times: Times, title: str, share: float) -> Table:
    table = Table(title=f"{title}, µs: {'medians' if share == 0.5 else 'lower deciles'}")
    heads = ("reset", "first query", "later query", "submit", "episode", "processor")
    for head in ("", *heads, "resets/s", "queries/s"):
        table.add_column(head, justify="right" if head else "left")
    for name, row in summary(times, share).items():
        rates = [f"{1 / row[what]:,.0f}" for what in ("reset", "later query")]
        table.add_row(name, *(f"{row[head] * 1e6:,.1f}" for head in heads), *rates)
    return table


def peak_memory(backend: WorkerBackend, database: Database, greedy: Sequence[str]) -> int:
    """KiB: the largest address space of a worker under statements that want all they can get."""
    peak = 0
    for write in (False, True):
        backend.reset(database, write=write)
        for sql in greedy:
            backend.execute(sql, SqlLimits(timeout=3.0))  # one that is killed takes its peak with it
            assert backend._pool is not None
            for pid in backend._pool.pids():
                status = Path(f"/proc/{pid}/status").read_text()
                peak = max(peak, *(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmPeak")))
    backend.close()
    return peak


def strictness(tasks: list[tuple[Database, str]]) -> tuple[Table, Counter[str]]:
    """How many mutants each scorer accepts, those that are wrong and those that no copy tells from the gold."""
    ours, lab = SqliteBackend(), SqliteBackend(foreign_keys=False)
    judge, bare = Judge(ours), Judge(ours, copies=0)
    accepted: dict[str, Counter[str]] = defaultdict(Counter)
    total: Counter[str] = Counter()
    limits = SqlLimits(timeout=30.0, max_rows=20_000, max_counted=20_001, max_bytes=1 << 24)
    for database, gold in tasks:
        if judge.reference(database, gold).tie_decided:
            continue
        variants = [database, *(fuzzed(database, seed) for seed in WITNESSES)]
        ordered = judge.reference(database, gold).keys is not None
        for mutant in mutants(gold):
            wrong = False
            for variant in variants:
                right = judge.reference(variant, gold)
                ours.reset(variant)
                if not compare(ours.execute(mutant.sql, limits), right.result, ordered=right.keys).match:
                    wrong = True
                    break
            kind = "wrong" if wrong else "equivalent"
            total[kind] += 1
            lab.reset(database)
            if not lab.execute(mutant.sql, limits).ok:
                total["failing"] += wrong
                continue
            verdicts = {
                "Judge, 4 copies": judge.answer(database, gold, mutant.sql, limits).match,
                "Judge, no copies": bare.answer(database, gold, mutant.sql, limits).match,
                "spider_exec": SCORERS["spider_exec"](lab, database, mutant.sql, gold) == 1,
                "spider_exec, 4 copies": SCORERS["spider_exec"](
                    lab, database, mutant.sql, gold, copies=copies(database, 4)[1:]
                )
                == 1,
                "bird_ex": SCORERS["bird_ex"](lab, database, mutant.sql, gold) == 1,
                "bird_soft_f1": SCORERS["bird_soft_f1"](lab, database, mutant.sql, gold) == 1,
                "bird_interact": SCORERS["bird_interact"](lab, database, mutant.sql, gold, ordered=ordered) == 1,
                "spider2": SCORERS["spider2"](lab, database, mutant.sql, gold, ignore_order=not ordered) == 1,
                "intercode_iou": SCORERS["intercode_iou"](lab, database, mutant.sql, gold) == 1,
            }
            for name, verdict in verdicts.items():
                accepted[name][kind] += verdict
    judge.close()
    lab.close()
    table = Table(title=f"Mutants of the golds: {total['wrong']} wrong, {total['equivalent']} equivalent")
    for head in ("scorer", "wrong ones accepted", "share", "equivalent ones rejected"):
        table.add_column(head, justify="left" if head == "scorer" else "right")
    for name, counts in accepted.items():
        rejected = total["equivalent"] - counts["equivalent"]
        table.add_row(name, str(counts["wrong"]), f"{counts['wrong'] / total['wrong']:.1%}", str(rejected))
    return table, total


def spider(folder: Path, questions: list[Question]) -> None:
    """The files that the contenders read: plain ones, and a folder in Spider's form."""
    place = folder / "spider"
    for database in {question.database.name: question.database for question in questions}.values():
        home = place / "database" / database.name
        home.mkdir(parents=True)
        for path in (folder / f"{database.name}.sqlite", home / f"{database.name}.sqlite"):
            path.write_bytes(database.image)
    items = [{"db_id": each.database.name, "question": each.text, "query": each.gold} for each in questions]
    (place / "dev.json").write_text(json.dumps(items), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--skyrl", type=Path)
    parser.add_argument("--groups", type=int, default=50)
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--skip-speed", action="store_true")
    parser.add_argument("--skip-strictness", action="store_true")
    options = parser.parse_args()
    console = Console(width=132)
    questions = [json.loads(line) for line in (options.data / "questions.jsonl").read_text("utf-8").splitlines()]
    names = sorted({question["db_id"] for question in questions})
    databases = {
        name: Database.from_script(name, (options.data / name / "schema.sql").read_text("utf-8")) for name in names
    }
    asked = [
        Question(number, databases[each["db_id"]], each["question"], each["gold"].rstrip("; "))
        for number, each in enumerate(questions)
    ]
    if not options.skip_speed:
        with tempfile.TemporaryDirectory(prefix="sandlot-sql-") as name:
            folder = Path(name)
            spider(folder, asked)
            contenders: dict[str, Any] = {
                "SQLite read": Session(SqliteBackend(), Judge(SqliteBackend(), copies=0), write=False),
                "SQLite write": Session(SqliteBackend(), Judge(SqliteBackend(), copies=0), write=True),
                "SQL-v0, 4 copies": Environment(folder / "spider", copies=4),
                "file copy": Copying(folder, folder / "episode.sqlite"),
            }
            if MEMORY.is_dir():
                target = MEMORY / f"sandlot-sql-{os.getpid()}.sqlite"
                contenders["copy to memory"] = Copying(folder, target)
            if options.skyrl:
                contenders["SkyRL-gym"] = SkyRL(folder, options.skyrl)
            different = list({each.gold: each for each in asked}.values())  # Spider asks most things twice
            found = speed(contenders, different, options.groups, random.Random(0))
            for share in (0.5, 0.1):
                console.print(speed_table(found, "Spider's questions", share))
            for contender in contenders.values():
                contender.close()
        plain = [
            Question(
                0, databases[name], "", f'SELECT count(*), {number} FROM "{databases[name].schema[0].name.lower()}"'
            )
            for name in names[:3]  # as many databases as a DuckDB worker keeps open
            for number in range(200)
        ]
        others: dict[str, Any] = {}
        try:
            from sandlot.envs.sql.backends.postgres import PostgresBackend

            for kind in ("read", "write"):
                judge = Judge(PostgresBackend(), copies=0)
                others[f"PostgreSQL {kind}"] = Session(PostgresBackend(), judge, write=kind == "write")
        except (MissingExtra, MissingData) as error:
            console.print(f"PostgreSQL: not run: {error}")
        try:
            from sandlot.envs.sql.backends.duckdb import DuckDBBackend

            for kind in ("read", "write"):
                judge = Judge(DuckDBBackend(), copies=0)
                others[f"DuckDB {kind}"] = Session(DuckDBBackend(), judge, write=kind == "write")
        except MissingExtra as error:
            console.print(f"DuckDB: not run: {error}")
        found = speed(others, plain, 20, random.Random(0))
        for share in (0.5, 0.1):
            console.print(speed_table(found, "The other engines: counts of a table", share))
        for contender in others.values():
            contender.close()
        greedy: list[tuple[WorkerBackend, Sequence[str]]] = [(SqliteBackend(remember=False), GREEDY)]
        if "DuckDB read" in others:
            greedy.append((type(others["DuckDB read"].backend)(), GREEDY_DUCKDB))
        for backend, statements in greedy:
            peak = peak_memory(backend, databases[names[0]], statements) >> 10
            console.print(f"Peak address space of a worker under greedy statements, {backend.dialect}: {peak} MiB")
    if not options.skip_strictness:
        table, total = strictness([(each.database, each.gold) for each in asked[: options.questions]])
        console.print(table)
        console.print(f"{total['failing']} of the wrong ones fail in SQLite.")


if __name__ == "__main__":
    main()
