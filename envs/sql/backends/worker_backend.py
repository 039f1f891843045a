"""`WorkerBackend`: what the engines share that run in worker processes. The owner's side of a session.

The worker is a cache. The truth is here: the database, the mode, and the statements that have changed it. Whatever
the worker lacks (it is new, it was killed, it has forgotten the session) is brought to it before the request is asked
again.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, ClassVar

from ...core.errors import EnvironmentFault, InvalidArgument
from . import wire
from .base import DatabaseState, ErrorClass, Result, Snapshot, SqlLimits, TableState, sorted_rows
from .database import Database, TableSchema
from .outcomes import Outcomes, repeatable
from .tables import schema_from_json
from .worker import WorkerDied, WorkerPool, WorkerProcess

HARD = 3.0  # times the soft timeout after which a worker is killed
KILLED = "The statement was stopped: it takes too long, and the engine had to be restarted."
CRASHED = "The statement was stopped: the engine could not go on with it."
_SESSIONS = itertools.count()
_SHARED: dict[str, tuple[WorkerPool, set[int]]] = {}  # the pools of this process, with the sessions that use them
_LOCK = threading.Lock()


class WorkerBackend(ABC):
    """A session whose statements run in a worker; see `SqlBackend`.

    Args:
        pool: the workers to use; None uses those of this process, which end with their last session.
    """

    dialect: ClassVar[str]
    module: ClassVar[str]
    """The worker's code, beside this file."""
    site: ClassVar[bool]
    """Whether it needs installed packages."""

    def __init__(self, pool: WorkerPool | None = None) -> None:
        self._session = next(_SESSIONS)
        self._given = pool
        self._pool: WorkerPool | None = None
        self._home: WorkerProcess | None = None
        self._database: Database | None = None
        self._write = False
        self._generation = 0
        self._log: list[str] = []
        self._state: DatabaseState | None = None
        self._form: Any = None  # what `_fields` and `_head`, the same encoded, were made for
        self._fields: dict[str, Any] = {}
        self._head = b""
        self._finalizer: Callable[[], Any] = lambda: None

    @abstractmethod
    def _image(self, database: Database) -> bytes:
        """What the worker builds the database from."""

    @abstractmethod
    def _extra(self, database: Database) -> dict[str, Any]:
        """More fields of every request about `database`."""

    @abstractmethod
    def _types(self, found: dict[str, Any], rows: tuple[Any, ...]) -> tuple[str, ...]:
        """The types of a result's columns."""

    def _check(self, sql: str) -> Result | None:
        """The answer to a statement that does not even go to the worker."""
        return None

    def _note(self, sql: str) -> str:
        """A warning about a statement that ran."""
        return ""

    def _outcome_key(self, database: Database) -> tuple[Any, ...] | None:
        """What decides, with statement and limits, the result in a read session; None where more does."""
        return None

    def _initial_schema(self, database: Database) -> tuple[TableSchema, ...] | None:
        """The schema of the unchanged database where it is known without asking the worker."""
        return None

    def reset(self, database: Database, snapshot: Snapshot = (), *, write: bool = False) -> None:
        """Start from `database`. The worker opens it with the first statement."""
        if database is not self._database or write is not self._write:
            self._refuse(database, write)
            self._database, self._write = database, write
            self._form = None
        self._begin(snapshot)

    def _refuse(self, database: Database, write: bool) -> None:
        if database.dialect != "sqlite":
            raise InvalidArgument(f"database {database.name!r} is a {database.dialect} script: use that engine")

    def schema(self) -> tuple[TableSchema, ...]:
        """The tables and views that are there now."""
        known = None if self._log else self._initial_schema(self._opened)
        if known is not None:
            return known
        reply = self._ask("schema", SqlLimits())
        if isinstance(reply, WorkerDied):
            raise EnvironmentFault("the schema cannot be read") from reply
        return tuple(map(schema_from_json, reply["schema"]))

    def execute(self, sql: str, limits: SqlLimits = SqlLimits()) -> Result:  # noqa: B008 (frozen)
        """Run one statement."""
        key = None if self._write else self._outcome_key(self._opened)
        if key is None:
            return self._execute(sql, limits)
        outcomes, whole = Outcomes.shared(), (*key, limits, sql)
        found = outcomes.get(whole)
        if found is None:
            found = self._execute(sql, limits)
            if repeatable(sql, found):
                outcomes.keep(whole, sql, found)
        return found

    def _execute(self, sql: str, limits: SqlLimits) -> Result:
        refused = self._check(sql)
        if refused is not None:
            return refused
        found = self._ask("run", limits, sql)
        if isinstance(found, WorkerDied):
            message, kind = (KILLED, ErrorClass.TIMEOUT) if found.timeout else (CRASHED, ErrorClass.TOO_BIG)
            return Result(error=message, error_class=kind, elapsed=limits.timeout * HARD)
        elapsed = found.get("elapsed", 0.0)
        if "error" in found:
            return Result(error=found["error"], error_class=ErrorClass(found["class"]), elapsed=elapsed)
        if found.get("wrote"):
            self._log.append(sql)
            self._state = None
        rows = found["rows"]
        return Result(
            tuple(found["columns"]),
            self._types(found, rows),
            rows,
            found["cut"],
            found["cut"] > 0,
            found["endless"],
            found.get("changed"),
            note=self._note(sql),
            elapsed=elapsed,
        )

    def snapshot(self) -> Snapshot:
        """The statements that have changed the database."""
        return tuple(self._log)

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to `snapshot`."""
        if tuple(self._log) != tuple(snapshot):
            self._begin(snapshot)

    def table_state(self) -> DatabaseState:
        """The content of every table and view."""
        if self._state is None:
            self._state = self._read_state()
        return self._state

    def close(self) -> None:
        """Leave the workers; they end with their last session."""
        self._finalizer()
        self._pool = self._home = self._database = self._state = None

    @property
    def _opened(self) -> Database:
        if self._database is None:
            raise EnvironmentFault("the SQL session is closed: reset it first")
        return self._database

    def _begin(self, snapshot: Snapshot) -> None:
        if snapshot and not self._write:
            raise InvalidArgument("a read session has no changes to go back to")
        self._log = list(snapshot)
        self._generation += 1
        self._state = None

    def _read_state(self) -> DatabaseState:
        found = self._ask("state", SqlLimits(timeout=3.0, operations=200_000_000))
        if isinstance(found, WorkerDied) or not found["complete"]:
            return DatabaseState({}, complete=False)
        tables = {}
        for data, rows in found["tables"]:
            schema = schema_from_json(data)
            tables[schema.name.lower()] = TableState(schema, None if rows is None else sorted_rows(wire.cells(rows)))
        return DatabaseState(tables)

    def _ask(self, do: str, limits: SqlLimits, sql: str | None = None) -> Any:
        """The worker's reply, with the image and the log brought to it where it lacks them; or how it died."""
        database, pool = self._opened, self._pool
        if pool is None or pool.owner != os.getpid():
            pool = self._join()
        # Read sessions of one database are the same to the worker, so that what they ask is the same as well.
        session, generation = (self._session, self._generation) if self._write else (-1, 0)
        form = (do, session, generation, len(self._log), limits)
        if self._form != form:
            fields = {"do": do, "session": session, "generation": generation, "applied": len(self._log)}
            fields |= {"write": self._write, "key": database.key, **self._extra(database)}
            self._fields = {**fields, "limits": asdict(limits), "hard": limits.timeout * HARD}
            self._form, self._head = form, wire.encode(self._fields)
        with pool.lease(self._home if self._write else None) as worker:
            if self._write:
                self._home = worker
            crashed = rebuilt = False
            for _ in range(6):
                try:
                    found = worker.ask(self._head, limits.timeout * HARD, sql=sql)
                except WorkerDied as death:
                    if death.timeout or crashed:
                        return death
                    crashed = True  # it may have been at its limits from what came before: try a fresh one
                    continue
                if "need" not in found:
                    return found
                try:
                    if found["need"] == "image":
                        head = wire.encode({"do": "image", "key": database.key, "hard": 60.0})
                        worker.ask(head, raw=self._image(database))
                    else:
                        self._replay(worker)
                except WorkerDied as death:
                    if death.timeout or rebuilt:
                        raise EnvironmentFault(f"a SQL worker ended while its session was rebuilt: {death}") from death
                    rebuilt = True  # for the same reason; the fresh one asks for everything again
        raise EnvironmentFault("the SQL worker does not keep its session")

    def _replay(self, worker: WorkerProcess) -> None:
        """Run the log again. Its statements have run before, so they get more time than they can need."""
        generous = asdict(SqlLimits(timeout=30.0, operations=1_000_000_000))
        request = {**self._fields, "do": "replay", "statements": self._log, "limits": generous, "hard": 120.0}
        found = worker.ask(wire.encode(request), 120.0)
        if "need" in found:
            return  # the image comes first; the caller asks again
        if "failed" in found:
            raise EnvironmentFault(f"a statement that ran before fails now: {found['failed']}")

    def _join(self) -> WorkerPool:
        self._finalizer()
        self._home = None
        if self._given is not None:
            self._pool = self._given
            return self._given
        with _LOCK:
            found = _SHARED.get(self.module)
            if found is None or found[0].owner != os.getpid():
                found = _SHARED[self.module] = (WorkerPool(self.module, site=self.site), set())
            pool, users = found
            users.add(self._session)
        self._finalizer = weakref.finalize(self, _leave, self.module, pool, self._session)
        self._pool = pool
        return pool


def _leave(module: str, pool: WorkerPool, session: int) -> None:
    with _LOCK:
        found = _SHARED.get(module)
        if found is None or found[0] is not pool:
            return
        found[1].discard(session)
        last = not found[1]
        if last:
            del _SHARED[module]
    if last:
        pool.close()
