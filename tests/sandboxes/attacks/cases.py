"""The attacks as data: scripts from the TOML files of this folder, and those that need a hand outside (`staged.py`)."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandlot.sandboxes.limits import MIB, Limits

FOLDER = Path(__file__).parent
BACKENDS = ("namespace", "oci", "docker")
LIMITS = Limits(
    memory=192 * MIB,
    pids=64,
    disk=64 * MIB,
    inodes=8_000,
    shm=16 * MIB,
    file_size=48 * MIB,
    open_files=256,
    timeout=60.0,
)
TITLES = {
    "host": "The host's files and devices",
    "kernel": "The kernel's surface",
    "network": "Networks and sockets",
    "parent": "The process that opened it, and its neighbours",
    "resources": "More than its share",
    "processes": "Processes that will not end",
    "files": "Files on their way in and out",
    "verifier": "Tampering with what judges",
}


@dataclass(frozen=True)
class Attack:
    """One attempt."""

    name: str
    """Unique."""
    theme: str
    """A key of `TITLES`."""
    title: str
    """What is attempted, for the table."""
    expect: dict[str, tuple[str, ...]]
    """For each backend, the outcomes that are as they should be."""
    script: str = ""
    """Python for `guard.py`; it sets `outcome`."""
    stage: str = ""
    """What the host prepares: a name in `stages.py`."""
    resets: bool = False
    """Whether the sandbox is reset afterwards, because the script leaves it full."""
    not_held: tuple[str, ...] = ()
    """Backends that do not stop it; said in the table."""
    act: Callable[..., Any] | None = field(default=None, compare=False)
    """For staged ones: a coroutine function of (sandbox, host) that returns the outcome."""


def scripted() -> list[Attack]:
    """The attacks of the TOML files."""
    found: list[Attack] = []
    for path in sorted(FOLDER.glob("*.toml")):
        for row in tomllib.loads(path.read_text(encoding="utf-8"))["attack"]:
            usual, differs = tuple(row["expect"]), row.get("differs", {})
            expect = {backend: tuple(differs.get(backend, usual)) for backend in BACKENDS}
            rest = {key: row[key] for key in ("stage", "resets") if key in row}
            rest["not_held"] = tuple(row.get("not_held", ()))
            found.append(Attack(row["name"], path.stem, row["title"], expect, row["script"], **rest))
    return found


def all_attacks() -> list[Attack]:
    """All of them, in the order of `TITLES`."""
    from attacks.staged import ATTACKS

    order = list(TITLES)
    return sorted([*scripted(), *ATTACKS], key=lambda attack: order.index(attack.theme))
