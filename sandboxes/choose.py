"""Which backend to use on this machine: what was asked for, else the first that really starts.

A probe starts a sandbox, runs a command in it and says what happened and what would help. An audited OCI runtime comes
first, then the namespaces from Python, then Docker: the order of trust at about the same speed, and Docker last because
it is slower and needs a daemon.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .base import Sandbox
from .errors import EnvironmentFault, InvalidArgument, SandboxUnavailable, UserError
from .limits import Capabilities
from .spec import HostImage, Image, SandboxSpec

ORDER = ("oci", "namespace", "docker")
_STARTS: dict[tuple[str, type[Image]], bool] = {}  # what a probe of this process found


@dataclass(frozen=True)
class Probe:
    """What trying one backend gave."""

    backend: str
    """Its name."""
    works: bool
    """Whether a sandbox started and ran a command."""
    reason: str
    """Why not, or what it is."""
    fix: str = ""
    """What would help."""
    start_ms: float = 0.0
    """Milliseconds that a second start took; the first makes what is kept."""
    capabilities: Capabilities | None = None
    """What it can do here."""


def make_sandbox(backend: str, spec: SandboxSpec | None = None, **arguments: Any) -> Sandbox:
    """A sandbox of a named backend, not started yet.

    Args:
        backend: "oci", "namespace", "docker", or "auto" for the first that works here.
        spec: What to start.
        arguments: Further arguments of that backend's class.

    Raises:
        InvalidArgument: There is no such backend, or it cannot give what the spec asks for.
        SandboxUnavailable: "auto" found none that works.
    """
    if backend == "auto":
        return default_sandbox(spec)
    if backend == "oci":
        from .oci.sandbox import OCISandbox as Kind
    elif backend == "namespace":
        from .namespace.sandbox import NamespaceSandbox as Kind
    elif backend == "docker":
        from .docker.sandbox import DockerSandbox as Kind
    else:
        raise InvalidArgument(f"there is no sandbox backend {backend!r}: choose among auto, {', '.join(ORDER)}")
    return Kind(spec, **arguments)


def default_sandbox(spec: SandboxSpec | None = None, prefer: str | None = None) -> Sandbox:
    """The first backend that starts here and can give what the spec asks for; not started yet.

    Each backend is tried once in a process, by starting a sandbox and running a command.

    Args:
        spec: What to start.
        prefer: A backend to take instead, without trying others.

    Raises:
        SandboxUnavailable: None works; the message says what each one lacks.
    """
    if prefer is not None:
        return make_sandbox(prefer, spec)
    spec = spec if spec is not None else SandboxSpec()
    reasons: list[str] = []
    for backend in ORDER:
        try:
            sandbox = make_sandbox(backend, spec)
        except UserError as error:
            reasons.append(f"{backend}: {error}")
            continue
        key = (backend, type(spec.image))
        if key not in _STARTS:
            found = probe(backend, spec.image)
            _STARTS[key] = found.works
            if not found.works:
                reasons.append(f"{backend}: {found.reason}{'; ' if found.fix else ''}{found.fix}")
        if _STARTS[key]:
            return sandbox
    details = "; ".join(reasons) or "see `sandlot sandbox check`"
    raise SandboxUnavailable(f"no sandbox works on this machine: {details}")


def probe(backend: str, image: Image | None = None) -> Probe:
    """Try one backend: start a sandbox, run a command, close it.

    Args:
        backend: "oci", "namespace" or "docker".
        image: With this image; None takes the host's own programs, or for Docker any image that the daemon has.
    """
    from .sync import run

    return run(_probe(backend, image))


async def _probe(backend: str, image: Image | None) -> Probe:
    try:
        spec = SandboxSpec(image=image if image is not None else await asyncio.to_thread(_any_image, backend))
        async with make_sandbox(backend, spec) as sandbox:
            result = await sandbox.exec(["/bin/sh", "-c", "echo works"], timeout=30)
            if result.stdout != b"works\n":
                said = (result.stderr or result.stdout).decode(errors="replace").strip()[-300:]
                return Probe(backend, False, f"it starts, but a command fails there: {said or result.exit_code}")
        begin = time.perf_counter()  # the first start made what is kept
        async with make_sandbox(backend, spec) as sandbox:
            took = (time.perf_counter() - begin) * 1000
            return Probe(backend, True, _what(sandbox), start_ms=took, capabilities=sandbox.capabilities)
    except (UserError, EnvironmentFault) as error:
        reason, _, fix = str(error).partition(": ")
        return Probe(backend, False, reason if fix else str(error), fix)
    except OSError as error:
        return Probe(backend, False, f"{type(error).__name__} {error}")


def _what(sandbox: Sandbox) -> str:
    runtime = getattr(sandbox, "runtime", "")
    url = getattr(sandbox, "url", "")
    able = sandbox.capabilities
    held = [name for name, here in (("memory", able.memory_cgroup), ("processes", able.pids_cgroup)) if here]
    groups = f"the kernel holds {' and '.join(held)}" if held else "memory is watched, not held: no control groups here"
    return ", ".join(part for part in (runtime, url, groups) if part)


def _any_image(backend: str) -> Image:
    """Docker has no host mode: take what the daemon has."""
    if backend != "docker":
        return HostImage()
    from .docker.client import connect
    from .spec import DockerImage

    client = connect(timeout=20)
    try:
        for found in client.images.list():
            if found.tags:
                return DockerImage(found.tags[0])
    finally:
        client.close()
    raise SandboxUnavailable("the Docker daemon has no image to try: docker pull debian:12-slim")


def probe_all(backends: Sequence[str] = ORDER) -> list[Probe]:
    """Try every backend, in the order of preference."""
    return [probe(backend) for backend in backends]
