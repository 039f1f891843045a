"""The schema of a SQLite database, read through its pragmas. Standard library only: the worker imports this too."""

from __future__ import annotations

import sqlite3
from typing import Any

from .tables import Column, ForeignKey, TableSchema, quoted


def read_schema(connection: sqlite3.Connection) -> list[TableSchema]:
    """The tables and views in alphabetical order."""
    found = connection.execute(
        "SELECT name, type FROM sqlite_master"
        " WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    ).fetchall()
    return [_table_schema(connection, name, kind == "view") for name, kind in sorted(found)]


def _table_schema(connection: sqlite3.Connection, name: str, view: bool) -> TableSchema:
    try:
        info = connection.execute(f"PRAGMA table_info({quoted(name)})").fetchall()
    except sqlite3.OperationalError:  # a view over a table that is gone
        info = []
    return TableSchema(
        name,
        tuple(Column(row[1], row[2], bool(row[3])) for row in info),
        _primary_key(info),
        () if view else _foreign_keys(connection, name),
        () if view else _unique(connection, name),
        view,
    )


def _primary_key(info: list[Any]) -> tuple[str, ...]:
    return tuple(row[1] for row in sorted(info, key=lambda row: row[5]) if row[5])


def _foreign_keys(connection: sqlite3.Connection, name: str) -> tuple[ForeignKey, ...]:
    by_id: dict[int, list[Any]] = {}
    for row in connection.execute(f"PRAGMA foreign_key_list({quoted(name)})").fetchall():
        by_id.setdefault(row[0], []).append(row)
    found = []
    for rows in by_id.values():
        rows.sort(key=lambda row: row[1])
        table, references = rows[0][2], tuple(row[4] for row in rows)
        if None in references:  # "REFERENCES t" alone means the primary key of t
            references = _primary_key(connection.execute(f"PRAGMA table_info({quoted(table)})").fetchall())
        found.append(ForeignKey(tuple(row[3] for row in rows), table, references))
    return tuple(sorted(found, key=lambda key: (key.columns, key.table)))


def _unique(connection: sqlite3.Connection, name: str) -> tuple[tuple[str, ...], ...]:
    found = set()
    for _, index, unique, origin, partial in connection.execute(f"PRAGMA index_list({quoted(name)})").fetchall():
        if unique and origin != "pk" and not partial:
            columns = [row[2] for row in connection.execute(f"PRAGMA index_info({quoted(index)})")]
            if None not in columns:  # None stands for an expression
                found.add(tuple(columns))
    return tuple(sorted(found))
