"""DuckDB: the analysts' dialect, in worker processes like SQLite's.

Covered: statements are screened (exactly one, of the kinds that the mode allows; no clock, no chance), then run
without access to files, network or extensions, under a locked configuration, with limits on memory, time and results;
what does not stop is killed with its worker.
Not covered: this is no sandbox against holes in DuckDB itself. A worker needs 45 ms for a database, and holds four at a
time: DuckDB is not for thousands of environments on one machine.
"""

from __future__ import annotations

import importlib.util
import json
from dataclasses import astuple
from functools import lru_cache
from typing import Any, ClassVar

from ...core.errors import InvalidArgument, MissingExtra
from . import wire
from .base import Result
from .database import Database
from .portable import typed
from .screen import screen
from .worker import WorkerPool
from .worker_backend import WorkerBackend


class DuckDBBackend(WorkerBackend):
    """A session on a DuckDB database built from a SQLite image; see `SqlBackend`.

    Args:
        pool: the workers to use; None uses those of this process, which end with their last session.

    Raises:
        MissingExtra: duckdb is not installed.
    """

    dialect: ClassVar[str] = "duckdb"
    module: ClassVar[str] = "duckdb_worker"
    site: ClassVar[bool] = True

    def __init__(self, *, pool: WorkerPool | None = None) -> None:
        if importlib.util.find_spec("duckdb") is None:
            raise MissingExtra("duckdb", "sql")
        super().__init__(pool)

    def _refuse(self, database: Database, write: bool) -> None:
        super()._refuse(database, write)
        if database.path is not None:
            raise InvalidArgument(f"database {database.name!r} is too large for DuckDB here")

    def _check(self, sql: str) -> Result | None:
        found = screen(sql, self.dialect, write=self._write)
        return Result(error=found.error, error_class=found.error_class) if found.error else None

    def _image(self, database: Database) -> bytes:
        return _tables(database)

    def _extra(self, database: Database) -> dict[str, Any]:
        return {}

    def _types(self, found: dict[str, Any], rows: tuple[Any, ...]) -> tuple[str, ...]:
        return tuple(found["types"])


@lru_cache(maxsize=32)
def _tables(database: Database) -> bytes:
    content = [[astuple(table.schema), table.rows] for table in map(typed, database.tables)]
    return json.dumps(content, default=wire.special).encode()
