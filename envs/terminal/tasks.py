"""The set of generated tasks: numbered by arithmetic, built on demand.

Ids: "terminal/gen1/train/permissions-2/1234": version, split, family and level, seed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..core.errors import InvalidArgument, UnknownTask
from ..core.tasks import SPLITS, Task, TaskSet, check_split
from .families import FAMILIES, LEVELS
from .generator import VERSION

SEEDS = 1_000_000
"""Tasks per family, level and split; seeds run below this."""
_ID = re.compile(rf"terminal/{VERSION}/(?P<split>\w+)/(?P<family>\w+)-(?P<level>\d)/(?P<seed>0|[1-9]\d{{0,5}})")
_FORM = f"terminal/{VERSION}/train/permissions-2/1234"


class GeneratedTasks(TaskSet):
    """The generated tasks of a split.

    Args:
        split: `train`, `valid_seen` (the same words, other tasks), `valid_unseen` or `test` (other words and names).
        family: a name, some names, or None for all.
        level: 1 to 3, some of them, or None for all.

    Raises:
        InvalidArgument: an unknown family or level.
    """

    def __init__(
        self,
        split: str = "train",
        family: str | Sequence[str] | None = None,
        level: int | Sequence[int] | None = None,
    ) -> None:
        self.split = check_split(split)
        families, levels = check_families(family), check_levels(level)
        self._combos = [(name, number) for number in levels for name in families]

    def __len__(self) -> int:
        return len(self._combos) * SEEDS

    def at(self, index: int) -> Task:
        """The task with this number: all seeds of the easiest level's first family, then of the next family."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        combo, seed = divmod(index, SEEDS)
        return _task(self.split, *self._combos[combo], seed)

    def get(self, task_id: str) -> Task:
        """The generated task with this id, of any split, family and level."""
        match = _ID.fullmatch(task_id)
        if match and match["split"] in SPLITS and match["family"] in FAMILIES and int(match["level"]) in LEVELS:
            return _task(match["split"], match["family"], int(match["level"]), int(match["seed"]))
        raise UnknownTask(f"no task {task_id[:200]!r}; ids look like {_FORM!r}")


def check_families(family: str | Sequence[str] | None) -> tuple[str, ...]:
    """The names, in a fixed order. Raises `InvalidArgument` for unknown ones."""
    given = tuple(FAMILIES) if family is None else (family,) if isinstance(family, str) else tuple(family)
    unknown = [name for name in given if name not in FAMILIES]
    if unknown or not given:
        raise InvalidArgument(f"no family {unknown[:1]}; choose from {', '.join(FAMILIES)}")
    return tuple(name for name in FAMILIES if name in given)


def check_levels(level: int | Sequence[int] | None) -> tuple[int, ...]:
    """The levels, in order. Raises `InvalidArgument` for unknown ones."""
    given = LEVELS if level is None else (level,) if isinstance(level, int) else tuple(level)
    if not given or any(number not in LEVELS for number in given):
        raise InvalidArgument(f"level must be some of {', '.join(map(str, LEVELS))}, not {level!r}")
    return tuple(number for number in LEVELS if number in given)


def _task(split: str, family: str, level: int, seed: int) -> Task:
    name = f"terminal/{VERSION}/{split}/{family}-{level}/{seed}"
    return Task(name, split, {"family": family, "level": level, "seed": seed, "split": split})
