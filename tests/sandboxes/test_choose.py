"""Choosing a backend, what a person is told, and what is reaped."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sandlot.cli import app
from sandlot.sandboxes import DockerImage, SandboxSpec, SyncSandbox, choose
from sandlot.sandboxes.errors import InvalidArgument, SandboxUnavailable
from sandlot.sandboxes.namespace.cgroups import PREFIX
from sandlot.sandboxes.oci.sandbox import find_runtime
from sandlot.sandboxes.reap import reap_folders, reap_groups


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "_STARTS", {})
    find_runtime.cache_clear()


def needs_one() -> None:
    try:
        choose.default_sandbox()
    except SandboxUnavailable as error:
        pytest.skip(str(error))


def test_the_first_that_works_is_taken_and_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    needs_one()
    tried: list[str] = []
    real = choose.probe

    def counting(backend: str, image: object = None) -> choose.Probe:
        tried.append(backend)
        return real(backend, image)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(choose, "_STARTS", {})
    monkeypatch.setattr(choose, "probe", counting)
    first, second = choose.default_sandbox(), choose.default_sandbox()
    assert first.name == second.name == tried[-1]
    assert tried == list(choose.ORDER[: len(tried)])
    with SyncSandbox(first) as box:
        assert box.exec("echo works").stdout == b"works\n"


def test_without_a_runtime_the_next_one_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = choose.probe("oci")
    assert not found.works
    assert found.reason == "no crun or runc on PATH" and found.fix == "apt-get install crun"
    if choose.probe("namespace").works:
        assert choose.default_sandbox().name == "namespace"


def test_when_nothing_works_all_reasons_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(backend: str, image: object = None) -> choose.Probe:
        return choose.Probe(backend, False, f"{backend} is broken", f"mend {backend}")

    monkeypatch.setattr(choose, "probe", failing)
    with pytest.raises(SandboxUnavailable) as caught:
        choose.default_sandbox(SandboxSpec(image=DockerImage("none")))
    for backend in choose.ORDER:
        assert f"{backend} is broken" in str(caught.value) and f"mend {backend}" in str(caught.value)


def test_a_choice_is_kept() -> None:
    assert choose.default_sandbox(prefer="namespace").name == "namespace"
    assert choose.make_sandbox("oci").name == "oci"
    with pytest.raises(InvalidArgument, match="auto, oci, namespace, docker"):
        choose.make_sandbox("podman")


def test_a_missing_daemon_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    found = choose.probe("docker")
    assert not found.works and "no Docker daemon answers" in found.reason and "DOCKER_HOST" in found.fix
    monkeypatch.setenv("DOCKER_HOST", "ssh://somewhere")
    assert "unix:///… or tcp://host:port" in choose.probe("docker").reason


def test_check_tells_a_person(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.setenv("COLUMNS", "100")
    done = CliRunner().invoke(app, ["sandbox", "check"])
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert "no Docker daemon answers" in rows["docker"]
    works = [name for name in choose.ORDER if " yes " in rows[name]]
    assert done.exit_code == (0 if works else 1)
    assert (f"{works[0]} is used" if works else "No sandbox works here") in done.stdout


def test_groups_of_the_dead_are_reaped(tmp_path: Path) -> None:
    """On ordinary folders: the rule is the same, and no control group is needed."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    dead, live = (
        tmp_path / "memory" / f"{PREFIX}{done.pid}-0123abcd",
        tmp_path / "memory" / f"{PREFIX}{os.getpid()}-0123abcd",
    )
    foreign, used = tmp_path / "docker", tmp_path / f"{PREFIX}{done.pid}-4567cdef"
    for folder in (dead, live, foreign, used / "member"):
        folder.mkdir(parents=True)
    assert reap_groups(tmp_path) == [f"control group {dead}"]
    assert not dead.exists() and live.exists() and foreign.exists() and used.exists()


def test_old_folders_are_reaped(tmp_path: Path) -> None:
    old, new, other = (tmp_path / name for name in ("sandlot-local-a", "sandlot-local-b", "other"))
    for folder in (old, new, other):
        folder.mkdir()
    yesterday = time.time() - 90_000
    os.utime(old, (yesterday, yesterday))
    os.utime(other, (yesterday, yesterday))
    assert reap_folders(tmp_path) == [f"folder {old}"]
    assert not old.exists() and new.exists() and other.exists()
