"""A container's processes as this machine sees them, where the daemon runs on it and this user may look into them.

A shell's commands, reports and output can then go straight to its own pipes instead of through containerd and dockerd.
Nothing of the container's files is opened for that: only descriptors of a process, and only where they are pipes.
"""

from __future__ import annotations

import contextlib
import os
import select
import stat
from collections.abc import Mapping
from pathlib import Path

from ..errors import SandboxFault


def find(container: str, inner: int) -> int | None:
    """The number here of the process that the container calls `inner`; None where it cannot be seen.

    Args:
        container: the whole id, which stands in the name of the container's control group.
        inner: a process number inside.
    """
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                if container in Path(entry.path, "cgroup").read_text():
                    status = Path(entry.path, "status").read_text(errors="replace")
                    if int(status.partition("\nNSpid:")[2].split("\n", 1)[0].split()[-1]) == inner:
                        return int(entry.name)
    return None


def can_adopt(container: str) -> bool:
    """Whether `adopt` works with this container's processes."""
    pid = find(container, 1)
    try:
        return pid is not None and any(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def adopt(container: str, pid: int, ends: Mapping[int, int]) -> tuple[int, dict[int, int]]:
    """Open the pipes that a process holds as its descriptors.

    Args:
        container: the whole id.
        pid: what `find` found.
        ends: descriptor number to os.O_RDONLY or os.O_WRONLY, for our end.

    Returns:
        A pidfd of the process, and our ends by number; not blocking, and the caller's to close.

    Raises:
        SandboxFault: it is gone, or a descriptor is no pipe.
    """
    opened: dict[int, int] = {}
    pidfd = -1
    try:
        pidfd = os.pidfd_open(pid)
        for number, way in ends.items():
            opened[number] = _open_pipe(f"/proc/{pid}/fd/{number}", way)
        mine = container in Path(f"/proc/{pid}/cgroup").read_text()
        ended = select.poll()
        ended.register(pidfd, select.POLLIN)
        if not mine or ended.poll(0):  # else all of it was one process, and the container's
            raise OSError("it has just ended")
    except BaseException as error:
        for descriptor in (*opened.values(), pidfd):
            if descriptor >= 0:
                os.close(descriptor)
        if isinstance(error, OSError):
            raise SandboxFault(f"the pipes of the container's process {pid} cannot be opened: {error}") from error
        raise
    return pidfd, opened


def _open_pipe(path: str, way: int) -> int:
    """Open what `path` is, if it is a nameless pipe; nothing else is ever opened, only looked at."""
    looked = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISFIFO(os.fstat(looked).st_mode) or os.fstat(looked).st_dev != _pipes():
            raise OSError(f"{path} is no pipe")
        return os.open(f"/proc/self/fd/{looked}", way | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(looked)


def _pipes() -> int:
    """The number of the kernel's file system of nameless pipes."""
    ends = os.pipe()
    try:
        return os.fstat(ends[0]).st_dev
    finally:
        for end in ends:
            os.close(end)
