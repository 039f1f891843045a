"""Every sandbox backend that starts on this machine, for tests of the contract that all of them keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import pytest

from sandlot.sandboxes import HostImage, Image, RootfsImage, Sandbox, SandboxSpec, SyncSandbox
from sandlot.sandboxes.errors import EnvironmentFault, UserError

BACKENDS = ("namespace", "oci", pytest.param("docker", marks=pytest.mark.docker), "local")


def make(backend: str, spec: SandboxSpec) -> Sandbox:
    """A sandbox of a backend, not started."""
    if backend == "local":
        from sandlot.sandboxes.local import LocalSandbox

        return LocalSandbox(spec, unsafe=True)
    if backend == "namespace":
        from sandlot.sandboxes.namespace import NamespaceSandbox

        return NamespaceSandbox(spec)
    if backend == "oci":
        from sandlot.sandboxes.oci.sandbox import OCISandbox

        return OCISandbox(spec)
    from sandlot.sandboxes.docker.sandbox import DockerSandbox

    return DockerSandbox(spec)


def image(backend: str) -> Image:
    """What a backend can be tested on."""
    from sandlot.sandboxes.debian import base_folder

    if backend != "docker":
        return HostImage()
    if not base_folder().is_dir():
        pytest.skip("Docker needs the base image: sandlot sandbox base")
    return RootfsImage(base_folder())


@cache
def why_not(backend: str) -> str:
    """Why a backend does not start here, or ""."""
    try:
        with SyncSandbox(make(backend, SandboxSpec(image=image(backend)))) as box:
            return "" if box.exec(["true"]).exit_code == 0 else "it cannot run `true`"
    except (UserError, EnvironmentFault) as error:
        return str(error)


class Backend:
    """One backend that works here: call it for a started sandbox, closed after the test."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.opened: list[SyncSandbox] = []

    def spec(self, spec: SandboxSpec | None = None) -> SandboxSpec:
        """The spec on this backend's image."""
        return replace(spec or SandboxSpec(), image=image(self.name))

    def make(self, spec: SandboxSpec | None = None) -> Sandbox:
        """One that is not started and not closed for you."""
        return make(self.name, self.spec(spec))

    def __call__(self, spec: SandboxSpec | None = None) -> SyncSandbox:
        box = SyncSandbox(self.make(spec)).start()
        self.opened.append(box)
        return box

    def close(self) -> None:
        for box in self.opened:
            box.close()


@pytest.fixture(scope="module", params=BACKENDS)
def sandbox_backends(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Every backend that starts here, one after the other."""
    if request.param == "docker":
        request.getfixturevalue("docker_url")  # starts a daemon where none runs, and names it in DOCKER_HOST
        request.getfixturevalue("base_rootfs")
    if reason := why_not(request.param):
        pytest.skip(f"the {request.param} backend does not start here: {reason}")
    backend = Backend(request.param)
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def shared(sandbox_backends: Backend) -> SyncSandbox:
    """One sandbox for a whole module; `box` empties it."""
    return sandbox_backends()


@pytest.fixture
def box(shared: SyncSandbox, request: pytest.FixtureRequest) -> SyncSandbox:
    """A sandbox in its first state; Docker's only where the module asks, for its reset takes a second."""
    if shared.capabilities.snapshot and (shared.name != "docker" or hasattr(request.module, "FRESH")):
        shared.reset()
    else:
        shared.kill_all()
    return shared


@pytest.fixture
def needs(box: SyncSandbox) -> Callable[[str], None]:
    """Skip when the backend cannot do something."""

    def check(capability: str) -> None:
        if not getattr(box.capabilities, capability):
            pytest.skip(f"the {box.name} backend has no {capability}")

    return check
