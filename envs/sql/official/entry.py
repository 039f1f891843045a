"""One task of a benchmark, and how its files are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...core.errors import InvalidArgument, MissingData
from ..backends.database import Database


@dataclass(frozen=True)
class Entry:
    """A task that is made ready only when it is played."""

    id: str
    split: str
    kind: str
    """"read", "write" or "interact"."""
    build: Callable[[], Any]
    """Makes the `ReadTask`, `WriteTask` or `InteractTask`; raises `MissingData` where a file is broken."""
    refused: str = ""
    """Why it cannot be played here; "" for those that can."""


def read_json(path: Path) -> Any:
    """The content of a JSON or JSON-lines file. Raises `MissingData` with its name where it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".jsonl":
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        return json.loads(text)
    except OSError as error:
        raise MissingData(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise MissingData(f"broken file {path}: not JSON ({error})") from error


def field(item: Any, name: str, path: Path) -> str:
    """A text field of an item. Raises `MissingData` that names the file where it is missing."""
    value = item.get(name) if isinstance(item, dict) else None
    if not isinstance(value, str):
        raise MissingData(f"broken file {path}: an item without a text {name!r}")
    return value


@lru_cache(64)
def database(folder: str, name: str) -> Database:
    """The database `name` below `folder`: `<name>/<name>.sqlite` as published, or `<name>/schema.sql`.

    Raises:
        MissingData: neither is there, or it is broken.
    """
    for path in (Path(folder, name, f"{name}.sqlite"), Path(folder, f"{name}.sqlite")):
        if path.is_file():
            return Database.from_file(path, name)
    script = Path(folder, name, "schema.sql")
    if not script.is_file():
        raise MissingData(f"no database {name!r}: expected {Path(folder, name, name)}.sqlite")
    try:
        return Database.from_script(name, script.read_text(encoding="utf-8"))
    except InvalidArgument as error:
        raise MissingData(f"broken file {script}: {error}") from error
