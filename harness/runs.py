"""Run folders: where a command writes its configuration, metrics, calls and report, line by line as they come."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from ..envs.core.errors import InvalidArgument, MissingData
from .records import Trajectory
from .trajectories import append_line, dumps, read

__all__ = ["FollowerRun", "RunFolder", "plain", "writing"]


class RunFolder:
    """One run on disk: `config.toml`, `metrics.jsonl`, `calls/` and what the run adds (`curve.png`, `report.html`).

    Metrics are appended and flushed line by line, so an interruption loses nothing that was logged.
    """

    def __init__(self, path: str | Path) -> None:
        self.folder = Path(path)
        if not self.folder.is_dir():
            raise MissingData(f"there is no run folder {self.folder}")

    @classmethod
    def create(cls, name: str, config: Mapping[str, Any], *, root: str | Path = "runs") -> RunFolder:
        """Make `root/<time>-<name>` (a number is appended where that exists) and write `config.toml` into it.

        Raises:
            InvalidArgument: the folder cannot be written; the message names it and the reason.
        """
        stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-')[:80]}"
        path = Path(root) / stem
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            number = 1
            while True:
                try:
                    path.mkdir()
                    break
                except FileExistsError:
                    number += 1
                    path = Path(root) / f"{stem}-{number}"
        run = cls(path)
        run.write_config(config)
        return run

    @property
    def calls(self) -> Path:
        """The file of recorded trajectories, one per line (`harness/trajectories.py`)."""
        return self.folder / "calls" / "trajectories.jsonl"

    def trajectory(self, trajectory: Trajectory) -> None:
        """Append one episode, with every call, to `calls/trajectories.jsonl`."""
        with writing(self.calls):
            self.calls.parent.mkdir(exist_ok=True)
            append_line(self.calls, dumps(trajectory))

    def trajectories(self) -> Iterator[Trajectory]:
        """The recorded episodes, in the order in which they finished."""
        return read(self.calls)

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write `config.toml`. Dataclasses become tables; values of None are left out (TOML has none)."""
        import tomli_w

        self.write("config.toml", tomli_w.dumps(_without_none(plain(config))))

    def config(self, name: str | None = None) -> dict[str, Any]:
        """What `config.toml` (or a file of another name) holds."""
        import tomllib

        name = name or "config.toml"
        try:
            return tomllib.loads((self.folder / name).read_text())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise MissingData(f"{self.folder} has no readable {name}: {error}") from None

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Append one line to `metrics.jsonl`. Numbers that are not finite are written as null."""
        path = self.folder / "metrics.jsonl"
        with writing(path):
            append_line(path, json.dumps({"step": step, **plain(metrics)}, allow_nan=False))

    def metrics(self) -> list[dict[str, Any]]:
        """The rows of `metrics.jsonl`; a line that was cut off by a crash is skipped."""
        path = self.folder / "metrics.jsonl"
        rows = []
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError:
                continue
        return rows

    def rewind(self, step: int) -> None:
        """Drop the metrics of steps from `step` on: a run resumed from a checkpoint logs them again."""
        kept = [row for row in self.metrics() if row.get("step", -1) < step]
        self.write("metrics.jsonl", "".join(json.dumps(row) + "\n" for row in kept))

    def write(self, name: str, content: str | bytes) -> Path:
        """Write one file of the run, whole or not at all."""
        path = self.folder / name
        part = path.with_name(path.name + ".part")
        with writing(path):
            part.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace"))
            part.replace(path)
        return path


class FollowerRun(RunFolder):
    """The run folder as the other processes of one run see it: they read it, and write their own episodes only.

    Args:
        path: the folder, which the first process made.
        rank: this process's number, 1 or more.
    """

    def __init__(self, path: str | Path, rank: int) -> None:
        super().__init__(path)
        self.rank = rank

    @property
    def calls(self) -> Path:
        """A file of this process's own."""
        return self.folder / "calls" / f"trajectories.rank{self.rank}.jsonl"

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """The first process does."""

    def rewind(self, step: int) -> None:
        """The first process does."""

    def write(self, name: str, content: str | bytes) -> Path:
        """The first process does."""
        return self.folder / name


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failure to write `path` into the one clear error."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidArgument(f"cannot write {path}: {reason}; choose another folder with --out") from None


def plain(value: Any) -> Any:
    """`value` as JSON and TOML know it: dataclasses as dicts, arrays as lists, numbers that are not finite as None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return [plain(item) for item in sorted(value, key=str)]
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value if item is not None]
    return value
