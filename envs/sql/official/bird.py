"""BIRD and mini-dev: `train.json`, `dev.json`, `mini_dev_sqlite.json`, and `<split>_databases/<id>/<id>.sqlite`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ...core.errors import MissingData
from ..task import ReadTask
from .entry import Entry, database, field, read_json

FILES = {
    "train.json": ("train", "train_databases"),
    "dev.json": ("valid_unseen", "dev_databases"),
    "mini_dev_sqlite.json": ("valid_unseen", "dev_databases"),
}
"""File -> split, folder of its databases. Mini-dev is a part of dev."""
FOLDERS = (".", "train", "dev", "dev_20240627", "MINIDEV", "minidev/MINIDEV", "mini_dev_data")
"""Where the files are in the archives that the benchmark gives out."""
SEPARATOR = "\t----- bird -----\t"


def read(path: str) -> list[Entry]:
    """The questions of a BIRD folder. Raises `MissingData` where there are none."""
    found: dict[str, Entry] = {}
    for folder in FOLDERS:
        for name, (split, databases) in FILES.items():
            file = Path(path, folder, name)
            if not file.is_file():
                continue
            for number, item in enumerate(read_json(file)):
                given = item.get("question_id", number) if isinstance(item, dict) else number
                task_id = f"sql/bird/{file.stem}/{given}"
                build = partial(_task, item, file, str(file.parent / databases))
                found.setdefault(task_id, Entry(task_id, split, "read", build))
    if not found:
        raise MissingData(f"no BIRD questions in {path}: expected dev.json, train.json or mini_dev_sqlite.json")
    return list(found.values())


def predictions(answers: Mapping[str, tuple[str, str]]) -> str:
    """A predictions file as BIRD's evaluation reads it.

    Args:
        answers: task id -> (statement, database id), in the order of the questions.
    """
    lines = {str(i): f"{sql}{SEPARATOR}{name}" for i, (sql, name) in enumerate(answers.values())}
    return json.dumps(lines, ensure_ascii=False, indent=4)


def _task(item: Any, file: Path, databases: str) -> ReadTask:
    return ReadTask(
        database(databases, field(item, "db_id", file)),
        field(item, "question", file),
        field(item, "SQL" if isinstance(item, dict) and "SQL" in item else "query", file),
        str(item.get("difficulty", "")),
        str(item.get("evidence") or ""),
    )
