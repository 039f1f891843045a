"""Git and the state's key: an index without its times, and repositories that are equal in two sandboxes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sandlot.envs.terminal.env import TerminalEnv
from sandlot.envs.terminal.git_objects import Repository
from sandlot.sandboxes.errors import SandboxUnavailable
from sandlot.sandboxes.namespace.git_index import is_index, timeless


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def repository(folder: Path) -> Path:
    made = Repository()
    made.commit({"a.txt": "1\n", "b/c.py": "x\n"}, "first")
    made.commit({"a.txt": "2\n", "b/c.py": "x\n"}, "second")
    made.commit({"a.txt": "3\n", "b/c.py": "x\n"}, "third", "side")
    for name, data in made.files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    return folder


def test_git_accepts_what_was_written_without_it(tmp_path: Path) -> None:
    folder = repository(tmp_path / "r")
    assert git(folder, "status", "--short") == ""
    assert [line.split(" ", 1)[1] for line in git(folder, "log", "--oneline", "--all").splitlines()] == [
        *("third", "second", "first"),
    ]
    assert git(folder, "fsck", "--strict") == ""
    assert git(folder, "show", "side:a.txt") == "3\n"


def test_an_index_says_the_same_without_its_times(tmp_path: Path) -> None:
    folder = repository(tmp_path / "r")
    index = folder / ".git" / "index"
    assert is_index(str(index)) and is_index(".git/index") and not is_index("/x/index")
    before = timeless(index.read_bytes())
    (folder / "a.txt").touch()
    git(folder, "update-index", "--really-refresh")
    assert timeless(index.read_bytes())[: len(before)] == before  # the times have changed, and nothing else
    (folder / "d").write_text("new")
    git(folder, "add", "d")
    assert timeless(index.read_bytes()) != before
    git(folder, "update-index", "--chmod=+x", "a.txt")
    assert b"a.txt" in timeless(index.read_bytes())
    for odd in (b"", b"DIRC", b"DIRC\0\0\0\2\0\0\0\x09short", b"DIRC\0\0\0\4\0\0\0\0", b"\0" * 99):
        assert timeless(odd) == odd


def test_equal_repositories_have_equal_keys() -> None:
    keys = []
    for _ in range(2):
        env = TerminalEnv(backend="namespace", max_steps=30)
        try:
            env.reset(options={"task": "terminal/gen1/train/git-1/0"})
        except SandboxUnavailable as error:
            pytest.skip(f"no sandbox here: {error}")
        commands = [*list(env.oracle())[:-1], "echo > x; git add x", "git reset -q x", "git add x", "git commit -qm x"]
        keys.append([env.step(command)[4]["state_key"] for command in commands])
        env.close()
    assert keys[0] == keys[1]
    added, reset, again = keys[0][-4:-1]
    assert added == again != reset
