"""SQLite: the default engine. Statements run in worker processes that hold images of the databases in memory.

Covered: an allow-list of actions and functions; no files, no extensions, no other database; limits on steps, time,
memory, text length, result size and growth; a statement that the engine does not stop is killed with its worker, and
the session is rebuilt exactly. `random()` is refused, and the clock shows `now`.
Not covered: this is no sandbox against holes in SQLite itself; the worker runs as the same user, confined by its limits
only.

One set of workers serves all sessions of a process, one worker a processor at most. A worker takes 12 MB and 40 ms to
start, so one for each of a thousand environments would be 12 GB; shared, a session costs its connection. Read sessions
of the same database even share that, since nothing in it can change: their reset is free.
"""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

from ...core.errors import InvalidArgument
from .base import NOW
from .database import Database, TableSchema
from .notes import quoted_names_taken_for_text, schema_names
from .screen import MAX_LENGTH
from .worker import WorkerPool
from .worker_backend import WorkerBackend

_NAMES = {int: "INTEGER", float: "REAL", str: "TEXT", bytes: "BLOB"}


@cache
def _named(kinds: frozenset[type]) -> str:
    return "/".join(sorted(_NAMES[kind] for kind in kinds if kind in _NAMES)) or "NULL"


class SqliteBackend(WorkerBackend):
    """A session on a SQLite database; see `SqlBackend`.

    Args:
        now: what the clock shows, `YYYY-MM-DD HH:MM:SS`.
        foreign_keys: whether changes must keep references, where the data does from the start (SQLite's own default
            is not to look at them).
        pool: the workers to use; None uses those of this process, which end with their last session.
        remember: keep results of read sessions for all sessions of this process (see `outcomes`).
    """

    dialect: ClassVar[str] = "sqlite"
    module: ClassVar[str] = "sqlite_worker"
    site: ClassVar[bool] = False

    def __init__(
        self,
        *,
        now: str = NOW,
        foreign_keys: bool = True,
        pool: WorkerPool | None = None,
        remember: bool = True,
    ) -> None:
        super().__init__(pool)
        self._remember = remember
        self._settings = {"now": now, "foreign_keys": foreign_keys}

    def _refuse(self, database: Database, write: bool) -> None:
        super()._refuse(database, write)
        if write and database.path is not None:
            raise InvalidArgument(f"database {database.name!r} is too large for write sessions")

    def _outcome_key(self, database: Database) -> tuple[Any, ...] | None:
        return (database.key, self._settings["now"]) if self._remember else None

    def _image(self, database: Database) -> bytes:
        return database.image

    def _extra(self, database: Database) -> dict[str, Any]:
        path = f"{database.path.as_uri()}?mode=ro&immutable=1" if database.path else None
        return {"path": path, **self._settings}

    def _initial_schema(self, database: Database) -> tuple[TableSchema, ...]:
        return database.schema

    def _types(self, found: dict[str, Any], rows: tuple[Any, ...]) -> tuple[str, ...]:
        """SQLite's columns have no types; their values do."""
        return tuple(
            _named(frozenset(map(type, column))) for column in (zip(*rows) if rows else [()] * len(found["columns"]))
        )

    def _note(self, sql: str) -> str:
        if '"' not in sql or len(sql) > MAX_LENGTH:
            return ""
        names = schema_names(self.schema()) if self._log else self._opened.names
        return quoted_names_taken_for_text(sql, names)
