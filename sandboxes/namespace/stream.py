"""The writable layer as a stream of entries, and its fingerprint. What is deleted is there too, as overlayfs marks it.

Runs in the zygote's children: the standard library and this folder only.
"""

# pathlib would be imported into every sandbox's first process
# ruff: noqa: PTH101, PTH102, PTH115, PTH118, PTH123, PTH211

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from .git_index import is_index, timeless

CHUNK = 1 << 20
DERIVED = tuple(f"user.overlay.{name}" for name in ("origin", "impure", "nlink", "uuid", "protattr"))
OPAQUE = "user.overlay.opaque"


def _walk(root: str, relative: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Every entry below `root`, folders before their content, sorted; links are not followed."""
    pending = [relative]
    while pending:
        folder = pending.pop()
        below: list[str] = []
        for entry in sorted(os.scandir(os.path.join(root, folder)), key=lambda entry: entry.name):
            name = os.path.join(folder, entry.name)
            info = entry.stat(follow_symlinks=False)
            yield name, info
            if stat.S_ISDIR(info.st_mode):
                below.append(name)
        pending.extend(reversed(below))


def _attributes(path: str) -> dict[str, str]:
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError:
        return {}
    kept = sorted(name for name in names if name.startswith("user.") and name not in DERIVED)
    return {name: os.getxattr(path, name, follow_symlinks=False).hex() for name in kept}


def export(root: str, out: BinaryIO) -> None:
    """Write the layer in the folder `root` to `out`. Raises OSError when something in it cannot be read."""
    seen: dict[int, str] = {}
    for name, info in _walk(root):
        path, mode = os.path.join(root, name), info.st_mode
        header: dict[str, Any] = {"name": name, "mode": mode, "time": info.st_mtime_ns, "attributes": _attributes(path)}
        content = None
        if not stat.S_ISDIR(mode) and info.st_nlink > 1:
            if info.st_ino in seen:
                header = {"name": name, "same": seen[info.st_ino]}
            seen.setdefault(info.st_ino, name)
        if "same" in header or stat.S_ISDIR(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            pass
        elif stat.S_ISLNK(mode):
            header["link"] = os.readlink(path)
        elif stat.S_ISREG(mode):
            header["size"], content = info.st_size, path
        elif not stat.S_ISCHR(mode) or info.st_rdev:
            continue  # no device but overlayfs's mark of a deletion can exist
        out.write(json.dumps(header).encode("ascii") + b"\n")
        if content is not None:
            _copy(content, info.st_size, out)
    out.write(b"\n")
    out.flush()


def _copy(path: str, size: int, out: BinaryIO) -> None:
    with open(path, "rb", buffering=0) as file:
        left = size
        while left:
            data = file.read(min(left, CHUNK)) or bytes(min(left, CHUNK))
            out.write(data)
            left -= len(data)


def load(root: str, source: BinaryIO) -> None:
    """Make the layer that `export` wrote, in the empty folder `root`.

    Raises OSError on a stream that is cut short, and where the disk is full.
    """
    folders: list[tuple[str, int, int]] = []
    while True:
        line = source.readline()
        if line == b"\n":
            break
        if not line:
            raise OSError("the snapshot is cut short")
        header = json.loads(line)
        path = os.path.join(root, header["name"])
        if "same" in header:
            os.link(os.path.join(root, header["same"]), path, follow_symlinks=False)
            continue
        mode = header["mode"]
        if stat.S_ISDIR(mode):
            os.mkdir(path, 0o700)
            folders.append((path, stat.S_IMODE(mode), header["time"]))
        elif stat.S_ISLNK(mode):
            os.symlink(header["link"], path)
        elif stat.S_ISREG(mode):
            with open(path, "xb") as file:
                left = header["size"]
                while left:
                    data = source.read(min(left, CHUNK))
                    if not data:
                        raise OSError("the snapshot is cut short")
                    file.write(data)
                    left -= len(data)
        else:  # a pipe, a socket's name, or a deletion (device 0:0)
            os.mknod(path, mode, 0)
        for name, value in header["attributes"].items():
            os.setxattr(path, name, bytes.fromhex(value), follow_symlinks=False)
        if not stat.S_ISLNK(mode) and not stat.S_ISDIR(mode):
            os.chmod(path, stat.S_IMODE(mode))
        os.utime(path, ns=(header["time"], header["time"]), follow_symlinks=False)
    for path, mode, time in reversed(folders):
        os.chmod(path, mode)
        os.utime(path, ns=(time, time))


def fingerprint(root: str, lower: str, paths: Sequence[str] | None) -> str:
    """Hash what differs between the layer and the image; what cannot be read counts by its error."""
    total = hashlib.blake2b(digest_size=16)
    try:
        for name, info in _walk(root):
            if paths is not None and not any(_related(name, path.strip("/")) for path in paths):
                continue
            line = _line(os.path.join(root, name), info)
            if line != _line_of(os.path.join(lower, name)):
                total.update(json.dumps([name, line]).encode("ascii") + b"\n")
    except OSError as error:
        total.update(f"error {error.errno}\n".encode())
    return total.hexdigest()


def _related(name: str, path: str) -> bool:
    """Whether `name` is at or below `path`, or a deletion (or link) above it could hide it."""
    return not path or name == path or name.startswith(path + "/") or path.startswith(name + "/")


def _line_of(path: str) -> list[object] | None:
    try:
        return _line(path, os.lstat(path))
    except OSError:
        return None


def _line(path: str, info: os.stat_result) -> list[object]:
    mode = info.st_mode
    try:
        attributes = {name: value for name, value in _attributes(path).items() if name != OPAQUE}
        opaque = OPAQUE in _attributes(path)
        if stat.S_ISLNK(mode):
            return ["link", os.readlink(path)]
        if stat.S_ISREG(mode):
            digest = hashlib.blake2b(digest_size=16)
            with open(path, "rb", buffering=0) as file:
                if is_index(path):
                    digest.update(timeless(file.read()))
                while data := file.read(CHUNK):
                    digest.update(data)
            return ["file", mode, info.st_size, digest.hexdigest(), attributes]
        return ["other", mode, opaque, attributes]
    except OSError as error:
        return ["error", error.errno]
