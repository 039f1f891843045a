"""A Git repository as plain files, written without Git: the same bytes on every machine."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha1

from .stored import zlib_stored

_FIRST_COMMIT = 1_700_000_000  # seconds since 1970; commits are an hour apart
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n"
_USER = "[user]\n\tname = Dev\n\temail = dev@example.com\n[safe]\n\tdirectory = *\n[advice]\n\tdetachedHead = false\n"
_ZERO = "0" * 40


class Repository:
    """Commits on branches; `files()` are those of a working tree with its `.git` folder.

    The tree is flat or nested; all files have mode 100644. Without an index, `git status` would show every file as
    deleted: `files()` writes one whose stat data is zero, which makes Git look at the contents.
    """

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._refs: dict[str, str] = {}
        self._trees: dict[str, dict[str, str]] = {}
        self._log: list[str] = []
        self._count = 0

    def commit(self, files: Mapping[str, str], message: str, branch: str = "main", author: str = "Dev") -> str:
        """Add a commit on top of `branch` (made at its first commit) with exactly these files; returns its id."""
        return self.commit_on(self._refs.get(branch), files, message, branch, author)

    def commit_on(
        self, parent: str | None, files: Mapping[str, str], message: str, branch: str | None, author: str = "Dev"
    ) -> str:
        """Add a commit with this parent; `branch` moves there, None leaves it without a name."""
        seconds = _FIRST_COMMIT + 3600 * self._count
        self._count += 1
        who = f"{author} <{author.lower()}@example.com> {seconds} +0000"
        lines = [f"tree {self._tree(files)}", *([f"parent {parent}"] if parent else [])]
        text = "\n".join([*lines, f"author {who}", f"committer {who}", "", message]) + "\n"
        name = self._write("commit", text.encode())
        self._trees[name] = dict(files)
        if branch is not None:
            self._refs[branch] = name
        self._log.append(f"{parent or _ZERO} {name} {who}\tcommit: {message}")
        return name

    def move(self, branch: str, commit: str) -> None:
        """Point `branch` at `commit`, as `git reset --hard` does."""
        old = self._refs.get(branch, _ZERO)
        self._refs[branch] = commit
        who = f"Dev <dev@example.com> {_FIRST_COMMIT + 3600 * self._count} +0000"
        self._log.append(f"{old} {commit} {who}\treset: moving to {commit[:7]}")

    def delete(self, branch: str) -> None:
        """Forget the branch; its commits stay."""
        del self._refs[branch]

    def files(self, head: str = "main", *, at: str = "", reflog: bool = True) -> dict[str, str | bytes]:
        """The working tree of branch `head` and `.git`, with paths below `at`."""
        tree = self._trees[self._refs[head]]
        git: dict[str, str | bytes] = {
            "HEAD": f"ref: refs/heads/{head}\n",
            "config": _CONFIG + _USER,
            "index": _index(tree),
            **{f"refs/heads/{branch}": f"{name}\n" for branch, name in sorted(self._refs.items())},
            **{f"objects/{name[:2]}/{name[2:]}": data for name, data in sorted(self._objects.items())},
        }
        if reflog:
            git["logs/HEAD"] = "".join(f"{line}\n" for line in self._log)
        found: dict[str, str | bytes] = {f"{at}{path}": text for path, text in sorted(tree.items())}
        return {**found, **{f"{at}.git/{path}": data for path, data in git.items()}}

    def _tree(self, files: Mapping[str, str]) -> str:
        entries: dict[str, tuple[str, str]] = {}
        for folder in {path.split("/")[0] for path in files if "/" in path}:
            below = {path[len(folder) + 1 :]: text for path, text in files.items() if path.startswith(f"{folder}/")}
            entries[folder] = ("40000", self._tree(below))
        for path, text in files.items():
            if "/" not in path:
                entries[path] = ("100644", self._write("blob", text.encode()))
        ordered = sorted(entries.items(), key=lambda item: item[0] + ("/" if item[1][0] == "40000" else ""))
        body = b"".join(f"{mode} {name}\0".encode() + bytes.fromhex(key) for name, (mode, key) in ordered)
        return self._write("tree", body)

    def _write(self, kind: str, body: bytes) -> str:
        data = f"{kind} {len(body)}\0".encode() + body
        name = sha1(data, usedforsecurity=False).hexdigest()
        self._objects[name] = zlib_stored(data)
        return name


def _index(tree: Mapping[str, str]) -> bytes:
    """A version 2 index of these files with zero stat data."""
    body = b"DIRC" + (2).to_bytes(4, "big") + len(tree).to_bytes(4, "big")
    for path, text in sorted(tree.items()):
        blob = f"blob {len(text.encode())}\0".encode() + text.encode()
        entry = bytes(24) + (0o100644).to_bytes(4, "big") + bytes(8) + len(text.encode()).to_bytes(4, "big")
        entry += sha1(blob, usedforsecurity=False).digest() + min(len(path), 0xFFF).to_bytes(2, "big") + path.encode()
        body += entry + bytes(8 - len(entry) % 8)
    return body + sha1(body, usedforsecurity=False).digest()
