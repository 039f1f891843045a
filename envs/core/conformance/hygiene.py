"""Clean-up: nothing is left behind by a closed environment."""

from __future__ import annotations

import gc
import multiprocessing
import os
import tempfile
import threading
import time
from pathlib import Path
from unittest import mock

import gymnasium

from .subject import Subject


def close_leaves_nothing_behind(subject: Subject) -> None:
    """After `close()`, twice, there are no more processes, threads, open files or temporary files than before."""
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, TMPDIR=folder),
        mock.patch.object(tempfile, "tempdir", folder),
    ):
        _open_and_close(subject)  # the first time may fill caches that live on
        before = _resources(folder)
        _open_and_close(subject)
        _open_and_close(subject)
        deadline = time.monotonic() + 3  # processes and threads take a moment to go
        while True:
            after = _resources(folder)
            left = {name: f"{before[name]} -> {after[name]}" for name in before if after[name] > before[name]}
            if not left or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        assert not left, f"left behind: {left}"
    unused = gymnasium.make(subject.spec)
    unused.close()  # before any reset
    unused.close()


def _open_and_close(subject: Subject) -> None:
    env = subject.wrapped()
    env.reset(seed=0)
    env.step("")
    env.close()
    env.close()
    gc.collect()


def _resources(folder: str) -> dict[str, int]:
    counts = {
        "threads": threading.active_count(),
        "worker processes": len(multiprocessing.active_children()),
        "temporary files": sum(1 for _ in Path(folder).rglob("*")),
    }
    if Path("/proc/self/fd").exists():  # Linux
        counts["open files"] = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 (closes its own descriptor at once)
        children = Path(f"/proc/self/task/{os.getpid()}/children")
        counts["processes"] = len(children.read_text().split()) if children.exists() else 0
    return counts
