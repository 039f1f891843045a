"""Task folders of either format, as they are on disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..core.errors import MissingData, UnknownTask
from ..core.tasks import Task, TaskSet, check_split
from . import harbor, terminal_bench
from .task import TerminalTask

_MARKS = {"task.toml": "harbor", "task.yaml": "terminal-bench"}


def load_task(folder: Path | str, variables: Mapping[str, str] | None = None) -> TerminalTask:
    """The task in `folder`, whichever of the two formats it is in.

    Args:
        folder: holds `task.toml` (Harbor, Terminal-Bench 2) or `task.yaml` (Terminal-Bench 1).
        variables: values for `${NAME}` in a Harbor task's `env` tables.

    Raises:
        MissingData: neither file is there, or another one that the format demands is not.
        BadTask: a file does not keep the format; the message names the file and the key.
    """
    place = Path(folder)
    if (place / "task.toml").is_file():
        return harbor.load(place, variables)
    if (place / "task.yaml").is_file():
        return terminal_bench.load(place)
    raise MissingData(f"{place}: neither task.toml (Harbor) nor task.yaml (Terminal-Bench 1) is there")


def find_folders(root: Path | str) -> list[Path]:
    """The task folders at or below `root`, in order. Nothing is looked for inside a task.

    Raises:
        MissingData: there is none.
    """
    found: list[Path] = []
    place = Path(root).expanduser()
    waiting = [place] if place.is_dir() else []
    while waiting:
        folder = waiting.pop()
        if any((folder / mark).is_file() for mark in _MARKS):
            found.append(folder)
        else:
            waiting += [child for child in folder.iterdir() if child.is_dir() and not child.name.startswith(".")]
    if not found:
        raise MissingData(f"{root}: no folder there holds a {' or a '.join(_MARKS)}")
    return sorted(found)


class FolderTasks(TaskSet):
    """The tasks below a folder. Ids are "NAME", or "SUBFOLDER/NAME" where they lie deeper.

    Folders have no splits of their own: they are all in the split that is asked for.
    """

    def __init__(self, root: Path | str, split: str = "test") -> None:
        self.split = check_split(split)
        base = Path(root).expanduser()
        folders = find_folders(base)
        names = {folder.relative_to(base).as_posix() if folder != base else folder.name: folder for folder in folders}
        self._tasks = [Task(name, split, {"folder": str(folder)}) for name, folder in names.items()]
        self._by_id = {task.id: task for task in self._tasks}

    def __len__(self) -> int:
        return len(self._tasks)

    def at(self, index: int) -> Task:
        """The task with this number."""
        return self._tasks[index]

    def get(self, task_id: str) -> Task:
        """The task with this id."""
        if task_id not in self._by_id:
            raise UnknownTask(f"no task {task_id[:200]!r}; ids look like {self._tasks[0].id!r}")
        return self._by_id[task_id]
