"""The bundle: what the runtime is told about a container, as config.json of the OCI runtime specification."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

from ..limits import Limits
from ..seccomp import oci_profile

INIT = "/init"  # in the agent's own root
MASKED = ("/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi")
MASKED += ("/proc/timer_list", "/proc/timer_stats", "/sys/firmware")
READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
QUIET = ["nosuid", "noexec", "nodev"]


def process(limits: Limits, *, nproc: int | None) -> dict[str, Any]:
    """What every program in the container has in common: no capabilities, no new privileges, and limits.

    Args:
        limits: The sandbox's limits.
        nproc: Processes of the user, where no control group counts them.
    """
    sizes = {"RLIMIT_NOFILE": limits.open_files, "RLIMIT_FSIZE": limits.file_size, "RLIMIT_CORE": 0}
    if nproc is not None:
        sizes["RLIMIT_NPROC"] = nproc
    kinds = ("bounding", "effective", "inheritable", "permitted", "ambient")
    return {
        "terminal": False,
        "user": {"uid": 0, "gid": 0},
        "args": ["/dev/.init"],
        "env": [],
        "cwd": "/",
        "capabilities": {kind: [] for kind in kinds},
        "noNewPrivileges": True,
        "rlimits": [{"type": kind, "hard": size, "soft": size} for kind, size in sizes.items()],
    }


def bundle(limits: Limits, common: dict[str, Any], targets: Sequence[str], *, allow_ptrace: bool) -> dict[str, Any]:
    """config.json without its `root`, which is another one in each life.

    There is no user namespace and no network namespace in it: the agent is in fresh ones already, and the container
    shares them, so that root inside is the agent's unprivileged user, and 127.0.0.1 is the sandbox's own.

    Args:
        limits: The sandbox's limits.
        common: From `process`.
        targets: Where the read-only mounts go; the agent has them as `/mounts/0`, `/mounts/1` ...
        allow_ptrace: Let debuggers work.
    """
    mounts: list[dict[str, Any]] = [
        _mount("/proc", "proc", "proc", QUIET),
        _mount("/dev", "tmpfs", "tmpfs", ["nosuid", "mode=755", "size=64k", "nr_inodes=64"]),
        _mount("/dev/pts", "devpts", "devpts", ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]),
        _mount("/dev/shm", "tmpfs", "shm", ["nosuid", "nodev", "mode=1777", f"size={limits.shm}", "nr_inodes=10k"]),
        _mount("/dev/.init", "bind", INIT, ["bind", "ro", "nosuid"]),
    ]
    for index, target in enumerate(targets):
        mounts.append(_mount(target, "bind", f"/mounts/{index}", ["rbind", "ro", "nosuid", "nodev"]))
    return {
        "ociVersion": "1.0.2",
        "process": common,
        "hostname": "sandbox",
        "mounts": mounts,
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")],
            "maskedPaths": list(MASKED),
            "readonlyPaths": list(READ_ONLY),
            "seccomp": oci_profile(platform.machine(), allow_ptrace=allow_ptrace),
        },
    }


def _mount(destination: str, kind: str, source: str, options: list[str]) -> dict[str, Any]:
    return {"destination": destination, "type": kind, "source": source, "options": options}
