"""Files on their way into a sandbox, and from an agent's sandbox into a verifier's, as tar archives made safe here."""

from __future__ import annotations

import fnmatch
import io
import posixpath
import tarfile
from collections.abc import Iterable

from ...sandboxes.errors import SandboxFault
from ...sandboxes.sync import SyncSandbox
from .task import Artifact, File

TIME = 1_700_000_000  # seconds since 1970: the modification time of every file that we place
LARGEST = 100 << 20  # bytes that one artifact may have
_BLOCKS = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE)


Members = list[tuple[tarfile.TarInfo, bytes]]


def place(box: SyncSandbox, files: Iterable[File], root: str = "/", folders: Iterable[str] = ()) -> None:
    """Write files inside, all in one go; relative paths are below `root`. `folders` are made where they are missing.

    Raises:
        SandboxFault: they could not be written.
    """
    extract(box, [*(folder(path) for path in folders), *members(files, root)])


def members(files: Iterable[File], root: str = "/") -> Members:
    """The files as members of an archive that is unpacked at the root."""
    found = []
    for file in files:
        entry = tarfile.TarInfo(posixpath.normpath(posixpath.join(root, file.path)).lstrip("/"))
        entry.size, entry.mode, entry.mtime = len(file.data), file.mode, TIME
        found.append((entry, file.data))
    return found


def take(box: SyncSandbox, artifact: Artifact) -> Members | None:
    """The artifact as members of an archive that is unpacked at the root; None where there is none, or a broken one.

    What an agent left is hostile: names that lead out, devices, links through which a later member would be written
    elsewhere, and set-id bits are taken out. Symbolic links stay, as links.
    """
    parent, name = posixpath.split(artifact.source.rstrip("/"))
    script = 'if [ -d "$1/$2" ]; then exec tar -c -C "$1/$2" .; else exec tar -c -C "$1" -- "$2"; fi'
    result = box.exec(["sh", "-c", script, "sh", parent or "/", name], output_limit=LARGEST, cwd="/")
    if result.truncated:
        return None
    try:
        return _cleaned(result.stdout, name, artifact)
    except (tarfile.TarError, OSError, ValueError, UnicodeError, EOFError):
        return None


def extract(box: SyncSandbox, found: Members, remove: Iterable[str] = ()) -> None:
    """Unpack members at the root, after removing what is at the absolute paths `remove`.

    Raises:
        SandboxFault: it did not work.
    """
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for entry, content in found:
            archive.addfile(entry, io.BytesIO(content) if entry.isreg() else None)
    script = 'rm -rf -- "$@" && exec tar -x -p --no-same-owner -C / -f -'
    done = box.exec(["sh", "-c", script, "sh", *remove], stdin=stream.getvalue(), cwd="/")
    if done.exit_code:
        raise SandboxFault(f"files cannot be placed: {done.error_text.strip()[-200:]}")


def folder(path: str) -> tuple[tarfile.TarInfo, bytes]:
    """An empty folder as a member."""
    entry = tarfile.TarInfo(path.strip("/"))
    entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, 0o755, TIME
    return entry, b""


def _cleaned(data: bytes, name: str, artifact: Artifact) -> Members:
    target = artifact.destination.strip("/")
    kept: dict[str, tuple[tarfile.TarInfo, bytes]] = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            path = posixpath.normpath(member.name)
            if path.startswith(("/", "..")) or any(fnmatch.fnmatch(path, pattern) for pattern in artifact.exclude):
                continue
            content = b""
            if member.type in _BLOCKS:
                stream = archive.extractfile(member)
                content = stream.read() if stream else b""
            elif member.islnk():
                first = kept.get(posixpath.normpath(member.linkname))
                if first is None or not first[0].isreg():
                    continue
                content = first[1]
            elif not (member.isdir() or member.issym()):
                continue
            kept[path] = (_plain(member, content), content)
    found = []
    # Links last, and none above another member: then nothing is written through a link.
    for path, (entry, content) in sorted(kept.items(), key=lambda item: (item[1][0].issym(), item[0])):
        parts = path.split("/")
        above = ("/".join(parts[:end]) for end in range(1, len(parts)))
        if all(kept[place][0].isdir() for place in above if place in kept):
            entry.name = target if path in (".", name) else f"{target}/{path}"
            found.append((entry, content))
    return found


def _plain(member: tarfile.TarInfo, content: bytes) -> tarfile.TarInfo:
    """A member with nothing but kind, permission bits, time and link target."""
    entry = tarfile.TarInfo()
    entry.type = member.type if member.isdir() or member.issym() else tarfile.REGTYPE
    entry.mode, entry.mtime, entry.size = member.mode & 0o1777, int(member.mtime), len(content)
    entry.linkname = member.linkname if member.issym() else ""
    return entry
