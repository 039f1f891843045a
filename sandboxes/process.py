"""A process inside a sandbox, as its backend hands it over, and the one way to run it to its end."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import termios
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from .errors import SandboxFault
from .spec import ExecResult

CONTROL, STATUS = 3, 4  # descriptor numbers inside of a launch with control=True
GRACE = 1.0  # seconds between SIGTERM and SIGKILL
CHUNK = 1 << 16
TICK = 0.01  # seconds; the kernel rounds start times down to it


@dataclass(frozen=True)
class Launch:
    """One program to start inside a sandbox."""

    argv: tuple[str, ...]
    """Program and arguments; the program is looked up in `env["PATH"]`."""
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The whole environment."""
    cwd: str = "/"
    """Working folder."""
    user: str | None = None
    """None is root."""
    stdin: bool = False
    """A pipe for standard input; otherwise it reads /dev/null."""
    merge_stderr: bool = False
    """Standard error goes to the pipe of standard output."""
    control: bool = False
    """Two more pipes: descriptor 3, from which it reads, and 4, to which it writes."""
    pty: tuple[int, int] | None = None
    """Rows and columns of a terminal of its own, instead of the standard pipes."""


class Process(ABC):
    """A running program. It leads its own session and process group.

    The descriptors are the host's ends, non-blocking, and belong to this object: `close` closes them and kills nothing.
    """

    pid: int | None = None
    """Its number inside the sandbox, where the backend knows it."""
    stdin: int | None = None
    stdout: int | None = None
    stderr: int | None = None
    control: int | None = None
    status: int | None = None
    terminal: int | None = None
    """The controlling side of its terminal."""

    @abstractmethod
    async def wait(self) -> int:
        """Its exit code (128 + n after signal n), as soon as the process itself ended. Safe to cancel and call again.

        Raises:
            SandboxFault: the sandbox died under it.
        """

    @abstractmethod
    async def kill(self, signum: int, scope: Literal["process", "group", "session", "children"] = "process") -> None:
        """Signal it, its group, its session, or what it started since `mark`; one that is gone is fine."""

    marked: float = 0.0
    """Seconds since boot at the last `mark`."""

    newest: int = 0
    """Children with numbers up to this one were there at the last `mark`: start times are only exact to 10 ms."""

    def mark(self, newest: int = 0) -> None:
        """Remember now: `kill(..., "children")` spares children that were started before, and all that they start."""
        self.newest = newest
        self.marked = time.clock_gettime(time.CLOCK_BOOTTIME)

    def close(self) -> None:
        """Close the host's ends of its pipes."""
        for name in ("stdin", "stdout", "stderr", "control", "status", "terminal"):
            descriptor = getattr(self, name)
            if descriptor is not None:
                setattr(self, name, None)
                os.close(descriptor)


def younger(
    root: int, parents: Mapping[int, int], starts: Mapping[int, float], marked: float, newest: int
) -> list[int]:
    """The children of `root` since a mark, with all that they started.

    Args:
        root: a process.
        parents: of every process.
        starts: when each was started, in seconds since boot, rounded down to 10 ms.
        marked: `Process.marked`.
        newest: `Process.newest`.
    """
    chosen = {
        pid for pid, parent in parents.items() if parent == root and pid > newest and starts[pid] >= marked - TICK
    }
    more = chosen
    while more:
        more = {pid for pid, parent in parents.items() if parent in chosen} - chosen
        chosen |= more
    return sorted(chosen)


class Pipes:
    """The pipes of a launch: `child` maps descriptor numbers inside to the ends that the child inherits."""

    def __init__(self, launch: Launch) -> None:
        self.child: dict[int, int] = {}
        self._host: dict[str, int] = {}
        try:
            if launch.pty is None:
                self._pipe("stdin", 0, writes=True) if launch.stdin else self._null()
                self._pipe("stdout", 1)
                if launch.merge_stderr:
                    self.child[2] = self.child[1]
                else:
                    self._pipe("stderr", 2)
            if launch.control:
                self._pipe("control", CONTROL, writes=True)
                self._pipe("status", STATUS)
        except OSError:
            self.close_child()
            for descriptor in self._host.values():
                os.close(descriptor)
            raise

    def _null(self) -> None:
        self.child[0] = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)

    def _pipe(self, name: str, number: int, *, writes: bool = False) -> None:
        read, write = os.pipe2(os.O_CLOEXEC)
        mine, theirs = (write, read) if writes else (read, write)
        os.set_blocking(mine, False)
        self._host[name], self.child[number] = mine, theirs

    def close_child(self) -> None:
        """Close the child's ends here, once it has them."""
        for descriptor in set(self.child.values()):
            os.close(descriptor)
        self.child = {}

    def give(self, process: Process) -> None:
        """Hand the host's ends to `process`."""
        for name, descriptor in self._host.items():
            setattr(process, name, descriptor)
        self._host = {}

    def abandon(self) -> None:
        """Close everything: nothing was started."""
        self.close_child()
        for descriptor in self._host.values():
            os.close(descriptor)
        self._host = {}


def available(descriptor: int) -> int:
    """Bytes that can be read from a pipe or terminal right now."""
    return struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0\0\0\0"))[0]


class Capture:
    """Reads one stream as it comes: keeps the first `limit` bytes, counts all, and never waits for its end."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self.descriptor, self.limit = descriptor, limit
        self.kept = bytearray()
        self.total = 0
        self.ended = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._read)
        self.flooded: asyncio.Event | None = None
        self.flood = 0

    def _read(self, size: int = CHUNK) -> int:
        try:
            data = os.read(self.descriptor, size)
        except BlockingIOError:
            return 0
        except OSError:  # a terminal whose last process is gone
            data = b""
        if not data:
            self.ended = True
            self._loop.remove_reader(self.descriptor)
            return 0
        self.total += len(data)
        room = self.limit - len(self.kept)
        if room > 0:
            self.kept += data[:room]
        if self.flooded is not None and self.total > self.flood:
            self.flooded.set()
        return len(data)

    def drain(self) -> None:
        """Take what lies in the pipe now, and no more: a daemon may hold the other end and write for ever."""
        left = 0
        with contextlib.suppress(OSError):
            left = available(self.descriptor)
        while left > 0 and not self.ended:
            got = self._read(min(left, CHUNK))
            if not got:
                return
            left -= got

    def stop(self) -> None:
        """No longer read."""
        if not self.ended:
            self._loop.remove_reader(self.descriptor)


class Feed:
    """Writes bytes to a pipe as it takes them, then closes it if asked to; a reader that went away is fine."""

    def __init__(self, descriptor: int, data: bytes) -> None:
        self.descriptor, self._left = descriptor, memoryview(data)
        self._loop = asyncio.get_running_loop()
        self.done = asyncio.Event()
        self._write()
        if not self.done.is_set():
            self._loop.add_writer(descriptor, self._write)

    def _write(self) -> None:
        while self._left:
            try:
                self._left = self._left[os.write(self.descriptor, self._left[: 1 << 20]) :]
            except BlockingIOError:
                return
            except OSError:
                break
        self.stop()

    def stop(self) -> None:
        """No longer write."""
        if not self.done.is_set():
            self.done.set()
            self._loop.remove_writer(self.descriptor)


async def end(process: Process) -> int:
    """End a process that has run too long: SIGTERM to its group, `GRACE` seconds, SIGKILL to its session."""
    await process.kill(15, "group")
    try:
        code = await asyncio.wait_for(process.wait(), GRACE)
    except TimeoutError:
        await process.kill(9, "session")
        return await process.wait()
    await process.kill(9, "session")  # what of it ignored the first signal
    return code


async def communicate(
    process: Process, *, stdin: bytes, timeout: float, limit: int, flood: int, begin: float | None = None
) -> ExecResult:
    """Run a process to its end, or end it, and close its pipes.

    It returns when the main process ends, not when its pipes do: a daemon that it left may hold them for ever.
    """
    begin = time.perf_counter() if begin is None else begin
    flooded = asyncio.Event()
    captures = [Capture(fd, limit) for fd in (process.stdout, process.stderr) if fd is not None]
    for capture in captures:
        capture.flooded, capture.flood = flooded, flood
    feed = None
    timed_out = False
    waiting = asyncio.ensure_future(process.wait())
    watch = asyncio.ensure_future(flooded.wait())
    try:
        if process.stdin is not None:
            feed = Feed(process.stdin, stdin)
            closing = asyncio.ensure_future(_close_stdin(process, feed))
        else:
            closing = None
        try:
            await asyncio.wait({waiting, watch}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                timed_out = not flooded.is_set()
                code = await end(process)
            else:
                code = waiting.result()
        finally:
            if closing is not None:
                closing.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await closing
        for capture in captures:
            capture.drain()
    except asyncio.CancelledError:
        with contextlib.suppress(SandboxFault):
            await asyncio.shield(asyncio.ensure_future(process.kill(9, "session")))
        raise
    finally:
        for future in (waiting, watch):
            if not future.done():
                future.cancel()
        if feed is not None:
            feed.stop()
        for capture in captures:
            capture.stop()
        process.close()
    total = sum(capture.total for capture in captures)
    return ExecResult(
        exit_code=code,
        stdout=bytes(captures[0].kept),
        stderr=bytes(captures[1].kept) if len(captures) > 1 else b"",
        timed_out=timed_out,
        truncated=flooded.is_set() or any(capture.total > len(capture.kept) for capture in captures),
        duration=time.perf_counter() - begin,
        total_bytes=total,
    )


async def _close_stdin(process: Process, feed: Feed) -> None:
    await feed.done.wait()
    if process.stdin is not None:
        descriptor, process.stdin = process.stdin, None
        os.close(descriptor)
