"""PostgreSQL: a session on a `PostgresServer`.

Read sessions of a database share one copy of it, in which every statement is a read-only transaction of a role that may
only select. A write session has a clone of its own, dropped with it.

Covered: statements are screened (exactly one, of the kinds that the mode allows; no SET, COPY, DO, files, clock,
chance), then run by a role without rights, one statement a message, under the server's time, memory and file limits,
cancelled by this side when the server does not stop by itself; growth of the database is limited.
Not covered: a time that a statement builds from pieces (`('n' || 'ow')::timestamp`) is the real one; numbers that a
sequence gave to a statement that failed are used up.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import OrderedDict
from typing import Any, ClassVar

from ...core.errors import EnvironmentFault, InvalidArgument
from .base import DatabaseState, ErrorClass, Result, Snapshot, SqlLimits, TableState, sorted_rows
from .database import Database
from .postgres_schema import read_schema
from .postgres_server import READER, WRITER, PostgresServer, ServerLease, driver
from .screen import screen
from .tables import TableSchema, quoted
from .watchdog import Watchdog

GROWTH = 64 << 20  # bytes that a write session may add to a database
CONNECTIONS = 8  # read connections kept by a session, one per database
STATE_ROWS = 100_000
_CLASSES = {
    "42601": ErrorClass.SYNTAX,
    "42P01": ErrorClass.NO_TABLE,
    "42703": ErrorClass.NO_COLUMN,
    "42883": ErrorClass.NO_FUNCTION,
    "42702": ErrorClass.AMBIGUOUS,
    "42803": ErrorClass.GROUPING,
    "42501": ErrorClass.DENIED,
    "25006": ErrorClass.DENIED,
    "57014": ErrorClass.TIMEOUT,
    "42804": ErrorClass.TYPE,
    "42P02": ErrorClass.SYNTAX,
}
_FAMILIES = {
    "22": ErrorClass.TYPE,
    "23": ErrorClass.CONSTRAINT,
    "53": ErrorClass.TOO_BIG,
    "54": ErrorClass.TOO_BIG,
    "42": ErrorClass.SYNTAX,
}
TIMEOUT = "The statement was stopped: it takes too long."


class PostgresBackend:
    """A session on a PostgreSQL database; see `SqlBackend`.

    Args:
        server: where; it outlives the session. Text is the conninfo of a superuser on a server of yours. None is a
            private server, started for the first session of this process and stopped after its last.

    Raises:
        MissingExtra: psycopg is not installed.
        MissingData: a private server is asked for and PostgreSQL is not on this machine.
    """

    dialect: ClassVar[str] = "postgres"

    def __init__(self, server: PostgresServer | str | None = None) -> None:
        self._psycopg = driver()
        self._wanted = server
        self._lease: ServerLease | None = None
        self._watchdog = Watchdog.shared()
        self._readers: OrderedDict[str, Any] = OrderedDict()
        self._connection: Any = None
        self._clone = ""
        self._clean = False
        self._size = 0
        self._database: Database | None = None
        self._write = False
        self._log: list[str] = []
        self._state: DatabaseState | None = None

    def reset(self, database: Database, snapshot: Snapshot = (), *, write: bool = False) -> None:
        """Start from `database`: on the shared copy, or on a clone."""
        if snapshot and not write:
            raise InvalidArgument("a read session has no changes to go back to")
        if write and self._write and self._clean and self._database == database:
            self._log, self._state = [], None  # nothing has been tried on this clone
        else:
            self._leave()
            self._database, self._write, self._log, self._state = database, write, [], None
            with self._faults():
                self._open(database)
        self._replay(snapshot)

    def schema(self) -> tuple[TableSchema, ...]:
        """The tables and views that are there now."""
        with self._faults():
            return read_schema(self._session)

    def execute(self, sql: str, limits: SqlLimits = SqlLimits()) -> Result:  # noqa: B008 (frozen)
        """Run one statement."""
        began = time.perf_counter()
        found = screen(sql, self.dialect, write=self._write)
        if found.error:
            return Result(error=found.error, error_class=found.error_class, elapsed=time.perf_counter() - began)
        return self._run(sql, found.query, limits)

    def snapshot(self) -> Snapshot:
        """The statements that have changed the database."""
        return tuple(self._log)

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to `snapshot`."""
        if self._database is None:
            raise EnvironmentFault("the SQL session is closed: reset it first")
        if tuple(self._log) != tuple(snapshot):
            self.reset(self._database, snapshot, write=self._write)

    def table_state(self) -> DatabaseState:
        """The content of every table and view."""
        if self._state is None:
            self._state = self._read_state()
        return self._state

    def close(self) -> None:
        """Close all connections and drop the clone."""
        self._leave()
        for connection in self._readers.values():
            connection.close()
        self._readers.clear()
        self._database = None
        if self._lease is not None:
            self._lease.end()
            self._lease = None

    @property
    def _server(self) -> PostgresServer:
        if self._lease is None or self._lease.owner != os.getpid():
            self._lease = ServerLease(self._wanted)
        return self._lease.server

    @property
    def _session(self) -> Any:
        if self._database is None:
            raise EnvironmentFault("the SQL session is closed: reset it first")
        if self._connection is None or self._connection.closed:
            log = tuple(self._log)
            self._leave()
            self._log = []
            self._open(self._database)
            self._replay(log)
        return self._connection

    def _open(self, database: Database) -> None:
        if self._write:
            self._clone = self._server.clone(database)
            self._connection, self._clean = self._connect(self._clone, WRITER), True
            self._size = self._connection.execute("SELECT pg_database_size(current_database())").fetchone()[0]
            return
        name = self._server.readable(database)
        connection = self._readers.pop(name, None)
        if connection is None or connection.closed:
            connection = self._connect(name, READER)
        self._readers[name] = self._connection = connection
        if len(self._readers) > CONNECTIONS:
            self._readers.popitem(last=False)[1].close()

    def _connect(self, name: str, role: str) -> Any:
        settings = {"timezone": "UTC", "datestyle": "ISO", "intervalstyle": "postgres", "search_path": "public"}
        if role == READER:
            settings["default_transaction_read_only"] = "on"
        options = " ".join(f"-c {key}={value}" for key, value in settings.items())
        connection = self._psycopg.connect(
            self._server.conninfo, dbname=name, user=role, options=options, autocommit=True, prepare_threshold=None
        )
        text = self._psycopg.adapt.Loader
        for kind in ("date", "time", "timetz", "timestamp", "timestamptz", "interval", "json", "jsonb", "uuid"):
            connection.adapters.register_loader(kind, _text_loader(text))
        return connection

    def _leave(self) -> None:
        """Give up the present session's connection: a reader is kept, a clone is dropped."""
        if self._clone:
            if self._connection is not None:
                self._connection.close()
            self._server.drop(self._clone)
        self._connection, self._clone, self._clean = None, "", False

    def _replay(self, log: Snapshot) -> None:
        generous = SqlLimits(timeout=30.0)
        for sql in log:
            result = self._run(sql, False, generous)
            if not result.ok:
                raise EnvironmentFault(f"a statement that ran before fails now: {result.error}")

    def _run(self, sql: str, query: bool, limits: SqlLimits) -> Result:
        began = time.perf_counter()
        error = self._psycopg.Error
        try:
            with self._faults(error):
                connection = self._session
            with self._watchdog.over(connection, limits.timeout * 3):
                connection.execute(f"SET statement_timeout = {max(1, int(limits.timeout * 1000))}")
                result = self._read(connection, sql, limits) if query else self._change(connection, sql, limits)
        except error as failure:
            result = self._failure(failure)
        except MemoryError:
            result = Result(error="out of memory: the result is too large", error_class=ErrorClass.TOO_BIG)
        return Result(**{**_fields(result), "elapsed": time.perf_counter() - began})

    def _read(self, connection: Any, sql: str, limits: SqlLimits) -> Result:
        cursor = connection.cursor()
        rows: list[Any] = []
        size = counted = 0
        endless = False
        # Row by row, so that an endless result ends here; in a message that holds one statement only.
        stream = cursor.stream(sql)
        try:
            for row in stream:
                counted += 1
                if len(rows) < limits.max_rows and size < limits.max_bytes:
                    rows.append(tuple(map(_plain, row)))
                    size += sum(len(cell) if isinstance(cell, (str, bytes)) else 8 for cell in row)
                elif counted >= limits.max_counted:
                    endless = True
                    break
        finally:
            stream.close()
        if not counted:  # only rows bring the names of the columns along
            cursor.execute(sql, prepare=True)
        columns, types = _heads(connection, cursor)
        return Result(columns, types, tuple(rows), counted - len(rows), counted > len(rows), endless)

    def _change(self, connection: Any, sql: str, limits: SqlLimits) -> Result:
        self._clean = False
        with connection.transaction():
            cursor = connection.execute(sql, prepare=True)  # a prepared message holds one statement only
            every = [tuple(map(_plain, row)) for row in cursor.fetchmany(limits.max_rows)] if cursor.description else []
            columns, types = _heads(connection, cursor)
            count = cursor.rowcount
            command = (cursor.statusmessage or "").split(" ")[0]
            size = connection.execute("SELECT pg_database_size(current_database())").fetchone()[0]
            if size > self._size + GROWTH:
                raise self._psycopg.errors.DiskFull("the database would become too large")
        self._log.append(sql)
        self._state = None
        changed = count if command in ("INSERT", "UPDATE", "DELETE", "MERGE") else None
        cut = max(0, count - len(every)) if columns else 0
        return Result(columns, types, tuple(every), cut, cut > 0, changed=changed)

    def _failure(self, failure: Any) -> Result:
        state = failure.sqlstate or ""
        if self._connection is None or self._connection.closed:
            return Result(error=TIMEOUT, error_class=ErrorClass.TIMEOUT)
        kind = _CLASSES.get(state) or _FAMILIES.get(state[:2], ErrorClass.OTHER)
        if kind is ErrorClass.TIMEOUT:
            return Result(error=TIMEOUT, error_class=kind)
        primary = failure.diag.message_primary or str(failure).split("\n")[0]
        if kind is ErrorClass.NO_FUNCTION and primary.startswith("operator"):
            kind = ErrorClass.TYPE
        if kind is ErrorClass.DENIED and "for function" in primary:
            primary += ": what reaches files, other sessions, the clock or chance is closed"
        more = [text for text in (failure.diag.message_detail, failure.diag.message_hint) if text]
        return Result(error=". ".join([primary, *more]), error_class=kind)

    def _read_state(self) -> DatabaseState:
        tables: dict[str, TableState] = {}
        left = STATE_ROWS
        limits = SqlLimits(timeout=5.0, max_bytes=1 << 26)
        for schema in self.schema():
            rows = SqlLimits(limits.timeout, left, left + 1, limits.max_bytes)
            found = self._run(f"SELECT * FROM {quoted(schema.name)}", True, rows)
            whole = found.ok and not found.truncated
            if not whole and not schema.view:
                return DatabaseState({}, complete=False)
            left -= len(found.rows) if whole else 0
            tables[schema.name.lower()] = TableState(schema, sorted_rows(found.rows) if whole else None)
        return DatabaseState(tables)

    @contextlib.contextmanager
    def _faults(self, let: type[BaseException] | tuple[()] = ()) -> Any:
        """Errors of the connection itself as `EnvironmentFault`."""
        try:
            yield
        except self._psycopg.Error as error:
            raise EnvironmentFault(f"the PostgreSQL server does not answer: {error}") from error


def _fields(result: Result) -> dict[str, Any]:
    return {name: getattr(result, name) for name in Result.__dataclass_fields__}


def _heads(connection: Any, cursor: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    heads = cursor.description or ()
    known = connection.adapters.types
    kinds = [known.get(head.type_code) for head in heads]
    return tuple(head.name for head in heads), tuple(kind.name.upper() if kind else "UNKNOWN" for kind in kinds)


def _plain(cell: Any) -> Any:
    from decimal import Decimal

    if cell is None or isinstance(cell, (bool, int, float, str, bytes, Decimal)):
        return cell
    return bytes(cell) if isinstance(cell, memoryview) else str(cell)


def _text_loader(base: Any) -> Any:
    class TextLoader(base):
        """Leaves a value as the server wrote it."""

        def load(self, data: Any) -> str:
            return bytes(data).decode("utf-8", "replace")

    return TextLoader
