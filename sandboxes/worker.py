"""Foreign Python as a worker in a sandbox: it answers JSON requests, one line each, as fast as a pipe allows.

The program defines `handle(request)`, which takes and returns what JSON can say. It runs as `python3 -I -S` with
nothing on its standard streams; requests and replies go over two pipes of their own, numbered, so that a reply that it
makes up at another time is noticed. It can lie about itself, and about nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import threading
import time
from typing import Any, Literal, Self

from .errors import InvalidArgument, SandboxFault
from .process import CONTROL, STATUS, Launch, Process
from .sync import SyncSandbox, run
from .text import encode

DRIVER = r"""
import fcntl, json, os, sys
source = os.fdopen(fcntl.fcntl(int(sys.argv[1]), fcntl.F_DUPFD, 10), "rb")
out = fcntl.fcntl(int(sys.argv[2]), fcntl.F_DUPFD, 10)
null = fcntl.fcntl(os.open("/dev/null", os.O_RDWR), fcntl.F_DUPFD, 10)
for number in range(5):
    os.dup2(null, number)
encode = json.JSONEncoder(allow_nan=False).encode
def send(number, mark, value):
    data = b"%d%b%b\n" % (number, mark, encode(value).encode())
    while (sent := os.write(out, data)) < len(data):
        data = data[sent:]
def describe(error):
    try:
        return f"{type(error).__name__}: {error}"[:2000]
    except BaseException:
        return "an error that cannot be described"
def main():
    try:
        space = {"__name__": "worker"}
        exec(compile(json.loads(source.readline()), "worker.py", "exec"), space)
        handle = space["handle"]
        send(0, b"+", None)
    except BaseException as error:
        send(0, b"-", describe(error))
        return
    loads = json.loads
    number = 0
    for line in source:
        number += 1
        try:
            send(number, b"+", handle(loads(line.decode())))
        except BaseException as error:
            send(number, b"-", describe(error))
main()
"""

Kind = Literal["exception", "timeout", "output", "died", "protocol"]


class WorkerError(Exception):
    """The foreign program's own failure; `kind` says which.

    `exception`: it raised one, and goes on. After all others it is dead: it took too long (`timeout`), said too much
    (`output`), ended (`died`), or wrote what was not asked for (`protocol`).
    """

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind: Kind = kind


class Worker:
    """One foreign program in a started sandbox; one request at a time, from any thread.

    Args:
        box: The sandbox; the program shares it with whatever else runs there.
        code: Python source that defines `handle(request)`.
        timeout: Seconds that a request may take, unless it names its own; the start may take ten times that.
        limit: Bytes of one reply.
        python: The interpreter inside.
    """

    def __init__(
        self, box: SyncSandbox, code: str, *, timeout: float = 5.0, limit: int = 1 << 20, python: str = "python3"
    ) -> None:
        if timeout <= 0 or limit <= 0:
            raise InvalidArgument("a worker's timeout and limit must be positive")
        self._box, self._code, self._python = box, code, python
        self._timeout, self._limit = timeout, limit
        self._process: Process | None = None
        self._source = self._target = -1
        self._number = 0
        self._buffer = bytearray()
        self._lock = threading.Lock()
        self._poll = select.poll()

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._process is not None

    def start(self) -> Self:
        """Start it (again).

        Raises:
            WorkerError: its code fails before the first request.
            SandboxFault: the sandbox broke.
        """
        with self._lock:
            self._end()
            extra = self._box.capabilities.extra_fds
            numbers = (str(CONTROL), str(STATUS)) if extra else ("0", "1")
            argv = (self._python, "-I", "-S", "-B", "-c", DRIVER, *numbers)
            launch = Launch(argv=argv, env=self._box.sandbox.environment(), stdin=not extra, control=extra)
            self._process = process = run(self._box.sandbox._spawn(launch))
            source, target = (process.status, process.control) if extra else (process.stdout, process.stdin)
            assert source is not None and target is not None
            self._source, self._target = source, target
            self._poll = select.poll()
            self._poll.register(source, select.POLLIN)
            self._number = -1
            self._buffer.clear()
            self._ask(encode(json.dumps(self._code)) + b"\n", 10 * self._timeout)
        return self

    def request(self, message: Any, *, timeout: float | None = None) -> Any:
        """Ask, and return the reply.

        Raises:
            WorkerError: the program failed; see there.
            InvalidArgument: JSON cannot say `message`.
            SandboxFault: the sandbox broke.
        """
        try:
            line = (json.dumps(message) + "\n").encode("ascii")
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidArgument(f"a request must be what JSON can say: {error}") from None
        with self._lock:
            if self._process is None:
                raise WorkerError("died", "the worker does not run")
            return self._ask(line, self._timeout if timeout is None else timeout)

    def close(self) -> None:
        """End it. Safe to call twice."""
        with self._lock:
            self._end()

    def __enter__(self) -> Self:
        return self if self.alive else self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, line: bytes, timeout: float) -> Any:
        self._number += 1
        end = time.monotonic() + timeout
        try:
            self._write(line, end)
            reply = self._read(end)
        except BaseException:  # also Ctrl-C: what comes later would be taken for the next reply
            self._end()
            raise
        head = b"%d" % self._number
        mark, body = reply[len(head) : len(head) + 1], reply[len(head) + 1 :]
        try:
            if not reply.startswith(head) or mark not in (b"+", b"-"):
                raise ValueError("not a reply to this request")
            value = json.loads(body.decode())
        except (ValueError, RecursionError) as error:
            self._end()
            raise WorkerError("protocol", f"the worker wrote what was not asked for: {error}") from None
        if mark == b"-":
            if self._number == 0:
                self._end()
            raise WorkerError("exception", str(value))
        return value

    def _write(self, line: bytes, end: float) -> None:
        while line:
            try:
                line = line[os.write(self._target, line) :]
            except BlockingIOError:
                poll = select.poll()
                poll.register(self._target, select.POLLOUT)
                if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
                    raise WorkerError("timeout", "the worker does not take its request") from None
            except OSError:
                raise self._died() from None

    def _read(self, end: float) -> bytes:
        buffer = self._buffer
        while (cut := buffer.find(b"\n")) < 0:
            if len(buffer) > self._limit:
                raise WorkerError("output", f"the reply is longer than {self._limit} bytes")
            if not self._poll.poll(max(0.0, end - time.monotonic()) * 1000):
                raise WorkerError("timeout", "the worker took too long")
            try:
                data = os.read(self._source, 1 << 16)
            except BlockingIOError:
                continue
            if not data:
                raise self._died()
            buffer += data
        if cut > self._limit:
            raise WorkerError("output", f"the reply is longer than {self._limit} bytes")
        reply = bytes(buffer[:cut])
        del buffer[: cut + 1]
        if buffer:
            raise WorkerError("protocol", "the worker wrote what was not asked for")
        return reply

    def _died(self) -> WorkerError:
        heard = b""
        if self._process is not None and self._process.stderr is not None:
            with contextlib.suppress(OSError):
                heard = os.read(self._process.stderr, 500)
        return WorkerError("died", f"the worker ended. {heard.decode('utf-8', 'replace')}".strip())

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        run(_finish(process))


async def _finish(process: Process) -> None:
    """End and close it, on the loop's thread: the loop may just be looking at what it closes."""
    try:
        with contextlib.suppress(SandboxFault):
            await process.kill(signal.SIGKILL, "session")
    finally:
        process.close()
