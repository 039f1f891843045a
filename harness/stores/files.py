"""Trajectory files: one writer for many threads, and the way back, from JSON lines or Parquet.

JSON lines are what a run writes (`harness/trajectories.py` has the format): every finished episode is on disk at once,
whatever happens next. Parquet is for keeping and sharing: one compressed row per episode, with columns to filter on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

from ...envs.core.errors import MissingData, MissingExtra
from ..records import Trajectory
from ..trajectories import append_line, dumps, loads
from ..trajectories import read as read_lines

__all__ = ["TrajectoryWriter", "read", "to_parquet"]

ROWS = 256  # per Parquet row group: what is in memory at once


class TrajectoryWriter:
    """Appends trajectories to one file of JSON lines as they finish. Safe to call from several threads.

    Calling the writer writes, so it serves as the rollout's callback. A file that exists is continued, also one whose
    last line was cut off by a crash.

    Args:
        path: the file; its folder is made.
        keep: which trajectories to write; None writes all.
    """

    def __init__(self, path: str | Path, *, keep: Callable[[Trajectory], bool] | None = None) -> None:
        self.path = Path(path)
        self.keep = keep
        self.written = 0
        self._lock = Lock()
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def __call__(self, trajectory: Trajectory) -> None:
        """Write one trajectory; it is in the file (the operating system has it) on return."""
        if self.keep is not None and not self.keep(trajectory):
            return
        line = dumps(trajectory)
        with self._lock:
            append_line(self.path, line)
            self.written += 1


def read(path: str | Path, where: Callable[[Trajectory], bool] | None = None) -> Iterator[Trajectory]:
    """The trajectories of a file in order, one in memory at a time (Parquet: one row group).

    Args:
        path: JSON lines, or Parquet where the name ends in ".parquet". Broken lines are skipped.
        where: which to yield, e.g. `lambda trajectory: trajectory.success`.

    Raises:
        MissingData: there is no such file, or it is not a Parquet file of trajectories.
        MissingExtra: Parquet without pyarrow.
    """
    path = Path(path)
    if path.suffix != ".parquet":
        return read_lines(path, where)
    return _read_parquet(path, where)


def to_parquet(trajectories: Iterable[Trajectory], path: str | Path) -> int:
    """Write `trajectories` to a Parquet file, whole or not at all; returns how many.

    Columns: `id`, `env_id`, `task_id`, `split`, `mode`, `seed`, `version` (of the weights, -1 without a call), `turns`,
    `reward`, `success`, `stop`, `error` and `record`, the exact trajectory as JSON.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    pyarrow, parquet = _pyarrow()
    kinds = {"seed": pyarrow.int64(), "version": pyarrow.int64(), "turns": pyarrow.int64()}
    kinds |= {"reward": pyarrow.float64(), "success": pyarrow.bool_()}
    names = ("id", "env_id", "task_id", "split", "mode", "seed", "version", "turns", "reward", "success", "stop")
    schema = pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in (*names, "error", "record")])
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    count, source = 0, iter(trajectories)
    with parquet.ParquetWriter(part, schema, compression="zstd") as writer:
        while rows := [_row(trajectory) for trajectory in islice(source, ROWS)]:
            writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
            count += len(rows)
    part.replace(path)
    return count


def _row(trajectory: Trajectory) -> dict[str, Any]:
    return {
        "id": trajectory.id,
        "env_id": trajectory.env_id,
        "task_id": trajectory.task.id,
        "split": trajectory.task.split,
        "mode": trajectory.mode,
        "seed": trajectory.seed,
        "version": trajectory.turns[0].call.version if trajectory.turns else -1,
        "turns": len(trajectory.turns),
        "reward": trajectory.reward,
        "success": trajectory.success,
        "stop": str(trajectory.stop),
        "error": None if trajectory.error is None else trajectory.error.encode("utf-8", "replace").decode(),
        "record": dumps(trajectory),
    }


def _read_parquet(path: Path, where: Callable[[Trajectory], bool] | None) -> Iterator[Trajectory]:
    pyarrow, parquet = _pyarrow()
    if not path.exists():
        raise MissingData(f"no recorded trajectories at {path}")
    try:
        batches = parquet.ParquetFile(path).iter_batches(batch_size=ROWS, columns=["record"])
        for batch in batches:
            for line in batch.column("record").to_pylist():
                trajectory = loads(line)
                if where is None or where(trajectory):
                    yield trajectory
    except (pyarrow.ArrowInvalid, KeyError) as error:
        raise MissingData(f"{path} is not a Parquet file of trajectories: {error}") from None


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("pyarrow", "parquet") from None
    return pyarrow, pyarrow.parquet
