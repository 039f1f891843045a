"""`NumberedTasks`: the finite task set of a toy, cut into disjoint splits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..core.errors import InvalidArgument, UnknownTask
from ..core.tasks import SPLITS, Task, TaskSet, check_split
from ..core.text_env import text_key

T = TypeVar("T")
MOST = 1_000_000  # tasks of one set: more would not fit numpy's integers, and nobody plays them


class NumberedTasks(TaskSet):
    """Tasks built from the numbers `0 .. count-1`, each number in exactly one split.

    The numbers are visited in an order that jumps about (multiples of a stride with no divisor in common with
    `count`), and the splits are slices of that order: about 70 % train and 10 % for each of the others.

    Args:
        prefix: start of every id; holds the constructor arguments that change what a number means.
        count: how many different tasks there are, at least 10.
        build: number -> the task's parameters; a bijection makes the splits disjoint in content.
        split: the split to draw from.
    """

    def __init__(self, prefix: str, count: int, build: Callable[[int], Mapping[str, Any]], split: str) -> None:
        if count < 10:
            raise InvalidArgument(f"{prefix}: only {count} different tasks; larger sizes give the 10 that splits need")
        self.split = check_split(split)
        self._prefix, self._count, self._build = prefix, count, build
        self._stride = round(count * 0.618)
        while math.gcd(self._stride, count) != 1:
            self._stride += 1
        used = min(count, MOST)
        rest = used // 10
        sizes = {name: used - 3 * rest if name == "train" else rest for name in SPLITS}
        starts = {name: sum(list(sizes.values())[:i]) for i, name in enumerate(SPLITS)}
        self._slices = {name: range(starts[name], starts[name] + sizes[name]) for name in SPLITS}

    def __len__(self) -> int:
        return len(self._slices[self.split])

    def at(self, index: int) -> Task:
        """The task with this number in the split."""
        return self._task(self.split, index)

    def get(self, task_id: str) -> Task:
        """The task with this id, of any split."""
        head, _, index = task_id.rpartition("-")
        split = head.removeprefix(f"{self._prefix}-")
        if split in self._slices and index.isdecimal() and len(index) < 10 and int(index) < len(self._slices[split]):
            task = self._task(split, int(index))
            if task.id == task_id:
                return task
        raise UnknownTask(f"no task {task_id!r}; ids look like '{self._prefix}-{self.split}-0'")

    def _task(self, split: str, index: int) -> Task:
        number = self._slices[split][index] * self._stride % self._count
        return Task(f"{self._prefix}-{split}-{index}", split, dict(self._build(number)))


def digits(number: int, base: int, length: int) -> list[int]:
    """The last `length` digits of `number` in `base`, least significant first."""
    found = []
    for _ in range(length):
        number, digit = divmod(number, base)
        found.append(digit)
    return found


def pick(n: int, *parts: str | int) -> int:
    """A number in `0 .. n-1` that depends on `parts` only: the same with every version of every library."""
    return int(text_key(*map(str, parts)), 16) % n


def shuffled(items: Sequence[T], *parts: str | int) -> list[T]:
    """The items in an order that depends on `parts` only."""
    return [items[i] for i in sorted(range(len(items)), key=lambda i: text_key(*map(str, parts), str(i)))]
