"""AgentBench's dbbench: JSON lines with the table in each item; INSERT and UPDATE are write tasks, the rest questions.

The benchmark judges questions by a label. A question is taken where its statement gives just the label on SQLite: many
do not (the statements were written for MySQL or cut off), and those are refused.
"""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

from ...core.errors import InvalidArgument, MissingData
from ..backends.database import Column, Database, Table, TableSchema
from ..task import ReadTask, WriteTask
from .entry import Entry, field, read_json

FILES = {"standard.jsonl": "test", "dev.jsonl": "valid_unseen"}
WRITES = ("INSERT", "UPDATE", "DELETE")
WRONG = "on SQLite its statement does not give its label"


def read(path: str) -> list[Entry]:
    """The tasks in a folder with `standard.jsonl` or `dev.jsonl`, or in one file.

    Raises:
        MissingData: there are none, or the file is broken.
    """
    given = Path(path)
    files = [given] if given.is_file() else [given / name for name in FILES if (given / name).is_file()]
    if not files:
        raise MissingData(f"no dbbench tasks in {path}: expected standard.jsonl or dev.jsonl")
    found = []
    for file in files:
        for number, item in enumerate(read_json(file)):
            kinds = item.get("type") if isinstance(item, dict) else None
            if not isinstance(kinds, list) or not kinds:
                raise MissingData(f"broken file {file}: item {number} has no list 'type'")
            kind = "write" if kinds[0] in WRITES else "read"
            refused = "" if kind == "write" or _gives_label(item, file) else WRONG
            build = partial(_task, item, file, kind)
            split = FILES.get(file.name, "test")
            found.append(Entry(f"sql/dbbench/{file.stem}/{number}", split, kind, build, refused))
    return found


def _task(item: Any, file: Path, kind: str) -> ReadTask | WriteTask:
    text = f"{field(item, 'description', file)} {item.get('add_description') or ''}".strip()
    statement = _statement(item, file)
    if kind == "write":
        return WriteTask(_database(item, file), text, (statement,), str(item["type"][0]))
    return ReadTask(_database(item, file), text, statement, str(item["type"][0]))


def _statement(item: Any, file: Path) -> str:
    sql = item.get("sql")
    return field(sql, "query", file) if isinstance(sql, dict) else field(item, "sql", file)


def _database(item: Any, file: Path) -> Database:
    try:
        info = item["table"]["table_info"]
        name = item["table"]["table_name"]
        columns = tuple(Column(column["name"], column.get("type", "TEXT")) for column in info["columns"])
        rows = tuple(tuple(row) for row in info["rows"])
        return Database.from_tables("dbbench", [Table(TableSchema(name, columns), rows)])
    except (KeyError, TypeError, InvalidArgument) as error:
        raise MissingData(f"broken file {file}: a table that cannot be built ({error})") from error


def _gives_label(item: Any, file: Path) -> bool:
    """Whether the statement's result is the label: as a set of texts, numbers to two places."""
    connection = _database(item, file).open()
    try:
        rows = connection.execute(_statement(item, file)).fetchall()
    except (sqlite3.Error, sqlite3.Warning, MissingData):
        return False
    finally:
        connection.close()
    cells = {_comparable(cell) for row in rows for cell in row}
    return cells == set(map(_comparable, item.get("label") or ())) and bool(cells)


def _comparable(cell: Any) -> str:
    try:
        return f"{float(cell):.2f}"
    except (TypeError, ValueError):
        return str(cell)
