"""Which sandbox a terminal task is played in, and on which image."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...sandboxes.limits import Limits
from ...sandboxes.spec import DockerImage, HostImage, Image, RootfsImage, SandboxSpec
from ...sandboxes.sync import SyncSandbox
from .workspace import Images, Workspace

BACKENDS = ("auto", "namespace", "oci", "docker")


class Opener:
    """Starts sandboxes of one backend.

    Args:
        backend: one of `BACKENDS`; "auto" is the first that works on this machine.
    """

    def __init__(self, backend: str) -> None:
        self._backend = backend

    def __call__(self, spec: SandboxSpec) -> SyncSandbox:
        """A started sandbox. Raises `SandboxUnavailable` where this machine has none."""
        from ...sandboxes.choose import make_sandbox

        return SyncSandbox(make_sandbox(self._backend, spec)).start()


def images(backend: str, image: str | None = None, image_map: Mapping[str, str] | None = None) -> Images:
    """The images for tasks.

    Args:
        backend: one of `BACKENDS`.
        image: for tasks that name none: the folder of a root file system, "host" for this machine's own programs, or a
            Docker image's name; None is the backend's own choice.
        image_map: such images by the names after `FROM`; "*" stands for all others.
    """
    named = {name: _image(text) for name, text in (image_map or {}).items()}
    return Images(_base(backend) if image is None else _image(image), named)


def workspaces(
    backend: str = "auto",
    image: str | None = None,
    image_map: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> tuple[Workspace, Workspace]:
    """Two workspaces, not yet started: one for the agent, one for the verifier. The caller closes both."""
    opener, known = Opener(backend), images(backend, image, image_map)
    limits = limits or Limits()
    return Workspace(opener, known, limits), Workspace(opener, known, limits)


def _image(text: str) -> Image:
    if text == "host":
        return HostImage()
    return RootfsImage(Path(text)) if Path(text).is_dir() else DockerImage(text)


def _base(backend: str) -> Image:
    from ...sandboxes.debian import base_image

    return base_image(backend)
