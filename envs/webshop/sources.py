"""Where shops and goals come from: the user's official data or the generator; and how a task becomes both."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from ..core.errors import InvalidArgument, MissingData, UnknownTask
from ..core.tasks import Task, TaskSet
from .goals import Goal
from .made_goals import made_goal
from .official import GOALS, OfficialGoals, official_shop
from .phrasing import LANGUAGES
from .shop import Shop, made_shop, open_shop
from .tasks import MadeTasks, OfficialTasks, find_made, smallest
from .wares import DEPARTMENTS

SOURCES = ("auto", "generated", "official")
PRODUCTS = 4000
"""How many products a generated shop has unless one says so."""
MOST = 10_000_000


class WebShopTasks(TaskSet):
    """The benchmark's goals where its data is given, else generated ones; `get` knows generated ids in both cases.

    Args:
        split: `train`, `valid_seen` (generated only), `valid_unseen` or `test`.
        source: "official", "generated", or "auto": official where `data` is given.
        data: the folder with the benchmark's files.
        products: the shop's size; None is 4000 generated products, or all official ones.
        seed: of the generated shop, or of official price bounds.
        goals: official ones: "human" or "synthetic".
        language: of generated instructions: "human" or "template".
        cache: where shops are kept; None is the user's cache folder.
        departments: of generated goals; None is all.

    Raises:
        MissingData: official data was asked for and is not there.
        InvalidArgument: an argument outside what is listed here.
    """

    def __init__(
        self,
        split: str = "train",
        source: str = "auto",
        data: str | Path | None = None,
        products: int | None = None,
        seed: int = 0,
        goals: str = "human",
        language: str = "human",
        cache: str | Path | None = None,
        departments: Sequence[str] | None = None,
    ) -> None:
        _check("source", source, SOURCES)
        _check("goals", goals, GOALS)
        _check("language", language, LANGUAGES)
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 10**9:
            raise InvalidArgument(f"seed must be an integer from 0 to {10**9 - 1}, not {seed!r}")
        if source == "generated" and data is not None:
            raise InvalidArgument("data=… holds the official shop: leave it out with source='generated'")
        if source == "official" and data is None:
            raise MissingData("the official shop needs data=…, the folder with the benchmark's items_shuffle*.json")
        wanted = DEPARTMENTS if departments is None else departments
        if isinstance(wanted, str) or not wanted or not set(wanted) <= set(DEPARTMENTS):
            raise InvalidArgument(f"departments must be some of {', '.join(DEPARTMENTS)}, not {departments!r}")
        if data is not None and departments is not None:
            raise InvalidArgument("departments=… are the generated shop's: leave it out with data=…")
        self.official, self.cache = data is not None, cache
        least = 1 if self.official else smallest()
        if products is not None and (type(products) is not int or not least <= products <= MOST):
            raise InvalidArgument(f"products must be an integer from {least} to {MOST}, not {products!r}")
        self._set: TaskSet
        if data is not None:
            self._set = OfficialTasks(official_shop(data, products, seed, cache), split, goals)
        else:
            self._set = MadeTasks(split, products or PRODUCTS, seed, language, wanted)
        self.split = self._set.split

    def __len__(self) -> int:
        return len(self._set)

    def at(self, index: int) -> Task:
        """The task with this number."""
        return self._set.at(index)

    def sample(self, rng: np.random.Generator) -> Task:
        """A task, drawn as its set draws."""
        return self._set.sample(rng)

    def get(self, task_id: str) -> Task:
        """The task with this id, generated or of this official shop, of any split."""
        try:
            return find_made(task_id)
        except UnknownTask:
            return self._set.get(task_id)


def load(task: Task, cache: str | Path | None = None) -> tuple[Shop, Goal]:
    """The shop and the goal of a task."""
    what = task.params
    if "folder" in what:
        folder = Path(what["folder"])
        return open_shop(folder), _official(folder, what["goals"]).get(what["number"])
    shop = open_shop(made_shop(what["products"], what["seed"], cache))
    return shop, made_goal(what["seed"], what["number"], what["variant"], what["language"])


@lru_cache(8)
def _official(folder: Path, goals: str) -> OfficialGoals:
    return OfficialGoals(folder, goals)


def _check(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidArgument(f"{name} must be one of {', '.join(choices)}, not {value!r}")
