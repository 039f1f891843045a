"""Which image of the daemon a `SandboxSpec` means; root file systems are imported once, Dockerfiles built once."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..errors import InvalidArgument, SandboxFault, SandboxUnavailable
from ..spec import DockerfileImage, DockerImage, HostImage, Image, RootfsImage
from .build import build_image

if TYPE_CHECKING:
    from docker import DockerClient


def image_name(client: DockerClient, image: Image) -> str:
    """The reference under which the daemon has the image, after making it if it must be made.

    Raises:
        InvalidArgument: The host's own programs, which are no image; or a Dockerfile that does not build.
        SandboxUnavailable: The image is not there.
        SandboxFault: The daemon failed.
    """
    if isinstance(image, DockerImage):
        _require(client, image.name)
        return image.name
    if isinstance(image, RootfsImage):
        return import_rootfs(client, image.path)
    if isinstance(image, DockerfileImage):
        names = {name: image_name(client, other) for name, other in image.image_map.items()}
        return build_image(client, image.folder, images=names)
    assert isinstance(image, HostImage)
    raise InvalidArgument("Docker cannot use the host's own programs: give RootfsImage, DockerImage or DockerfileImage")


def _require(client: DockerClient, name: str) -> None:
    from docker.errors import ImageNotFound

    try:
        client.images.get(name)
    except ImageNotFound:
        raise SandboxUnavailable(f"the Docker daemon has no image {name}: docker pull {name}") from None


def import_rootfs(client: DockerClient, path: Path) -> str:
    """Import a root file system, all of it owned by root, unless it was imported before."""
    from docker.errors import DockerException, ImageNotFound

    if not path.is_dir():
        raise InvalidArgument(f"{path} is not a folder")
    real = path.resolve()
    stamp = f"{real} {real.stat().st_ino} {real.stat().st_ctime_ns}"
    tag = hashlib.blake2b(stamp.encode(), digest_size=12).hexdigest()
    name = f"sandlot/rootfs:{tag}"
    try:
        client.images.get(name)
        return name
    except ImageNotFound:
        pass
    command = [
        "tar",
        "--create",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--one-file-system",
        "-C",
        str(real),
        ".",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tar:
        try:
            cast(Any, client.api).import_image_from_stream(tar.stdout, repository="sandlot/rootfs", tag=tag)
        except DockerException as error:
            tar.kill()
            raise SandboxFault(f"the Docker daemon could not import {path}: {error}") from error
        finally:
            errors = tar.communicate()[1].decode(errors="replace")
    if tar.returncode:
        client.images.remove(name, force=True)
        raise InvalidArgument(f"{path} cannot be read whole: {errors.strip()[-300:]}")
    return name
