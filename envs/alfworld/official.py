"""The benchmark's own games: an index of the user's data folder.

Layout: `<data>/json_2.1.x/{train,valid_seen,valid_unseen[,test]}/<task>/<trial>/game.tw-pddl`. The index walks folder
names and reads the end of each file, where the benchmark notes whether the game was solved; nothing is parsed before it
is played. It is kept in memory until the split's folder changes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..core.errors import MissingData, UnknownTask
from ..core.tasks import SPLITS, Task, TaskSet, check_split
from .game import BadGame, Game, parse_game
from .scenes import ROOMS
from .tasks import check_rooms, check_task_types

FILE = "game.tw-pddl"
DOWNLOADS = "~/.cache/alfworld"
_TAIL = 65_536  # bytes; the flag and the walkthrough are the last two entries
_SOLVABLE = re.compile(rb'"solvable":\s*(true|false)')
PREFIX = "alfworld/official/"
_NAME = re.compile(r"(?P<task_type>\w+)-(?P<object>\w+)-(?P<inner>\w+)-(?P<receptacle>\w+)-(?P<scene>\d+)")
_ID = re.compile(r"alfworld/official/(?P<split>\w+)/(?P<name>[\w-]+)/(?P<trial>\w+)")
_FORM = "alfworld/official/train/pick_and_place_simple-Mug-None-Desk-308/trial_T20190908_231731_054988"


def data_folder(data: str | Path | None = None) -> Path | None:
    """The folder with the splits: `data` or `data/json_2.1.x`; None if there is none.

    Without `data`, `$ALFWORLD_DATA` or `~/.cache/alfworld`, where the benchmark's own download puts its files.

    Raises:
        MissingData: `data` was given and holds no games.
    """
    root = Path(data or os.environ.get("ALFWORLD_DATA") or DOWNLOADS).expanduser()
    for folder in (*sorted(root.glob("json_2.1.*"), reverse=True), root):
        if any(next((folder / split).glob(f"*/*/{FILE}"), None) for split in SPLITS):
            return folder
    if data is None:
        return None
    raise MissingData(f"no ALFWorld games in {root}: expected {root}/json_2.1.1/train; get them with alfworld-download")


class OfficialTasks(TaskSet):
    """The benchmark's games of a split, sorted by name.

    Args:
        folder: what `data_folder` found.
        split: `train`, `valid_seen`, `valid_unseen` or `test`.
        task_types: names or numbers 1 to 6; None is all.
        rooms: "kitchen", "livingroom", "bedroom", "bathroom"; None is all.

    Raises:
        MissingData: the split's folder is missing or holds no playable games.
    """

    def __init__(
        self,
        folder: Path,
        split: str = "train",
        task_types: Sequence[str | int] | None = None,
        rooms: Sequence[str] | None = None,
    ) -> None:
        self.split = check_split(split)
        self.folder = folder
        if not (folder / split).is_dir():
            raise MissingData(
                f"no folder {folder / split}: choose another split or get the data with alfworld-download"
            )
        wanted, places = check_task_types(task_types), check_rooms(rooms)
        changed = (folder / split).stat().st_mtime_ns
        self._names = [name for name in _index(str(folder / split), changed) if _matches(name, wanted, places)]
        if not self._names:
            raise MissingData(f"no games of these task types and rooms in {folder / split} (searched for */*/{FILE})")

    def __len__(self) -> int:
        return len(self._names)

    def at(self, index: int) -> Task:
        """The task with this number."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        return _task(self.folder, self.split, self._names[index])

    def get(self, task_id: str) -> Task:
        """The official task with this id, of any split."""
        return find(self.folder, task_id)


def find(folder: Path | None, task_id: str) -> Task:
    """The official task with this id.

    Raises:
        UnknownTask: no such id or no such game.
        MissingData: there is no data at all.
    """
    match = _ID.fullmatch(task_id)
    if match is None or match["split"] not in SPLITS:
        raise UnknownTask(f"no task {task_id[:200]!r}; ids look like {_FORM!r}")
    if folder is None:
        raise MissingData(f"task {task_id!r} needs the benchmark's data: set ALFWORLD_DATA or pass data=…")
    name = f"{match['name']}/{match['trial']}"
    if not (folder / match["split"] / name / FILE).is_file():
        raise UnknownTask(f"no task {task_id!r}: there is no {folder / match['split'] / name / FILE}")
    return _task(folder, match["split"], name)


def read_file(path: str) -> dict[str, Any]:
    """The content of a game file. Raises `MissingData` where it cannot be read."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise MissingData(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise MissingData(f"broken game file {path}: not JSON ({error})") from error
    if not isinstance(data, dict):
        raise MissingData(f"broken game file {path}: not a JSON object")
    return data


def load_official(path: str) -> Game:
    """The game in a file. Raises `MissingData` with the file's name where it cannot be played."""
    return _load(path, Path(path).stat().st_mtime_ns if Path(path).exists() else 0)


@lru_cache(256)
def _load(path: str, changed: int) -> Game:
    try:
        return parse_game(read_file(path))
    except (BadGame, ValueError, TypeError, IndexError, KeyError, StopIteration) as error:
        raise MissingData(f"broken game file {path}: {error}") from error


@lru_cache(16)
def _index(folder: str, changed: int) -> tuple[str, ...]:
    """Names "task/trial" of every game that the benchmark would play: marked solvable, nothing sliced or movable."""
    names = []
    for task in sorted(entry.name for entry in os.scandir(folder) if entry.is_dir()):
        if "movable" in task or "Sliced" in task:
            continue
        for trial in sorted(entry.name for entry in os.scandir(f"{folder}/{task}") if entry.is_dir()):
            if _solvable(Path(folder, task, trial, FILE)):
                names.append(f"{task}/{trial}")
    return tuple(names)


def _solvable(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            flags = _SOLVABLE.findall(file.read())
    except FileNotFoundError:
        return False
    return flags[-1] == b"true" if flags else read_file(str(path)).get("solvable") is True


def _task(folder: Path, split: str, name: str) -> Task:
    return Task(f"alfworld/official/{split}/{name}", split, {"file": str(folder / split / name / FILE)})


def _matches(name: str, task_types: tuple[str, ...], rooms: tuple[str, ...]) -> bool:
    match = _NAME.fullmatch(name.split("/")[0])
    if match is None or match["task_type"] not in task_types:
        return False
    return any(int(match["scene"]) in ROOMS[room] for room in rooms)
