"""The Docker backend."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import socket
import tarfile
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ..base import Sandbox, Snapshot
from ..errors import InvalidArgument, SandboxFault, SandboxUnavailable
from ..limits import MIB, Capabilities
from ..namespace.git_index import is_index, timeless
from ..process import Launch, Process
from ..seccomp import oci_profile
from ..spec import SandboxSpec
from .client import call, connect, daemon_url, hijack, in_thread
from .host import can_adopt
from .images import image_name
from .labels import own_labels
from .process import DockerProcess
from .programs import INIT, KILL, TARGET, daemon_machine, programs_volume, refill
from .reaper import reap_once
from .scripts import HAS_PIPES

if TYPE_CHECKING:
    from docker import DockerClient

LIFETIME = 6 * 3600  # seconds after which a container ends by itself and may be removed by anybody
ASKED = 250  # times, over five seconds, that the daemon is asked for an exit code
WATCH = 1.0  # seconds between looks at the size of the writable layer
POWERS = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")


class DockerSandbox(Sandbox):
    """A container of a Docker daemon that runs already: the user's images, and what CI knows.

    Covered: files, processes, users, hostname and network of their own (there is none but 127.0.0.1); no
    capabilities, no new privileges, a seccomp policy (see `sandboxes/seccomp.py`); memory, processes and CPU held by
    control groups, file sizes and open files by limits. A container is labelled with its owner and an end: the next
    sandbox (and `sandlot sandbox reap`) removes what a dead process left, and each ends by itself after six hours.

    Not covered: it is no virtual machine, and a hole in the kernel is a way out. Root inside is root of the host
    without its powers, unless the daemon maps users. The size of the writable layer is only looked at once a second,
    and the number of files not at all, because Docker's storage has no quota on ordinary disks. Whoever may use the
    daemon is root on its machine: keep its socket away from everything else.
    """

    name: ClassVar[str] = "docker"

    def __init__(self, spec: SandboxSpec | None = None, *, url: str | None = None, multi_uid: bool = False) -> None:
        """Raises InvalidArgument for what Docker cannot give.

        Args:
            spec: What to start; its image must not be the host's own programs.
            url: The daemon (`unix:///…` or `tcp://host:port`); None is `DOCKER_HOST`, else the usual socket.
            multi_uid: Give root inside the powers over files and users of its own container, so that several users
                and permissions between them are real. Otherwise changes of owner succeed without doing anything.
        """
        super().__init__(spec)
        self.url = daemon_url(url)
        self._multi_uid = multi_uid
        if self.spec.user and not multi_uid and self.spec.user not in ("root", "0"):
            raise InvalidArgument("DockerSandbox has one user, root: multi_uid=True gives several")
        self.generation = 0
        """Counts containers and restarts: the programs of an earlier one are dead."""
        self.clock_offset = 0.0
        """Seconds from this process's monotonic clock to the container's time since boot."""
        self._client: DockerClient | None = None
        self._image = ""
        self._container = ""
        self._version = ""
        self._direct = False
        self._generations: dict[str, int] = {}
        self._kills = 0
        self._listener: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def capabilities(self) -> Capabilities:
        """See `Sandbox.capabilities`."""
        return Capabilities(
            multi_uid=self._multi_uid,
            snapshot=True,
            extra_fds=self._direct,
            memory_cgroup=True,
            pids_cgroup=True,
            cpu=True,
            freeze=True,
            ptrace=True,
            networks=frozenset({"loopback", "open"}),
        )

    # ---------------------------------------------------------------- life

    async def _start(self) -> None:
        await asyncio.to_thread(self._prepare)
        await self._run()

    def _prepare(self) -> None:
        from docker.errors import DockerException
        from requests.exceptions import RequestException

        self._client = client = connect(self.url)
        try:
            reap_once(client, self.url)
            self._image = image_name(client, self.spec.image)
            self._options = self._hardened(client)
            self._version = client.api.api_version
        except (DockerException, RequestException) as error:
            raise SandboxFault(f"the Docker daemon could not prepare a container: {error}") from error

    def _hardened(self, client: DockerClient) -> dict[str, Any]:
        """The arguments of `run`."""
        from docker.types import Ulimit

        limits, spec = self.spec.limits, self.spec
        profile = oci_profile(daemon_machine(client), allow_ptrace=spec.allow_ptrace, emulate=not self._multi_uid)
        volumes = {programs_volume(client, self._image, LIFETIME): {"bind": TARGET, "mode": "ro"}}
        volumes |= {str(mount.source.resolve()): {"bind": mount.target, "mode": "ro"} for mount in spec.mounts}
        return {
            "entrypoint": [INIT],
            "command": [],
            "network_mode": "none" if spec.network == "loopback" else "bridge",
            "hostname": "sandbox",
            "ipc_mode": "private",
            "user": "0:0",
            "working_dir": "/",
            "volumes": volumes,
            "cap_drop": ["ALL"],
            "cap_add": list(POWERS) if self._multi_uid else [],
            "security_opt": ["no-new-privileges:true", f"seccomp={json.dumps(profile)}"],
            "pids_limit": limits.pids,
            "mem_limit": limits.memory,
            "memswap_limit": limits.memory,
            "nano_cpus": None if limits.cpu is None else round(limits.cpu * 1e9),
            "shm_size": limits.shm,
            "oom_score_adj": 500,
            "ulimits": [
                Ulimit(name="nofile", soft=limits.open_files, hard=limits.open_files),
                Ulimit(name="core", soft=0, hard=0),
                Ulimit(name="fsize", soft=limits.file_size, hard=limits.file_size),
            ],
            "log_config": {"Type": "none"},
            "labels": {**spec.labels, **own_labels(LIFETIME)},
        }

    async def _run(self) -> None:
        client = self._need()
        try:
            self._container = await call(self._launch, what="start a container")
        except SandboxFault as error:
            if INIT not in str(error):
                raise
            await call(lambda: refill(client, self._image, LIFETIME), what="put our programs into a volume again")
            self._container = await call(self._launch, what="start a container")
        self.generation += 1
        self._listener = asyncio.ensure_future(self._listen(self._container))
        self._watch = asyncio.ensure_future(self._watch_disk())
        uptime = await self._output(["/bin/sh", "-c", f"read -r up rest </proc/uptime; echo $up; {HAS_PIPES}"])
        if not uptime.strip():
            raise SandboxUnavailable(f"the image {self._image} has no /bin/sh, which commands need")
        self.clock_offset = float(uptime.split()[0]) - time.monotonic()
        self._direct = "pipes" in uptime and await asyncio.to_thread(can_adopt, self._container)

    def _launch(self) -> str:
        """Create and start a container, or leave none."""
        container = self._need().containers.create(self._image, **self._options)
        try:
            container.start()
        except BaseException:
            container.remove(force=True)
            raise
        return container.id or ""

    def _need(self) -> DockerClient:
        if self._client is None:
            raise SandboxFault("this sandbox is closed")
        return self._client

    async def _close(self) -> None:
        try:
            await self._discard()
        finally:
            if self._client is not None:
                await in_thread(self._client.close)
                self._client = None

    async def _discard(self) -> None:
        for task in (self._listener, self._watch):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        self._listener = self._watch = None
        if not self._container:
            return
        from docker.errors import NotFound

        client, container, self._container = self._need(), self._container, ""

        def remove() -> None:
            with contextlib.suppress(NotFound):
                client.api.remove_container(container, force=True, v=True)

        await call(remove, what="remove a container")

    async def _reset(self) -> None:
        await self._discard()
        await self._run()

    async def _kill_all(self) -> None:
        """By our own program inside; by a restart when even that cannot start (no process left to have)."""
        client, container = self._need(), self._container
        self.generation += 1
        if await self._exit_of([KILL]) != 0:
            await call(lambda: client.api.restart(container, timeout=0), what="restart a container")

    def _sibling(self) -> Self:
        return type(self)(self.spec, url=self.url, multi_uid=self._multi_uid)

    async def _freeze(self, frozen: bool) -> None:
        client, container = self._need(), self._container
        action = client.api.pause if frozen else client.api.unpause
        await call(lambda: action(container), what="freeze a container")

    # ---------------------------------------------------------------- programs

    @property
    def container(self) -> str:
        """The id of the container, "" when there is none."""
        return self._container

    async def _spawn(self, launch: Launch) -> Process:
        if launch.pty or (launch.control and not self._direct):
            raise self._cannot("give a terminal or more descriptors")
        if launch.user not in (None, "root", "0") and not self._multi_uid:
            raise self._cannot(f"run as {launch.user}")
        return await DockerProcess(self, launch).start()

    async def create_exec(
        self, command: Sequence[str], env: Mapping[str, str], user: str | None, *, stdin: bool
    ) -> str:
        """Announce a program; returns its id."""
        client, container = self._need(), self._container

        def create() -> str:
            answer = client.api.exec_create(
                container, list(command), stdin=stdin, environment=dict(env), user=user or "0", workdir="/"
            )
            return answer["Id"]

        identity = await call(create, what="create a process")
        self._generations[identity] = self.generation
        return identity

    async def start_exec(self, identity: str) -> tuple[socket.socket, bytes]:
        """Start it: its connection and the bytes that came already."""
        path = f"/v{self._version}/exec/{identity}/start"
        return await hijack(self.url, "POST", path, {"Detach": False, "Tty": False})

    async def exit_code(self, identity: str) -> int | None:
        """Its exit code, None while it runs; 137 for one whose container was taken away."""
        if self._generations.get(identity) != self.generation:
            state = await self._inspect(identity)
            code = 137 if state is None or state["Running"] or state["ExitCode"] is None else state["ExitCode"]
        else:
            state = await self._inspect(identity)
            if state is None:
                raise SandboxFault("the container is gone: somebody removed it, or its time was over")
            code = None if state["Running"] else state["ExitCode"]
        if code is not None:
            self._generations.pop(identity, None)
        return code

    async def _inspect(self, identity: str) -> dict[str, Any] | None:
        from docker.errors import APIError

        client = self._need()

        def inspect() -> dict[str, Any] | None:
            try:
                return client.api.exec_inspect(identity)
            except APIError as error:
                if error.status_code in (404, 409):
                    return None
                raise

        return await call(inspect, what="look at a process")

    async def _output(self, command: Sequence[str]) -> str:
        """What a small command, which says something, says; without the wrapper of ordinary ones.

        On a busy machine a daemon may drop what a quick command wrote, so that silence counts only if it is repeated.
        """
        client, container = self._need(), self._container

        def run() -> str:
            said = ""
            for _ in range(3):
                identity = client.api.exec_create(container, list(command), user="0")["Id"]
                if said := client.api.exec_start(identity).decode(errors="replace"):
                    break
            return said

        return await call(run, what="run a command")

    async def _exit_of(self, command: Sequence[str]) -> int:
        client, container = self._need(), self._container

        def run() -> int:
            identity = client.api.exec_create(container, list(command), user="0")["Id"]
            client.api.exec_start(identity)
            for _ in range(ASKED):  # its output may end before the daemon has heard of its end
                code = client.api.exec_inspect(identity)["ExitCode"]
                if code is not None:
                    return code
                time.sleep(0.02)
            return 1

        try:
            return await call(run, what="run a command")
        except SandboxFault:
            return 1

    async def run_quietly(self, command: Sequence[str]) -> bool:
        """Run a command inside; whether it ended well."""
        return await self._exit_of(command) == 0

    def keep(self, task: asyncio.Task[None]) -> None:
        """Hold a task until it is done."""
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # ---------------------------------------------------------------- watching

    async def _oom_kills(self) -> int:
        return self._kills

    async def _listen(self, container: str) -> None:
        """Count what the daemon reports of processes killed for want of memory."""
        filters = json.dumps({"container": [container], "event": ["oom"]})
        from urllib.parse import quote

        with contextlib.suppress(SandboxFault, OSError):
            stream, data = await hijack(self.url, "GET", f"/v{self._version}/events?filters={quote(filters)}")
            with contextlib.closing(stream):
                while True:
                    self._kills += data.count(b'"status":"oom"')
                    data = await asyncio.get_running_loop().sock_recv(stream, 1 << 16)
                    if not data:
                        return

    async def _watch_disk(self) -> None:
        """End everything while the writable layer is larger than it may be."""
        client, container = self._need(), self._container

        def size() -> int:
            rows = client.api.containers(all=True, size=True, filters={"id": container})
            return int(rows[0].get("SizeRw") or 0) if rows else 0

        with contextlib.suppress(SandboxFault):
            while True:
                await asyncio.sleep(WATCH)
                if await call(size, what="look at a container") > self.spec.limits.disk:
                    await self._kill_all()

    # ---------------------------------------------------------------- the writable layer

    async def _layer(self) -> tuple[bytes, tuple[str, ...]]:
        """What was written, as a tar, and what was deleted of the image."""
        client, container = self._need(), self._container
        changes = await call(lambda: client.api.diff(container), what="list changes") or []
        outside = ("/dev", "/proc", "/sys")
        paths = [change for change in changes if not change["Path"].startswith(outside)]
        deleted = tuple(sorted(change["Path"] for change in paths if change["Kind"] == 2))
        written = sorted(change["Path"] for change in paths if change["Kind"] != 2)
        names = b"".join(b".%b\0" % path.encode("utf-8", "surrogateescape") for path in written)
        options = ["--create", "-f", "-", "-C", "/", "--null", "--no-recursion", "--files-from=-"]
        if not written:
            return b"", deleted
        limit = self.spec.limits.disk * 2 + MIB
        result = await self._tool(["tar", *options], stdin=names, output_limit=limit)
        if result.truncated or result.exit_code > 1:  # 1: a file changed while it was read
            raise SandboxFault(f"the container's files cannot be read: {result.error_text[-300:]}")
        return result.stdout, deleted

    async def _snapshot(self) -> Snapshot:
        return Snapshot(self.name, self._image, await self._layer())

    async def _restore(self, snapshot: Snapshot) -> None:
        if snapshot.image != self._image:
            raise InvalidArgument(f"a snapshot on the image {snapshot.image} does not fit one on {self._image}")
        await self._reset()
        data, deleted = snapshot.data
        if deleted:
            names = "\0".join(deleted).encode("utf-8", "surrogateescape")
            await self._tool(["xargs", "-0", "rm", "-rf", "--"], stdin=names)
        if data:
            result = await self._tool(["tar", "-x", "-p", "--same-owner", "-C", "/", "-f", "-"], stdin=data)
            if result.exit_code:
                raise SandboxFault(f"the snapshot cannot be unpacked: {result.error_text[-300:]}")

    async def _fingerprint(self, paths: Sequence[str] | None) -> str:
        data, deleted = await self._layer()
        lines = [f"D {path}" for path in deleted]
        if data:
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                for member in archive:
                    if member.isdir() and member.name == ".":
                        continue
                    body = archive.extractfile(member) if member.isreg() else None
                    content = body.read() if body is not None else b""
                    digest = blake2b(timeless(content) if is_index(member.name) else content).hexdigest()
                    kind = f"{member.type!r} {member.mode:o} {member.uid} {member.gid} {member.linkname} {digest}"
                    lines.append(f"W {member.name[1:]} {kind}")
        if paths is not None:
            lines = [line for line in lines if _below(line.split(" ", 2)[1], paths)]
        return blake2b("\n".join(sorted(lines)).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def _below(path: str, paths: Sequence[str]) -> bool:
    return any(path == top or path.startswith(top.rstrip("/") + "/") for top in paths)
