"""The process that statements of agents run in under DuckDB. As `sqlite_worker`, with the package `duckdb`.

DuckDB does not stop every function when it is interrupted, so this process has the alarm of every worker too.
"""

from __future__ import annotations

import datetime
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import astuple, dataclass
from decimal import Decimal
from typing import Any

import duckdb

from . import wire
from .tables import Column, ForeignKey, TableSchema, create_table, quoted, schema_from_json

MEMORY = "200MB"  # of the engine
SESSIONS = 4  # connections kept
STATE_ROWS = 100_000
GROWTH = 16 << 20  # bytes that a write session may add to a database
_CLASSES = (
    ("Parser Error", "syntax"),
    ("Table with name", "no_such_table"),
    ("View with name", "no_such_table"),
    ("Function with name", "no_such_function"),
    ("No function matches", "no_such_function"),
    ("Ambiguous reference", "ambiguous_name"),
    ("GROUP BY", "grouping"),
    ("not found in FROM clause", "no_such_column"),
    ("Referenced update column", "no_such_column"),
    ("does not have a column", "no_such_column"),
    ("Referenced column", "no_such_column"),
    ("INTERRUPT Error", "timeout"),
    ("Out of Memory Error", "too_big"),
    ("Constraint Error", "constraint"),
    ("Dependency Error", "constraint"),
    ("Conversion Error", "type"),
    ("Mismatch Type Error", "type"),
    ("Out of Range Error", "type"),
    ("Permission Error", "denied"),
    ("configuration has been locked", "denied"),
)


@dataclass
class Session:
    """A connection to a database of its own."""

    connection: Any
    key: str
    generation: int
    applied: int = 0
    """How many of the owner's statements it has run."""


class Alarm:
    """One thread that interrupts statements, because under the limit on memory another may not start any more."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._connection: Any = None
        self._until = 0.0

    def start(self) -> None:
        """Start the thread."""
        threading.stack_size(256 << 10)
        threading.Thread(target=self._wait, daemon=True).start()

    def set(self, seconds: float, connection: Any) -> None:
        """Interrupt `connection` in so many seconds."""
        with self._change:
            self._connection, self._until = connection, time.monotonic() + seconds
            self._change.notify()

    def clear(self) -> None:
        """Interrupt nothing."""
        with self._change:
            self._connection = None

    def _wait(self) -> None:
        while True:
            with self._change:
                left = self._until - time.monotonic()
                if self._connection is None:
                    self._change.wait()
                elif left > 0:
                    self._change.wait(left)
                else:
                    self._connection.interrupt()
                    self._connection = None


ALARM = Alarm()


class Worker:
    """Answers requests about many databases and sessions."""

    def __init__(self) -> None:
        self._images: dict[str, Any] = {}
        self._sessions: OrderedDict[Any, Session] = OrderedDict()

    def handle(self, request: dict[str, Any], raw: Callable[[], bytes]) -> dict[str, Any]:
        """One request, as in `sqlite_worker`."""
        kind = request["do"]
        if kind == "image":
            self._images[request["key"]] = json.loads(raw())
            return {}
        session = self._session(request)
        if session is None:
            return {"need": "image"}
        if kind == "replay":
            for sql in request["statements"][session.applied :]:
                found = execute(session.connection, sql, write=True, **request["limits"])
                if "error" in found:
                    return {"failed": found["error"]}
                session.applied += 1
            return {}
        if session.applied != request["applied"]:
            return {"need": "replay"}
        if kind == "schema":
            return {"schema": [astuple(table) for table in read_schema(session.connection)]}
        if kind == "state":
            return state(session.connection, request["limits"])
        began = time.perf_counter()
        found = execute(session.connection, request["sql"], write=request["write"], **request["limits"])
        found["elapsed"] = time.perf_counter() - began
        session.applied += bool(found.get("wrote"))
        return found

    def _session(self, request: dict[str, Any]) -> Session | None:
        # Nothing in a read session can change, so they share one connection per database.
        name = request["session"] if request["write"] else request["key"]
        generation = request["generation"] if request["write"] else 0
        session = self._sessions.get(name)
        if session is None or session.key != request["key"] or session.generation != generation:
            if request["key"] not in self._images:
                return None
            if session is not None:
                session.connection.close()
            session = Session(build(self._images[request["key"]]), request["key"], generation)
            self._sessions[name] = session
            if len(self._sessions) > SESSIONS:
                self._sessions.popitem(last=False)[1].connection.close()
        self._sessions.move_to_end(name)
        return session


def build(tables: list[Any]) -> Any:
    """A connection to a new database with these tables, closed to everything outside it."""
    connection = duckdb.connect(":memory:", config={"threads": 1, "memory_limit": MEMORY, "temp_directory": ""})
    connection.execute("SET TimeZone='UTC'")
    connection.execute("SET enable_progress_bar=false")
    for data, rows in tables:
        schema = schema_from_json(data)
        for candidate in (schema, TableSchema(schema.name, schema.columns)):
            # Data that SQLite let in may break what it declares; then the declaration goes.
            try:
                connection.execute(create_table(candidate))
                if rows:
                    holes = ", ".join("?" * len(schema.columns))
                    sql = f"INSERT INTO {quoted(schema.name)} VALUES ({holes})"
                    connection.execute("BEGIN")
                    connection.executemany(sql, [list(row) for row in wire.cells(rows)])
                    connection.execute("COMMIT")
                break
            except duckdb.Error:
                if candidate is not schema:
                    raise
                _quietly(connection, "ROLLBACK")
                _quietly(connection, f"DROP TABLE IF EXISTS {quoted(schema.name)}")
    for setting in (
        "autoinstall_known_extensions=false",
        "autoload_known_extensions=false",
        "enable_external_access=false",
        "lock_configuration=true",
    ):
        connection.execute(f"SET {setting}")
    return connection


def execute(
    connection: Any, sql: str, *, write: bool, timeout: float, max_rows: int, max_counted: int, max_bytes: int, **_: Any
) -> dict[str, Any]:
    """Run one statement; see `Result` for what comes back, and "wrote"."""
    ALARM.set(timeout, connection)
    try:
        statements = connection.extract_statements(sql)
        if len(statements) != 1:
            return {"error": "You can only execute one statement at a time.", "class": "multiple_statements"}
        kind = str(statements[0].type).rpartition(".")[2]
        if kind not in READS and not (write and kind in WRITES):
            return {"error": f"{kind} is not available here.", "class": "denied"}
        if write and kind in WRITES:
            return _change(connection, sql, kind, max_rows)
        return _rows(connection.execute(sql), max_rows, max_counted, max_bytes)
    except (duckdb.Error, MemoryError, RuntimeError, ValueError) as error:
        return explain(f"Out of Memory Error: {error}" if isinstance(error, MemoryError) else str(error))
    finally:
        ALARM.clear()


READS = {"SELECT"}
WRITES = {"INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "MERGE_INTO"}


def _change(connection: Any, sql: str, kind: str, max_rows: int) -> dict[str, Any]:
    connection.execute("BEGIN")
    try:
        found = _rows(connection.execute(sql), max_rows, 1 << 40, 1 << 20)
        if kind in ("INSERT", "UPDATE", "DELETE", "MERGE_INTO") and found["columns"] == ["Count"]:
            found["changed"] = found["rows"][0][0] if found["rows"] else 0
        if found["columns"] in (["Count"], ["Success"]):
            found.update(columns=[], types=[], rows=[])
        used = connection.execute("SELECT sum(memory_usage_bytes) FROM duckdb_memory()").fetchone()[0]
        if used > GROWTH * 4:
            raise duckdb.OutOfMemoryException("Out of Memory Error: the database would become too large")
    except BaseException:
        _quietly(connection, "ROLLBACK")
        raise
    connection.execute("COMMIT")
    return {**found, "wrote": True}


def _rows(cursor: Any, max_rows: int, max_counted: int, max_bytes: int) -> dict[str, Any]:
    heads = cursor.description or ()
    rows: list[Any] = []
    size = counted = 0
    endless = False
    while not endless and (batch := cursor.fetchmany(256)):
        for row in batch:
            counted += 1
            if len(rows) < max_rows and size < max_bytes:
                rows.append([plain(cell) for cell in row])
                size += sum(len(cell) if isinstance(cell, (str, bytes)) else 8 for cell in row)
            elif counted >= max_counted:
                endless = True
                break
    return {
        "columns": [head[0] for head in heads],
        "types": [str(head[1]) for head in heads],
        "rows": rows,
        "cut": counted - len(rows),
        "endless": endless,
    }


def plain(cell: Any) -> Any:
    """The value as one that results may hold."""
    if cell is None or isinstance(cell, (bool, int, float, str, bytes, Decimal)):
        return cell
    if isinstance(cell, (datetime.date, datetime.time)):
        return cell.isoformat(" ") if isinstance(cell, datetime.datetime) else cell.isoformat()
    return str(cell)


def explain(message: str) -> dict[str, Any]:
    """The engine's message without its drawing of the statement and its advice about settings."""
    kind = next((name for words, name in _CLASSES if words in message), "other")
    if kind == "timeout":
        return {"error": "The statement was stopped: it takes too long.", "class": kind}
    for advice in ("\n\nLINE ", "\n\nPossible solutions", "\nDatabase is launched"):
        message = message.split(advice)[0]
    lines = [line for line in message.split("\n") if line]
    return {"error": " ".join(lines)[:500], "class": kind}


def read_schema(connection: Any) -> list[TableSchema]:
    """The tables and views in alphabetical order."""
    columns: dict[str, list[Column]] = {}
    for table, name, kind, nullable in connection.execute(
        "SELECT table_name, column_name, data_type, is_nullable FROM duckdb_columns()"
        " WHERE schema_name = 'main' AND NOT internal ORDER BY table_name, column_index"
    ).fetchall():
        columns.setdefault(table, []).append(Column(name, kind, not nullable))
    keys: dict[str, list[Any]] = {}
    for row in connection.execute(
        "SELECT table_name, constraint_type, constraint_column_names, referenced_table, referenced_column_names"
        " FROM duckdb_constraints() WHERE schema_name = 'main'"
    ).fetchall():
        keys.setdefault(row[0], []).append(row)
    views = {row[0] for row in connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()}
    found = []
    for name in sorted(columns):
        mine = keys.get(name, [])
        primary = next((tuple(row[2]) for row in mine if row[1] == "PRIMARY KEY"), ())
        unique = tuple(sorted(tuple(row[2]) for row in mine if row[1] == "UNIQUE"))
        foreign = sorted(
            (ForeignKey(tuple(row[2]), row[3], tuple(row[4])) for row in mine if row[1] == "FOREIGN KEY"),
            key=lambda key: (key.columns, key.table),
        )
        found.append(TableSchema(name, tuple(columns[name]), primary, tuple(foreign), unique, name in views))
    return found


def state(connection: Any, limits: dict[str, Any]) -> dict[str, Any]:
    """Schema and rows of every table and view, as in `sqlite_worker`."""
    tables: list[Any] = []
    left = STATE_ROWS
    for schema in read_schema(connection):
        rows = {"max_rows": left, "max_counted": left + 1, "max_bytes": 1 << 26}
        found = execute(connection, f"SELECT * FROM {quoted(schema.name)}", write=False, **{**limits, **rows})
        whole = "error" not in found and not found["cut"]
        if not whole and not schema.view:
            return {"tables": [], "complete": False}
        left -= len(found["rows"]) if whole else 0
        tables.append([astuple(schema), found["rows"] if whole else None])
    return {"tables": tables, "complete": True}


def _quietly(connection: Any, sql: str) -> None:
    try:
        connection.execute(sql)
    except duckdb.Error:
        return


def main() -> None:
    """Serve until the owner is gone."""
    ALARM.start()
    wire.confine()
    wire.serve(Worker().handle)
