"""The benchmarks' own files: found, indexed, and made into tasks when they are played."""

from __future__ import annotations

import importlib
from collections import Counter
from functools import lru_cache
from typing import Any

from ...core.errors import MissingData, UnknownTask
from .entry import Entry

LOADERS = {
    "spider": (("read",), "spider"),
    "bird": (("read",), "bird"),
    "spider2": (("read",), "spider2"),
    "dbbench": (("read", "write"), "dbbench"),
    "bird_interact": (("interact",), "bird_interact"),
}
"""Name of the benchmark -> kinds of its tasks, module beside this one whose `read` finds them."""


def names(kind: str) -> tuple[str, ...]:
    """The benchmarks with tasks of this kind."""
    return tuple(name for name, (kinds, _) in LOADERS.items() if kind in kinds)


@lru_cache(16)
def entries(source: str, path: str) -> dict[str, Entry]:
    """The tasks in a benchmark's folder by id, those included that cannot be played.

    Raises:
        MissingData: the files are not there or are broken, or no task can be played; the message says what is expected
            where, or why.
    """
    module = importlib.import_module(f".{LOADERS[source][1]}", __name__)
    found: list[Entry] = module.read(path)
    if all(entry.refused for entry in found):
        reasons = Counter(entry.refused for entry in found)
        why = "; ".join(f"{count}: {reason}" for reason, count in reasons.items()) or "the files are empty"
        raise MissingData(f"{path} has no {source} tasks that can be played ({why})")
    return {entry.id: entry for entry in found}


@lru_cache(256)
def load(source: str, path: str, task_id: str) -> Any:
    """The task with this id, ready to be played. Raises `UnknownTask` where the folder has no such task."""
    entry = entries(source, path).get(task_id)
    if entry is None:
        raise UnknownTask(f"no task {task_id[:200]!r} in {path}")
    if entry.refused:
        raise UnknownTask(f"{task_id} cannot be played: {entry.refused}")
    return entry.build()


@lru_cache(16)
def faults(source: str, path: str) -> dict[str, str]:
    """What the lint says about the benchmark's gold statements: id -> "fails", "empty", "tie" … for those it rejects.

    Runs every gold statement once, in this process, on copies in memory: the benchmark's files are trusted.
    """
    from ..generate.lint import lint, lint_change

    found = {}
    for entry in entries(source, path).values():
        if entry.refused:
            continue
        task = entry.build()
        connection = task.database.open()
        try:
            if entry.kind == "write":
                fault = lint_change(task.gold, connection)
            else:
                golds = [task.gold] if entry.kind == "read" else [phase.gold for phase in task.phases]
                fault = next(filter(None, (lint(gold, connection) for gold in golds)), None)
        finally:
            connection.close()
        if fault:
            found[entry.id] = fault
    return found
