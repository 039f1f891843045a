"""How a container says whose it is, so that what a dead session left can be told from what a live one uses."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

OWNER = "sandlot.owner"
EXPIRES = "sandlot.expires"


@cache
def _machine() -> str:
    """This boot of this kernel, and this PID namespace: only within it can a process number be judged."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"


def _started(pid: int) -> str:
    """When a process began, in ticks since boot; "" if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except OSError:
        return ""


def own_labels(lifetime: float) -> dict[str, str]:
    """The labels of what this process makes now and nobody needs after `lifetime` seconds."""
    pid = os.getpid()
    return {OWNER: f"{_machine()}/{pid}/{_started(pid)}", EXPIRES: str(int(time.time() + lifetime))}


def left_over(labels: Mapping[str, str], now: float | None = None) -> bool:
    """Whether a thing with these labels is ours and of no more use: its time is over, or its process is dead."""
    if OWNER not in labels or EXPIRES not in labels:
        return False
    if int(labels[EXPIRES]) < (time.time() if now is None else now):
        return True
    machine, pid, started = labels[OWNER].rsplit("/", 2)
    return machine == _machine() and _started(int(pid)) != started
