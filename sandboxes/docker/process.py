"""A program started in a container by `docker exec`, with the multiplexed stream split into ordinary pipes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from ..errors import SandboxFault
from ..process import CHUNK, CONTROL, STATUS, Launch, Pipes, Process
from .host import adopt, find
from .scripts import KILL, OWN_PIPES, WRAPPER

if TYPE_CHECKING:
    from .sandbox import DockerSandbox

START = 20.0  # seconds in which a program must have named its number
NAMED = 5.0  # seconds that a signal waits for that number
QUIET = 0.1  # seconds between looks whether a program ended whose pipes a daemon holds


class DockerProcess(Process):
    """A program of a container. Two streams come over one connection; a pump writes them to the pipes.

    One with `control` says over the connection only where it is, and has pipes of its own that are opened from here.
    """

    def __init__(self, sandbox: DockerSandbox, launch: Launch) -> None:
        self._sandbox, self._launch = sandbox, launch
        self._loop = asyncio.get_running_loop()
        self._id = ""
        self._socket: socket.socket | None = None
        self._frames = bytearray()
        self._first = bytearray()  # of standard error: the line with the number
        self._out: dict[int, int] = {}
        self._input: int | None = None
        self._blocked: tuple[int, memoryview] | None = None
        self._ended = asyncio.Event()
        self._named = asyncio.Event()
        self._pidfd: int | None = None
        self._gone = asyncio.Event()
        self._code: int | None = None
        self._since = 0

    @property
    def stdin(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """A second descriptor of the connection; setting it to None tells the program that its input ended."""
        return self._input

    @stdin.setter
    def stdin(self, value: int | None) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        if value is None and self._input is not None and self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
        self._input = value

    async def start(self) -> DockerProcess:
        """Start it.

        Raises:
            SandboxFault: The container or the daemon is gone.
        """
        launch, sandbox = replace(self._launch, stdin=False), self._sandbox
        if launch.control:
            wrapper = OWN_PIPES.format(errors="&1" if launch.merge_stderr else "/proc/self/fd/6")
        else:
            wrapper = WRAPPER.format(merge="exec 2>&1; " if launch.merge_stderr else "")
        command = ["/bin/sh", "-c", wrapper, launch.cwd, *launch.argv]
        stdin = self._launch.stdin or launch.control
        self._id = await sandbox.create_exec(command, launch.env, launch.user, stdin=stdin)
        pipes = Pipes(launch)
        try:
            connection, early = await sandbox.start_exec(self._id)
        except BaseException:
            pipes.abandon()
            raise
        self._socket = connection
        for number in (1, 2):
            if number in pipes.child and (number == 1 or not launch.merge_stderr):
                self._out[number] = os.dup(pipes.child[number])
                os.set_blocking(self._out[number], False)
        pipes.close_child()
        pipes.give(self)
        if self._launch.stdin:  # the connection itself, to save a hop
            self._input = os.dup(connection.fileno())
        self._frames += early
        self._loop.add_reader(connection, self._receive)
        self._split()
        if launch.control:
            await self._adopt()
        return self

    async def _adopt(self) -> None:
        """Put our ends of the program's own pipes in the place of those that the pump fills, and let it go on."""
        assert self._socket is not None
        try:
            async with asyncio.timeout(START):
                await self._named.wait()
            if not self.pid:
                return  # it could not start; what there is to say about that lies in the pump's pipes
            ends = {CONTROL: os.O_WRONLY, STATUS: os.O_RDONLY, 5: os.O_RDONLY, 6: os.O_RDONLY}
            pid = await asyncio.to_thread(find, self._sandbox.container, self.pid)
            if pid is None:
                raise SandboxFault(f"the container's process {self.pid} is not to be seen")
            self._pidfd, opened = adopt(self._sandbox.container, pid, ends)
        except BaseException as error:
            self.close()  # its input ends, and so does it
            if isinstance(error, TimeoutError):
                raise SandboxFault(f"a program did not come up within {START:.0f} s") from None
            raise
        self._loop.add_reader(self._pidfd, self._exited)
        for name, number in {"control": CONTROL, "status": STATUS, "stdout": 5, "stderr": 6}.items():
            old = getattr(self, name)
            if old is None:
                os.close(opened[number])
            else:
                setattr(self, name, opened[number])
                os.close(old)
        with contextlib.suppress(OSError):  # if it is gone, its pipes say so
            self._socket.send(b"\n")

    def _exited(self) -> None:
        assert self._pidfd is not None
        self._loop.remove_reader(self._pidfd)
        self._gone.set()

    # ---------------------------------------------------------------- the pump

    def _receive(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end_of_output()
            return
        self._frames += data
        self._split()

    def _split(self) -> None:
        """Write whole or partial frames: one byte of stream number, three of nothing, four of length."""
        frames = self._frames
        while self._blocked is None and len(frames) >= 8:
            size = int.from_bytes(frames[4:8], "big")
            ready = min(size, len(frames) - 8)
            if not ready and size:
                return
            number, data = frames[0], bytes(frames[8 : 8 + ready])
            del frames[8 : 8 + ready]
            if ready < size:
                frames[4:8] = (size - ready).to_bytes(4, "big")
            else:
                del frames[:8]
            self._deliver(number, data)

    def _deliver(self, number: int, data: bytes) -> None:
        if number == 2 and self.pid is None:
            self._first += data
            line, found, rest = bytes(self._first).partition(b"\n")
            if not found:
                return
            data = rest
            self.pid = int(line) if line.isdigit() else 0
            self._named.set()
        if number not in self._out or not data:
            return
        self._blocked = self._out[number], memoryview(data)
        self._write()

    def _write(self) -> None:
        """Write what is due; while a pipe is full, nothing is read, so nothing piles up here."""
        assert self._blocked is not None
        target, left = self._blocked
        while left:
            try:
                left = left[os.write(target, left) :]
            except BlockingIOError:
                self._blocked = target, left
                self._loop.add_writer(target, self._unblock)
                if self._socket is not None:
                    self._loop.remove_reader(self._socket)
                return
            except OSError:  # nobody reads any more
                break
        self._blocked = None

    def _unblock(self) -> None:
        assert self._blocked is not None
        self._loop.remove_writer(self._blocked[0])
        if self._socket is not None:
            self._loop.add_reader(self._socket, self._receive)
        self._write()
        if self._blocked is None:
            self._split()

    def _end_of_output(self) -> None:
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
        for descriptor in self._out.values():
            self._loop.remove_writer(descriptor)
            os.close(descriptor)
        self._out = {}
        self._ended.set()
        self._named.set()

    # ---------------------------------------------------------------- the program

    async def wait(self) -> int:
        """Its exit code. The stream's end tells at once; a daemon may hold it open, so the daemon is asked as well."""
        if self._pidfd is not None:
            await self._gone.wait()
        while self._code is None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), QUIET)
            code = await self._sandbox.exit_code(self._id)
            if code is not None:
                if not self._ended.is_set():  # what it wrote last is on its way
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._ended.wait(), QUIET)
                self._code = code
            elif self._ended.is_set():  # it closed its streams and goes on
                await asyncio.sleep(QUIET)
        return self._code

    async def kill(self, signum: int, scope: Literal["process", "group", "session", "children"] = "process") -> None:
        """Send a signal by a small script inside; if the image's shell no longer does that, everything is ended."""
        if self._code is not None and scope == "process":
            return
        if self._pidfd is not None and scope == "process":
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signum)
            return
        if self.pid is None:  # it has just been asked for
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._named.wait(), NAMED)
        if self.pid:
            numbers = str(self._since), str(self.newest)
            command = ["/bin/sh", "-c", KILL, "sh", str(self.pid), str(int(signum)), scope, *numbers]
            if await self._sandbox.run_quietly(command):
                return
        if signum == 9:
            await self._sandbox._kill_all()

    def mark(self, newest: int = 0) -> None:
        """See `Process.mark`; kept in the container's time since boot, in hundredths of a second as /proc counts."""
        self.newest = newest
        self._since = int((time.monotonic() + self._sandbox.clock_offset) * 100) - 1

    def close(self) -> None:
        """Close the pipes and the connection."""
        super().close()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        if self._socket is not None:
            self._end_of_output()
            self._socket.close()
            self._socket = None
