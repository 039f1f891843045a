"""Tables of a SQLite image as typed tables for engines that mean their types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .tables import Column, Row, Table

_DATE = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])\Z")
_TIME = re.compile(_DATE.pattern[:-2] + r"[ T](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,6})?)?\Z")
_WORDS = (
    ("INT", "BIGINT"),
    ("CHAR", "TEXT"),
    ("CLOB", "TEXT"),
    ("TEXT", "TEXT"),
    ("STRING", "TEXT"),
    ("BLOB", "BYTEA"),
    ("REAL", "DOUBLE PRECISION"),
    ("FLOA", "DOUBLE PRECISION"),
    ("DOUB", "DOUBLE PRECISION"),
    ("BOOL", "BOOLEAN"),
    ("TIMESTAMP", "TIMESTAMP"),
    ("DATETIME", "TIMESTAMP"),
    ("DATE", "DATE"),
    ("DEC", "NUMERIC"),
    ("NUM", "NUMERIC"),
)


def typed(table: Table) -> Table:
    """The table with standard types: the declared one where every value fits it, else the first that all values fit."""
    columns: list[Column] = []
    values: list[Sequence[Any]] = []
    for i, column in enumerate(table.schema.columns):
        cells = [row[i] for row in table.rows]
        declared = next((name for word, name in _WORDS if word in column.type.upper()), "")
        name = next(name for name in (declared, *_GENERAL) if name and _fits(name, cells))
        columns.append(replace(column, type=name))
        values.append([_converted(name, cell) for cell in cells])
    rows: tuple[Row, ...] = tuple(zip(*values)) if table.rows else ()
    return Table(replace(table.schema, columns=tuple(columns)), rows)


_GENERAL = ("BIGINT", "DOUBLE PRECISION", "TEXT", "BYTEA")


def _fits(name: str, cells: Sequence[Any]) -> bool:
    present = [cell for cell in cells if cell is not None]
    if name == "BIGINT":
        return all(isinstance(cell, int) for cell in present) and bool(present or name)
    if name in ("DOUBLE PRECISION", "NUMERIC"):
        return all(isinstance(cell, (int, float)) for cell in present)
    if name == "BOOLEAN":
        return all(cell in (0, 1) for cell in present)
    if name in ("DATE", "TIMESTAMP"):
        pattern = _DATE if name == "DATE" else _TIME
        return all(isinstance(cell, str) and pattern.match(cell) for cell in present)
    if name == "BYTEA":
        return True
    return all(isinstance(cell, (str, int, float)) for cell in present)


def _converted(name: str, cell: Any) -> Any:
    if cell is None:
        return None
    if name == "TEXT":
        return str(cell).replace("\0", "")
    if name == "DOUBLE PRECISION":
        return float(cell)
    if name == "BOOLEAN":
        return bool(cell)
    if name == "BYTEA":
        return cell if isinstance(cell, bytes) else str(cell).encode()
    return cell
