"""`TerminalTask`: what every task is to the environment, whatever format it was written in."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TESTS = "/tests"
VERIFIER_LOGS = "/logs/verifier"


@dataclass(frozen=True)
class File:
    """A file to place in a sandbox."""

    path: str
    """Absolute, or relative to the place that the holder of the file names."""
    data: bytes = field(repr=False)
    mode: int = 0o644

    @property
    def text(self) -> str:
        """The content as text; bytes that are no UTF-8 are replaced."""
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True)
class Setting:
    """Where a task is played: the image, what is placed on it, and what it may use."""

    dockerfile: Path | None = None
    """The Dockerfile; its folder is the build context. None: `image`, else the base image."""
    image: str | None = None
    """An image's name, looked up in the image map."""
    files: tuple[File, ...] = ()
    """Placed on the image when an episode starts; paths are absolute."""
    workdir: str | None = None
    """Where commands start; None: what the Dockerfile says, else /app."""
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    """Who the agent is; None is root."""
    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    healthcheck: Healthcheck | None = None
    needs: tuple[str, ...] = ()
    """What the task asks for and no backend here gives, in words: it cannot be played."""


@dataclass(frozen=True)
class Healthcheck:
    """A command that must succeed before the agent starts."""

    command: str
    interval: float = 5.0
    """Seconds between tries."""
    timeout: float = 30.0
    """Seconds for one try."""
    start_period: float = 0.0
    """Seconds in which failures do not count."""
    start_interval: float = 5.0
    """Seconds between tries in the start period."""
    retries: int = 3


@dataclass(frozen=True)
class Artifact:
    """A file or folder that the verifier gets from the agent's sandbox in `clean` mode."""

    source: str
    destination: str
    exclude: tuple[str, ...] = ()
    """Shell patterns of paths below the source that are left out."""


@dataclass(frozen=True)
class Collect:
    """A command run in the agent's sandbox after the agent and before the verifier."""

    command: str
    timeout: float = 60.0
    """Seconds."""
    user: str | None = None


@dataclass(frozen=True)
class Verifier:
    """How the outcome is judged."""

    command: str
    files: tuple[File, ...]
    """Placed below /tests after the agent; paths are relative to it."""
    result: str = "reward"
    """"reward": the files /logs/verifier/reward.json or reward.txt; "pytest": the summary in the output."""
    timeout: float = 60.0
    """Seconds."""
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    mode: str = "shared"
    """"shared": in the agent's sandbox, as the formats do it; "clean": in a fresh one that gets the artifacts only."""
    artifacts: tuple[Artifact, ...] = ()
    """What `clean` mode takes over; empty: the working directory."""
    collect: tuple[Collect, ...] = ()


@dataclass(frozen=True)
class Solution:
    """How the oracle solves a step: commands in order, after its files are placed."""

    commands: tuple[str, ...]
    files: tuple[File, ...] = ()
    """Paths are absolute."""


@dataclass(frozen=True)
class Step:
    """One assignment. Most tasks have one; in a task of several the sandbox lives on from one to the next."""

    name: str
    instruction: str
    verifier: Verifier
    solution: Solution | None = None
    timeout: float = 360.0
    """Seconds that the agent has, as the task's author meant it."""
    files: tuple[File, ...] = ()
    """Placed when the step starts; relative paths are below the working directory."""
    setup: str | None = None
    """A command run when the step starts, after its files are placed."""
    healthcheck: Healthcheck | None = None
    min_reward: Mapping[str, float] = field(default_factory=dict)
    """Rewards by name that the step must reach for the next one to start."""


@dataclass(frozen=True)
class TerminalTask:
    """A task of one or more steps."""

    name: str
    setting: Setting
    steps: tuple[Step, ...]
    strategy: str = "mean"
    """How the rewards of several steps become one: "mean" or "final"."""
    hint: str = ""
    """Privileged."""
    secrets: tuple[str, ...] = ()
    """Gold answers that nothing the agent can see may hold; the auditor looks for them."""
    menu: tuple[str, ...] = ()
    """Templates of commands for `commands="menu"`, with {file} for a file that the agent has seen."""
    metadata: Mapping[str, Any] = field(default_factory=dict)


def folder_files(folder: Path, to: str = "") -> tuple[File, ...]:
    """The regular files below `folder`, in order, with paths below `to`. Links are not followed."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            name = posixpath.join(to, path.relative_to(folder).as_posix())
            found.append(File(name, path.read_bytes(), 0o755 if path.stat().st_mode & 0o100 else 0o644))
    return tuple(found)
