"""No isolation at all: commands run on this machine, as this user. For trusted code only."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import ClassVar, Literal

from .base import Sandbox
from .errors import InvalidArgument, SandboxFault
from .limits import Capabilities
from .process import CONTROL, STATUS, Launch, Pipes, Process, younger
from .spec import HostImage, SandboxSpec

MOVE = 'exec {0}<&"$0" {1}>&"$1"; shift; exec "$@"'
TICKS = os.sysconf("SC_CLK_TCK")


class LocalProcess(Process):
    """A child of this process, watched through a pidfd."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self.pid = popen.pid
        self._popen = popen
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._pidfd = os.pidfd_open(popen.pid)
        asyncio.get_running_loop().add_reader(self._pidfd, self._exited)

    def _exited(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        code = self._popen.wait()
        self._ended.set_result(code if code >= 0 else 128 - code)

    async def wait(self) -> int:
        """See `Process.wait`."""
        return await asyncio.shield(self._ended)

    async def kill(self, signum: int, scope: Literal["process", "group", "session", "children"] = "process") -> None:
        """See `Process.kill`."""
        if scope == "process" and self._ended.done():  # its number may be somebody else's by now
            return
        for pid in select(self._popen.pid, scope, self.marked, self.newest):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signum)


def select(root: int, scope: str, marked: float = 0.0, newest: int = 0) -> list[int]:
    """The processes of this machine that a scope of `Process.kill` means."""
    if scope == "process":
        return [root]
    rows: dict[int, tuple[int, int, int, float]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(entry.path, "stat").read_text(errors="replace").rpartition(")")[2].split()
                rows[int(entry.name)] = (int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]) / TICKS)
    if scope == "group":
        return [pid for pid, row in rows.items() if row[1] == root]
    if scope == "session":
        return [pid for pid, row in rows.items() if row[2] == root]
    parents = {pid: row[0] for pid, row in rows.items()}
    return younger(root, parents, {pid: row[3] for pid, row in rows.items()}, marked, newest)


class LocalSandbox(Sandbox):
    """Plain subprocesses of this machine, with resource limits.

    Covered: time, output, size of files, open files, core dumps, and nothing of the parent's environment.
    Not covered: everything else. Commands read and write this machine's files, reach its network and see its processes;
    memory and processes are not limited. Never for text that a model wrote.
    """

    name: ClassVar[str] = "local"

    def __init__(self, spec: SandboxSpec | None = None, *, unsafe: bool = False) -> None:
        """Raises InvalidArgument unless `unsafe=True` says that the caller knows."""
        super().__init__(spec)
        if not unsafe:
            raise InvalidArgument("LocalSandbox isolates nothing: pass unsafe=True to run trusted commands in it")
        if not isinstance(self.spec.image, HostImage) or self.spec.mounts or self.spec.user or self.spec.limits.cpu:
            raise InvalidArgument("LocalSandbox runs on this machine as it is: no image, mounts, user or CPU limit")
        self._home = Path()
        self._sessions: dict[int, float] = {}

    @property
    def capabilities(self) -> Capabilities:
        """See `Sandbox.capabilities`."""
        return Capabilities(extra_fds=True, ptrace=True, networks=frozenset({"open"}), secure=False)

    async def _start(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="sandlot-local-"))

    def environment(self, env=None) -> dict[str, str]:
        """The environment of a command: its home is a temporary folder."""
        return {**super().environment(), "HOME": str(self._home), **self.spec.env, **(env or {})}

    async def _spawn(self, launch: Launch) -> Process:
        if launch.user or launch.pty:
            raise self._cannot("change user" if launch.user else "give a terminal")
        pipes = Pipes(launch)
        child = pipes.child
        argv = list(launch.argv)
        if launch.control:  # bash moves the inherited descriptors to the numbers that the program expects
            move = MOVE.format(CONTROL, STATUS)
            argv = ["bash", "-c", move, str(child[CONTROL]), str(child[STATUS]), *argv]
        try:
            popen = subprocess.Popen(
                argv,
                stdin=child[0],
                stdout=child[1],
                stderr=child[2],
                pass_fds=[child[n] for n in (CONTROL, STATUS) if n in child],
                cwd=launch.cwd,
                env=dict(launch.env),
                start_new_session=True,
                preexec_fn=self._limit,
            )
        except OSError as error:
            os.write(child[2], f"{error}\n".encode())
            popen = subprocess.Popen(["sh", "-c", "exit 127"], start_new_session=True)
        except BaseException:
            pipes.abandon()
            raise
        pipes.close_child()
        process = LocalProcess(popen)
        pipes.give(process)
        self._sessions[popen.pid] = time.monotonic()
        return process

    def _limit(self) -> None:
        limits = self.spec.limits
        for kind, value in (
            (resource.RLIMIT_FSIZE, limits.file_size),
            (resource.RLIMIT_NOFILE, limits.open_files),
            (resource.RLIMIT_CORE, 0),
        ):
            hard = resource.getrlimit(kind)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (value, value))

    async def _kill_all(self) -> None:
        for session in self._sessions:
            for pid in select(session, "session"):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        self._sessions.clear()

    async def _close(self) -> None:
        with contextlib.suppress(SandboxFault):
            await self._kill_all()
        shutil.rmtree(self._home, ignore_errors=True)
