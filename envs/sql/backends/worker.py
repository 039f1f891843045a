"""Worker processes seen from their owner: started clean, asked one thing at a time, killed without regret."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...core.errors import EnvironmentFault
from . import wire

GRACE = 10.0  # seconds beyond a worker's own alarm after which its owner kills it
# The folder becomes a package of its own, so that the worker imports nothing else of this project.
_START = """
import sys, types
package = types.ModuleType("workers")
package.__path__ = [{folder!r}]
sys.modules["workers"] = package
from workers.{module} import main
main()
"""


class WorkerDied(Exception):
    """The process ended in the middle of a request; `timeout` says whether its alarm or its owner ended it."""

    def __init__(self, timeout: bool) -> None:
        super().__init__("timeout" if timeout else "crash")
        self.timeout = timeout


class WorkerProcess:
    """One worker.

    Args:
        module: the module beside this one whose `main` the worker runs.
        site: whether it needs installed packages.
    """

    def __init__(self, module: str, *, site: bool) -> None:
        self._module, self._site = module, site
        self._process: subprocess.Popen[bytes] | None = None
        self._poll = select.poll()
        self._stdin = -1
        self._replies = wire.Reader(-1)

    @property
    def pid(self) -> int | None:
        """The running process, if there is one."""
        return self._process.pid if self._process else None

    def ask(
        self, head: bytes, hard: float = 60.0, *, sql: str | None = None, raw: bytes | None = None
    ) -> dict[str, Any]:
        """Send a request; wait for the reply.

        Args:
            head: the request without its statement, encoded; its field "hard" is the worker's own alarm.
            hard: seconds after which the worker's alarm should have ended it.
            sql: the statement.
            raw: a frame that follows the request.

        Raises:
            WorkerDied: the process had to be killed or crashed; the next request starts another.
            EnvironmentFault: no process can be started.
        """
        process = self._process or self._start()
        data = wire.frame(wire.message(head, sql))
        try:
            wire.write(self._stdin, data if raw is None else data + wire.frame(raw))
            if not self._poll.poll((hard + GRACE) * 1000):
                self.kill()
                raise WorkerDied(timeout=True)
            reply = wire.decode(self._replies.frame())
            if self._replies.rest:  # what came uninvited would be taken for the next reply
                raise WorkerDied(timeout=False)
            return reply
        except (EOFError, OSError):
            try:
                code = process.wait(timeout=1.0)
            except subprocess.TimeoutExpired:  # it lives, but makes no sense
                code = None
            self.kill()
            raise WorkerDied(timeout=code == -signal.SIGALRM) from None
        except BaseException:  # an interrupt in between would leave the reply in the pipe
            self.kill()
            raise

    def kill(self) -> None:
        """End the process, whatever it is doing."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _start(self) -> subprocess.Popen[bytes]:
        code = _START.format(folder=str(Path(__file__).parent), module=self._module)
        command = [sys.executable, "-I", *(() if self._site else ("-S",)), "-c", code]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd="/",
                # One arena: the others reserve address space by the 64 MB, of which a worker has little.
                env={"TZ": "UTC", "LC_ALL": "C.UTF-8", "MALLOC_ARENA_MAX": "1"},
            )
        except OSError as error:
            raise EnvironmentFault(f"no SQL worker can be started: {error}") from error
        assert self._process.stdin is not None and self._process.stdout is not None
        self._stdin, stdout = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(stdout, select.POLLIN | select.POLLHUP)
        self._replies = wire.Reader(stdout, patience=GRACE)
        return self._process


class WorkerPool:
    """Workers shared by the threads of one process, started when all others are busy.

    Args:
        module: see `WorkerProcess`.
        site: see `WorkerProcess`.
        size: the most workers at a time; None is the number of processors.
    """

    def __init__(self, module: str, *, site: bool, size: int | None = None) -> None:
        self._settings: Any = {"module": module, "site": site}
        self.size = size or os.cpu_count() or 1
        self.owner = os.getpid()
        self._idle: list[WorkerProcess] = []
        self._all: list[WorkerProcess] = []
        self._free = threading.Condition()
        self._waiting = 0

    @contextmanager
    def lease(self, home: WorkerProcess | None = None) -> Iterator[WorkerProcess]:
        """A worker for the duration of a `with`: `home` if given, else any.

        The one used last is taken first, because it is likeliest to have the database open.
        """
        with self._free:
            while True:
                if home in self._idle if home else self._idle:
                    worker = home or self._idle[-1]
                    self._idle.remove(worker)
                    break
                if (home is None or home not in self._all) and len(self._all) < self.size:
                    worker = WorkerProcess(**self._settings)
                    self._all.append(worker)
                    break
                if home is not None and home not in self._all:
                    home = None
                    continue
                self._waiting += 1
                try:
                    self._free.wait()
                finally:
                    self._waiting -= 1
        try:
            yield worker
        finally:
            with self._free:
                self._idle.append(worker)
                if self._waiting:
                    self._free.notify_all()

    def pids(self) -> list[int]:
        """The running processes."""
        return [worker.pid for worker in self._all if worker.pid is not None]

    def close(self) -> None:
        """End all workers."""
        with self._free:
            workers, self._all, self._idle = self._all, [], []
        if os.getpid() == self.owner:  # a forked child holds copies of its parent's
            for worker in workers:
                worker.kill()
