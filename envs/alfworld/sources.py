"""Where games come from: the user's official data or the generator; and how a task becomes a game."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core.errors import InvalidArgument, MissingData
from ..core.tasks import Task, TaskSet
from . import generator, official
from .game import Game
from .official import OfficialTasks, data_folder
from .tasks import GeneratedTasks, load_generated

SOURCES = ("auto", "generated", "official")


class AlfworldTasks(TaskSet):
    """The official games if they are there, else generated ones; `get` knows the ids of both.

    Args:
        split: `train`, `valid_seen`, `valid_unseen` or `test`.
        source: "official", "generated", or "auto": official where data is found.
        data: the folder of the official data; None looks at `$ALFWORLD_DATA`, then at `~/.cache/alfworld`.
        task_types: names or numbers 1 to 6; None is all.
        rooms: "kitchen", "livingroom", "bedroom", "bathroom"; None is all.
        max_receptacles: generated rooms with about so many receptacles; None for all.

    Raises:
        MissingData: official games were asked for and are not there.
        InvalidArgument: an argument outside what is listed here.
    """

    def __init__(
        self,
        split: str = "train",
        source: str = "auto",
        data: str | Path | None = None,
        task_types: Sequence[str | int] | None = None,
        rooms: Sequence[str] | None = None,
        max_receptacles: int | None = None,
    ) -> None:
        if source not in SOURCES:
            raise InvalidArgument(f"source must be one of {', '.join(SOURCES)}, not {source!r}")
        if source == "generated" and data is not None:
            raise InvalidArgument("data=… holds official games: leave it out with source='generated'")
        self.folder = None if source == "generated" else data_folder(data)
        self._set: TaskSet
        if self.folder is None:
            if source == "official":
                raise MissingData("no ALFWorld games: set ALFWORLD_DATA or pass data=…, or use source='generated'")
            self._set = GeneratedTasks(split, task_types, rooms, max_receptacles)
        elif max_receptacles is not None:
            raise InvalidArgument("max_receptacles works on generated games only: pass source='generated'")
        else:
            self._set = OfficialTasks(self.folder, split, task_types, rooms)
        self.split = self._set.split

    def __len__(self) -> int:
        return len(self._set)

    def at(self, index: int) -> Task:
        """The task with this number."""
        return self._set.at(index)

    def get(self, task_id: str) -> Task:
        """The task with this id, generated or official, of any split."""
        if task_id.startswith(official.PREFIX):
            return official.find(self.folder or data_folder(), task_id)
        return GeneratedTasks.find(task_id)


def load_game(task: Task) -> Game:
    """The task's game. Raises `MissingData` where its file cannot be played."""
    if "file" in task.params:
        return official.load_official(task.params["file"])
    return load_generated(task.params["recipe"])


def load_file(task: Task) -> dict[str, Any]:
    """The content of the task's `game.tw-pddl`."""
    if "file" in task.params:
        return official.read_file(task.params["file"])
    return generator.game_file(generator.draft(task.params["recipe"]))
