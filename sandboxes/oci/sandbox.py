"""The OCI backend."""

from __future__ import annotations

import platform
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Self

from ..errors import SandboxUnavailable
from ..namespace.sandbox import NamespaceSandbox
from ..programs import init_program
from ..spec import SandboxSpec
from .bundle import bundle, process

RUNTIMES = ("crun", "runc")
LIBRARIES = ("usr", "lib", "lib64", "bin", "sbin")  # what a runtime needs of the host's root; some are links


class OCISandbox(NamespaceSandbox):
    """A sandbox that an audited OCI runtime sets up (crun, else runc), without a daemon, as root and as anybody.

    Every program inside is started by the runtime, from a bundle written here: namespaces, root, mounts, masked
    paths, seccomp, capabilities, limits and no-new-privileges are the runtime's code, on which Podman, Docker and
    Kubernetes run too. Ours are the writable layer (an overlay on a memory file system of limited size, mounted by a
    keeper in a user and a mount namespace of its own), the control groups, and the way in and out for bytes. The
    keeper is the first process of a PID namespace around the container: when it or the host's process dies, the
    kernel ends everything.

    Covered: what the namespace backend covers, with a second PID, mount, IPC and UTS namespace around the programs,
    and a seccomp filter compiled by libseccomp from the same policy.

    Not covered: it is no virtual machine. A bug in the kernel that programs can reach is a way out, and so are the
    side channels of shared hardware. CPU time is only held where a CPU controller may be used. There is one user
    inside: changes of owner and user succeed without doing anything, and permissions between users do not hold. The
    fingerprints, snapshots and file transfers are the namespace backend's code, not the runtime's.
    """

    name: ClassVar[str] = "oci"

    def __init__(self, spec: SandboxSpec | None = None, *, runtime: str | None = None) -> None:
        """See `NamespaceSandbox`.

        Args:
            spec: What to start.
            runtime: Name or path of the runtime; None is crun, else runc.
        """
        super().__init__(spec)
        self._wanted = runtime
        self.runtime = ""
        """Path of the runtime, known once it is started."""

    def _sibling(self) -> Self:
        return type(self)(self.spec, runtime=self._wanted)

    def _config(self, filter_: bytes, mounts: list[tuple[str, str]]) -> dict[str, Any]:
        config = super()._config(filter_, mounts)
        limits = self.spec.limits
        self.runtime = find_runtime(self._wanted)
        folders = [name for name in LIBRARIES if Path("/", name).is_dir() and not Path("/", name).is_symlink()]
        common = process(limits, nproc=limits.pids)
        return {
            **config,
            "sources": [*config["sources"], *(f"/{name}" for name in folders)],
            "libraries": folders,
            "links": {name: str(Path("/", name).readlink()) for name in LIBRARIES if Path("/", name).is_symlink()},
            "runtime": [self.runtime, *_options(self.runtime)],
            "mount_groups": Path(self.runtime).name != "crun",
            "process": common,
            "bundle": bundle(limits, common, config["targets"], allow_ptrace=self.spec.allow_ptrace),
            "init": init_program(platform.machine()).hex(),
        }


@lru_cache
def find_runtime(wanted: str | None = None) -> str:
    """The path of a runtime that runs.

    Raises:
        SandboxUnavailable: There is none; the message says how to get one.
    """
    for name in (wanted,) if wanted else RUNTIMES:
        path = shutil.which(name)
        if path and subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0:
            return str(Path(path).resolve())
    raise SandboxUnavailable(f"no {wanted or 'crun or runc'} on PATH: apt-get install crun")


def _options(runtime: str) -> list[str]:
    """Ours are the control groups, so the runtime shall leave them alone."""
    return ["--cgroup-manager=disabled"] if Path(runtime).name == "crun" else ["--rootless=true"]
