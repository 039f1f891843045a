"""Puts our own PID 1 and killer within every container's reach: in a small volume, mounted read-only."""

from __future__ import annotations

import hashlib
import io
import tarfile
from typing import TYPE_CHECKING

from ..programs import init_program, kill_program

if TYPE_CHECKING:
    from docker import DockerClient

TARGET = "/dev/.sandlot"
INIT, KILL = f"{TARGET}/init", f"{TARGET}/kill"
LABEL = "sandlot.programs"
_READY: set[tuple[str, str]] = set()  # (daemon's id, volume) filled by this process


def refill(client: DockerClient, image: str, lifetime: int) -> None:
    """Fill the volume again: somebody removed it, and Docker made an empty one in its place."""
    _READY.clear()
    programs_volume(client, image, lifetime)


def daemon_machine(client: DockerClient) -> str:
    """The daemon's machine, as `platform.machine()` would call it there."""
    name: str = client.info()["Architecture"]
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name) or name


def programs_volume(client: DockerClient, image: str, lifetime: int) -> str:
    """The name of the volume, filled. One for each daemon and lifetime, shared by all sandboxes, never written by them.

    Args:
        client: The daemon's client.
        image: Any image of the daemon: a container that is never started carries the files in.
        lifetime: Seconds after which a container ends by itself.
    """
    machine = daemon_machine(client)
    files = {"init": init_program(machine, lifetime), "kill": kill_program(machine)}
    name = "sandlot-programs-" + hashlib.blake2b(b"".join(files.values()), digest_size=8).hexdigest()
    daemon = client.info()["ID"]
    if (daemon, name) in _READY:
        return name
    client.volumes.create(name, labels={LABEL: "1"})
    carrier = client.containers.create(
        image, ["/none"], network_mode="none", volumes={name: {"bind": "/programs", "mode": "rw"}}
    )
    try:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for file, content in files.items():
                member = tarfile.TarInfo(file)
                member.size, member.mode = len(content), 0o555
                tar.addfile(member, io.BytesIO(content))
        carrier.put_archive("/programs", buffer.getvalue())
    finally:
        carrier.remove(force=True)
    _READY.add((daemon, name))
    return name
