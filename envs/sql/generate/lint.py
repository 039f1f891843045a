"""The lint: why a gold statement must not become a task. It runs on generated tasks and on the benchmarks' own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from .database import literal
from .ties import has_ties

Rows = list[tuple[Any, ...]]
CONSTANTS: tuple[Rows, ...] = ([(1,)], [(0,)], [("",)], [(None,)])
"""What trivial statements such as SELECT 1 give."""


def lint(gold: str, connection: sqlite3.Connection, controls: Iterable[str] = ()) -> str | None:
    """What is wrong with a question, or None.

    Args:
        gold: the gold statement, in SQLite's dialect.
        connection: a private copy of the database; only read.
        controls: statements that must give something else than `gold`.

    Returns:
        "fails", "empty", "trivial" (see `is_trivial`), "tie" (the rows that are returned, or their order, are decided
        by chance) or "vacuous" (a condition that changes nothing).
    """
    try:
        rows = connection.execute(gold).fetchall()
    except sqlite3.Error:
        return "fails"
    if not rows or all(cell is None for row in rows for cell in row):
        return "empty"
    if is_trivial(gold, rows, connection):
        return "trivial"
    if has_ties(gold, connection):
        return "tie"
    counted = sorted(map(repr, rows))
    for control in controls:
        if sorted(map(repr, connection.execute(control).fetchall())) == counted:
            return "vacuous"
    return None


def is_trivial(gold: str, rows: Rows, connection: sqlite3.Connection) -> bool:
    """Whether an agent that knows nothing would hit on the answer: a constant, a whole table, words of the question."""
    if any(rows == constant for constant in CONSTANTS):
        return True
    if all(isinstance(cell, str) and literal(cell) in gold for row in rows for cell in row):
        return True
    counted = sorted(map(repr, rows))
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        quoted = '"' + name.replace('"', '""') + '"'
        if len(rows) != connection.execute(f"SELECT COUNT(*) FROM {quoted}").fetchone()[0]:
            continue
        if sorted(map(repr, connection.execute(f"SELECT * FROM {quoted}").fetchall())) == counted:
            return True
    return False


def lint_change(
    gold: Sequence[str], connection: sqlite3.Connection, controls: Iterable[Sequence[str]] = ()
) -> str | None:
    """What is wrong with a write task, or None.

    Args:
        gold: the statements, in SQLite's dialect.
        connection: a private copy of the database; left as it was.
        controls: lists of statements that must lead to another state than `gold`.

    Returns:
        "fails", "no-op" or "vacuous".
    """
    before = dump(connection)
    after = _after(gold, connection)
    if after is None:
        return "fails"
    if after == before:
        return "no-op"
    for control in controls:
        if _after(control, connection) == after:
            return "vacuous"
    return None


def dump(connection: sqlite3.Connection) -> dict[str, tuple[list[str], list[str]]]:
    """The columns and the sorted rows of every table and view."""
    found = {}
    names = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
    for (name,) in names:
        quoted = '"' + name.replace('"', '""') + '"'
        cursor = connection.execute(f"SELECT * FROM {quoted}")
        found[name] = ([column[0] for column in cursor.description], sorted(map(repr, cursor.fetchall())))
    return found


def _after(statements: Sequence[str], connection: sqlite3.Connection) -> dict[str, tuple[list[str], list[str]]] | None:
    connection.execute("SAVEPOINT lint")
    try:
        for statement in statements:
            connection.execute(statement)
        return dump(connection)
    except sqlite3.Error:
        return None
    finally:
        connection.execute("ROLLBACK TO lint")
        connection.execute("RELEASE lint")
