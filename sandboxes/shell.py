"""Persistent shells: one bash that runs one command after the other, with or without a terminal.

Framing. bash runs a small loop that reads the next command from a pipe and reports on another one. The report of a
command carries a random token that the command itself does not see: it is parsed before the command runs, stands in no
variable, and the two pipes are closed for the command and its children. So output, however made, is never taken for a
report. Code that rewrites the shell it runs in (functions named like builtins, its memory) can still lie about itself:
a score must come from `Sandbox.exec`, never from a shell that an agent has used.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
import shlex
import signal
import struct
import termios
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from .errors import InvalidArgument, SandboxFault, SandboxUnavailable
from .output_stream import OutputStream
from .process import CHUNK, GRACE, Feed, Launch, Process
from .spec import ExecResult
from .text import encode

if TYPE_CHECKING:
    from .base import Sandbox

DRIVER = (
    "{setup}; __status() {{ return $1; }}; builtin printf '\\0' >&201; "
    'while IFS= read -r -N 10 -u 200 && IFS= read -r -N "$REPLY" -u 200; do eval "$REPLY"; done; exit 125'
)
WITH_PIPES = "exec 200<&3 201>&4 3<&- 4>&-"
WITH_STREAMS = "exec 200<&0 201>&2 202>&1 0</dev/null 2>&1"
# One line, so that all of it is parsed before the command runs: a syntax error inside cannot swallow it. Tracing is
# switched off for the loop, and on again for the next command.
REPORT = (
    b"""; { builtin printf '%s %d %s %d %s\\0' TOKEN "$?" "$-" "${!:-0}" "${PWD-}"; builtin set +xv; } """
    b"2>/dev/null >&201"
)
# Where output and reports travel by different ways, a report may overtake: this goes behind the output.
MARK = b"""; builtin printf '\\0%s\\0' TOKEN 2>/dev/null >&202"""
BEHIND = 5.0  # seconds that the output may lag behind the report
TERMINAL_SETUP = r"""exec 201>&4 3<&- 4>&-; PS1='\$ '; PS2='> '
PROMPT_COMMAND='builtin printf "%s %d %s %d %s\0" - "$?" - "${!:-0}" "${PWD-}" 2>/dev/null >&201'
"""
START = 20.0  # seconds a shell may take to come up

End = Literal["report", "death", "timeout", "flood"]


class Shell:
    """One persistent shell of a sandbox; made by `Sandbox.shell`. One command at a time."""

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        env: Mapping[str, str],
        cwd: str,
        user: str | None,
        pty: tuple[int, int] | None,
        merge_stderr: bool,
    ) -> None:
        self._sandbox = sandbox
        self._env, self._user, self._pty = dict(env), user, pty
        self._merge = merge_stderr or not sandbox.capabilities.extra_fds
        self._first = cwd
        self.cwd = cwd
        """The shell's working folder after the last command."""
        self.restarts = 0
        """How often it ended and a new one took its place."""
        self._process: Process | None = None
        self._streams: list[OutputStream] = []
        self._control = self._status = -1
        self._reports = bytearray()
        self._token = b""
        self._code = 0
        self._trace = ""
        self._newest = 0
        self._end: asyncio.Future[End] | None = None
        self._dying: asyncio.Task[int] | None = None
        self._stopping = False
        self._lock = asyncio.Lock()
        self._closed = False
        self._loop = asyncio.get_running_loop()

    @property
    def pty(self) -> bool:
        """Whether it has a terminal."""
        return self._pty is not None

    # ---------------------------------------------------------------- life

    async def start(self) -> None:
        """Start bash and wait until it listens.

        Raises:
            SandboxUnavailable: the image has no bash.
        """
        extra = self._sandbox.capabilities.extra_fds
        if self._pty is not None:
            argv = ("bash", "--noprofile", "--noediting", "--rcfile", "/dev/fd/3", "-i")
        else:
            argv = ("bash", "--norc", "--noprofile", "-c", DRIVER.format(setup=WITH_PIPES if extra else WITH_STREAMS))
        launch = Launch(
            argv=argv,
            env=self._env,
            cwd=self.cwd,
            user=self._user,
            stdin=not extra,
            merge_stderr=self._merge and extra,
            control=extra,
            pty=self._pty,
        )
        self._process = process = await self._sandbox._spawn(launch)
        control = process.control if extra else process.stdin
        status = process.status if extra else process.stderr
        output = [process.terminal] if self._pty else [process.stdout, process.stderr if extra else None]
        assert control is not None and status is not None
        self._control, self._status = control, status
        self._reports.clear()
        limits = self._sandbox.spec.limits
        self._streams = [
            OutputStream(fd, limits.output, limits.flood, self._flooded) for fd in output if fd is not None
        ]
        self._token = b"-" if self._pty else b""
        self._end = self._loop.create_future()
        self._loop.add_reader(status, self._read_status)
        self._dying = asyncio.ensure_future(process.wait())
        self._dying.add_done_callback(self._died)
        if self._pty is not None:
            await Feed(control, TERMINAL_SETUP.encode()).done.wait()
            process.control = None
            os.close(control)
        how = await self._wait(START)
        if how != "report":
            heard = b"".join(stream.take(200)[0] for stream in self._streams).decode("utf-8", "replace").strip()
            await self._drop(kill=True)
            if self.cwd != self._first:  # the folder of the last command may be gone
                self.cwd = self._first
                return await self.start()
            if how == "death":
                raise SandboxUnavailable(f"the image cannot start a persistent shell (is there a bash?): {heard}")
            raise SandboxFault(f"a shell did not come up within {START:.0f} s: {heard}")

    async def close(self) -> None:
        """End the shell itself; what it left in the background goes on. Safe to call twice."""
        self._closed = True
        self._sandbox._shells.discard(self)
        async with self._lock:
            await self._drop(kill=True)

    async def lost(self, *, fresh: bool) -> None:
        """Every process of the sandbox was ended: let go of this one, and begin in the first folder if all is new."""
        if not self._lock.locked():  # else the running command sees it
            await self._drop(kill=False)
        if fresh:
            self.cwd = self._first

    async def _drop(self, *, kill: bool) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if kill:
            with contextlib.suppress(SandboxFault):
                await process.kill(signal.SIGKILL, "process")
        if self._dying is not None:
            self._dying.remove_done_callback(self._died)
            self._dying.cancel()
        self._loop.remove_reader(self._status)
        for stream in self._streams:
            stream.stop()
        process.close()

    # ---------------------------------------------------------------- events

    def _read_status(self) -> None:
        try:
            data = os.read(self._status, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._status)
            return
        self._reports += data
        while (cut := self._reports.find(b"\0")) >= 0:
            message = bytes(self._reports[:cut])
            del self._reports[: cut + 1]
            if self._token:
                at = message.find(self._token + b" ")  # a DEBUG trap may have written before it
                fields = message[at + len(self._token) + 1 :].split(b" ", 3)
                if at < 0 or len(fields) < 4 or not (fields[0].isdigit() and fields[2].isdigit()):
                    continue  # not this command's: made up, or late
                self._code, flags, self._newest = int(fields[0]), fields[1], int(fields[2])
                self._trace = "".join(flag for flag in "xv" if flag.encode() in flags)
                self.cwd = os.fsdecode(fields[3]) if fields[3].startswith(b"/") else self.cwd
            self._finish("report")
        if len(self._reports) > CHUNK:
            self._reports.clear()

    def _died(self, dying: asyncio.Task[int]) -> None:
        if not dying.cancelled():
            dying.exception()  # whoever runs a command gets it; nobody need
        self._finish("death")

    def _flooded(self) -> None:
        if not self._stopping:
            self._finish("flood")

    def _timeout(self) -> None:
        self._finish("timeout")

    def _finish(self, how: End) -> None:
        if self._end is not None and not self._end.done():
            self._end.set_result(how)

    async def _wait(self, seconds: float) -> End:
        assert self._end is not None
        timer = self._loop.call_later(seconds, self._timeout)
        try:
            return await self._end
        finally:
            timer.cancel()

    # ---------------------------------------------------------------- commands

    async def run(self, command: str, *, timeout: float | None = None, output_limit: int | None = None) -> ExecResult:
        """Run one command (any text that bash takes) and wait for it.

        A shell without a terminal gives the command /dev/null to read. When the command takes longer than `timeout`
        seconds, its processes get SIGTERM, then SIGKILL, then the shell itself goes. If the shell ended, for whatever
        reason, the result says so, and the next command gets a new shell in the last known folder.
        With a terminal, the output is the screen's bytes: the echoed command, its output, and the next prompt; the exit
        code is what the shell says about itself.

        Raises:
            InvalidArgument: a NUL byte in the command.
            SandboxFault: the sandbox broke.
        """
        if "\0" in command:
            raise InvalidArgument("a command cannot hold a NUL byte")
        async with self._lock:
            self._sandbox._check()
            if self._closed:
                raise SandboxFault("this shell is closed")
            begin = time.perf_counter()
            seconds = self._sandbox._seconds(timeout)
            if seconds <= 0:
                return ExecResult(exit_code=137, stdout=b"", timed_out=True)
            if self._dying is not None and self._dying.done():
                await self._drop(kill=False)
            if self._process is None:
                self.restarts += 1
                self._code, self._trace, self._newest = 0, "", 0
                await self.start()
            elif self._pty is not None:
                self._read_status()  # what commands that were typed have left
            assert self._process is not None
            oom = await self._sandbox._oom_kills()
            self._process.mark(self._newest)
            limit = self._sandbox.spec.limits.output if output_limit is None else output_limit
            self._end = self._loop.create_future()
            for stream in self._streams:
                stream.begin(limit)
            feed = self._send_command(command)
            try:
                how = await self._wait(seconds)
                code, exited = self._code, False
                if how != "report":
                    self._stopping = True
                    code, exited = await self._stop(how)
            except asyncio.CancelledError:
                await asyncio.shield(asyncio.ensure_future(self._drop(kill=True)))
                raise
            finally:
                self._stopping = False
                if feed is not None:
                    feed.stop()
            if self._pty is not None:
                await self._settle()
            elif not exited and not self._sandbox.capabilities.extra_fds:
                caught_up = await self._streams[0].caught_up(BEHIND)
                if how != "report" and not caught_up:  # what it wrote must not be taken for the next command's
                    await self._drop(kill=True)
                    exited = True
            result = self._result(code, how, begin, limit)
            if exited:
                await self._drop(kill=False)  # harmless where that was done
                result = replace(result, shell_exited=True)
            if code and await self._sandbox._oom_kills() > oom:
                result = replace(result, oom=True)
            return result

    async def _settle(self) -> None:
        """A terminal hands its output on later than a pipe does its report: wait until nothing more comes."""
        seen = -1
        for _ in range(25):
            if self._streams[0].ended or self._streams[0].total == seen:
                return
            seen = self._streams[0].total
            await asyncio.sleep(0.02)

    def _send_command(self, command: str) -> Feed | None:
        if self._pty is not None:
            assert self._process is not None and self._process.terminal is not None
            data, target = encode(command) + b"\n", self._process.terminal
        else:
            self._token = secrets.token_hex(16).encode()
            before = f"__status {self._code} || " if self._code else ""
            traced = f"set -{self._trace}\n{command}" if self._trace else command
            extra = self._sandbox.capabilities.extra_fds
            run = f"unset REPLY; {before}eval -- {quote(traced)} 200<&- 201>&-{'' if extra else ' 202>&-'}"
            body = run.encode("ascii") + (REPORT if extra else REPORT + MARK).replace(b"TOKEN", self._token)
            if not extra:
                self._streams[0].expect(b"\0%b\0" % self._token)
            data, target = b"%10d%b" % (len(body), body), self._control
        feed = Feed(target, data)
        return None if feed.done.is_set() else feed

    def _result(self, code: int, how: End, begin: float, limit: int) -> ExecResult:
        taken = [stream.take(limit) for stream in self._streams]
        total = sum(size for _, size in taken)
        return ExecResult(
            exit_code=code,
            stdout=taken[0][0],
            stderr=taken[1][0] if len(taken) > 1 else b"",
            timed_out=how == "timeout" or (how == "death" and self._sandbox._over()),
            truncated=how == "flood" or any(size > len(data) for data, size in taken),
            duration=time.perf_counter() - begin,
            total_bytes=total,
        )

    async def _stop(self, how: End) -> tuple[int, bool]:
        """End what still runs. Returns the exit code and whether the shell itself is gone."""
        process, dying = self._process, self._dying
        assert process is not None and dying is not None
        if how != "death":
            for signum, rounds in ((signal.SIGTERM, round(GRACE / 0.1)), (signal.SIGKILL, 2)):
                for _ in range(rounds):
                    self._end = self._loop.create_future()  # first: the report may come while the signal is sent
                    if self._pty is not None and signum == signal.SIGTERM:
                        await self.interrupt()
                    await process.kill(signum, "children")
                    how = await self._wait(0.1)
                    if how == "report":
                        return self._code, False
                    if how == "death":
                        return dying.result(), True
            await process.kill(signal.SIGSTOP)  # it must not start more
            await process.kill(signal.SIGKILL, "children")
            await process.kill(signal.SIGKILL)  # not its session: the background of earlier commands goes on
        return await dying, True

    # ---------------------------------------------------------------- the terminal

    async def send(self, data: bytes | str) -> None:
        """Type into the terminal (pty only); a carriage return is the return key, byte 3 is Ctrl-C."""
        terminal = await self._terminal()
        body = encode(data) if isinstance(data, str) else data
        feed = Feed(terminal, body)
        try:
            await asyncio.wait_for(feed.done.wait(), 5.0)
        except TimeoutError:  # nothing inside reads; a real terminal drops keys as well
            pass
        finally:
            feed.stop()

    async def read(self, *, timeout: float = 1.0, quiet: float = 0.05, limit: int | None = None) -> bytes:
        """What the terminal showed since the last `read` or `run` (pty only).

        Waits until something came and then nothing more for `quiet` seconds, at most `timeout` seconds in all.
        """
        await self._terminal()
        end, stream = self._loop.time() + timeout, self._streams[0]
        seen, since = -1, self._loop.time()
        while (now := self._loop.time()) < end and not stream.ended:
            if stream.total != seen:
                seen, since = stream.total, now
            elif stream.total and now - since >= quiet:
                break
            await asyncio.sleep(min(0.01, quiet))
        limit = self._sandbox.spec.limits.output if limit is None else limit
        return stream.take(limit)[0]

    async def interrupt(self) -> None:
        """Ctrl-C: typed on a terminal, else SIGINT to the processes of the running command."""
        if self._process is None:
            return
        if self._pty is not None and self._process.terminal is not None:
            with contextlib.suppress(OSError):
                os.write(self._process.terminal, b"\x03")
        else:
            await self._process.kill(signal.SIGINT, "children")

    async def resize(self, rows: int, columns: int) -> None:
        """Give the terminal another size (pty only)."""
        terminal = await self._terminal()
        self._pty = (rows, columns)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def _terminal(self) -> int:
        self._sandbox._check()
        if self._pty is None:
            raise InvalidArgument("this shell has no terminal: Sandbox.shell(pty=True) gives one")
        if self._closed:
            raise SandboxFault("this shell is closed")
        if self._dying is not None and self._dying.done():
            await self._drop(kill=False)
        if self._process is None:
            self.restarts += 1
            await self.start()
        assert self._process is not None and self._process.terminal is not None
        return self._process.terminal


def quote(command: str) -> str:
    """A bash word that stands for `command`, in ASCII: bash counts what it reads in characters of any locale."""
    if command.isascii():
        return shlex.quote(command)
    pieces = ["$'"]
    for byte in encode(command):
        if byte in (0x27, 0x5C):
            pieces.append("\\" + chr(byte))
        else:
            pieces.append(chr(byte) if byte < 0x80 else f"\\x{byte:02x}")
    return "".join(pieces) + "'"
