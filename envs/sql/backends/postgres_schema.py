"""The schema of a PostgreSQL database, read from its catalogue."""

from __future__ import annotations

from typing import Any

from .tables import Column, ForeignKey, TableSchema

_TABLES = """
SELECT c.oid, c.relname, c.relkind IN ('v', 'm') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p', 'v', 'm') ORDER BY c.relname COLLATE "C"
"""
_COLUMNS = """
SELECT a.attrelid, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p', 'v', 'm') AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum
"""
_KEYS = """
SELECT k.conrelid, k.contype, k.conkey, c.relname, k.confrelid, k.confkey
FROM pg_constraint k JOIN pg_namespace n ON n.oid = k.connamespace LEFT JOIN pg_class c ON c.oid = k.confrelid
WHERE n.nspname = 'public' AND k.contype IN ('p', 'u', 'f')
"""


def read_schema(connection: Any) -> tuple[TableSchema, ...]:
    """The tables and views of the schema "public" in alphabetical order."""
    names: dict[int, dict[int, str]] = {}
    columns: dict[int, list[Column]] = {}
    for table, number, name, kind, not_null in connection.execute(_COLUMNS):
        names.setdefault(table, {})[number] = name
        columns.setdefault(table, []).append(Column(name, kind, not_null))
    keys = connection.execute(_KEYS).fetchall()
    found = []
    for table, name, view in connection.execute(_TABLES).fetchall():
        mine = [key for key in keys if key[0] == table]
        called = names.get(table, {})
        primary = next((key[2] for key in mine if key[1] == "p"), [])
        unique = sorted(tuple(called[i] for i in key[2]) for key in mine if key[1] == "u")
        foreign = sorted(
            (
                ForeignKey(tuple(called[i] for i in key[2]), key[3], tuple(names[key[4]][i] for i in key[5]))
                for key in mine
                if key[1] == "f"
            ),
            key=lambda key: (key.columns, key.table),
        )
        found.append(
            TableSchema(
                name,
                tuple(columns.get(table, ())),
                tuple(called[i] for i in primary),
                tuple(foreign),
                tuple(unique),
                view,
            )
        )
    return tuple(found)
