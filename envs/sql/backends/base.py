"""The protocol of an SQL engine, and what it takes and gives: limits, results, error classes, table states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from hashlib import blake2b
from typing import Any, ClassVar, Protocol

from .database import Database, Row, TableSchema

NOW = "2025-01-15 12:00:00"
"""What the clock shows inside every database, where the engine lets it be set; see each backend."""


class ErrorClass(StrEnum):
    """What was wrong with a statement, the same words for every engine."""

    SYNTAX = "syntax"
    NO_STATEMENT = "no_statement"
    MULTIPLE = "multiple_statements"
    NO_TABLE = "no_such_table"
    NO_COLUMN = "no_such_column"
    NO_FUNCTION = "no_such_function"
    AMBIGUOUS = "ambiguous_name"
    GROUPING = "grouping"
    TYPE = "type"
    CONSTRAINT = "constraint"
    DENIED = "denied"
    TIMEOUT = "timeout"
    TOO_BIG = "too_big"
    ENCODING = "encoding"
    OTHER = "other"


@dataclass(frozen=True)
class SqlLimits:
    """What one statement may use. Reaching a limit is a result, never an exception."""

    timeout: float = 2.0
    """Seconds. The engine is asked to stop then, and killed (or its connection dropped) after three times as long.
    In SQLite `operations` is reached first, unless the machine is overloaded."""
    max_rows: int = 1_000
    """Rows kept in the result; further ones are counted."""
    max_counted: int = 10_000
    """Rows counted before the engine is told to stop."""
    max_bytes: int = 1 << 20
    """Bytes of text and blobs kept in the result."""
    operations: int = 20_000_000
    """SQLite only: instructions of its virtual machine, so that a statement that is too slow is so on every machine."""


@dataclass(frozen=True)
class Result:
    """What a statement gave. Either `error` is None, or there are no columns and no rows and nothing has changed."""

    columns: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    """Type of each column: the engine's name for it; in SQLite, which has none, of the values that are there."""
    rows: tuple[Row, ...] = field(repr=False, default=())
    cut: int = 0
    """Rows counted beyond `rows`."""
    truncated: bool = False
    """Rows or bytes were left out: `cut` says how many rows, at least that many if `endless`."""
    endless: bool = False
    """The engine was stopped after `max_counted` rows, before the result's end."""
    changed: int | None = None
    """Rows inserted, updated or deleted; None for statements that do not say."""
    error: str | None = None
    """The engine's message, without paths of this machine."""
    error_class: ErrorClass | None = None
    note: str = ""
    """A warning about a statement that ran, such as a quoted name that was taken for text."""
    elapsed: float = field(default=0.0, compare=False)
    """Seconds; for logs, never for observations."""

    @property
    def ok(self) -> bool:
        """Whether the statement ran."""
        return self.error is None


@dataclass(frozen=True)
class TableState:
    """Schema and sorted rows of one table or view. `rows` is None for a view that cannot be read."""

    schema: TableSchema
    rows: tuple[Row, ...] | None = field(repr=False)


@dataclass(frozen=True)
class DatabaseState:
    """Everything that a write task is judged by."""

    tables: Mapping[str, TableState]
    """By lower-case name, views included."""
    complete: bool = True
    """False where the agent has made the database too large to read: it then equals nothing."""

    @cached_property
    def key(self) -> str:
        """Hash of the state; equal keys, equal states."""
        digest = blake2b(digest_size=16)
        digest.update(str(self.complete).encode())
        for name, table in sorted(self.tables.items()):
            digest.update(repr((name, table.schema)).encode("utf-8", "surrogatepass"))
            digest.update(repr(table.rows).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def sorted_rows(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows in an order that depends on nothing but them."""
    return tuple(sorted(rows, key=lambda row: tuple(map(_order, row))))


def _order(cell: Any) -> tuple[int, Any]:
    if cell is None:
        return 0, 0
    if isinstance(cell, (int, float, Decimal)):
        return (1, cell) if cell == cell else (2, 0)
    return (3, cell) if isinstance(cell, str) else (4, repr(cell))


Snapshot = tuple[str, ...]
"""The statements that have changed the database since `reset`. Replaying them is exact, because nothing in a
database depends on chance or on the clock; and it works in another process and after a crash."""


class SqlBackend(Protocol):
    """One database session at a time. Hostile statements are answered; infrastructure faults are raised.

    Every statement is atomic: one that fails, is stopped or is refused has changed nothing.

    Raises:
        EnvironmentFault: the engine itself is gone and could not be brought back.
    """

    dialect: ClassVar[str]
    """sqlglot's name: "sqlite", "postgres" or "duckdb"."""

    def reset(self, database: Database, snapshot: Snapshot = (), *, write: bool = False) -> None:
        """Start from `database` (with `snapshot` applied). Only `write` sessions may change anything.

        Raises:
            InvalidArgument: this engine cannot build `database`.
        """
        ...

    def schema(self) -> tuple[TableSchema, ...]:
        """The tables and views that are there now, in alphabetical order."""
        ...

    def execute(self, sql: str, limits: SqlLimits = ...) -> Result:
        """Run one statement."""
        ...

    def snapshot(self) -> Snapshot:
        """The present state, picklable and valid in any other session of the same kind on the same database."""
        ...

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to `snapshot`, in the database and mode of the last `reset`."""
        ...

    def table_state(self) -> DatabaseState:
        """The content of every table and view, for judging and for keys."""
        ...

    def close(self) -> None:
        """Free everything; calling it again does nothing."""
        ...
