"""Build a task's Dockerfile with the classic builder, through the API: no buildx, no compose.

Offline images are the normal case here: `FROM` names can be mapped onto local images, the build has no network unless
asked for, and a folder of shims can be put first on PATH, so that steps such as `apt-get install` find their stand-ins.
The result is tagged with a digest of everything that went in, so the same task is built once.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidArgument, SandboxFault, SandboxUnavailable

if TYPE_CHECKING:
    from docker import DockerClient

SHIMS = "/opt/sandlot/shims"
_CONTEXT_SHIMS = ".sandlot-shims"
_FROM = re.compile(r"^(\s*FROM\s+)((?:--platform=\S+\s+)?)(\S+)(.*)$", re.IGNORECASE)


def map_images(dockerfile: str, images: Mapping[str, str], shims: bool = False) -> str:
    """Rewrite the `FROM` lines of a Dockerfile.

    Args:
        dockerfile: Its text.
        images: From a name as written, with or without its tag, to a local image; "*" is for all others.
        shims: Put the shims into every stage, first on PATH.

    Returns:
        The new text. Names of earlier stages, `scratch`, and what no entry fits stay as they are.
    """
    stages = {"scratch"}
    lines: list[str] = []
    for line in dockerfile.splitlines():
        match = _FROM.match(line)
        if not match:
            lines.append(line)
            continue
        start, platform, name, rest = match.groups()
        if name.lower() not in stages:
            bare = re.sub(r"(@sha256:\w+|:[\w.-]+)$", "", name)
            mapped = images.get(name) or images.get(bare) or images.get("*")
            if mapped:
                platform, name = "", mapped
        lines.append(f"{start}{platform}{name}{rest}")
        if alias := re.match(r"\s+AS\s+(\S+)", rest, re.IGNORECASE):
            stages.add(alias[1].lower())
        if shims:
            lines += [f"COPY {_CONTEXT_SHIMS} {SHIMS}", f"ENV PATH={SHIMS}:$PATH"]
    return "\n".join(lines) + "\n"


def build_image(
    client: DockerClient,
    folder: Path,
    *,
    dockerfile: str = "Dockerfile",
    images: Mapping[str, str] | None = None,
    shims: Path | None = None,
    network: bool = False,
    labels: Mapping[str, str] | None = None,
    timeout: int = 600,
) -> str:
    """Build the Dockerfile of a folder, or find the image of an earlier build of the same content.

    Args:
        client: A client of the daemon.
        folder: The build context.
        dockerfile: Its name in the folder.
        images: For `map_images`.
        shims: Host folder of executables to put into the image.
        network: Whether `RUN` may use the network.
        labels: Labels for the image.
        timeout: Seconds.

    Returns:
        The image's tag.

    Raises:
        InvalidArgument: There is no such Dockerfile, or one of its steps failed; the message has the step's last words.
        SandboxUnavailable: An image that it starts from is not there.
        SandboxFault: The daemon failed.
    """
    from docker.errors import APIError, ImageNotFound
    from requests.exceptions import RequestException

    path = folder / dockerfile
    if not path.is_file():
        raise InvalidArgument(f"{folder} has no {dockerfile}: a task's image needs one")
    text = map_images(path.read_text(encoding="utf-8"), images or {}, shims is not None)
    context = _context(folder, dockerfile, text, shims)
    tag = f"sandlot/build:{hashlib.blake2b(context, digest_size=16).hexdigest()}"
    try:
        client.images.get(tag)
        return tag
    except ImageNotFound:
        pass
    except (APIError, RequestException) as error:
        raise SandboxFault(f"the Docker daemon failed: {error}") from error
    try:
        events: Iterable[dict[str, Any]] = client.api.build(
            fileobj=io.BytesIO(gzip.compress(context, compresslevel=1)),
            custom_context=True,
            encoding="gzip",
            dockerfile=dockerfile,
            tag=tag,
            rm=True,
            forcerm=True,
            pull=False,
            network_mode="default" if network else "none",
            labels=dict(labels or {}),
            timeout=timeout,
            decode=True,
        )
        said: list[str] = []
        for event in events:
            said.append(str(event.get("stream", "")))
            if "error" in event:
                message = f"{''.join(said)[-1500:].strip()}\n{event['error']}"
                if "pull access denied" in message or "dial tcp" in message or "not found: manifest" in message:
                    raise SandboxUnavailable(f"{path}: an image to start from is not here: map it. {event['error']}")
                raise InvalidArgument(f"{path} does not build: {message}")
    except (APIError, RequestException) as error:
        raise SandboxFault(f"the Docker daemon could not build {path}: {error}") from error
    return tag


def _context(folder: Path, dockerfile: str, text: str, shims: Path | None) -> bytes:
    """The context as a tar that depends on names, modes and contents only."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:

        def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
            info.mtime, info.uid, info.gid, info.uname, info.gname = 0, 0, 0, "", ""
            return info

        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if name != dockerfile:
                tar.add(path, name, recursive=False, filter=plain)
        if shims is not None:
            for path in sorted(shims.rglob("*")):
                tar.add(path, f"{_CONTEXT_SHIMS}/{path.relative_to(shims).as_posix()}", recursive=False, filter=plain)
        body = text.encode()
        info = tarfile.TarInfo(dockerfile)
        info.size = len(body)
        tar.addfile(info, io.BytesIO(body))
    return buffer.getvalue()
