"""What the agent does for the host in a child of its own: files, and the writable layer. No program of the image runs.

Runs in the zygote's children: the standard library and this folder only.
"""

# pathlib would be imported into every sandbox's first process
# ruff: noqa: PTH103, PTH108, PTH112, PTH114, PTH116, PTH120

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tarfile
from typing import Any

from . import stream

INSIDE = ("read", "write", "pack", "unpack", "folder", "remove")
"""Tasks that run in the layer's mount namespace; the others see the agent's root and the layer's folder."""
CHUNK = 1 << 20


def run(task: str, arguments: dict[str, Any], folder: int) -> int:
    """Do one task over descriptors 0, 1 and 2; return an exit code, with the message on 2."""
    try:
        if task == "read":
            _read(**arguments)
        elif task == "write":
            _write(**arguments)
        elif task == "pack":
            _pack(**arguments)
        elif task == "unpack":
            _unpack(**arguments)
        elif task == "folder":
            os.makedirs(arguments["path"], exist_ok=True)
        elif task == "remove":
            with contextlib.suppress(FileNotFoundError):
                os.unlink(arguments["path"])
        else:
            os.fchdir(folder)
            with os.fdopen(1, "wb", CHUNK, closefd=False) as out:
                if task == "export":
                    stream.export("upper", out)
                else:
                    out.write(stream.fingerprint("upper", "/lower", arguments["paths"]).encode())
    except BrokenPipeError:
        return 1
    except (OSError, tarfile.TarError, MemoryError, RecursionError) as error:
        text = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error) or "out of memory"
        with contextlib.suppress(OSError):
            os.write(2, text.encode("utf-8", "replace"))
        return 1
    return 0


def _read(path: str, limit: int) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    info = os.fstat(descriptor)
    if not stat.S_ISREG(info.st_mode):
        raise OSError(errno.EISDIR if stat.S_ISDIR(info.st_mode) else errno.EINVAL, "not a regular file")
    left = limit
    while left > 0 and (data := os.read(descriptor, min(left, CHUNK))):
        left -= len(data)
        _put(data)


def _put(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def _write(path: str, mode: int) -> None:
    os.makedirs(os.path.dirname(path) or "/", exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # a link in its place would lead elsewhere
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    while data := os.read(0, CHUNK):
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    os.fchmod(descriptor, mode)


def _pack(path: str) -> None:
    if not os.path.isdir(path):
        os.stat(path)
        raise OSError(errno.ENOTDIR, "not a folder")
    with (
        os.fdopen(1, "wb", closefd=False) as out,
        tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        archive.add(path, arcname=".", filter=_plain)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return member if member.isfile() or member.isdir() or member.issym() or member.islnk() else None


def _unpack(path: str) -> None:
    if os.path.islink(path):
        os.unlink(path)
    os.makedirs(path, exist_ok=True)
    with os.fdopen(0, "rb", closefd=False) as source, tarfile.open(fileobj=source, mode="r|") as archive:
        archive.extraction_filter = lambda member, _: member  # the host made the archive
        archive.extractall(path)
