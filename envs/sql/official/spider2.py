"""Spider2-lite, the tasks on SQLite (`local…`): questions, background documents and the benchmark's result files.

`spider2-lite.jsonl`, `resource/databases/spider2-localdb/<db>.sqlite`, `resource/documents/<name>.md`, and in
`evaluation_suite/gold`: `exec_result/<id>.csv` or `<id>_a.csv`, `<id>_b.csv` … (each one is right),
`spider2lite_eval.jsonl` (which columns count, whether order does) and, for some, `sql/<id>.sql`.
"""

from __future__ import annotations

import csv
import re
from functools import partial
from pathlib import Path
from typing import Any

from ...core.errors import MissingData
from ..backends.database import Database
from ..generate.database import literal
from ..task import Answer, ReadTask
from .entry import Entry, field, read_json

GOLD = "evaluation_suite/gold"
CLOUD = "it runs in the cloud (BigQuery, Snowflake); the tasks on SQLite have ids that begin with local"
NO_RESULT = f"it has no result: expected {GOLD}/exec_result/<id>.csv"
FOLDERS = ("resource/databases/spider2-localdb", "spider2-localdb", "resource/databases/local_sqlite", "databases", ".")
"""Where the databases may have been unpacked."""
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")


def read(path: str) -> list[Entry]:
    """The tasks of a Spider2-lite folder. Raises `MissingData` where its files are not."""
    file = Path(path, "spider2-lite.jsonl")
    if not file.is_file():
        raise MissingData(f"no Spider2-lite questions in {path}: expected spider2-lite.jsonl")
    rules_file = Path(path, GOLD, "spider2lite_eval.jsonl")
    rules = {rule["instance_id"]: rule for rule in read_json(rules_file)} if rules_file.is_file() else {}
    found = []
    for item in read_json(file):
        name = field(item, "instance_id", file)
        results = _results(path, name)
        refused = CLOUD if not name.startswith("local") else "" if results else NO_RESULT
        build = partial(_task, item, file, path, results, rules.get(name, {}))
        found.append(Entry(f"sql/spider2/{name}", "test", "read", build, refused))
    return found


def _results(path: str, name: str) -> list[Path]:
    folder = Path(path, GOLD, "exec_result")
    alone = folder / f"{name}.csv"
    return [alone] if alone.is_file() else sorted(folder.glob(f"{name}_[a-z].csv"))


def _task(item: Any, file: Path, path: str, results: list[Path], rule: dict[str, Any]) -> ReadTask:
    columns = rule.get("condition_cols") or []
    nested = bool(columns) and isinstance(columns[0], list)
    answers = tuple(
        Answer(_rows(result), tuple(columns[i] if nested else columns), bool(rule.get("ignore_order", False)))
        for i, result in enumerate(results)
        if not nested or i < len(columns)
    )
    statement = Path(path, GOLD, "sql", f"{field(item, 'instance_id', file)}.sql")
    gold = statement.read_text(encoding="utf-8").strip() if statement.is_file() else _constant(answers[0])
    document = item.get("external_knowledge")
    evidence = ""
    if document:
        source = Path(path, "resource/documents", document)
        if not source.is_file():
            raise MissingData(f"task {item['instance_id']} needs the document {source}")
        evidence = source.read_text(encoding="utf-8")
    return ReadTask(
        _database(path, field(item, "db", file)), field(item, "question", file), gold, "", evidence, answers=answers
    )


def _database(path: str, name: str) -> Database:
    for folder in FOLDERS:
        for file in (Path(path, folder, f"{name}.sqlite"), Path(path, folder, name, f"{name}.sqlite")):
            if file.is_file():
                return Database.from_file(file, name)
    raise MissingData(
        f"no database {name!r}: expected {Path(path, FOLDERS[0], name)}.sqlite (the benchmark's download)"
    )


def _rows(file: Path) -> tuple[tuple[Any, ...], ...]:
    """The rows of a result file, its header left out. Raises `MissingData` where it is broken."""
    try:
        with file.open(encoding="utf-8", newline="") as source:
            return tuple(tuple(map(_cell, row)) for row in list(csv.reader(source))[1:])
    except (csv.Error, UnicodeDecodeError) as error:
        raise MissingData(f"broken file {file}: {error}") from error


def _cell(text: str) -> Any:
    if text == "":
        return None
    if _NUMBER.fullmatch(text):
        return int(text) if text.lstrip("-").isdigit() else float(text)
    return text


def _constant(answer: Answer) -> str:
    """A statement that gives the rows: what the oracle submits where the benchmark has no gold statement."""
    return "VALUES " + ", ".join(f"({', '.join(map(literal, row))})" for row in answer.rows)
