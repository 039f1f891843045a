"""The tasks of the TextWorld families: a family's settings and a seed, whose range decides the split."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ..core import SPLITS, InvalidArgument, Task, TaskSet, UnknownTask, check_split

SEEDS = 1_000_000  # per split


class GameTasks(TaskSet):
    """The first `games` games of a split of one family, under one choice of settings.

    Ids read "family-settings-seed", for example "coin-level110-17"; `get` accepts any settings and seed.

    Args:
        family: "coin", "cooking" or "treasure".
        settings: the settings in the form that ids have.
        parse: reads such a form into what the generator of that split is given. Raises InvalidArgument.
        split: one of `SPLITS`; split k has the seeds `k * 1_000_000 .. (k + 1) * 1_000_000 - 1`.
        games: how many games to draw from.
    """

    def __init__(
        self, family: str, settings: str, parse: Callable[[str, str], Mapping[str, Any]], *, split: str, games: int
    ) -> None:
        self.split = check_split(split)
        if not isinstance(games, int) or not 1 <= games <= SEEDS:
            raise InvalidArgument(f"games must be an integer from 1 to {SEEDS}, not {games!r}")
        self._family, self._settings, self._parse, self._games = family, settings, parse, games
        parse(settings, split)

    def __len__(self) -> int:
        return self._games

    def at(self, index: int) -> Task:
        """The game with this number in the split."""
        if not 0 <= index < self._games:
            raise IndexError(index)
        return self._task(self._settings, SPLITS.index(self.split) * SEEDS + index)

    def get(self, task_id: str) -> Task:
        """The game with this id."""
        found = re.fullmatch(rf"{self._family}-([a-z0-9+]+)-(0|[1-9]\d{{0,6}})", task_id)
        try:
            if found is not None and int(found[2]) < SEEDS * len(SPLITS):
                return self._task(found[1], int(found[2]))
        except InvalidArgument as error:
            raise UnknownTask(f"no task {task_id!r}: {error}") from None
        raise UnknownTask(f"no task {task_id!r}; ids look like {self.at(0).id!r}")

    def _task(self, settings: str, seed: int) -> Task:
        split = SPLITS[seed // SEEDS]
        challenge = self._parse(settings, split)
        return Task(f"{self._family}-{settings}-{seed}", split, {**challenge, "seed": seed})
