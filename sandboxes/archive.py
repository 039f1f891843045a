"""Folders as tar streams, in both directions; what comes out of a sandbox is hostile and is unpacked accordingly."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path, PurePosixPath

from .errors import InvalidArgument

MEMBERS = 100_000


def pack(source: Path) -> bytes:
    """The content of a host folder as a tar archive owned by root, links kept as links.

    Raises:
        InvalidArgument: `source` is no folder.
    """
    if not source.is_dir():
        raise InvalidArgument(f"{source} is not a folder")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.add(source, arcname=".", filter=_as_root)
    return buffer.getvalue()


def _as_root(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if member.name == ".":
        member.mode = 0o755  # often a private temporary folder on the host
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member if member.isfile() or member.isdir() or member.issym() or member.islnk() else None


def unpack(data: bytes, target: Path, *, limit: int) -> list[str]:
    """Unpack a hostile archive into a new or empty folder; return the members left out.

    Regular files and folders come first, into a tree that then holds no link, so nothing can lead outside. Symbolic
    links are made last, and only those that point inside lexically. Devices, pipes and the like are left out.
    Modes keep the owner's bits and the execute bits; owners, set-id bits and times do not come along.

    Raises:
        InvalidArgument: `target` exists and is not an empty folder.
        OSError: the archive is broken, too large or has too many members.
    """
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise InvalidArgument(f"{target} must be empty to receive a folder of a sandbox")
    left_out: list[str] = []
    links: list[tuple[Path, str]] = []
    files: dict[str, Path] = {}
    size = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for count, member in enumerate(archive):
                parts = PurePosixPath(member.name).parts
                size += member.size if member.isreg() else 0
                if size > limit or count > MEMBERS:
                    raise OSError(f"the folder is larger than {limit} bytes or {MEMBERS} members")
                if member.name.startswith("/") or ".." in parts or "\0" in member.name:
                    left_out.append(member.name)
                    continue
                path = target.joinpath(*parts)
                try:
                    if member.isdir():
                        path.mkdir(parents=True, exist_ok=True)
                    elif member.isreg() or (member.islnk() and _key(member.linkname) in files):
                        path.parent.mkdir(parents=True, exist_ok=True)
                        content = archive.extractfile(member) if member.isreg() else None
                        body = content.read() if content is not None else files[_key(member.linkname)].read_bytes()
                        size += 0 if member.isreg() else len(body)
                        path.unlink(missing_ok=True)
                        path.write_bytes(body)
                        path.chmod((member.mode & 0o755) | 0o600)
                        files[_key(member.name)] = path
                    elif member.issym() and _stays_inside(parts, member.linkname):
                        links.append((path, member.linkname))
                    else:
                        left_out.append(member.name)
                except (FileExistsError, NotADirectoryError, IsADirectoryError):  # one name twice, as file and folder
                    left_out.append(member.name)
    except (tarfile.TarError, UnicodeError, ValueError) as error:
        raise OSError(f"a broken archive came out of the sandbox: {error}") from error
    for path, goal in links:
        above = path.relative_to(target).parents
        if path.is_symlink() or path.exists() or any((target / parent).is_symlink() for parent in above):
            left_out.append(path.relative_to(target).as_posix())
            continue
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(goal)
        except (FileExistsError, NotADirectoryError):  # a file stands where its folder would
            left_out.append(path.relative_to(target).as_posix())
    return left_out


def _key(name: str) -> str:
    return PurePosixPath(name).as_posix()


def _stays_inside(parts: tuple[str, ...], goal: str) -> bool:
    if goal.startswith("/") or "\0" in goal or not goal:
        return False
    steps = [part for part in goal.split("/") if part not in ("", ".")]
    up = 0
    while up < len(steps) and steps[up] == "..":
        up += 1
    return up < len(parts) and ".." not in steps[up:]  # a ".." after a name could climb out of another link's goal
