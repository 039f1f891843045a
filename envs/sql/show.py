"""Results and schemas as text for the agent."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from .backends.base import Result
from .backends.database import TableSchema

SHOWN_ROWS = 50
SHOWN_CELL = 100  # characters
SHOWN_TEXT = 9_000  # characters of one result


def result_text(result: Result, rows: int = SHOWN_ROWS) -> str:
    """A result as a table: names and types of the columns, rows in the order they came, and how many were cut.

    Args:
        result: what a statement gave.
        rows: the most rows shown.
    """
    if not result.ok:
        return f"Error ({result.error_class}): {result.error}"
    note = f"\n{result.note}" if result.note else ""
    if not result.columns:
        if result.changed is None:
            return f"Done.{note}"
        return f"Done: {_count(result.changed, 'row')} changed.{note}"
    total = len(result.rows) + result.cut
    head = " | ".join(f"{name} ({kind})" for name, kind in zip(result.columns, result.types, strict=True))
    lines, length = [head], len(head)
    for row in result.rows[:rows]:
        line = " | ".join(map(cell_text, row))
        length += len(line) + 1
        if length > SHOWN_TEXT:
            break
        lines.append(line)
    shown = len(lines) - 1
    count = f"more than {total}" if result.endless else str(total)
    cut = f", {shown} shown, {total - shown}{' or more' if result.endless else ''} cut" if shown < total else ""
    return "\n".join([f"{count} {'row' if total == 1 else 'rows'}{cut}:", *lines]) + note


def cell_text(cell: Any) -> str:
    """One cell. NULL is `NULL`; a text that could be mistaken for it, or that has line breaks or bars, is quoted."""
    if cell is None:
        return "NULL"
    if isinstance(cell, bytes):
        text = f"x'{cell[:SHOWN_CELL].hex()}'"
    elif isinstance(cell, Decimal):
        text = format(cell, "f") if cell.is_finite() else str(cell)
    else:
        text = str(cell)
        if isinstance(cell, str) and (cell == "NULL" or "|" in cell or len(cell.splitlines()) > 1):
            text = "'" + text.replace("\n", "\\n") + "'"
    return text if len(text) <= SHOWN_CELL else f"{text[:SHOWN_CELL]}… ({len(text)} characters)"


def tables_text(schema: Sequence[TableSchema]) -> str:
    """The tables and how they refer to each other."""
    lines = [f"{_count(len(schema), 'table')}:"]
    for table in schema:
        refers = [f"{', '.join(key.columns)} -> {key.table}" for key in table.foreign_keys]
        kind = " (view)" if table.view else ""
        lines.append(f"{table.name}{kind}: {_count(len(table.columns), 'column')}" + "".join(f"; {r}" for r in refers))
    return "\n".join(lines)


def columns_text(table: TableSchema) -> str:
    """A table's columns with types, key and references."""
    references = {
        column: f"{key.table}.{target}"
        for key in table.foreign_keys
        for column, target in zip(key.columns, key.references, strict=False)
    }
    lines = [f"{table.name}: {_count(len(table.columns), 'column')}"]
    for column in table.columns:
        marks = ["primary key"] if column.name in table.primary_key else ["not null"] if column.not_null else []
        marks += [f"-> {references[column.name]}"] if column.name in references else []
        lines.append(f"{column.name} {column.type or '(no type)'}" + "".join(f", {mark}" for mark in marks))
    return "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
