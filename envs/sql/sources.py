"""Where tasks come from: the generator or a benchmark's own files; and how a task becomes what is played."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core.errors import InvalidArgument, MissingData, UnknownTask
from ..core.tasks import SPLITS, Task, TaskSet, check_split
from . import official
from .generate import tasks as generated


class SqlTasks(TaskSet):
    """The generated tasks of a split, or a benchmark's; `get` knows the ids of both.

    Args:
        kind: "read", "write" or "interact".
        split: `train`, `valid_seen`, `valid_unseen` or `test`.
        source: "generated" or the name of a benchmark that has tasks of this kind.
        path: the benchmark's folder.
        levels: generated tasks of these levels; None is all.
        domains: generated tasks of these domains; None is all.
        small: generated databases with about a third of the rows.
        lint: leave out a benchmark's tasks that the lint finds fault with; it runs every gold statement once.

    Raises:
        InvalidArgument: an argument outside what is listed here.
        MissingData: the benchmark's files are not in `path`.
    """

    def __init__(
        self,
        kind: str,
        split: str = "train",
        source: str = "generated",
        path: str | Path | None = None,
        levels: Sequence[str] | None = None,
        domains: Sequence[str] | None = None,
        small: bool = False,
        lint: bool = False,
    ) -> None:
        names = ("generated", *official.names(kind))
        if source not in names:
            raise InvalidArgument(f"source must be one of {', '.join(names)}, not {source!r}")
        self.kind, self.split, self.source = kind, check_split(split), source
        self._path = ""
        self._set: TaskSet | None = None
        if source == "generated":
            if path is not None or lint:
                raise InvalidArgument("path=… and lint=… belong to a benchmark: pass source=… with them")
            self._set = generated.GeneratedTasks(kind, split, levels, domains, small)
            return
        if levels is not None or domains is not None or small:
            raise InvalidArgument("levels, domains and small choose among generated tasks: leave them out")
        if path is None:
            raise MissingData(f"source={source!r} needs path=…, the folder of the benchmark's files")
        self._path = str(Path(path).expanduser().resolve())
        playable = [each for each in official.entries(source, self._path).values() if not each.refused]
        found = {entry.split for entry in playable if entry.kind == kind}
        if split not in found:
            has = ", ".join(name for name in SPLITS if name in found) or "no split"
            raise MissingData(f"{self._path} has no {source} {kind} tasks of split {split!r}; it has {has}")
        self._ids = [each.id for each in playable if each.kind == kind and each.split == split]
        if lint:
            faults = official.faults(source, self._path)
            self._ids = [each for each in self._ids if each not in faults]

    def __len__(self) -> int:
        return len(self._ids) if self._set is None else len(self._set)

    def at(self, index: int) -> Task:
        """The task with this number."""
        return self.get(self._ids[index]) if self._set is None else self._set.at(index)

    def get(self, task_id: str) -> Task:
        """The task with this id, generated or of the benchmark in use, of any split."""
        if self._set is None and task_id.startswith(f"sql/{self.source}/"):
            entry = official.entries(self.source, self._path).get(task_id)
            if entry is None or entry.kind != self.kind:
                raise UnknownTask(f"no task {task_id[:200]!r} in {self._path}; ids look like {self._ids[0]!r}")
            if entry.refused:
                raise UnknownTask(f"{task_id} cannot be played: {entry.refused}")
            return Task(entry.id, entry.split, {"source": self.source, "path": self._path})
        return generated.find(self.kind, task_id)


def load_task(task: Task) -> Any:
    """The `ReadTask`, `WriteTask` or `InteractTask` of a task. Raises `MissingData` where its files are gone."""
    if "recipe" in task.params:
        recipe = task.params["recipe"]
        return generated.LOADERS[recipe.kind](recipe)
    return official.load(task.params["source"], task.params["path"], task.id)
