"""The tasks of programs: every (program, seed) is one, and the last digit of the seed says which split it is of."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..core.errors import InvalidArgument, UnknownTask
from ..core.tasks import Task, TaskSet, check_split
from .program import Program

if TYPE_CHECKING:
    from .pool import Pool

SEEDS = 100_000
"""Seeds run below this."""
DIGITS: dict[str, tuple[int, ...]] = {
    "train": (0, 1, 2, 3, 4, 5, 6),
    "valid_seen": (7,),
    "valid_unseen": (8,),
    "test": (9,),
}
"""The last digits of a split's seeds."""
ROLES = ("train", "valid_unseen", "test")
"""What a program of a pool is for; training programs have tasks in `train` and, with other seeds, in `valid_seen`."""
_ID = re.compile(r"selfplay/([0-9a-f]{12})/(0|[1-9]\d{0,4})(/hint)?")
_FORM = "selfplay/0123456789ab/17"
_OF_DIGIT = {digit: split for split, digits in DIGITS.items() for digit in digits}


class Entry(NamedTuple):
    """A program and what it is for."""

    program: Program
    role: str | None
    """One of `ROLES`; None serves every split."""
    live: bool = True
    """False for a retired one: its tasks are found by their ids, and not drawn."""


def role_of(split: str) -> str:
    """The role of the programs that a split's tasks are played with."""
    return "train" if split == "valid_seen" else split


class ProgramTasks(TaskSet):
    """The tasks of some programs.

    Args:
        split: the split to draw from.
        programs: a function that returns the programs by id. It is called again when an id is unknown, because a
            pool grows.
        pool: the pool that they are from, if it is one on disk.

    Raises:
        InvalidArgument: no program serves that split.
    """

    def __init__(self, split: str, programs: Callable[[], Mapping[str, Entry]], pool: Pool | None = None) -> None:
        self.split, self.pool = check_split(split), pool
        self._source = programs
        self.refresh()
        if not self._names:
            raise InvalidArgument(f"the pool has no program for the split {split!r}")

    def refresh(self) -> None:
        """Look at the pool again: what was added or retired since."""
        self._programs = dict(self._source())
        self._names = [name for name, entry in self._programs.items() if entry.live and self._serves(name, self.split)]

    def program(self, name: str) -> Program:
        """The program with this id. Raises `UnknownTask`."""
        if name not in self._programs:
            self.refresh()
        if name not in self._programs:
            raise UnknownTask(f"no program {name[:40]!r} in the pool; it has {len(self._programs)}")
        return self._programs[name].program

    def __len__(self) -> int:
        return len(self._names) * self._each

    def at(self, index: int) -> Task:
        """The task with this number: all seeds of one program, then of the next."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        which, number = divmod(index, self._each)
        digits = DIGITS[self.split]
        tens, digit = divmod(number, len(digits))
        return _task(self._names[which], 10 * tens + digits[digit], self.split)

    def get(self, task_id: str) -> Task:
        """The task with this id, of any split that its program serves."""
        match = _ID.fullmatch(task_id)
        if match is None:
            raise UnknownTask(f"no task {task_id[:80]!r}; ids look like {_FORM!r}")
        name, seed = match[1], int(match[2])
        self.program(name)
        split = _OF_DIGIT[seed % 10]
        if not self._serves(name, split):
            role = self._programs[name].role
            raise UnknownTask(f"{task_id}: seeds that end in {seed % 10} are of {split}, and the program is of {role}")
        task = _task(name, seed, split)
        return self.hinted(task) if match[3] else task

    def hinted(self, task: Task) -> Task:
        """The same task with the hint in its instruction, for measuring what the hint is worth."""
        return Task(f"{task.id}/hint", task.split, {**task.params, "hint": True})

    @property
    def _each(self) -> int:
        return SEEDS // 10 * len(DIGITS[self.split])

    def _serves(self, name: str, split: str) -> bool:
        return self._programs[name].role in (None, role_of(split))


def seeds(split: str, count: int) -> list[int]:
    """The first `count` seeds of a split."""
    digits = DIGITS[check_split(split)]
    return [10 * (i // len(digits)) + digits[i % len(digits)] for i in range(count)]


def _task(name: str, seed: int, split: str) -> Task:
    return Task(f"selfplay/{name}/{seed}", split, {"program": name, "seed": seed})
