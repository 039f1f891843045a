"""What a sandbox may use, and what a backend can do."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import InvalidArgument

MIB = 1 << 20
OPEN_FILES = 256  # the fewest: see `sandboxes/shell.py`


@dataclass(frozen=True)
class Limits:
    """The resources of one sandbox. `with_` of dataclasses (`dataclasses.replace`) makes variants."""

    memory: int = 1024 * MIB
    """Bytes of memory of all processes together; files written to the sandbox lie in memory and count as well."""
    pids: int = 256
    """Processes and threads alive at once."""
    cpu: float | None = None
    """CPU cores, enforced where the machine has a CPU controller; None sets no limit."""
    disk: int = 512 * MIB
    """Bytes of the writable layer; where that lies in memory, at most five eighths of `memory`."""
    inodes: int = 100_000
    """Files and folders of the writable layer."""
    shm: int = 64 * MIB
    """Bytes of `/dev/shm`, at most an eighth of `memory`."""
    file_size: int = 512 * MIB
    """Bytes of one file."""
    open_files: int = 1024
    """Open files of one process, at least 256."""
    timeout: float = 60.0
    """Seconds a command runs when the call names no timeout."""
    wall: float | None = None
    """Seconds from `start`, `reset` or `restore` until every process is killed; later commands time out at once."""
    output: int = 64_000
    """Bytes of each output stream that a result keeps (the first ones)."""
    flood: int = 50 * MIB
    """Bytes of output after which a command is killed."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is None and name in ("cpu", "wall"):
                continue
            if value is None or not value > 0:
                raise InvalidArgument(f"Limits.{name} must be positive, got {value!r}")
        if self.open_files < OPEN_FILES:
            raise InvalidArgument(
                f"Limits.open_files must be at least {OPEN_FILES}: a persistent shell keeps its own ways in and out at "
                f"200 to 202; got {self.open_files}"
            )


@dataclass(frozen=True)
class Capabilities:
    """What a backend can do on this machine; what it cannot, it refuses with a `UserError` that says so."""

    multi_uid: bool = False
    """Several users inside: `user=` accepts others than root, and permissions between them hold."""
    snapshot: bool = False
    """`snapshot`, `restore`, `fork` and `fingerprint`."""
    pty: bool = False
    """`shell(pty=True)`."""
    extra_fds: bool = False
    """A process can be given descriptors beyond its standard streams."""
    memory_cgroup: bool = False
    """The kernel holds the memory limit; otherwise a watchdog samples every quarter of a second."""
    pids_cgroup: bool = False
    """The kernel counts processes in a control group; otherwise by resource limits."""
    cpu: bool = False
    """`Limits.cpu` is held."""
    freeze: bool = False
    """`freeze` and `thaw` stop every process at once."""
    ptrace: bool = False
    """`SandboxSpec.allow_ptrace` is honoured (gdb, strace)."""
    networks: frozenset[str] = frozenset({"loopback"})
    """The values of `SandboxSpec.network` that work."""
    secure: bool = True
    """False for a backend that keeps nothing out (`LocalSandbox`)."""
