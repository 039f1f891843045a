"""Where environments run: inline, or each in a thread of its own that can be abandoned when it hangs."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..envs.core.text_env import TextEnv


@dataclass
class Job:
    """One unit of work of a slot and what came of it."""

    slot: Slot
    started: float
    result: Any = None
    error: BaseException | None = None
    seconds: float = 0.0
    abandoned: bool = False


@dataclass
class Slot:
    """A place for one live environment. The environment is made, stepped and closed by the same thread."""

    make: Callable[[], TextEnv]
    done: deque[Job] | queue.SimpleQueue[Job]
    env: TextEnv | None = None
    job: Job | None = None
    _inbox: queue.SimpleQueue[tuple[Job, Callable[[TextEnv], Any]] | None] | None = None
    _thread: threading.Thread | None = field(default=None, repr=False)

    def submit(self, work: Callable[[TextEnv], Any]) -> None:
        """Run `work(env)`; the finished job appears in `done`."""
        self.job = Job(self, time.monotonic())
        if isinstance(self.done, deque):
            self._run(self.job, work)
            return
        if self._thread is None:
            self._inbox = queue.SimpleQueue()
            self._thread = threading.Thread(target=self._serve, args=(self._inbox,), name="sandlot-env", daemon=True)
            self._thread.start()
        assert self._inbox is not None
        self._inbox.put((self.job, work))

    def close(self, *, wait: float = 5.0) -> None:
        """Close the environment; a thread that does not answer in time is left behind (it is a daemon)."""
        if self._thread is None:
            self._close_env()
        else:
            assert self._inbox is not None
            self._inbox.put(None)
            self._thread.join(wait)
            self._thread = self._inbox = self.env = None

    def abandon(self) -> None:
        """Give up on a job that does not return: its thread keeps the environment, this slot starts afresh."""
        if self.job is not None:
            self.job.abandoned = True
        if self._inbox is not None:
            self._inbox.put(None)  # should it ever return, it closes its environment and ends
        self._thread = self._inbox = self.env = self.job = None

    def _serve(self, inbox: queue.SimpleQueue[tuple[Job, Callable[[TextEnv], Any]] | None]) -> None:
        env: TextEnv | None = None
        while (item := inbox.get()) is not None:
            job, work = item
            env = self._run(job, work, env)
        if env is not None:
            env.close()

    def _run(self, job: Job, work: Callable[[TextEnv], Any], env: TextEnv | None = None) -> TextEnv | None:
        env = env or self.env
        begin = time.perf_counter()
        try:
            if env is None:
                env = self.make()
            job.result = work(env)
        except BaseException as error:  # delivered to the loop, which knows whose fault it is
            job.error = error
        job.seconds = time.perf_counter() - begin
        if not job.abandoned:
            self.env = env
            if isinstance(self.done, deque):
                self.done.append(job)
            else:
                self.done.put(job)
        return env

    def _close_env(self) -> None:
        if self.env is not None:
            self.env.close()
            self.env = None
