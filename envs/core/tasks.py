"""Tasks and task sets: what an episode is about, named so that any process can rebuild it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .errors import UnknownTask

SPLITS = ("train", "valid_seen", "valid_unseen", "test")


@dataclass(frozen=True)
class Task:
    """One task: an id that names it for ever, its split, and what its environment needs to start it.

    `params` is privileged: it may hold gold answers and never reaches an observation or `info`.
    """

    id: str
    split: str
    params: Mapping[str, Any] = field(default_factory=dict, hash=False)


class TaskSet(ABC):
    """The tasks of one split, numbered `0 .. len-1`; generated sets may be very large and build tasks on demand.

    A task's split is a property of the task: `get` finds a task of any split, so that `info["task_id"]` from
    one worker starts the same task in another, whatever split that worker samples from.
    """

    split: str

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def at(self, index: int) -> Task:
        """The task with this number. Raises IndexError outside `0 .. len-1`."""

    @abstractmethod
    def get(self, task_id: str) -> Task:
        """The task with this id, of any split. Raises `UnknownTask` with the form that ids have."""

    def sample(self, rng: np.random.Generator) -> Task:
        """A task drawn uniformly."""
        return self.at(int(rng.integers(len(self))))

    def first(self, n: int) -> list[Task]:
        """A fixed list of up to `n` tasks spread evenly over the set: the one to evaluate on."""
        n = min(n, len(self))
        return [self.at(i * len(self) // n) for i in range(n)]

    def __iter__(self) -> Iterator[Task]:
        return (self.at(i) for i in range(len(self)))


class ListTasks(TaskSet):
    """A task set over an explicit list that holds the tasks of every split."""

    def __init__(self, tasks: list[Task], split: str = "train") -> None:
        self.split = check_split(split, {task.split for task in tasks})
        self._all = {task.id: task for task in tasks}
        self._tasks = [task for task in tasks if task.split == split]

    def __len__(self) -> int:
        return len(self._tasks)

    def at(self, index: int) -> Task:
        """The task with this number in the split."""
        return self._tasks[index]

    def get(self, task_id: str) -> Task:
        """The task with this id."""
        try:
            return self._all[task_id]
        except KeyError:
            known = ", ".join(repr(name) for name in list(self._all)[:3])
            raise UnknownTask(f"no task {task_id!r}; ids look like {known}") from None


def check_split(split: str, known: set[str] | tuple[str, ...] = SPLITS) -> str:
    """`split` itself. Raises `UnknownTask` that lists the splits where it is not one of them."""
    if split not in known:
        raise UnknownTask(f"no split {split!r}; choose from {', '.join(sorted(known))}")
    return split
