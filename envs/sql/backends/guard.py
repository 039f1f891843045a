"""What one statement may do and use in a SQLite connection. Standard library only: the worker imports this.

Covered: every action by an allow-list (authorizer), functions by another, size limits of the engine, a count of
virtual-machine instructions and a deadline between them, rows and bytes of the result, growth of the database.
Not covered: one instruction that never ends (the worker's alarm kills it) and memory (the worker's limit).
"""

from __future__ import annotations

import re
import sqlite3
import time
from typing import Any

from . import functions

STEP = 4_000  # virtual-machine instructions between two looks at the clock
GROWTH = 4 << 20  # bytes that a write session may add to a database
SETTINGS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 500,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 250_000,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 10,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
UPDATE = sqlite3.SQLITE_UPDATE  # of the temporary schema, which is empty: ALTER TABLE looks there too
READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
WRITES = {
    sqlite3.SQLITE_INSERT,
    sqlite3.SQLITE_UPDATE,
    sqlite3.SQLITE_DELETE,
    sqlite3.SQLITE_CREATE_TABLE,
    sqlite3.SQLITE_CREATE_INDEX,
    sqlite3.SQLITE_CREATE_VIEW,
    sqlite3.SQLITE_ALTER_TABLE,
    sqlite3.SQLITE_DROP_TABLE,
    sqlite3.SQLITE_DROP_INDEX,
    sqlite3.SQLITE_DROP_VIEW,
    sqlite3.SQLITE_REINDEX,
}
PRAGMAS = {
    "table_info",
    "table_xinfo",
    "table_list",
    "foreign_key_list",
    "index_list",
    "index_info",
    "index_xinfo",
}
# Called by ALTER TABLE itself; a statement of the agent's cannot name them.
INTERNAL = {
    "sqlite_rename_table",
    "sqlite_rename_column",
    "sqlite_rename_test",
    "sqlite_rename_quotefix",
    "sqlite_drop_column",
}
_BLANK = re.compile(r"(?:\s|;|--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]+")
_VIRTUAL = re.compile(r"\b(?:json_each|json_tree|pragma_(?:" + "|".join(sorted(PRAGMAS)) + r"))\b", re.IGNORECASE)
_CLASSES = (
    (r"^no such table|^no such view|^no such index", "no_such_table"),
    (r"^no such column|has no column named", "no_such_column"),
    (r"^no such function|wrong number of arguments", "no_such_function"),
    (r"^ambiguous column name", "ambiguous_name"),
    (r"misuse of (?:aggregate|window)|GROUP BY clause", "grouping"),
    (r"one statement at a time", "multiple_statements"),
    (r"syntax error|unrecognized token|incomplete input|null character|many SQL variables", "syntax"),
    (
        r"too big|too large|too many|too complex|too deep|parser stack overflow|out of memory|is full|too long",
        "too_big",
    ),
    (r"constraint failed|foreign key mismatch", "constraint"),
    (r"datatype mismatch|integer overflow|malformed JSON|cannot store", "type"),
    (
        r"^cannot VACUUM|not authorized|prohibited|may not be (?:modified|dropped|altered|indexed)|is not allowed",
        "denied",
    ),
)


class Guard:
    """One guarded connection.

    Args:
        connection: opened with `isolation_level=None`; belongs to the guard from now on.
        write: whether data and schema may be changed.
        now: what the clock shows.
        foreign_keys: whether changes must keep references, where the data does from the start.
    """

    def __init__(self, connection: sqlite3.Connection, *, write: bool, now: str, foreign_keys: bool = True) -> None:
        self.connection = connection
        self.write = write
        self._trusted = True
        self._refused = self._stopped = ""
        self._wrote = False
        self._left, self._deadline = 0, 0.0
        connection.execute("PRAGMA temp_store=MEMORY")
        connection.execute("PRAGMA hard_heap_limit=268435456")
        if write:
            self._bound_growth()
            # As in the other engines, unless the data breaks its own references from the start.
            if foreign_keys and connection.execute("PRAGMA foreign_key_check").fetchone() is None:
                connection.execute("PRAGMA foreign_keys=ON")
        for setting, value in SETTINGS.items():
            connection.setlimit(setting, value)
        functions.install(connection, now, SETTINGS[sqlite3.SQLITE_LIMIT_LENGTH], self._refuse)
        connection.set_authorizer(self._authorize)
        connection.set_progress_handler(self._tick, STEP)
        self._trusted = False

    def execute(
        self, sql: str, *, timeout: float, operations: int, max_rows: int, max_counted: int, max_bytes: int
    ) -> dict[str, Any]:
        """Run one statement of the agent's; see `Result` for what comes back, and `wrote`."""
        self._refused = self._stopped = ""
        self._wrote = False
        self._left, self._deadline = max(1, operations // STEP), time.monotonic() + timeout
        blank = _BLANK.match(sql)
        start = blank.end() if blank else 0
        if start == len(sql):
            return {"error": "There is no statement in this text.", "class": "no_statement"}
        word = _WORD.match(sql, start)
        verb = word[0].upper() if word else ""
        try:
            if _VIRTUAL.search(sql):
                self._connect_virtual(sql)
            if not self.write:
                return self._fetch(sql, max_rows, max_counted, max_bytes)
            return self._atomic(sql, verb, max_rows, max_counted, max_bytes)
        except MemoryError:
            return {"error": "out of memory: the statement needs too much", "class": "too_big"}
        except UnicodeEncodeError:
            return {"error": "the statement has characters that are no text", "class": "encoding"}
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            return self._explain(str(error), verb)

    def reload(self, image: bytes) -> None:
        """Back to `image`, the one that the connection started from."""
        self._trusted = True  # it attaches the image
        self.connection.deserialize(image)
        self._trusted = False
        self._bound_growth()

    def trusted(self, sql: str) -> list[Any]:
        """Run a statement of our own past the authorizer, without limits."""
        before, self._trusted = self._trusted, True
        self._left, self._deadline = 1 << 40, float("inf")
        try:
            return self.connection.execute(sql).fetchall()
        finally:
            self._trusted = before

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def _bound_growth(self) -> None:
        [(pages,)], [(size,)] = self.trusted("PRAGMA page_count"), self.trusted("PRAGMA page_size")
        self.trusted(f"PRAGMA max_page_count={pages + GROWTH // size}")

    def _atomic(self, sql: str, verb: str, *limits: int) -> dict[str, Any]:
        """The statement with all of its changes or none, even where it says OR FAIL."""
        left, deadline = self._left, self._deadline
        before = self.connection.total_changes
        self.trusted("SAVEPOINT statement")
        self._left, self._deadline = left, deadline
        try:
            found = self._fetch(sql, *limits)
        except BaseException:
            if self.connection.in_transaction:  # not so where the engine itself rolled everything back
                self.trusted("ROLLBACK TO statement")
                self.trusted("RELEASE statement")
            raise
        self.trusted("RELEASE statement")
        if self._wrote:
            found["wrote"] = True
            if verb in ("INSERT", "UPDATE", "DELETE", "REPLACE", "WITH"):
                found["changed"] = self.connection.total_changes - before
        return found

    def _fetch(self, sql: str, max_rows: int, max_counted: int, max_bytes: int) -> dict[str, Any]:
        try:
            return self._rows(sql, max_rows, max_counted, max_bytes)
        except sqlite3.OperationalError as error:
            if "decode to UTF-8" not in str(error) or self._wrote:
                raise
        self.connection.text_factory = lambda data: data.decode("utf-8", "replace")
        try:
            return self._rows(sql, max_rows, max_counted, max_bytes)
        finally:
            self.connection.text_factory = str

    def _rows(self, sql: str, max_rows: int, max_counted: int, max_bytes: int) -> dict[str, Any]:
        cursor = self.connection.execute(sql)
        rows: list[Any] = []
        size = counted = 0
        endless = False
        try:
            for row in cursor:
                counted += 1
                if len(rows) < max_rows and size < max_bytes:
                    rows.append(row)
                    size += sum([len(cell) if isinstance(cell, (str, bytes)) else 8 for cell in row])
                elif counted >= max_counted and not self._wrote:
                    endless = True
                    break
            columns = [entry[0] for entry in cursor.description or ()]
        finally:
            cursor.close()
        return {"columns": columns, "rows": rows, "cut": counted - len(rows), "endless": endless}

    def _connect_virtual(self, sql: str) -> None:
        """Connect the table-valued functions that are named: doing so counts as writing to the schema table."""
        left, deadline = self._left, self._deadline
        for name in {match.lower() for match in _VIRTUAL.findall(sql)}:
            self.trusted(f"SELECT 1 FROM {name}('[]') LIMIT 0")
        self._left, self._deadline = left, deadline

    def _tick(self) -> int:
        self._left -= 1
        if self._left < 0:
            self._stopped = "it needs too many steps"
        elif time.monotonic() > self._deadline:
            self._stopped = "it takes too long"
        return 1 if self._stopped else 0

    def _refuse(self, reason: str) -> None:
        self._refused = self._refused or reason

    def _authorize(self, action: int, first: str | None, second: str | None, schema: str | None, by: str | None) -> int:
        if self._trusted or action in READS:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION:
            name = (second or "").lower()
            if name in functions.ALLOWED or (self.write and name in INTERNAL):
                return sqlite3.SQLITE_OK
            self._refuse(functions.closed(name))
        elif action == sqlite3.SQLITE_PRAGMA:
            if (first or "").lower() in PRAGMAS:
                return sqlite3.SQLITE_OK
            self._refuse(
                f"PRAGMA {first} is not allowed; PRAGMA table_info(t), foreign_key_list(t), index_list(t) are."
            )
        elif action in WRITES and (schema != "temp" or (first == "sqlite_temp_master" and action == UPDATE)):
            if self.write:
                self._wrote = True
                return sqlite3.SQLITE_OK
            self._refuse("write")
        elif action in (sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT):
            self._refuse("transactions are not available: every statement is one of its own.")
        elif action in (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH):
            self._refuse("other databases and files are closed.")
        else:
            self._refuse("temporary objects, triggers and virtual tables are not available.")
        return sqlite3.SQLITE_DENY

    def _explain(self, message: str, verb: str) -> dict[str, Any]:
        if self._stopped:
            return {"error": f"The statement was stopped: {self._stopped}.", "class": "timeout"}
        if self._refused == "write" and verb == "SELECT":  # what connects to a virtual table writes to the schema table
            return {"error": "Not allowed: that virtual table is not available.", "class": "denied"}
        if self._refused == "write":
            verb = {"WITH": "Changing data", "EXPLAIN": "EXPLAIN of a change"}.get(verb, verb)
            return {"error": f"{verb} is not allowed: the database can only be read here.", "class": "denied"}
        if self._refused:
            too_big = "too long" in self._refused or "width" in self._refused or "too big" in self._refused
            return {"error": f"Not allowed: {self._refused}", "class": "too_big" if too_big else "denied"}
        for pattern, name in _CLASSES:
            if re.search(pattern, message):
                return {"error": message, "class": name}
        return {"error": message, "class": "other"}
