"""The one interface of every sandbox: commands, persistent shells, files, and branch points.

A backend supplies a small set of primitives (`_start`, `_spawn`, `_kill_all`, `_close` and, where it can, those of
the writable layer); commands, shells and files are written once, here, over them.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shlex
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from .archive import pack, unpack
from .errors import InvalidArgument, SandboxFault
from .limits import MIB, Capabilities
from .process import Launch, Process, communicate
from .shell import Shell
from .spec import PATH, ExecResult, SandboxSpec
from .text import encode

LONG = 96_000  # bytes; the kernel takes one argument of at most 128 KiB
TRANSFER = 100 * MIB


@dataclass(frozen=True)
class Snapshot:
    """The writable layer of a sandbox at one moment; processes are not part of it."""

    backend: str
    """Name of the backend that made it and can read it."""
    image: str
    """Identity of the image that it lies on."""
    data: Any
    """What the backend needs to bring it back."""


class Sandbox(ABC):
    """One isolated machine. Async; `SyncSandbox` is the same for ordinary code.

    A command's own failure is a result (exit code, `timed_out`, `oom`). A file that is missing inside is an `OSError`.
    What the infrastructure does wrong is a `SandboxFault`. What a backend cannot do is an `InvalidArgument`.
    """

    name: ClassVar[str]
    """The backend's name."""

    def __init__(self, spec: SandboxSpec | None = None) -> None:
        self.spec = spec if spec is not None else SandboxSpec()
        self._born = time.monotonic()
        self._wall_timer: asyncio.TimerHandle | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._shells: weakref.WeakSet[Shell] = weakref.WeakSet()
        self._started = self._closed = False

    # ---------------------------------------------------------------- what a backend supplies

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What this backend can do on this machine."""

    @abstractmethod
    async def _start(self) -> None:
        """Bring it up. Raises SandboxUnavailable when this machine cannot, SandboxFault when it broke."""

    @abstractmethod
    async def _spawn(self, launch: Launch) -> Process:
        """Start one program. A missing program or folder is no fault: it ends with 127 and says so on stderr."""

    @abstractmethod
    async def _kill_all(self) -> None:
        """End every process inside, at once."""

    @abstractmethod
    async def _close(self) -> None:
        """End it and free all it holds. Called once, even after a failed start."""

    async def _reset(self) -> None:
        """Back to the state right after start: no process, a fresh writable layer."""
        raise self._cannot("reset")

    async def _snapshot(self) -> Snapshot:
        """Copy the writable layer while every process is stopped."""
        raise self._cannot("take snapshots")

    async def _restore(self, snapshot: Snapshot) -> None:
        """No process, and the writable layer as it was."""
        raise self._cannot("restore snapshots")

    async def _fingerprint(self, paths: Sequence[str] | None) -> str:
        raise self._cannot("take fingerprints")

    async def _freeze(self, frozen: bool) -> None:
        raise self._cannot("freeze")

    async def _oom_kills(self) -> int:
        """Processes killed so far for want of memory."""
        return 0

    def _cannot(self, what: str) -> InvalidArgument:
        return InvalidArgument(f"the {self.name} backend cannot {what} here; see Sandbox.capabilities")

    # ---------------------------------------------------------------- life

    async def start(self) -> Self:
        """Start it; commands can follow.

        Raises:
            SandboxUnavailable: this machine cannot run this backend; the message says why.
            SandboxFault: it broke on the way.
        """
        if self._started or self._closed:
            raise SandboxFault("a sandbox starts once")
        self._started = True
        try:
            await self._start()
            await self._new_life()
        except BaseException:
            await self.close()
            raise
        return self

    async def _new_life(self) -> None:
        self._born = time.monotonic()
        if self._wall_timer is not None:
            self._wall_timer.cancel()
        if self.spec.limits.wall is not None:
            self._wall_timer = asyncio.get_running_loop().call_later(self.spec.limits.wall, self._wall_over)
        if self.spec.workdir != "/":
            await self._make_folder(self.spec.workdir)

    def _wall_over(self) -> None:
        task = asyncio.ensure_future(self._end_of_wall())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _end_of_wall(self) -> None:
        with contextlib.suppress(SandboxFault):
            await self._kill_all()

    async def close(self) -> None:
        """End it and free everything. Safe to call twice, and after a fault."""
        if self._closed:
            return
        self._closed = True
        if self._wall_timer is not None:
            self._wall_timer.cancel()
        if self._started:
            await self._close()
        await self._lose_shells(fresh=False)

    async def __aenter__(self) -> Self:
        return self if self._started else await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check(self) -> None:
        if self._closed or not self._started:
            raise SandboxFault(f"this sandbox {'is closed' if self._closed else 'was not started'}")

    # ---------------------------------------------------------------- commands

    def environment(self, env: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a command that is given `env`."""
        base = {"PATH": PATH, "HOME": "/root", "TERM": "dumb", "LANG": "C.UTF-8"}
        whole = {**base, **self.spec.env, **(env or {})}
        for name, value in whole.items():
            if not name or "=" in name or "\0" in name + value:
                raise InvalidArgument(f"no environment variable can be {name!r}={value!r}")
        return whole

    def _seconds(self, timeout: float | None) -> float:
        limits = self.spec.limits
        seconds = limits.timeout if timeout is None else timeout
        if limits.wall is not None:
            seconds = min(seconds, max(0.0, self._born + limits.wall - time.monotonic()))
        return seconds

    def _over(self) -> bool:
        """Whether its whole time is up: then every process was killed."""
        wall = self.spec.limits.wall
        return wall is not None and time.monotonic() >= self._born + wall - 0.01

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: float | None = None,
        output_limit: int | None = None,
        merge_stderr: bool = False,
    ) -> ExecResult:
        """Run one command to its end.

        Args:
            command: a line for `bash -c` (`sh -c` where there is no bash), or program and arguments.
            stdin: what it reads; nothing else is ever on its standard input.
            cwd: working folder, absolute; None is `spec.workdir`.
            env: more environment variables.
            user: None is `spec.user`.
            timeout: seconds; None is `limits.timeout`. Then SIGTERM to its group, a second, SIGKILL to its session.
            output_limit: bytes of each stream to keep; None is `limits.output`.
            merge_stderr: standard error goes into `stdout`, in the order it was written.

        Raises:
            SandboxFault: the sandbox broke.
            InvalidArgument: a NUL byte in the command, or a user that this backend does not have.
        """
        self._check()
        begin = time.perf_counter()
        seconds = self._seconds(timeout)
        if seconds <= 0:
            return ExecResult(exit_code=137, stdout=b"", timed_out=True)
        script = None
        if isinstance(command, str):
            if "\0" in command:
                raise InvalidArgument("a command cannot hold a NUL byte")
            body = encode(command)
            if len(body) > LONG or not _is_text(body):  # an OCI runtime takes its arguments in JSON
                script = f"/tmp/.sandlot-{secrets.token_hex(8)}"
                await self._write_file(script, body, 0o600)
                argv: tuple[str, ...] = (*self._interpreter(), script)
            else:
                argv = (*self._interpreter(), "-c", body.decode("utf-8", "surrogateescape"))
        else:
            argv = tuple(encode(part).decode("utf-8", "surrogateescape") for part in command)
            if not argv or any("\0" in part for part in argv):
                raise InvalidArgument("a command needs a program, and cannot hold a NUL byte")
        launch = Launch(
            argv=argv,
            env=self.environment(env),
            cwd=_absolute(cwd) if cwd is not None else self.spec.workdir,
            user=user if user is not None else self.spec.user,
            stdin=bool(stdin),
            merge_stderr=merge_stderr,
        )
        limits = self.spec.limits
        before = await self._oom_kills()
        process = await self._spawn(launch)
        result = await communicate(
            process,
            stdin=stdin,
            timeout=seconds,
            limit=limits.output if output_limit is None else output_limit,
            flood=max(limits.flood, output_limit or 0),
            begin=begin,
        )
        if script is not None:
            await self._remove(script)
        if result.exit_code > 128 and self._over():
            result = replace(result, timed_out=True)
        if result.exit_code and await self._oom_kills() > before:
            result = replace(result, oom=True)
        return result

    def _interpreter(self) -> tuple[str, ...]:
        return ("bash",)

    async def shell(
        self,
        *,
        pty: bool = False,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        merge_stderr: bool = True,
        rows: int = 24,
        columns: int = 80,
    ) -> Shell:
        """Start a persistent shell: working folder, variables and background processes last from command to command.

        Args:
            pty: give it a terminal of its own (`rows` x `columns`), for interactive programs.
            cwd: where it starts; None is `spec.workdir`.
            env: more environment variables.
            user: None is `spec.user`.
            merge_stderr: what commands write to standard error appears in `stdout`, in order.
            rows: of the terminal.
            columns: of the terminal.
        """
        self._check()
        if pty and not self.capabilities.pty:
            raise self._cannot("give a terminal")
        shell = Shell(
            self,
            env=self.environment({"TERM": "xterm", **(env or {})} if pty else env),
            cwd=_absolute(cwd) if cwd is not None else self.spec.workdir,
            user=user if user is not None else self.spec.user,
            pty=(rows, columns) if pty else None,
            merge_stderr=merge_stderr,
        )
        await shell.start()
        self._shells.add(shell)
        return shell

    async def kill_all(self) -> None:
        """End every process inside, at once: shells and daemons too. Files stay."""
        self._check()
        await self._kill_all()
        await self._lose_shells(fresh=False)

    async def _lose_shells(self, *, fresh: bool) -> None:
        for shell in list(self._shells):
            await shell.lost(fresh=fresh)

    # ---------------------------------------------------------------- files

    async def put(self, data: bytes | Path, path: str, *, mode: int = 0o644) -> None:
        """Write a file inside; folders on the way are made.

        Args:
            data: the content, or the host file to read.
            path: absolute, inside. A process inside opens it: no path is ever followed on the host.
            mode: permission bits.

        Raises:
            OSError: it cannot be written (disk full, a folder in its place).
        """
        self._check()
        body = data if isinstance(data, bytes) else data.read_bytes()
        await self._write_file(_absolute(path), body, mode)

    async def get(self, path: str, *, limit: int = TRANSFER) -> bytes:
        """Read a file inside.

        Raises:
            FileNotFoundError: there is none.
            OSError: it is no regular file, cannot be read, or is larger than `limit` bytes.
        """
        self._check()
        return await self._read_file(_absolute(path), limit)

    async def put_dir(self, source: Path, path: str) -> None:
        """Copy the content of a host folder into a folder inside, which is made; links stay links.

        Raises:
            OSError: it cannot be written.
            InvalidArgument: `source` is no folder.
        """
        self._check()
        await self._unpack(_absolute(path), await asyncio.to_thread(pack, source))

    async def get_dir(self, path: str, target: Path, *, limit: int = TRANSFER) -> list[str]:
        """Copy a folder inside to a new or empty folder of the host; return the names left out (see `archive.unpack`).

        Raises:
            FileNotFoundError: there is none.
            OSError: it is larger than `limit` bytes.
            InvalidArgument: `target` is not empty.
        """
        self._check()
        data = await self._pack(_absolute(path), limit)
        return await asyncio.to_thread(unpack, data, target, limit=limit)

    async def _make_folder(self, path: str) -> None:
        result = await self._tool(["mkdir", "-p", "--", path])
        _raise_for(result, path)

    async def _remove(self, path: str) -> None:
        await self._tool(["rm", "-f", "--", path])

    async def _write_file(self, path: str, data: bytes, mode: int) -> None:
        script = 'mkdir -p -- "${1%/*}/" && rm -f -- "$1" && cat > "$1" && chmod "$2" "$1"'
        _raise_for(await self._tool(["sh", "-c", script, "sh", path, f"{mode:o}"], stdin=data), path)

    async def _read_file(self, path: str, limit: int) -> bytes:
        script = (
            '[ -e "$1" ] || { echo No such file or directory >&2; exit 1; }; '
            '[ -f "$1" ] || { echo Not a regular file >&2; exit 1; }; exec head -c "$2" "$1"'
        )
        result = await self._tool(["sh", "-c", script, "sh", path, str(limit + 1)], output_limit=limit + 1)
        _raise_for(result, path)
        if len(result.stdout) > limit:
            raise OSError(f"{path} is larger than {limit} bytes")
        return result.stdout

    async def _unpack(self, path: str, data: bytes) -> None:
        await self._make_folder(path)
        _raise_for(await self._tool(["tar", "-x", "-p", "--no-same-owner", "-C", path, "-f", "-"], stdin=data), path)

    async def _pack(self, path: str, limit: int) -> bytes:
        script = (
            '[ -d "$1" ] || { echo No such file or directory >&2; exit 1; }; exec tar -c -C "$1" --sort=name -f - .'
        )
        room = limit + limit // 8 + MIB  # headers and padding
        result = await self._tool(["sh", "-c", script, "sh", path], output_limit=room)
        if result.truncated:
            raise OSError(f"{path} is larger than {limit} bytes")
        _raise_for(result, path)
        return result.stdout

    async def _tool(self, argv: Sequence[str], *, stdin: bytes = b"", output_limit: int = 64_000) -> ExecResult:
        """Run one of the image's own programs as root, for the files' sake."""
        launch = Launch(argv=tuple(argv), env=self.environment(), stdin=bool(stdin))
        process = await self._spawn(launch)
        result = await communicate(process, stdin=stdin, timeout=60.0, limit=output_limit, flood=output_limit + MIB)
        if result.timed_out:
            raise OSError(f"{shlex.join(argv[:1])} did not end within 60 s")
        return result

    # ---------------------------------------------------------------- branch points

    async def reset(self) -> None:
        """Back to the state right after `start`: no process, no trace of what was written."""
        self._check()
        await self._reset()
        await self._lose_shells(fresh=True)
        await self._new_life()

    async def snapshot(self) -> Snapshot:
        """Copy the writable layer; processes go on."""
        self._check()
        return await self._snapshot()

    async def restore(self, snapshot: Snapshot) -> None:
        """Every process ends, and the files are as they were.

        Raises:
            InvalidArgument: the snapshot is another backend's or lies on another image.
        """
        self._check()
        if snapshot.backend != self.name:
            raise InvalidArgument(f"a snapshot of the {snapshot.backend} backend does not fit the {self.name} backend")
        await self._restore(snapshot)
        await self._lose_shells(fresh=True)
        await self._new_life()

    async def fork(self, snapshot: Snapshot | None = None) -> Self:
        """A second sandbox with this one's files (or the snapshot's), started; the caller closes it."""
        self._check()
        snapshot = snapshot if snapshot is not None else await self._snapshot()
        other = self._sibling()
        await other.start()
        try:
            await other.restore(snapshot)
        except BaseException:
            await other.close()
            raise
        return other

    def _sibling(self) -> Self:
        """Another one like it, not started; a backend with more arguments hands them on."""
        return type(self)(self.spec)

    async def fingerprint(self, paths: Sequence[str] | None = None) -> str:
        """A hash of the writable layer: names, contents, modes, links and what was deleted, but no times.

        Args:
            paths: only what lies at or below these absolute paths; None is everything.
        """
        self._check()
        return await self._fingerprint(None if paths is None else [_absolute(path) for path in paths])

    async def freeze(self) -> None:
        """Stop every process until `thaw`."""
        self._check()
        await self._freeze(True)

    async def thaw(self) -> None:
        """Let every process go on."""
        self._check()
        await self._freeze(False)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _absolute(path: str) -> str:
    if not path.startswith("/") or "\0" in path:
        raise InvalidArgument(f"a path inside a sandbox must be absolute and hold no NUL byte, got {path!r}")
    return path


def _raise_for(result: ExecResult, path: str) -> None:
    if result.exit_code:
        message = result.error_text.strip()[-300:] or f"exit code {result.exit_code}"
        kind = FileNotFoundError if "No such file or directory" in message else OSError
        raise kind(f"{path}: {message}")
