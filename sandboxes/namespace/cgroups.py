"""Control groups for one sandbox, version 1 or 2, below the one that this process is in; where that is allowed."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..limits import Limits

PERIOD = 100_000  # microseconds
HEADROOM = 16  # processes that the agent may have beside the sandbox's own
PREFIX = "sandlot-"
OWNER = re.compile(rf"{PREFIX}(\d+)-[0-9a-f]{{8}}")


@dataclass
class Groups:
    """The groups that hold one sandbox: one folder per controller in version 1, one in all in version 2."""

    folders: dict[str, Path] = field(default_factory=dict)
    """Controller to folder."""
    version: int = 1

    @classmethod
    def create(cls, limits: Limits) -> Groups:
        """Make what can be made; an ordinary user usually gets an empty set."""
        groups = cls()
        name = f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        settings = {"memory": _memory, "pids": _pids, **({"cpu": _cpu} if limits.cpu else {})}
        for controller, parent, version in _parents():
            if len(groups.folders) == len(settings):
                break
            if controller not in settings or controller in groups.folders:
                continue
            folder = parent / name
            try:
                folder.mkdir(exist_ok=version == 2)
                groups.folders[controller] = folder
                settings[controller](folder, version, limits)
                groups.version = version
            except OSError:
                groups.folders.pop(controller, None)
                if folder not in groups.folders.values():
                    with contextlib.suppress(OSError):
                        folder.rmdir()
        return groups

    def own_entries(self) -> list[str]:
        """Files of version 1 to which a process of one thread writes "0" to enter.

        Unlike moving another process, it makes the kernel wait for nothing; the latter takes some 10 ms.
        """
        return [str(folder / "tasks") for folder in self.folders.values()] if self.version == 1 else []

    def add(self, pid: int) -> None:
        """Move a process (and what it will start) into the groups; a group that refuses it is given up."""
        for controller, folder in list(self.folders.items()):
            try:
                (folder / "cgroup.procs").write_text(str(pid))
            except OSError:
                del self.folders[controller]
                with contextlib.suppress(OSError):
                    folder.rmdir()

    def oom_kills(self) -> int:
        """Processes that the kernel killed for want of memory."""
        folder = self.folders.get("memory")
        if folder is None:
            return 0
        name = "memory.oom_control" if self.version == 1 else "memory.events"
        with contextlib.suppress(OSError):
            found = re.search(r"^oom_kill (\d+)", (folder / name).read_text(), re.MULTILINE)
            return int(found[1]) if found else 0
        return 0

    def remove(self) -> bool:
        """Remove the groups once they are empty; False when one is still in use."""
        for controller, folder in list(self.folders.items()):
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                return False
            del self.folders[controller]
        return True


def reap(parents: Iterable[Path] | None = None) -> list[Path]:
    """Remove the groups of processes that died without closing their sandboxes; return them.

    Args:
        parents: folders to look in; None is where this process makes its own.
    """
    removed: list[Path] = []
    for parent in {parent for _, parent, _ in _parents()} if parents is None else parents:
        for folder in parent.glob(f"{PREFIX}*"):
            owner = OWNER.fullmatch(folder.name)
            if owner and not Path("/proc", owner[1]).exists():
                with contextlib.suppress(OSError):  # not empty: not ours to end
                    folder.rmdir()
                    removed.append(folder)
    return removed


def _memory(folder: Path, version: int, limits: Limits) -> None:
    (folder / ("memory.limit_in_bytes" if version == 1 else "memory.max")).write_text(str(limits.memory))
    swap = "memory.memsw.limit_in_bytes" if version == 1 else "memory.swap.max"
    if (folder / swap).exists():
        (folder / swap).write_text(str(limits.memory) if version == 1 else "0")
    if version == 2 and (folder / "memory.oom.group").exists():
        (folder / "memory.oom.group").write_text("0")


def _pids(folder: Path, version: int, limits: Limits) -> None:
    (folder / "pids.max").write_text(str(limits.pids + HEADROOM))


def _cpu(folder: Path, version: int, limits: Limits) -> None:
    quota = int((limits.cpu or 0) * PERIOD)
    if version == 1:
        (folder / "cpu.cfs_period_us").write_text(str(PERIOD))
        (folder / "cpu.cfs_quota_us").write_text(str(quota))
    else:
        (folder / "cpu.max").write_text(f"{quota} {PERIOD}")


def _parents() -> Iterator[tuple[str, Path, int]]:
    """Controller, the folder to make a group in, and version, in the order to try."""
    own: dict[str, str] = {}
    unified = "/"
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers:
            own |= dict.fromkeys(controllers.split(","), path)
        else:
            unified = path
    for fields in mounts:
        kind = fields[fields.index("-") + 1]
        root, point = Path(fields[4]), fields[3]
        if kind == "cgroup":
            options = fields[-1].split(",")
            for controller in ("memory", "pids", "cpu"):
                if controller in options and controller in own:
                    yield controller, _below(root, point, own[controller]), 1
        elif kind == "cgroup2":
            for parent in dict.fromkeys((_below(root, point, unified), _below(root, point, unified).parent, root)):
                if root in (parent, *parent.parents):
                    yield from ((controller, parent, 2) for controller in _enabled(parent))


def _below(mount: Path, root: str, path: str) -> Path:
    """Where a group's path lies under a mount that shows `root` of the hierarchy."""
    inside = path[len(root) :] if root != "/" and path.startswith(root) else path
    return mount / inside.strip("/")


def _enabled(parent: Path) -> list[str]:
    """The controllers that groups below `parent` have, after asking for those that we want."""
    control = parent / "cgroup.subtree_control"
    try:
        available = (parent / "cgroup.controllers").read_text().split()
        for controller in ("memory", "pids", "cpu"):
            if controller in available and controller not in control.read_text().split():
                with contextlib.suppress(OSError):  # refused while processes are in `parent` itself
                    control.write_text(f"+{controller}")
        return [controller for controller in ("memory", "pids", "cpu") if controller in control.read_text().split()]
    except OSError:
        return []
