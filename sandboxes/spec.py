"""What to start: the image, the limits and the surroundings of a sandbox, and what a command gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from .errors import InvalidArgument
from .limits import Limits

Network = Literal["loopback", "open"]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class HostImage:
    """This machine's own programs: its `/usr`, read-only, under a fresh root with a made-up `/etc`. Needs no image."""


@dataclass(frozen=True)
class RootfsImage:
    """A root file system in a folder (debootstrap, `docker export`); the folder itself is never changed."""

    path: Path
    """The folder that holds `bin`, `etc`, `usr` ..."""


@dataclass(frozen=True)
class DockerImage:
    """An image that a Docker daemon on this machine has, such as `debian:12`."""

    name: str
    """Reference or id."""


@dataclass(frozen=True)
class DockerfileImage:
    """An image built from a folder that holds a `Dockerfile`."""

    folder: Path
    """The build context."""
    image_map: Mapping[str, Image] = field(default_factory=dict, hash=False)
    """What to use for a `FROM` name; the key `"*"` stands for every other name."""


Image = HostImage | RootfsImage | DockerImage | DockerfileImage


@dataclass(frozen=True)
class Mount:
    """A folder or file of the host that is shown read-only inside."""

    source: Path
    """On the host."""
    target: str
    """Absolute path inside."""

    def __post_init__(self) -> None:
        parts = self.target.split("/")
        if not self.target.startswith("/") or ".." in parts or self.target.strip("/") == "":
            raise InvalidArgument(f"Mount.target must be an absolute path below /, got {self.target!r}")


@dataclass(frozen=True)
class SandboxSpec:
    """Everything that decides what a sandbox starts as."""

    image: Image = field(default_factory=HostImage)
    """Where the root file system comes from."""
    limits: Limits = field(default_factory=Limits)
    """What it may use."""
    network: Network = "loopback"
    """`loopback`: its own 127.0.0.1 and nothing else. `open`: the outside too, where a backend offers it."""
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Environment variables of every command, on top of `PATH`, `HOME`, `TERM` and `LANG`; the host's never enter."""
    workdir: str = "/"
    """Working folder of commands that name none; made when it is missing."""
    user: str | None = None
    """User of commands that name none; None is root (a root without power outside)."""
    mounts: tuple[Mount, ...] = ()
    """Read-only folders of the host."""
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Names for people who look for leftovers; a backend that can, attaches them."""
    allow_ptrace: bool = False
    """Let debuggers work inside."""

    def __post_init__(self) -> None:
        if not self.workdir.startswith("/"):
            raise InvalidArgument(f"SandboxSpec.workdir must be an absolute path, got {self.workdir!r}")
        if self.network not in ("loopback", "open"):
            raise InvalidArgument(f"SandboxSpec.network must be 'loopback' or 'open', got {self.network!r}")


@dataclass(frozen=True)
class ExecResult:
    """What one command gave."""

    exit_code: int
    """Its exit status; 128 + the signal's number when a signal ended it, as a shell reports it."""
    stdout: bytes
    """The first `output_limit` bytes of standard output."""
    stderr: bytes = b""
    """The same of standard error; empty when it was merged into `stdout`."""
    timed_out: bool = False
    """It ran longer than allowed and was ended."""
    truncated: bool = False
    """There was more output than was kept, or it was ended for writing more than `Limits.flood`."""
    oom: bool = False
    """A process of the sandbox was killed for want of memory meanwhile."""
    duration: float = 0.0
    """Seconds from the call to its end."""
    total_bytes: int = 0
    """Bytes of output, kept or not."""
    shell_exited: bool = False
    """Persistent shells only: the shell itself ended (`exit`, `exec`, a timeout); the next command gets a new one."""

    @property
    def text(self) -> str:
        """`stdout` decoded; what is not UTF-8 becomes U+FFFD."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def error_text(self) -> str:
        """`stderr` decoded; what is not UTF-8 becomes U+FFFD."""
        return self.stderr.decode("utf-8", "replace")
