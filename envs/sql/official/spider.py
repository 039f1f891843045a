"""Spider 1.0: `train_spider.json`, `train_others.json`, `dev.json`, `test.json` and `database/<id>/<id>.sqlite`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from ...core.errors import MissingData
from ..task import ReadTask
from .entry import Entry, database, field, read_json

FILES = {
    "train_spider.json": ("train", "database"),
    "train_others.json": ("train", "database"),
    "dev.json": ("valid_unseen", "database"),
    "test.json": ("test", "test_database"),
}
"""File -> split, folder of its databases. Spider's dev databases are not among those of its training questions."""


def read(path: str) -> list[Entry]:
    """The questions of a Spider folder. Raises `MissingData` where there are none."""
    found = []
    for name, (split, folder) in FILES.items():
        file = Path(path, name)
        if not file.is_file():
            continue
        databases = Path(path, folder) if Path(path, folder).is_dir() else Path(path, "database")
        for number, item in enumerate(read_json(file)):
            build = partial(_task, item, file, str(databases))
            found.append(Entry(f"sql/spider/{file.stem}/{number}", split, "read", build))
    if not found:
        raise MissingData(f"no Spider questions in {path}: expected dev.json or train_spider.json, and database/")
    return found


def _task(item: Any, file: Path, databases: str) -> ReadTask:
    gold = field(item, "query", file)
    return ReadTask(database(databases, field(item, "db_id", file)), field(item, "question", file), gold)
