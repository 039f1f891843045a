"""Root file systems: the host's own programs, copies for another owner, and what is made once."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from sandlot.sandboxes import DockerImage, HostImage, RootfsImage, rootfs
from sandlot.sandboxes.errors import InvalidArgument, SandboxUnavailable

UID = 64000 if os.getuid() == 0 else os.getuid()


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rootfs, "cache_folder", lambda: tmp_path / "cache")
    rootfs._host.cache_clear()
    rootfs.owned.cache_clear()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    top = tmp_path / "root"
    for name in ("bin", "etc", "usr/lib"):
        (top / name).mkdir(parents=True)
    (top / "etc" / "f").write_text("x")
    (top / "bin" / "setuid").write_text("#!/bin/sh\n")
    (top / "bin" / "setuid").chmod(0o4755)
    (top / "lib").symlink_to("usr/lib")
    (top / "bad").symlink_to("/nowhere/at/all")
    return top


def owners(folder: Path) -> set[int]:
    return {path.lstat().st_uid for path in (folder, *folder.rglob("*"))}


def test_the_host_without_its_secrets() -> None:
    prepared = rootfs.prepare(HostImage(), UID)
    passwd = (prepared.lower / "etc" / "passwd").read_text()
    assert passwd.splitlines()[0].startswith("root:x:0:0:") and len(passwd.splitlines()) == 2
    assert not (prepared.lower / "etc" / "shadow").exists() and not list((prepared.lower / "root").iterdir())
    assert ("/usr", "/usr") in prepared.mounts and owners(prepared.lower) == {UID}
    assert all(source.startswith(("/usr", "/etc/", "/bin", "/sbin", "/lib")) for source, _ in prepared.mounts)
    assert rootfs.prepare(HostImage(), UID) is prepared


def test_a_copy_for_the_user_inside(source: Path) -> None:
    before = owners(source)
    prepared = rootfs.prepare(RootfsImage(source), UID)
    assert owners(prepared.lower) == {UID} and owners(source) == before
    assert (prepared.lower / "etc" / "f").read_text() == "x" and (prepared.lower / "lib").is_symlink()
    assert (prepared.lower / "etc" / "hosts").read_text().startswith("127.0.0.1 localhost") or UID in before
    if os.getuid() == 0:
        assert prepared.lower != source
        assert stat.S_IMODE((prepared.lower / "bin" / "setuid").stat().st_mode) == 0o4755
    again = rootfs.owned.__wrapped__(source, UID)  # another process finds it
    assert again == prepared
    (source / "etc" / "g").write_text("new")
    assert rootfs.owned.__wrapped__(source, UID).key != prepared.key  # a changed original is another image


def test_the_folder_itself_if_its_owner_fits(source: Path) -> None:
    if os.getuid() == 0:
        for path in (source, *source.rglob("*")):
            os.lchown(path, UID, UID)
    assert rootfs.owned(source, UID).lower == source


def test_what_is_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="not a root file system"):
        rootfs.prepare(RootfsImage(tmp_path), UID)


def test_docker_images_need_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SandboxUnavailable, match="docker"):
        rootfs.prepare(DockerImage("debian:12"), UID)


@pytest.mark.docker
def test_a_docker_image_is_exported(docker_url: str, source: Path) -> None:
    assert docker_url
    archive = subprocess.run(["tar", "-C", str(source), "-c", "."], capture_output=True, check=True).stdout
    subprocess.run(["docker", "import", "-", "sandlot-test:export"], input=archive, capture_output=True, check=True)
    try:
        prepared = rootfs.prepare(DockerImage("sandlot-test:export"), UID)
        assert (prepared.lower / "etc" / "f").read_text() == "x" and owners(prepared.lower) == {UID}
        with pytest.raises(SandboxUnavailable, match="docker pull"):
            rootfs.prepare(DockerImage("sandlot-test:no-such-tag"), UID)
    finally:
        subprocess.run(["docker", "rmi", "sandlot-test:export"], capture_output=True, check=True)
