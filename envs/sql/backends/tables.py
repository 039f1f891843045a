"""Schemas and tables as plain data. Standard library only: the workers import this too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Row = tuple[Any, ...]
"""Cells: None, int (bool), float, str, bytes or Decimal. Dates and times are ISO text."""


@dataclass(frozen=True)
class Column:
    """A column of a table as declared."""

    name: str
    type: str = "TEXT"
    """As written in the declaration; "" where there is none."""
    not_null: bool = False


@dataclass(frozen=True)
class ForeignKey:
    """Columns that refer to columns of another table."""

    columns: tuple[str, ...]
    table: str
    references: tuple[str, ...]


@dataclass(frozen=True)
class TableSchema:
    """A table or view without its rows."""

    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    """Column lists that must be unique, the primary key aside, in alphabetical order."""
    view: bool = False


@dataclass(frozen=True)
class Table:
    """A table with its rows."""

    schema: TableSchema
    rows: tuple[Row, ...] = ()


def quoted(name: str) -> str:
    """The name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def names(columns: Sequence[str]) -> str:
    """The names as a list of SQL identifiers."""
    return ", ".join(quoted(column) for column in columns)


def create_table(schema: TableSchema) -> str:
    """The CREATE TABLE statement of a schema, in words that all three engines understand."""
    parts = [
        f"{quoted(column.name)} {column.type}{' NOT NULL' if column.not_null else ''}" for column in schema.columns
    ]
    if schema.primary_key:
        parts.append(f"PRIMARY KEY ({names(schema.primary_key)})")
    parts += [f"UNIQUE ({names(columns)})" for columns in schema.unique]
    parts += [
        f"FOREIGN KEY ({names(key.columns)}) REFERENCES {quoted(key.table)} ({names(key.references)})"
        for key in schema.foreign_keys
    ]
    return f"CREATE TABLE {quoted(schema.name)} (\n  " + ",\n  ".join(parts) + "\n)"


def schema_from_json(data: Sequence[Any]) -> TableSchema:
    """The schema that `dataclasses.astuple` and JSON made into lists."""
    name, columns, primary_key, foreign_keys, unique, view = data
    return TableSchema(
        name,
        tuple(Column(*column) for column in columns),
        tuple(primary_key),
        tuple(ForeignKey(tuple(a), table, tuple(b)) for a, table, b in foreign_keys),
        tuple(tuple(columns) for columns in unique),
        view,
    )
