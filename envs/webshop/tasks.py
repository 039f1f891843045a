"""Task sets: the generated shop's goals, numbered by arithmetic and made on demand, and the benchmark's own.

Ids: "webshop/gen1-4000-0/human/train/1234" is training goal 1234 of the generated shop with 4000 products and seed 0,
"webshop/official1-5f0c…/human/17" human goal 17 over the shop that was made from those files. An id is a place in a
list and names no product.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Collection
from functools import cache
from pathlib import Path

import numpy as np

from ..core.errors import UnknownTask
from ..core.tasks import SPLITS, Task, TaskSet, check_split
from .generator import FAMILY, VERSION, kind_of
from .made_goals import VARIANTS
from .official import OfficialGoals, split_bounds
from .phrasing import LANGUAGES
from .wares import DEPARTMENTS, kinds

_SEEN = 10  # every so many products of the training kinds are kept for validation
_PERIOD = math.lcm(FAMILY * len(kinds()), _SEEN)
_MADE = re.compile(
    rf"webshop/{VERSION}-(?P<products>[1-9]\d{{0,7}})-(?P<seed>\d{{1,9}})/(?P<language>\w+)/(?P<split>\w+)/"
    r"(?P<index>\d{1,9})"
)
_OFFICIAL = re.compile(r"webshop/(?P<shop>official1-[0-9a-f]{16})/(?P<goals>human|synthetic)/(?P<number>\d{1,9})")
FORM = f"webshop/{VERSION}-4000-0/human/train/1234"
OFFICIAL_FORM = "webshop/official1-0123456789abcdef/human/17"


class MadeTasks(TaskSet):
    """The goals of a generated shop.

    A product belongs to one split: those of `kinds()` that are marked unseen to `valid_unseen` or `test`, so that these
    ask for kinds that training never does; of the others every tenth to `valid_seen`.

    Args:
        split: `train`, `valid_seen`, `valid_unseen` or `test`.
        products: how many products the shop has, from `smallest()`.
        seed: of the shop.
        language: one of `LANGUAGES`.
        departments: whose products are asked for.
    """

    def __init__(
        self, split: str, products: int, seed: int, language: str, departments: Collection[str] = DEPARTMENTS
    ) -> None:
        self.split, self.products, self.seed, self.language = check_split(split), products, seed, language
        self._numbers = _numbers(split, frozenset(departments))
        self._goals = _below(self._numbers, products)

    def __len__(self) -> int:
        return self._goals * VARIANTS

    def at(self, index: int) -> Task:
        """The task with this number: all products with their first goal, then all with their second, and so on."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        variant, place = divmod(index, self._goals)
        period, within = divmod(place, len(self._numbers))
        number = period * _PERIOD + self._numbers[within]
        return made_task(self.products, self.seed, self.language, number, variant)

    def get(self, task_id: str) -> Task:
        """The generated task with this id, of any split and any generated shop."""
        return find_made(task_id)


class OfficialTasks(TaskSet):
    """The benchmark's goals over the shop in `folder`, in its order; drawn by their weights.

    Args:
        folder: from `official_shop`.
        split: `train`, `valid_unseen` (the benchmark's "eval") or `test`.
        goals: "human" or "synthetic".
    """

    def __init__(self, folder: Path, split: str, goals: str) -> None:
        self.folder, self.goals = folder, goals
        self._all = OfficialGoals(folder, goals)
        bounds = split_bounds(len(self._all))
        self.split = check_split(split, set(bounds))
        self._low, self._high = bounds[split]

    def __len__(self) -> int:
        return self._high - self._low

    def at(self, index: int) -> Task:
        """The task with this number in the split."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._task(self._low + index)

    def sample(self, rng: np.random.Generator) -> Task:
        """A task drawn by weight; that the original never draws its first goal is not imitated."""
        return self._task(self._all.draw(rng, self._low, self._high))

    def get(self, task_id: str) -> Task:
        """The task with this id, of any split of this shop."""
        match = _OFFICIAL.fullmatch(task_id)
        if match is None or match["shop"] != self.folder.name or match["goals"] != self.goals:
            form = f"webshop/{self.folder.name}/{self.goals}/17"
            raise UnknownTask(f"no task {task_id[:200]!r}; ids look like {form!r}")
        if int(match["number"]) >= len(self._all):
            raise UnknownTask(f"no task {task_id!r}: there are {len(self._all)} goals")
        return self._task(int(match["number"]))

    def _task(self, number: int) -> Task:
        bounds = split_bounds(len(self._all))
        split = next(name for name, (low, high) in bounds.items() if low <= number < high)
        params = {"folder": str(self.folder), "goals": self.goals, "number": number}
        return Task(f"webshop/{self.folder.name}/{self.goals}/{number}", split, params)


def made_task(products: int, seed: int, language: str, number: int, variant: int) -> Task:
    """The task for a product of a generated shop."""
    split = split_of(number)
    numbers = _numbers(split, frozenset(DEPARTMENTS))
    index = variant * _below(numbers, products) + _below(numbers, number)
    params = {"products": products, "seed": seed, "language": language, "number": number, "variant": variant}
    return Task(f"webshop/{VERSION}-{products}-{seed}/{language}/{split}/{index}", split, params)


def find_made(task_id: str) -> Task:
    """The generated task with this id. Raises `UnknownTask` with the form that ids have."""
    match = _MADE.fullmatch(task_id)
    if match is None or match["language"] not in LANGUAGES or match["split"] not in SPLITS:
        raise UnknownTask(f"no task {task_id[:200]!r}; ids look like {FORM!r}")
    products, index = int(match["products"]), int(match["index"])
    tasks = MadeTasks(match["split"], products, int(match["seed"]), match["language"])
    if products < smallest() or index >= len(tasks) or tasks.at(index).id != task_id:
        raise UnknownTask(f"no task {task_id!r}; ids look like {FORM!r}")
    return tasks.at(index)


def smallest() -> int:
    """The size of the smallest shop: one family of every kind."""
    return FAMILY * len(kinds())


def split_of(number: int) -> str:
    """The split of the goals for the product with this number."""
    return kind_of(number).unseen or (SPLITS[1] if number % _SEEN == _SEEN - 1 else SPLITS[0])


@cache
def _numbers(split: str, departments: frozenset[str]) -> tuple[int, ...]:
    """The products of a split in one period, after which splits repeat themselves."""
    return tuple(n for n in range(_PERIOD) if split_of(n) == split and kind_of(n).category in departments)


def _below(numbers: tuple[int, ...], number: int) -> int:
    """How many products of a split come before this number; `numbers` are those of one period."""
    periods, rest = divmod(number, _PERIOD)
    return periods * len(numbers) + bisect_left(numbers, rest)
