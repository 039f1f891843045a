"""`NamespaceSandbox`: Linux namespaces, overlayfs and seccomp from Python alone."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import platform
import select
import signal
import stat
import time
import weakref
from collections.abc import AsyncIterator, Sequence
from functools import lru_cache
from typing import Any, ClassVar

from ..base import Sandbox, Snapshot, _raise_for
from ..errors import InvalidArgument, SandboxFault, SandboxUnavailable
from ..limits import MIB, Capabilities
from ..process import CONTROL, STATUS, Launch, Pipes, Process, communicate
from ..rootfs import Prepared, prepare
from ..spec import DockerImage, ExecResult, Image, SandboxSpec
from . import bpf
from .cgroups import Groups
from .connection import Connection
from .launcher import LAUNCHER
from .process import NamespaceProcess

START = 20.0  # seconds
UID = 64000  # what root becomes on the host; as a number it belongs to nobody
HINTS = {
    "making namespaces": (
        "unprivileged user namespaces are switched off: on Ubuntu 24.04 `sysctl kernel.apparmor_restrict_unprivileged_"
        "userns=0`, on Debian `sysctl kernel.unprivileged_userns_clone=1`, in Docker run the container with "
        "`--security-opt seccomp=unconfined --security-opt apparmor=unconfined`"
    ),
    "mapping the user": (
        "user namespaces give no power here: on Ubuntu 24.04 `sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
    ),
    "mounting": (
        "mounts inside a user namespace are refused: Linux 6.6 or newer is needed, and inside Docker "
        "`--security-opt systempaths=unconfined --security-opt apparmor=unconfined`"
    ),
}


class NamespaceSandbox(Sandbox):
    """A sandbox from Linux namespaces, overlayfs and seccomp, in pure Python: nothing to install, a few milliseconds.

    Covered: the host's files (only the image and named mounts are there, read-only; what is written goes to a layer in
    memory that dies with the sandbox), its processes, network, abstract sockets, IPC, host name, environment and
    descriptors; root (uid 0 inside is an unprivileged user outside, without capabilities, and cannot gain any); the
    calls in `seccomp.DENIED` and its fellows, among them ptrace, mounts, new namespaces, keys, BPF, io_uring and vsock;
    memory and processes (control groups where they may be made, else a watch every quarter of a second and resource
    limits), disk space and inodes, time, output. Works as root and as an ordinary user.

    Not covered: it is no virtual machine. A bug in the kernel that programs can reach is a way out, and so are the
    side channels of shared hardware. CPU time is only held where a CPU controller may be used. There is one user
    inside: changes of owner and user succeed without doing anything, so that `tar`, `cp -a` and installers work, and
    permissions between users do not hold. Devices, GPUs and the network are not there.
    """

    name: ClassVar[str] = "namespace"

    def __init__(self, spec: SandboxSpec | None = None) -> None:
        super().__init__(spec)
        if self.spec.network != "loopback":
            raise InvalidArgument("the namespace backend has no network but its own loopback; use Docker for 'open'")
        if self.spec.user not in (None, "root", "0"):
            raise self._one_user(self.spec.user)
        self._connection: Connection | None = None
        self._frozen = False
        self._stilling = asyncio.Lock()
        self._groups = Groups()
        self._prepared: Prepared | None = None
        self._agent_fd: list[int] = []
        """A descriptor of PID 1, while there is one."""
        self._finalizer: weakref.finalize | None = None

    def _one_user(self, user: str | None) -> InvalidArgument:
        return InvalidArgument(f"the namespace backend has one user, root, and no {user!r}; use Docker for others")

    @property
    def capabilities(self) -> Capabilities:
        """See `Sandbox.capabilities`; what the control groups hold is known once it is started."""
        return Capabilities(
            snapshot=True,
            pty=True,
            extra_fds=True,
            memory_cgroup="memory" in self._groups.folders,
            pids_cgroup="pids" in self._groups.folders,
            cpu="cpu" in self._groups.folders,
            freeze=True,
            ptrace=True,
        )

    # ---------------------------------------------------------------- life

    async def _start(self) -> None:
        if platform.system() != "Linux":
            raise SandboxUnavailable(f"the namespace backend needs Linux, this is {platform.system()}")
        filter_ = _filter(platform.machine(), self.spec.allow_ptrace)
        uid = UID if os.getuid() == 0 else os.getuid()
        self._prepared = prepared = await _prepared(self.spec.image, uid)
        limits = self.spec.limits
        mounts = [*prepared.mounts, *((str(mount.source), mount.target) for mount in self.spec.mounts)]
        config = self._config(filter_, mounts)
        sources = [str(prepared.lower), *config.pop("sources")]
        sock = LAUNCHER.launch({"uid": uid, "sources": sources})
        self._connection = connection = Connection(sock)
        self._groups = Groups.create(limits)  # while the first process comes up
        self._finalizer = weakref.finalize(self, _end, os.getpid(), connection, self._groups, self._agent_fd)
        config |= {"groups": self._groups.own_entries(), "watch": "memory" not in self._groups.folders}
        connection.configure(config)
        ready = False
        while not ready or not self._agent_fd:
            try:
                message, descriptors = await asyncio.wait_for(connection.first.get(), START)
            except TimeoutError:
                raise SandboxFault(f"a sandbox did not come up within {START:.0f} s") from None
            if "failed" in message:
                raise _unavailable(self.name, message)
            if "pid" in message:
                self._agent_fd.append(descriptors[0])
                if not config["groups"]:
                    await asyncio.to_thread(self._groups.add, message["pid"])
            ready = ready or "ready" in message

    def _config(self, filter_: bytes, mounts: list[tuple[str, str]]) -> dict[str, Any]:
        """What the agent is told; a backend of the same family adds to it."""
        limits = self.spec.limits
        return {
            "sources": [source for source, _ in mounts],
            "targets": [target for _, target in mounts],
            "disk": min(limits.disk, limits.memory * 5 // 8),  # files lie in memory: they must leave some to programs
            "inodes": limits.inodes,
            "shm": min(limits.shm, limits.memory // 8),
            "memory": limits.memory,
            "rlimits": {
                "RLIMIT_NPROC": limits.pids,
                "RLIMIT_FSIZE": limits.file_size,
                "RLIMIT_NOFILE": limits.open_files,
                "RLIMIT_CORE": 0,
            },
            "filter": filter_.hex(),
        }

    async def _close(self) -> None:
        if self._connection is None:
            self._groups.remove()
            return
        self._connection.close()
        for pidfd in self._agent_fd:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            await _gone(pidfd)
        if self._finalizer is not None:
            self._finalizer()

    def _agent(self) -> Connection:
        if self._connection is None:
            raise SandboxFault("this sandbox was not started")
        return self._connection

    # ---------------------------------------------------------------- processes

    async def _spawn(self, launch: Launch) -> Process:
        if launch.user not in (None, "root", "0"):
            raise self._one_user(launch.user)
        message = {
            "op": "spawn",
            "argv": list(launch.argv),
            "env": dict(launch.env),
            "cwd": launch.cwd,
            "pty": launch.pty,
        }
        return await self._begin(launch, message)

    async def _begin(self, launch: Launch, message: dict[str, Any]) -> Process:
        pipes = Pipes(launch)
        try:
            if os.getuid() == 0:
                for number, descriptor in pipes.child.items():  # or /dev/stdout and its like could not be opened inside
                    if number in (CONTROL, STATUS) and launch.pty is None:
                        continue  # a command must not reach these by /proc either
                    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                        os.fchown(descriptor, UID, UID)
            numbers, descriptors = list(pipes.child), list(pipes.child.values())
            end, reply = self._agent().spawn({**message, "fds": numbers}, descriptors)
            answer, received = await reply
        except BaseException:
            pipes.abandon()
            raise
        pipes.close_child()
        process = NamespaceProcess(self._agent(), end)
        pipes.give(process)
        process.pid = answer["pid"]
        if received:
            os.set_blocking(received[0], False)
            process.terminal = received[0]
        return process

    async def _task(
        self, task: str, arguments: dict[str, Any], *, stdin: bytes | None = None, limit: int = 64_000
    ) -> ExecResult:
        """Let the agent do one of `tasks`."""
        process = await self._begin(Launch(argv=(), stdin=stdin is not None), _task_message(task, arguments))
        result = await communicate(process, stdin=stdin or b"", timeout=120.0, limit=limit, flood=limit + MIB)
        if result.timed_out:
            raise OSError(errno.ETIMEDOUT, f"{task} did not end within 120 s")
        return result

    async def _kill_all(self) -> None:
        self._frozen = False
        await self._agent().request({"op": "kill_all"})

    async def _oom_kills(self) -> int:
        return self._groups.oom_kills() + (self._connection.oom_kills if self._connection is not None else 0)

    async def _freeze(self, frozen: bool) -> None:
        self._frozen = frozen
        await self._agent().request({"op": "stop" if frozen else "continue"})

    # ---------------------------------------------------------------- files

    async def _make_folder(self, path: str) -> None:
        _raise_for(await self._task("folder", {"path": path}), path)

    async def _remove(self, path: str) -> None:
        await self._task("remove", {"path": path})

    async def _write_file(self, path: str, data: bytes, mode: int) -> None:
        _raise_for(await self._task("write", {"path": path, "mode": mode}, stdin=data), path)

    async def _read_file(self, path: str, limit: int) -> bytes:
        result = await self._task("read", {"path": path, "limit": limit + 1}, limit=limit + 1)
        _raise_for(result, path)
        if result.total_bytes > limit:
            raise OSError(f"{path} is larger than {limit} bytes")
        return result.stdout

    async def _unpack(self, path: str, data: bytes) -> None:
        _raise_for(await self._task("unpack", {"path": path}, stdin=data), path)

    async def _pack(self, path: str, limit: int) -> bytes:
        result = await self._task("pack", {"path": path}, limit=limit + limit // 8 + MIB)
        if result.truncated:
            raise OSError(f"{path} is larger than {limit} bytes")
        _raise_for(result, path)
        return result.stdout

    # ---------------------------------------------------------------- branch points

    async def _reset(self) -> None:
        self._frozen = False
        await self._agent().request({"op": "reset"})

    @contextlib.asynccontextmanager
    async def _still(self) -> AsyncIterator[None]:
        """Every process stopped, unless they are already."""
        async with self._stilling:
            if self._frozen:
                yield
                return
            await self._freeze(True)
            try:
                yield
            finally:
                await self._freeze(False)

    async def _snapshot(self) -> Snapshot:
        limits = self.spec.limits
        room = limits.disk + limits.inodes * 4096
        async with self._still():
            result = await self._task("export", {}, limit=room)
        if result.exit_code or result.truncated:
            raise SandboxFault(f"the writable layer cannot be copied: {result.error_text or 'it is too large'}")
        return Snapshot(self.name, self._image(), result.stdout)

    def _image(self) -> str:
        assert self._prepared is not None
        return self._prepared.key

    async def _restore(self, snapshot: Snapshot) -> None:
        if snapshot.image != self._image():
            raise InvalidArgument("this snapshot lies on another image")
        with os.fdopen(os.memfd_create("sandlot-snapshot", os.MFD_CLOEXEC), "wb") as file:
            file.write(snapshot.data)
            file.flush()
            file.seek(0)
            await self._agent().request({"op": "restore"}, [file.fileno()])

    async def _fingerprint(self, paths: Sequence[str] | None) -> str:
        async with self._still():
            result = await self._task("fingerprint", {"paths": None if paths is None else list(paths)})
        if result.exit_code:
            raise SandboxFault(f"no fingerprint: {result.error_text}")
        return result.text


_PREPARED: dict[tuple[Image, int], Prepared] = {}
"""Images that cannot become others while this process lives, as a name of Docker's can."""


async def _prepared(image: Image, uid: int) -> Prepared:
    """`prepare`, in a thread the first time: it may copy a whole tree."""
    found = _PREPARED.get((image, uid))
    if found is None:
        found = await asyncio.to_thread(prepare, image, uid)
        if not isinstance(image, DockerImage):
            _PREPARED[image, uid] = found
    return found


def _task_message(task: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"op": "spawn", "task": task, "args": arguments}


@lru_cache
def _filter(machine: str, allow_ptrace: bool) -> bytes:
    return bpf.assemble(bpf.program(machine, allow_ptrace=allow_ptrace))


def _unavailable(name: str, message: dict[str, Any]) -> Exception:
    step, number = message["failed"], message["errno"]
    text = f"no {name} sandbox here: {step} failed: {message['error']}"
    if number in (errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENOSYS, errno.ENOSPC, errno.EUSERS) and step in HINTS:
        return SandboxUnavailable(f"{text}. {HINTS[step]}")
    return SandboxFault(text)


async def _gone(pidfd: int, seconds: float = 10.0) -> None:
    """Wait for the end of a process that was killed."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pidfd, ended.set)
    try:
        await asyncio.wait_for(ended.wait(), seconds)
    except TimeoutError:
        raise SandboxFault("a sandbox does not end") from None
    finally:
        loop.remove_reader(pidfd)


def _end(process: int, connection: Connection, groups: Groups, agent: list[int]) -> None:
    """The last word, also when nobody closed it or the interpreter exits: kill, and leave nothing."""
    connection.abandon()
    while agent:
        pidfd = agent.pop()
        if os.getpid() == process:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                poll = select.poll()
                poll.register(pidfd, select.POLLIN)
                poll.poll(5000)
        os.close(pidfd)
    if os.getpid() == process:
        for _ in range(50):
            if groups.remove():
                break
            time.sleep(0.01)
