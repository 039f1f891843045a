"""Compiled games on disk: built once in a child process, published atomically, shared by every process."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from platformdirs import user_cache_dir

from ..core import EnvironmentFault, InvalidArgument, MissingExtra, Task, text_key

FORMAT = 1  # of what `build.py` writes; a change that makes other games is a new number
BUILD_SECONDS = 600.0  # for one game; the hardest treasure hunts take a minute of processor time


class GameCache:
    """The folder that holds compiled games, one folder a game, keyed by textworld's version, settings and seed.

    Games are built in a child process: textworld's generators depend on the hash seed of the process and on the
    working directory, and its compiler writes into the home folder; the child gets its own of each.

    Args:
        root: where games are kept; None for the user's cache folder.

    Raises:
        MissingExtra: textworld is not installed.
    """

    def __init__(self, root: str | Path | None = None) -> None:
        try:
            version = metadata.version("textworld")
        except metadata.PackageNotFoundError:
            raise MissingExtra("textworld", "textworld") from None
        base = Path(root) if root is not None else Path(user_cache_dir("sandlot")) / "textworld"
        self.root = base.expanduser().absolute() / f"{version}-{FORMAT}"

    def folder(self, task: Task) -> Path:
        """The task's game, built now if it is not there yet.

        Raises:
            EnvironmentFault: the generator or the compiler failed.
            InvalidArgument: the cache folder cannot be written.
        """
        folder = self.root / task.id
        if not folder.is_dir():
            with self._lock(task.id):
                if not folder.is_dir():  # another process may have built it while we waited
                    self.build([task])
        return folder

    def build(self, tasks: Sequence[Task]) -> None:
        """Build the games of `tasks` that are missing, all in one child process (which spares its slow start)."""
        missing = [task for task in tasks if not (self.root / task.id).is_dir()]
        if not missing:
            return
        jobs: list[dict[str, Any]] = [{**task.params, "folder": str(self.root / task.id)} for task in missing]
        with self._workplace() as place:
            env = {**os.environ, "HOME": place, "TMPDIR": place, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
            try:
                done = subprocess.run(
                    [sys.executable, "-W", "ignore", "-m", f"{__package__}.build"],
                    input=json.dumps(jobs),
                    cwd=place,
                    env=env,
                    timeout=BUILD_SECONDS * len(jobs),
                    capture_output=True,
                    text=True,
                )
            except subprocess.TimeoutExpired:
                raise EnvironmentFault(f"building {missing[0].id} took over {BUILD_SECONDS:.0f} s") from None
        if done.returncode:
            reason = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
            raise EnvironmentFault(f"textworld could not build {missing[0].id}: {reason}")

    @contextmanager
    def _workplace(self) -> Iterator[str]:
        """A temporary folder on the cache's own file system, so that a finished game is published by one rename."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            place = tempfile.TemporaryDirectory(prefix=".building-", dir=self.root)
        except OSError as error:
            raise InvalidArgument(
                f"cannot write games to {self.root} ({error.strerror}): pass cache=<a folder>"
            ) from None
        with place as name:
            yield name

    @contextmanager
    def _lock(self, name: str) -> Iterator[None]:
        """One builder a game over all processes; the lock dies with its holder. Sixteen files serve all games."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            file = (self.root / f".lock-{text_key(name)[0]}").open("w")
        except OSError as error:
            raise InvalidArgument(
                f"cannot write games to {self.root} ({error.strerror}): pass cache=<a folder>"
            ) from None
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
