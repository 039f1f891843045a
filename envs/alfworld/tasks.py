"""The set of generated games: millions, numbered by arithmetic and built on demand.

Ids: "alfworld/gen1/train/pick_and_place_simple-Mug-None-Desk-308/1234"; the last number is the seed. "gen1r6" marks
rooms with about six receptacles.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

from ..core.errors import InvalidArgument, UnknownTask
from ..core.tasks import SPLITS, Task, TaskSet, check_split
from . import generator
from .game import TASK_TYPES, Game
from .generator import Recipe
from .scenes import ROOMS, Combo, combos, room_of, scene_numbers

SEEDS = 1_000_000
"""Games per task combination and split; seeds run below this."""
_PER_TYPE = 1_000_000  # about: each task type has the same share of a set, whatever its number of combinations
_ID = re.compile(
    rf"alfworld/{generator.VERSION}(?:r(?P<receptacles>[1-9]\d?))?/(?P<split>\w+)/"
    r"(?P<name>(?P<task_type>\w+)-(?P<object>\w+)-None-(?P<receptacle>\w+)-(?P<scene>\d+))/(?P<seed>\d{1,6})"
)
_FORM = f"alfworld/{generator.VERSION}/train/pick_and_place_simple-Mug-None-Desk-308/1234"


class GeneratedTasks(TaskSet):
    """The generated games of a split: every combination of task type, object, receptacle and scene, many seeds each.

    Args:
        split: `train`, `valid_seen` (the training scenes, other games), `valid_unseen` or `test` (other scenes).
        task_types: names or numbers 1 to 6; None is all. Each has about the same share of the set.
        rooms: "kitchen", "livingroom", "bedroom", "bathroom"; None is all.
        max_receptacles: keep about this many receptacles of each scene (smaller rooms for a curriculum).

    Raises:
        InvalidArgument: an unknown type or room, or filters that leave nothing.
    """

    def __init__(
        self,
        split: str = "train",
        task_types: Sequence[str | int] | None = None,
        rooms: Sequence[str] | None = None,
        max_receptacles: int | None = None,
    ) -> None:
        self.split = check_split(split)
        if max_receptacles is not None and not 1 <= max_receptacles <= 99:
            raise InvalidArgument(f"max_receptacles must be 1 to 99 or None, not {max_receptacles!r}")
        self._max_receptacles = max_receptacles
        table = [_enumerate(split, task_type, check_rooms(rooms)) for task_type in check_task_types(task_types)]
        self._combos = [found for found in table if found]
        if not self._combos:
            raise InvalidArgument(f"no games of task_types={task_types!r} in rooms={rooms!r}: choose others")
        self._seeds = [min(SEEDS, _PER_TYPE // len(found)) for found in self._combos]
        sizes = [len(found) * seeds for found, seeds in zip(self._combos, self._seeds)]
        self._ends = list(accumulate(sizes))

    def __len__(self) -> int:
        return self._ends[-1]

    def at(self, index: int) -> Task:
        """The task with this number: types in order, within a type its combinations, within those the seeds."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        kind = bisect.bisect_right(self._ends, index)
        offset = index - (self._ends[kind - 1] if kind else 0)
        which, seed = divmod(offset, self._seeds[kind])
        return _task(Recipe(self._combos[kind][which], self.split, seed, self._max_receptacles))

    def get(self, task_id: str) -> Task:
        """The generated task with this id, of any split and whatever this set's filters."""
        return self.find(task_id)

    @staticmethod
    def find(task_id: str) -> Task:
        """See `get`."""
        match = _ID.fullmatch(task_id)
        if match is None or match["split"] not in SPLITS or match["task_type"] not in TASK_TYPES.values():
            raise UnknownTask(f"no task {task_id[:200]!r}; ids look like {_FORM!r}")
        combo = Combo(match["task_type"], match["object"], match["receptacle"], int(match["scene"]))
        if combo.scene not in scene_numbers(match["split"]) or combo not in combos(combo.scene, combo.task_type):
            raise UnknownTask(f"no task {task_id!r}: {match['name']} is not in split {match['split']!r}")
        receptacles = int(match["receptacles"]) if match["receptacles"] else None
        return _task(Recipe(combo, match["split"], int(match["seed"]), receptacles))


def check_task_types(task_types: Sequence[str | int] | None) -> tuple[str, ...]:
    """The names for names or numbers, in the benchmark's order. Raises `InvalidArgument` for unknown ones."""
    if task_types is None:
        return tuple(TASK_TYPES.values())
    given = [task_types] if isinstance(task_types, str | int) else list(task_types)
    named = {TASK_TYPES.get(entry, entry) if isinstance(entry, int) else entry for entry in given}
    unknown = [entry for entry in named if entry not in TASK_TYPES.values()]
    if unknown or not named:
        raise InvalidArgument(f"no task type {unknown[0]!r}" if unknown else "task_types is empty") from None
    return tuple(name for name in TASK_TYPES.values() if name in named)


def check_rooms(rooms: Sequence[str] | None) -> tuple[str, ...]:
    """The rooms, in a fixed order. Raises `InvalidArgument` for unknown ones."""
    if rooms is None:
        return tuple(ROOMS)
    given = {rooms} if isinstance(rooms, str) else set(rooms)
    if not given or not given <= set(ROOMS):
        raise InvalidArgument(f"rooms must be some of {', '.join(ROOMS)}, not {rooms!r}")
    return tuple(room for room in ROOMS if room in given)


@lru_cache(256)
def load_generated(recipe: Recipe) -> Game:
    """The game of a recipe; the most recent ones are kept, as group starts ask for the same again and again."""
    return generator.game(generator.draft(recipe))


@lru_cache(None)
def _enumerate(split: str, task_type: str, rooms: tuple[str, ...]) -> tuple[Combo, ...]:
    numbers = [number for number in scene_numbers(split) if room_of(number) in rooms]
    return tuple(combo for number in numbers for combo in combos(number, task_type))


def _task(recipe: Recipe) -> Task:
    small = f"r{recipe.max_receptacles}" if recipe.max_receptacles else ""
    name = f"alfworld/{generator.VERSION}{small}/{recipe.split}/{recipe.combo.name}/{recipe.seed}"
    return Task(name, recipe.split, {"recipe": recipe})
