"""Git's index without the times and inode numbers in it, so that equal repositories have equal fingerprints.

Runs in the zygote's children: the standard library and this folder only.
"""

from __future__ import annotations

NAMES = (".git/index", "/.git/index")
HEAD = 12  # bytes: DIRC, version, number of entries
STAT = 24  # bytes at the start of an entry: times of change and modification, device, inode
FIXED = 62  # bytes of an entry before its path


def is_index(path: str) -> bool:
    """Whether a file of this name is a repository's index."""
    return path.endswith(NAMES)


def timeless(data: bytes) -> bytes:
    """What an index says: mode, object, flags and path of each entry. Data of another form comes back as it is.

    The format: https://git-scm.com/docs/index-format (versions 2 and 3; version 4 shortens paths and is left alone).
    """
    if data[:4] != b"DIRC" or int.from_bytes(data[4:8], "big") not in (2, 3):
        return data
    said = [data[:HEAD]]
    at = HEAD
    for _ in range(int.from_bytes(data[8:12], "big")):
        flags = int.from_bytes(data[at + 60 : at + FIXED], "big")
        path = at + FIXED + (2 if flags & 0x4000 else 0)  # extended flags
        end = data.find(b"\0", path)
        if end < 0:
            return data
        said += [data[at + STAT : at + STAT + 4], data[at + 40 : end], b"\0"]
        at += (end - at + 8) // 8 * 8  # one to eight zero bytes follow the path
    return b"".join(said)
