"""PID 1 of an OCI sandbox: makes the layers, and lets an OCI runtime (crun or runc) start everything in them.

It is the namespace backend's agent in the same unprivileged user namespace, with one difference: containers and the
programs in them are set up by the runtime, from a bundle that is written here. So what stands between a program and the
host is the runtime's code; this process mounts the writable layers, passes descriptors, signals and reaps.

Runs in the zygote's children: the standard library and this folder only.
"""

# every sandbox would carry pathlib
# ruff: noqa: PTH101, PTH102, PTH103, PTH106, PTH108, PTH123, PTH211

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import termios
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import box, channel, kernel, stream
from .agent import Agent, Running, _loopback

BUNDLE, STATE, LOG, INIT = "/bundle", "/state", "/state/log", "/init"
CONSOLE = "/state/console"
MISSING = ("not found", "No such file or directory", "no such file or directory", "Not a directory")


@dataclass
class ContainerLayer(box.Layer):
    """A layer and the container that lives on it."""

    path: str
    """Where the layer is mounted."""
    container: str
    """The runtime's name for the container."""
    pid: int
    """Its first process."""

    def drop(self) -> None:
        """Unmount it; its processes are gone."""
        if self.namespace >= 0:
            os.close(self.namespace)
        os.close(self.folder)
        with contextlib.suppress(OSError):  # not mounted yet
            kernel.detach(f"{self.path}/root")
        kernel.detach(self.path)
        os.rmdir(self.path)


class OCIAgent(Agent):
    """The main loop, with a runtime between it and the programs."""

    def __init__(self, sock: socket.socket, config: dict[str, Any]) -> None:
        self.count = 0
        self.sessions: dict[int, int] = {}
        """For each program that was asked for, the session that it began in."""
        super().__init__(sock, config)

    # ---------------------------------------------------------------- containers

    @property
    def own_layer(self) -> ContainerLayer:
        """The layer in use, which is always one of `new_layer`."""
        assert isinstance(self.layer, ContainerLayer)
        return self.layer

    def new_layer(self, fill: Callable[[str], None] | None = None) -> ContainerLayer:
        """A writable layer over the image, empty or filled, and a container on it."""
        self.count += 1
        path = f"/layers/{self.count}"
        os.makedirs(path)
        limits = f"mode=755,size={self.config['disk']},nr_inodes={self.config['inodes']}"
        kernel.mount("tmpfs", path, "tmpfs", box.OVERLAY_FLAGS, limits)
        for name in ("upper", "work", "root"):
            os.mkdir(f"{path}/{name}")
        layer = ContainerLayer(-1, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), path, "", 0)
        try:
            if fill is not None:
                fill(f"{path}/upper")
            options = f"userxattr,lowerdir=/lower,upperdir={path}/upper,workdir={path}/work"
            kernel.mount("overlay", f"{path}/root", "overlay", box.OVERLAY_FLAGS, options)
            self._run(layer)
        except OSError:
            layer.drop()
            raise
        return layer

    def _run(self, layer: ContainerLayer) -> None:
        """Start a container on a layer."""
        self.count += 1
        layer.container = f"c{self.count}"
        bundle = dict(self.config["bundle"], root={"path": f"{layer.path}/root", "readonly": False})
        with open(f"{BUNDLE}/config.json", "w") as file:
            json.dump(bundle, file)
        pid_file = f"{STATE}/{layer.container}.pid"
        code = self._runtime(["run", "--detach", "--pid-file", pid_file, "--bundle", BUNDLE, layer.container])
        if code:
            raise OSError(errno.EIO, self._complaint())
        layer.pid = self._number(pid_file)
        if layer.namespace >= 0:
            os.close(layer.namespace)
        layer.namespace = os.open(f"/proc/{layer.pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)

    def _runtime(self, arguments: list[str], fds: dict[int, int] | None = None) -> int:
        """Run the runtime to its end; descriptors it shall hand on are given by their numbers."""
        fds = fds or {}
        command = [*self.config["runtime"], "--root", STATE, "--log", LOG, *arguments]
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        # Two steps, so that no target overwrites a source that is still needed.
        high = {target: fcntl.fcntl(fds.get(target, null), fcntl.F_DUPFD_CLOEXEC, 64) for target in {0, 1, 2, *fds}}
        actions = [(os.POSIX_SPAWN_DUP2, source, target) for target, source in high.items()]
        try:
            pid = os.posix_spawn(command[0], command, {"PATH": "/usr/bin:/bin"}, file_actions=actions, setsid=True)
        finally:
            for descriptor in (null, *high.values()):
                os.close(descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def _complaint(self) -> str:
        """What the runtime wrote into its log, once."""
        try:
            with open(LOG, "r+", errors="replace") as file:
                text = file.read()
                file.truncate(0)
        except OSError:
            return "the runtime failed and said nothing"
        return text.strip()[-1000:]

    @staticmethod
    def _number(path: str) -> int:
        with open(path) as file:
            number = int(file.read())
        os.unlink(path)
        return number

    # ---------------------------------------------------------------- programs

    def do_spawn(self, message: channel.Message, descriptors: list[int], returned: list[int]) -> channel.Message:
        """Start a program in the container, or one of `tasks` as the namespace backend does."""
        if message.get("task") is not None:
            return super().do_spawn(message, descriptors, returned)
        process = dict(self.config["process"], args=message["argv"], cwd=message["cwd"])
        process["env"] = [f"{name}={value}" for name, value in message["env"].items()]
        fds = dict(zip(message["fds"], descriptors))
        console = None
        pid_file = f"{STATE}/exec.pid"
        arguments = ["exec", "--detach", "--pid-file", pid_file]
        if message.get("pty"):
            rows, columns = message["pty"]
            process |= {"terminal": True, "consoleSize": {"height": rows, "width": columns}}
            console = self._listen()
            arguments += ["--console-socket", CONSOLE]
        preserved = max([2, *fds]) - 2
        if preserved:
            arguments += ["--preserve-fds", str(preserved)]
        with os.fdopen(os.memfd_create("process"), "w") as file:
            json.dump(process, file)
            file.flush()
            number = 3 + preserved
            arguments += ["--process", f"/proc/self/fd/{number}", self.own_layer.container]
            code = self._runtime(arguments, fds | {number: file.fileno()})
        if console is not None:
            with contextlib.closing(console):
                if code == 0:
                    returned.append(self._terminal_of(console, *message["pty"]))
        pid = self._number(pid_file) if code == 0 else self._refuse()
        self.running[pid] = Running(message["id"], -1)
        self.populated = True
        self._remember(pid)
        return {"pid": pid}

    def _remember(self, pid: int) -> None:
        """A program without a terminal does not lead its session: it stays in the one that the runtime was in."""
        while len(self.sessions) > 1000:
            del self.sessions[next(iter(self.sessions))]
        self.sessions.pop(pid, None)
        self.sessions[pid] = os.getsid(pid)

    def do_kill(self, message: channel.Message, _: list[int], __: list[int]) -> None:
        """Signal a process and its relatives; see `Process.kill`."""
        if message["scope"] in ("group", "session"):
            message = {**message, "pid": self.sessions.get(message["pid"], message["pid"])}
        elif message["scope"] == "children":
            message = {**message, "newest": self._number_here(message["newest"])}
        super().do_kill(message, _, __)

    def _number_here(self, newest: int) -> int:
        """A number in the container as it is here; once its program is gone, that of the next elder one."""
        elders = [0]
        for pid in self._table():
            with contextlib.suppress(OSError), open(f"/proc/{pid}/status", errors="replace") as file:
                inside = next((int(line.split()[-1]) for line in file if line.startswith("NSpid:")), 0)
                if 0 < inside <= newest:
                    elders.append(pid)
        return max(elders)

    def _listen(self) -> socket.socket:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(CONSOLE)
        console = socket.socket(socket.AF_UNIX)
        console.settimeout(5)
        console.bind(CONSOLE)
        console.listen(1)
        return console

    def _terminal_of(self, console: socket.socket, rows: int, columns: int) -> int:
        """Receive the controlling side of the terminal that the runtime made inside."""
        connection, _ = console.accept()
        with connection:
            _, ancillary, _, _ = connection.recvmsg(4096, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
        descriptor = array.array("i", ancillary[0][2][:4])[0]
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        return descriptor

    def _refuse(self) -> int:
        """The runtime could not start it, and said so on its standard error. A stand-in ends as a shell would."""
        complaint = self._complaint()
        try:
            os.kill(self.own_layer.pid, 0)
        except ProcessLookupError:
            raise OSError(errno.EIO, f"the container is gone: {complaint}") from None
        code = 127 if any(text in complaint for text in MISSING) else 126
        pid = os.fork()
        if pid == 0:
            os._exit(code)
        return pid

    # ---------------------------------------------------------------- ends

    def end_container(self) -> None:
        """Kill the first process: the kernel ends the rest. Return when all are gone and reported."""
        self.stopped = None
        layer = self.own_layer
        with contextlib.suppress(ProcessLookupError):
            os.kill(layer.pid, signal.SIGKILL)
        while True:  # the first process ends last: it waits until those that were started from here are reaped here
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                break
            self._ended(pid, status)
            if pid == layer.pid:
                break
        self.reap()
        shutil.rmtree(f"{STATE}/{layer.container}", ignore_errors=True)

    def do_kill_all(self, *_: object) -> None:
        """End every process, and start a container again on the same files."""
        self.end_container()
        self._run(self.own_layer)

    def do_reset(self, *_: object) -> None:
        """No process, and a fresh layer."""
        self._renew(None)

    def do_restore(self, _: channel.Message, descriptors: list[int], __: list[int]) -> None:
        """No process, and the layer that a snapshot on the descriptor holds."""
        with os.fdopen(os.dup(descriptors[0]), "rb") as source:
            self._renew(lambda upper: stream.load(upper, source))

    def _renew(self, fill: Callable[[str], None] | None) -> None:
        self.end_container()
        try:
            new = self.new_layer(fill)
        except OSError:
            self._run(self.own_layer)
            raise
        self._replace(new)

    def _ended(self, pid: int, status: int) -> None:
        running = self.running.get(pid)
        if running is not None and running.fault < 0:
            del self.running[pid]
            code = os.waitstatus_to_exitcode(status)
            channel.send(self.sock, {"exit": running.id, "code": code if code >= 0 else 128 - code})
        else:
            super()._ended(pid, status)


def main(sock: socket.socket, config: dict[str, Any], held: list[int]) -> None:
    """Become PID 1's program; returns when the host is gone."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.setsid()
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("500")
    box.enter_base(held)
    _furnish(config)
    kernel.prctl(kernel.SET_DUMPABLE, 0)
    socket.sethostname("sandbox")
    _loopback()
    agent = OCIAgent(sock, config)
    channel.send(sock, {"ready": True})
    agent.serve()


def _furnish(config: dict[str, Any]) -> None:
    """What the runtime needs in the agent's own root: its program and libraries, state, the bundle, PID 1's program."""
    first = len(config["targets"])
    for index, name in enumerate(config["libraries"]):
        os.symlink(f"/mounts/{first + index}", f"/{name}")
    for name, goal in config["links"].items():
        os.symlink(goal, f"/{name}")
    for folder in (BUNDLE, STATE, "/layers", "/sys/fs/cgroup"):
        os.makedirs(folder)
    if config["mount_groups"]:  # runc insists on a tree of control groups, in which it then may do nothing
        with contextlib.suppress(OSError):
            kernel.mount("cgroup2", "/sys/fs/cgroup", "cgroup2", kernel.NOSUID | kernel.NODEV | kernel.NOEXEC)
    with open(INIT, "wb") as file:
        file.write(bytes.fromhex(config["init"]))
    os.chmod(INIT, 0o555)
