"""The pool: a store on disk of programs that passed the gates, of how they were played, and of what was tried.

One SQLite file. Every change is a transaction: a crash at any moment leaves the pool as it was before or after it.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Self

from ..core.errors import InvalidArgument, UserError
from .program import Program
from .signature import Known, Signature
from .statistics import MemoryEntry, Statistics, choose_memory, statistics
from .tasks import ROLES, Entry
from .verdict import Verdict

FORMAT = 1
"""Of the file; a program that knows only older ones refuses it."""
FILE = "pool.sqlite"
STARTER = Path(__file__).with_name("starter")
_TABLES = """
create table meta (format integer not null, version integer not null);
create table programs (id text primary key, role text not null, body text not null, signature text not null,
    measures text not null, added integer not null, retired integer, why text not null default '');
create table plays (number integer primary key, program text not null references programs (id),
    hinted integer not null, score real not null, policy integer not null);
create index plays_of on plays (program, hinted, number);
create table memory (number integer primary key, program text not null, title text not null, mechanics text not null,
    outcome text not null, message text not null, designer text not null, generation integer not null);
"""


class PoolError(UserError, ValueError):
    """There is no such pool, or its file cannot be read."""


class Pool:
    """A pool in a folder, made where there is none. Safe to use from several threads and processes.

    Args:
        path: the folder.

    Raises:
        PoolError: what lies there is no pool, or of a newer format.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._lock = threading.RLock()
        self._link: tuple[int, sqlite3.Connection] | None = None
        self.path.mkdir(parents=True, exist_ok=True)
        with self._change() as change:
            if not change.execute("select 1 from sqlite_master where name = 'meta'").fetchone():
                for statement in _TABLES.split(";"):
                    change.execute(statement)
                change.execute("insert into meta values (?, 0)", (FORMAT,))
            found = change.execute("select format from meta").fetchone()[0]
        if found > FORMAT:
            self.close()
            raise PoolError(f"{self.path} is a pool of format {found}; this version of sandlot reads up to {FORMAT}")

    @classmethod
    def open(cls, path: Path) -> Pool:
        """A pool that must be there already. Raises `PoolError`."""
        if not (path / FILE).is_file():
            raise PoolError(f"no pool at {path}: it has no {FILE}; make one with `sandlot pool import starter {path}`")
        return cls(path)

    # -- programs -------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Grows by one with every program that is added or retired."""
        return self._rows("select version from meta")[0][0]

    def add(self, program: Program, verdict: Verdict, split: str = "train") -> str:
        """Take in a program that passed the gates, and remember it. Returns its id; one that is there stays as it is.

        Args:
            program: the program.
            verdict: what the gates found of it.
            split: its role, one of `ROLES`.

        Raises:
            InvalidArgument: the verdict is of another program, or not a pass, or there is no such role.
        """
        if split not in ROLES:
            raise InvalidArgument(f"a program's split is one of {', '.join(ROLES)}, not {split!r}")
        if not verdict.passed or verdict.program_id != program.id or verdict.signature is None:
            raise InvalidArgument(f"program {program.id} has not passed the gates: {verdict.report() or 'not judged'}")
        body, signature = json.dumps(program.to_dict()), json.dumps(verdict.signature.to_dict())
        with self._change() as change:
            if change.execute("select 1 from programs where id = ?", (program.id,)).fetchone():
                return program.id
            version = _next_version(change)
            change.execute(
                "insert into programs (id, role, body, signature, measures, added) values (?, ?, ?, ?, ?, ?)",
                (program.id, split, body, signature, json.dumps(verdict.measures), version),
            )
            _remember(change, program, "accepted", "")
        return program.id

    def reject(self, program: Program | None, verdict: Verdict) -> None:
        """Remember a program that failed; None where it was not even one."""
        with self._change() as change:
            for finding in verdict.findings[:1]:
                _remember(change, program, str(finding.reason), finding.message)

    def get(self, program_id: str) -> Program:
        """The program with this id, retired or not. Raises `PoolError`."""
        rows = self._rows("select body from programs where id = ?", program_id)
        if not rows:
            raise PoolError(f"no program {program_id!r:.60} in {self.path}; `sandlot pool list {self.path}` shows them")
        return Program.from_dict(json.loads(rows[0][0]))

    def ids(self, split: str | None = None, *, retired: bool = False, version: int | None = None) -> list[str]:
        """Ids in the order in which they came.

        Args:
            split: only programs of this role.
            retired: also those that were retired.
            version: as the pool was at this version.
        """
        now = self.version if version is None else version
        rows = self._rows("select id, role, retired from programs where added <= ? order by added", now)
        return [
            name
            for name, role, gone in rows
            if split in (None, role) and (retired or gone is None or (version is not None and gone > version))
        ]

    def role(self, program_id: str) -> str:
        """What a program is for, one of `ROLES`. Raises `PoolError`."""
        self.get(program_id)
        return self._rows("select role from programs where id = ?", program_id)[0][0]

    def retire(self, program_id: str, why: str) -> None:
        """Play it no longer; it stays in the store, with its lineage and its history."""
        self.get(program_id)
        with self._change() as change:
            if change.execute("select retired from programs where id = ?", (program_id,)).fetchone()[0] is None:
                version = _next_version(change)
                change.execute(
                    "update programs set retired = ?, why = ? where id = ?", (version, why[:1000], program_id)
                )

    def why_retired(self, program_id: str) -> str | None:
        """Why a program was retired, or None where it was not."""
        rows = self._rows("select why from programs where id = ? and retired is not null", program_id)
        return rows[0][0] if rows else None

    def entries(self) -> Mapping[str, Entry]:
        """All programs by id, in the order in which they came."""
        rows = self._rows("select id, body, role, retired is null from programs order by added")
        return {name: Entry(Program.from_dict(json.loads(body)), role, bool(live)) for name, body, role, live in rows}

    def mark(self) -> tuple[int, int, int]:
        """Where it stands now, for `rewind`."""
        last = [self._rows(f"select coalesce(max(number), 0) from {name}")[0][0] for name in ("plays", "memory")]
        return self.version, last[0], last[1]

    def rewind(self, mark: Sequence[int]) -> None:
        """Forget all that came after a mark: a run that goes on from a checkpoint repeats it."""
        version, play, memory = mark
        with self._change() as change:
            change.execute("delete from plays where number > ?", (play,))
            change.execute("delete from memory where number > ?", (memory,))
            change.execute("delete from programs where added > ?", (version,))
            change.execute("update programs set retired = null, why = '' where retired > ?", (version,))
            change.execute("update meta set version = ?", (version,))

    def known(self) -> list[Known]:
        """What a new program is compared with: all, retired ones too, so that none comes back."""
        rows = self._rows("select id, signature from programs order by added")
        return [Known(name, Signature.from_dict(json.loads(signature))) for name, signature in rows]

    def ancestors(self, program_id: str) -> list[str]:
        """The ids of a program's parents, their parents and so on, nearest first, as far as the pool has them."""
        found: list[str] = []
        todo = list(self.get(program_id).lineage.parents)
        while todo:
            name = todo.pop(0)
            if name not in found:
                found.append(name)
                rows = self._rows("select body from programs where id = ?", name)
                todo += [parent for row in rows for parent in json.loads(row[0])["lineage"]["parents"]]
        return found

    # -- what was learned of them -------------------------------------------------------------------------------------

    def record(
        self, program_id: str, *, hinted: Sequence[float] = (), plain: Sequence[float] = (), policy_version: int = 0
    ) -> None:
        """Note the scores of episodes, with the hint and without.

        Raises:
            PoolError: there is no such program.
            InvalidArgument: a score is outside [0, 1].
        """
        self.get(program_id)
        rows = [
            (program_id, shown, float(score), policy_version) for shown in (1, 0) for score in (plain, hinted)[shown]
        ]
        if not all(0.0 <= row[2] <= 1.0 for row in rows):
            raise InvalidArgument(f"scores lie in [0, 1], not {[row[2] for row in rows][:5]}")
        with self._change() as change:
            change.executemany("insert into plays (program, hinted, score, policy) values (?, ?, ?, ?)", rows)

    def statistics(self, program_id: str) -> Statistics:
        """What its episodes say: regret, learning potential and more. Raises `PoolError`."""
        self.get(program_id)
        rows = self._rows("select hinted, score, policy from plays where program = ? order by number", program_id)
        return statistics(rows)

    def measures(self, program_id: str) -> dict[str, float]:
        """What the gates measured of it. Raises `PoolError`."""
        self.get(program_id)
        return json.loads(self._rows("select measures from programs where id = ?", program_id)[0][0])

    def memory(self, count: int) -> list[MemoryEntry]:
        """What a designer should know of what was tried, oldest first: half by regret, the rest the latest."""
        rows = self._rows(
            "select program, title, mechanics, outcome, message, designer, generation from memory order by number"
        )
        entries = []
        for program, title, mechanics, outcome, message, designer, generation in rows:
            live = bool(self._rows("select 1 from programs where id = ?", program))
            regret = self.statistics(program).regret if live else None
            tags = tuple(json.loads(mechanics))
            entries.append(MemoryEntry(program, title, tags, outcome, message, designer, generation, regret))
        return choose_memory(entries, count)

    # -- the file -----------------------------------------------------------------------------------------------------

    def export(self, folder: Path) -> Path:
        """Write it as a folder; see `exchange.export_pool`."""
        from .exchange import export_pool

        return export_pool(self, folder)

    @staticmethod
    def load(folder: Path, path: Path) -> Pool:
        """A new pool at `path` from an exported folder; see `exchange.import_pool`."""
        from .exchange import import_pool

        return import_pool(folder, path)

    def table(self, name: str) -> Iterator[dict[str, Any]]:
        """The rows of a table, for export: "meta", "programs", "plays" or "memory"."""
        columns = [row[1] for row in self._rows(f"select * from pragma_table_info('{name}')")]
        order = "added" if name == "programs" else columns[0]
        yield from (dict(zip(columns, row)) for row in self._rows(f"select * from {name} order by {order}"))

    def fill(self, tables: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
        """Put exported rows into an empty pool, all or none. Raises `PoolError` where it is not empty."""
        with self._change() as change:
            if change.execute("select count(*) from memory").fetchone()[0]:
                raise PoolError(f"{self.path} is not empty: import into a new folder")
            change.execute("delete from meta")
            for name, rows in tables.items():
                for row in rows:
                    if not all(column.isidentifier() for column in row):
                        raise PoolError(f"a row of {name} has a column that is no name")
                    marks = ", ".join("?" * len(row))
                    change.execute(f"insert into {name} ({', '.join(row)}) values ({marks})", tuple(row.values()))

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._lock:
            return self._connection().execute(query, values).fetchall()

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            connection = self._connection()
            connection.execute("begin immediate")
            try:
                yield connection
            except BaseException:
                connection.execute("rollback")
                raise
            connection.execute("commit")

    def _connection(self) -> sqlite3.Connection:
        """This process's own: SQLite's connections do not survive a fork."""
        if self._link is None or self._link[0] != os.getpid():
            try:
                connection = sqlite3.connect(
                    self.path / FILE, timeout=30, isolation_level=None, check_same_thread=False
                )
                connection.execute("pragma foreign_keys = on")
                connection.execute("select count(*) from sqlite_master").fetchone()
            except sqlite3.Error as error:
                raise PoolError(f"{self.path / FILE}: {error}") from None
            self._link = os.getpid(), connection
        return self._link[1]

    def close(self) -> None:
        """Close the file. Safe to call twice; a later call opens it again."""
        link, self._link = self._link, None
        if link is not None and link[0] == os.getpid():
            link[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return Pool, (self.path,)


@cache
def starter() -> Mapping[str, Entry]:
    """The programs that are shipped, by id, each with its role. Made by `designers`, checked by every gate."""
    found: dict[str, Entry] = {}
    for role in ROLES:
        for path in sorted((STARTER / role).glob("*.toml")):
            program = Program.load(path)
            found[program.id] = Entry(program, role)
    return found


def _next_version(change: sqlite3.Connection) -> int:
    return change.execute("update meta set version = version + 1 returning version").fetchone()[0]


def _remember(change: sqlite3.Connection, program: Program | None, outcome: str, message: str) -> None:
    known = program is not None
    change.execute(
        "insert into memory (program, title, mechanics, outcome, message, designer, generation) "
        "values (?, ?, ?, ?, ?, ?, ?)",
        (
            program.id if known else "",
            program.manifest.title[:80] if known else "",
            json.dumps(program.manifest.mechanics if known else ()),
            outcome,
            message[:1000],
            program.lineage.designer if known else "",
            program.lineage.generation if known else 0,
        ),
    )
