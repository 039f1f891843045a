"""PID 1 of a sandbox: starts programs in the current layer, reaps, and makes, empties and drops layers.

Single-threaded, no dependency, never executes anything itself. It holds capabilities inside its own user namespace
only, cannot be traced or read by what runs beside it, and ends (and all else with it) when the host's end of its socket
does.

Runs in the zygote's children: the standard library and this folder only.
"""

# pathlib would be imported into every sandbox's first process
# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import select
import signal
import socket
import struct
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import box, channel, kernel, stream, tasks

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
TIOCGPTN, TIOCSPTLCK = 0x80045430, 0x40045431
AGENT, PROGRAMS = 300, 800  # who is killed first for want of memory: programs, then the agent, then the host's own
WATCH = 0.25  # seconds between two looks at the memory
QUIET = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGCHLD)  # what Python handles in its own way


@dataclass
class Running:
    """A program that was asked for."""

    id: int
    fault: int
    """Descriptor on which its start-up reports what the infrastructure did wrong."""


class Agent:
    """The main loop and what it knows."""

    def __init__(self, sock: socket.socket, config: dict[str, Any]) -> None:
        self.sock, self.config = sock, config
        self.filter = bytes.fromhex(config.pop("filter"))
        self.base = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        self.layer = self.new_layer()
        self.running: dict[int, Running] = {}
        self.stopped: set[int] | None = None
        """While all processes are stopped: those that were so before."""
        self.populated = False
        """Whether a process may be left that the memory watch must look at."""
        self.oom_kills = 0
        self.wake, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)

    def new_layer(self, fill: Callable[[str], None] | None = None) -> box.Layer:
        """A writable layer over the image, empty or filled."""
        return box.new_layer(self.config, self.base, fill)

    def serve(self) -> None:
        """Until the host is gone."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        poll.register(self.wake, select.POLLIN)
        while True:
            watching = self.config["watch"] and self.populated
            ready = dict(poll.poll(WATCH * 1000 if watching else None))
            if self.wake in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self.wake, 4096)
            self.reap()
            if self.sock.fileno() in ready:
                received = channel.receive(self.sock)
                if received is None:
                    return
                self.answer(*received)
            if watching:
                self.watch()

    def answer(self, message: channel.Message, descriptors: list[int]) -> None:
        """Do what the host asks, and reply."""
        reply: channel.Message = {"id": message["id"]}
        returned: list[int] = []
        try:
            reply |= getattr(self, "do_" + message["op"])(message, descriptors, returned) or {}
        except OSError as error:
            reply |= {"error": f"{error.strerror} ({error.filename})" if error.filename else str(error)}
            reply |= {"errno": error.errno}
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        channel.send(self.sock, reply, returned)
        for descriptor in returned:
            os.close(descriptor)

    # ---------------------------------------------------------------- processes

    def do_spawn(self, message: channel.Message, descriptors: list[int], returned: list[int]) -> channel.Message:
        """Start a program, or one of `tasks`."""
        master = number = -1
        if message.get("pty"):
            master, number = self._terminal(*message["pty"])
            returned.append(master)
        fault, fault_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            pid = os.fork()
        except OSError:
            os.close(fault)
            os.close(fault_write)
            raise
        if pid == 0:
            self._child(message, dict(zip(message["fds"], descriptors)), number, fault_write)
        os.close(fault_write)
        self.running[pid] = Running(message["id"], fault)
        self.populated = True
        return {"pid": pid}

    def _terminal(self, rows: int, columns: int) -> tuple[int, int]:
        master = os.open("/dev/pts/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        fcntl.ioctl(master, TIOCSPTLCK, struct.pack("i", 0))
        number = struct.unpack("i", fcntl.ioctl(master, TIOCGPTN, struct.pack("i", 0)))[0]
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        return master, number

    def _child(self, message: channel.Message, fds: dict[int, int], terminal: int, fault: int) -> None:
        """In the child: never returns."""
        try:
            signal.set_wakeup_fd(-1)
            for number in QUIET:
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            task = message.get("task")
            if task is None or task in tasks.INSIDE:
                kernel.setns(self.layer.namespace, kernel.NEWNS)
            if terminal >= 0:
                slave = os.open(f"/dev/pts/{terminal}", os.O_RDWR | os.O_CLOEXEC)
                fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
                fds |= {0: slave, 1: slave, 2: slave}
            fault = kept = fcntl.fcntl(fault, fcntl.F_DUPFD_CLOEXEC, 64)
            folder = fcntl.fcntl(self.layer.folder, fcntl.F_DUPFD_CLOEXEC, 64)
            for target, source in fds.items():
                os.dup2(source, target)
            last = max(fds)
            os.closerange(last + 1, 64)
            if task is None:
                os.close(folder)
            os.closerange(max(kept, folder) + 1, 1 << 16)
            self._limit()
            if task is not None:
                os._exit(tasks.run(task, message["args"], folder))
            kernel.drop_capabilities()
            kernel.prctl(kernel.SET_NO_NEW_PRIVS, 1)
            kernel.install_filter(self.filter)
            kernel.prctl(kernel.SET_DUMPABLE, 1)  # as after execve; before that nobody may write below /proc/self
            _prefer_when_memory_runs_out(PROGRAMS)
            try:
                os.chdir(message["cwd"])
            except OSError as error:
                os.write(2, f"{message['cwd']}: {error.strerror}\n".encode("utf-8", "surrogateescape"))
                os._exit(127)
            try:
                os.execvpe(message["argv"][0], message["argv"], message["env"])
            except OSError as error:
                os.write(2, f"{message['argv'][0]}: {error.strerror}\n".encode("utf-8", "surrogateescape"))
                os._exit(127 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 126)
        except BaseException as error:
            with contextlib.suppress(OSError):
                os.write(fault, f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:2000])
        finally:
            os._exit(125)

    def _limit(self) -> None:
        limits = self.config["rlimits"]
        for name, value in limits.items():
            kind = getattr(resource, name)
            hard = resource.getrlimit(kind)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (value, value))

    def reap(self) -> None:
        """Collect every process that ended, and tell the host of those it asked for."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._ended(pid, status)

    def _ended(self, pid: int, status: int) -> None:
        running = self.running.pop(pid, None)
        if running is None:
            return
        code = os.waitstatus_to_exitcode(status)
        event: channel.Message = {"exit": running.id, "code": code if code >= 0 else 128 - code}
        try:
            fault = os.read(running.fault, 4000)
        except BlockingIOError:
            fault = b""
        os.close(running.fault)
        if fault:
            event["fault"] = fault.decode("utf-8", "replace")
        channel.send(self.sock, event)

    def do_kill(self, message: channel.Message, _: list[int], __: list[int]) -> None:
        """Signal a process and its relatives; see `Process.kill`."""
        root, scope = message["pid"], message["scope"]
        if scope == "process":
            chosen = [root]
        elif scope in ("group", "session"):
            field = 2 if scope == "group" else 3
            chosen = [pid for pid, row in self._table().items() if row[field] == root]
        else:
            table = self._table()
            since, newest = message["marked"] - 0.01, message["newest"]  # see `process.younger`
            chosen = [pid for pid, row in table.items() if row[1] == root and pid > newest and row[4] >= since]
            more = chosen
            while more:
                more = [pid for pid, row in table.items() if row[1] in more and pid not in chosen]
                chosen = [*chosen, *more]
        for pid in chosen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, message["signal"])

    def _table(self) -> dict[int, tuple[str, int, int, int, float]]:
        """State, parent, group, session and start (seconds since boot) of every process but this one."""
        rows: dict[int, tuple[str, int, int, int, float]] = {}
        for name in os.listdir("/proc"):
            if name.isdigit() and name != "1":
                with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
                    start = int(fields[19]) / TICKS
                    rows[int(name)] = (fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]), start)
        return rows

    def do_kill_all(self, *_: object) -> None:
        """End every process; return when none is left."""
        self.stopped = None
        while True:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                return
            self._ended(pid, status)
            self.reap()

    def do_stop(self, *_: object) -> None:
        """Stop every process at once."""
        if self.stopped is None:
            self.stopped = {pid for pid, row in self._table().items() if row[0] in "Tt"}
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGSTOP)

    def do_continue(self, *_: object) -> None:
        """Undo `do_stop`, children first: a shell must not see its job stop. What was stopped before stays so."""
        before, self.stopped = self.stopped, None
        if before is not None:
            table = self._table()
            for pid in sorted(table, key=lambda pid: table[pid][4], reverse=True):
                if pid not in before:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)

    # ---------------------------------------------------------------- layers

    def do_reset(self, *_: object) -> None:
        """No process, and a fresh layer."""
        self.do_kill_all()
        self._replace(box.new_layer(self.config, self.base))

    def do_restore(self, _: channel.Message, descriptors: list[int], __: list[int]) -> None:
        """No process, and the layer that a snapshot on the descriptor holds."""
        self.do_kill_all()
        with os.fdopen(os.dup(descriptors[0]), "rb") as source:
            self._replace(box.new_layer(self.config, self.base, lambda upper: stream.load(upper, source)))

    def _replace(self, new: box.Layer) -> None:
        self.layer.drop()
        self.layer = new

    # ---------------------------------------------------------------- memory without a control group

    def watch(self) -> None:
        """End the largest process when all together hold more than they may."""
        sizes: dict[int, int] = {}
        for pid in self._table():
            with contextlib.suppress(OSError, ValueError):
                sizes[pid] = self._size(pid)
        self.populated = bool(sizes)
        used = os.fstatvfs(self.layer.folder)
        total = sum(sizes.values()) + (used.f_blocks - used.f_bfree) * used.f_frsize
        if total <= self.config["memory"] or not sizes:
            return
        largest = max(sizes, key=lambda pid: sizes[pid])
        with contextlib.suppress(ProcessLookupError):
            os.kill(largest, signal.SIGKILL)
            self.oom_kills += 1
            channel.send(self.sock, {"oom": self.oom_kills})

    def _size(self, pid: int) -> int:
        """Bytes of a process, with what it shares divided by its sharers."""
        with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * PAGE


def main(sock: socket.socket, config: dict[str, Any], held: list[int]) -> None:
    """Become PID 1's program; returns when the host is gone."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the kernel keeps from PID 1 what it does not handle
    os.setsid()
    _prefer_when_memory_runs_out(AGENT)
    box.enter_base(held)
    kernel.prctl(kernel.SET_DUMPABLE, 0)
    socket.sethostname("sandbox")
    _loopback()
    began = time.perf_counter()
    agent = Agent(sock, config)
    channel.send(sock, {"ready": True, "layer_ms": (time.perf_counter() - began) * 1e3})
    agent.serve()


def _prefer_when_memory_runs_out(score: int) -> None:
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(str(score))


def _loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        up = struct.pack("16sh14x", b"lo", 1 | 64)  # IFF_UP, IFF_RUNNING
        fcntl.ioctl(control, 0x8914, up)  # SIOCSIFFLAGS
