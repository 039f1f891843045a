"""Control groups: the real ones of this machine, and version 2 on a made-up tree where this machine has version 1."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sandlot.sandboxes import Limits
from sandlot.sandboxes.namespace import cgroups
from sandlot.sandboxes.namespace.cgroups import Groups


def test_the_groups_of_this_machine() -> None:
    groups = Groups.create(Limits(memory=64 << 20, pids=50, cpu=0.5))
    if not groups.folders:
        pytest.skip("no control groups may be made here")
    folders = list(groups.folders.values())
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        groups.add(sleeper.pid)
        for folder in groups.folders.values():
            assert str(sleeper.pid) in (folder / "cgroup.procs").read_text().split()
        if "pids" in groups.folders:
            assert (groups.folders["pids"] / "pids.max").read_text().strip() == str(50 + cgroups.HEADROOM)
        assert groups.oom_kills() == 0
        assert not groups.remove()  # in use
    finally:
        sleeper.kill()
        sleeper.wait()
    assert groups.remove() and groups.remove()
    assert not any(folder.exists() for folder in folders)


def tree(top: Path, unified: str, controllers: str) -> None:
    """A version 2 hierarchy as files: every group has the controllers, and its children those that were asked for."""
    for folder in (top, *(top / part for part in (unified.strip("/"),))):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.controllers").write_text(controllers)
        (folder / "cgroup.subtree_control").write_text("")


@pytest.mark.parametrize(
    ("root", "path", "below"),
    [
        ("/", "/user.slice/app", "user.slice/app"),  # the host's own hierarchy
        ("/docker/x", "/docker/x/app", "app"),  # a container that sees the host's paths
        ("/", "/", ""),  # one that sees its own
    ],
)
def test_paths_below_a_mount(root: str, path: str, below: str) -> None:
    assert cgroups._below(Path("/sys/fs/cgroup"), root, path) == Path("/sys/fs/cgroup", below)


def test_version_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings that are written; that the kernel holds them is not seen here."""
    parent = tmp_path / "slice"
    tree(tmp_path, "slice", "cpu memory pids")
    monkeypatch.setattr(cgroups, "_parents", lambda: iter([(name, parent, 2) for name in ("memory", "pids", "cpu")]))
    groups = Groups.create(Limits(memory=1 << 20, pids=9, cpu=1.5))
    (folder,) = set(groups.folders.values())
    assert set(groups.folders) == {"memory", "pids", "cpu"} and groups.version == 2
    assert (folder / "memory.max").read_text() == str(1 << 20)
    assert (folder / "pids.max").read_text() == str(9 + cgroups.HEADROOM)
    assert (folder / "cpu.max").read_text() == "150000 100000"
    groups.add(1234)
    assert (folder / "cgroup.procs").read_text() == "1234"
    (folder / "memory.events").write_text("low 0\nhigh 0\nmax 5\noom 3\noom_kill 2\noom_group_kill 0\n")
    assert groups.oom_kills() == 2
    for file in folder.iterdir():
        file.unlink()
    assert groups.remove() and not folder.exists()


def test_controllers_of_version_2_are_asked_for(tmp_path: Path) -> None:
    tree(tmp_path, "slice", "cpu io memory")
    cgroups._enabled(tmp_path / "slice")
    assert (tmp_path / "slice" / "cgroup.subtree_control").read_text() == "+cpu"  # a file keeps the last request only
    assert cgroups._enabled(tmp_path / "missing") == []
    (tmp_path / "slice" / "cgroup.subtree_control").write_text("cpu memory pids")
    (tmp_path / "slice" / "cgroup.controllers").write_text("")
    assert cgroups._enabled(tmp_path / "slice") == ["memory", "pids", "cpu"]


def test_what_dead_processes_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    names = (f"sandlot-{dead.pid}-01234567", f"sandlot-{os.getpid()}-01234567", "sandlot-daemon-x", "other")
    for name in names:
        (tmp_path / name).mkdir()
    monkeypatch.setattr(cgroups, "_parents", lambda: iter([("memory", tmp_path, 1)]))
    assert cgroups.reap() == [tmp_path / names[0]]
    assert {path.name for path in tmp_path.iterdir()} == set(names[1:])
