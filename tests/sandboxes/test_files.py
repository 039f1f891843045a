"""The contract of every backend: files and branch points."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Backend

from sandlot.sandboxes import Mount, SandboxSpec, SyncSandbox
from sandlot.sandboxes.errors import InvalidArgument

FRESH = True  # each test needs the first files
Needs = Callable[[str], None]


@pytest.fixture
def folder(box: SyncSandbox, tmp_path: Path) -> str:
    """A folder inside that nothing else uses."""
    return "/work" if box.capabilities.secure else f"{tmp_path}/work"


def test_put_and_get(box: SyncSandbox, folder: str, tmp_path: Path) -> None:
    data = bytes(range(256)) * 5000
    box.put(data, f"{folder}/deep/er/file", mode=0o640)
    assert box.get(f"{folder}/deep/er/file") == data
    assert box.exec(["stat", "-c", "%a %s", f"{folder}/deep/er/file"]).text == f"640 {len(data)}\n"
    (tmp_path / "host").write_bytes(b"from a file")
    box.put(tmp_path / "host", f"{folder}/deep/er/file")
    assert box.get(f"{folder}/deep/er/file") == b"from a file"
    box.put(b"", f"{folder}/empty")
    assert box.get(f"{folder}/empty") == b""
    box.put(b"x", f"{folder}/a b\n'\"$é")
    assert box.get(f"{folder}/a b\n'\"$é") == b"x"


def test_what_cannot_be_read(box: SyncSandbox, folder: str) -> None:
    box.put(b"12345", f"{folder}/file")
    box.exec(["mkfifo", f"{folder}/pipe"])
    with pytest.raises(FileNotFoundError):
        box.get(f"{folder}/missing")
    for path in (folder, f"{folder}/pipe", "/dev/zero"):
        with pytest.raises(OSError):
            box.get(path)
    with pytest.raises(OSError, match="larger"):
        box.get(f"{folder}/file", limit=4)
    assert box.get(f"{folder}/file", limit=5) == b"12345"
    for path in ("relative", "/nul\0byte"):
        with pytest.raises(InvalidArgument):
            box.get(path)


def test_what_cannot_be_written(box: SyncSandbox, folder: str) -> None:
    box.put(b"x", f"{folder}/file")
    with pytest.raises(OSError):
        box.put(b"x", f"{folder}/file/below")
    box.exec(["mkdir", f"{folder}/dir"])
    with pytest.raises(OSError):
        box.put(b"x", f"{folder}/dir")


def test_a_link_is_replaced_and_not_followed_when_written(box: SyncSandbox, folder: str) -> None:
    box.put(b"old", f"{folder}/goal")
    box.exec(["ln", "-s", f"{folder}/goal", f"{folder}/link"])
    box.put(b"new", f"{folder}/link")
    assert (box.get(f"{folder}/goal"), box.get(f"{folder}/link")) == (b"old", b"new")


def test_folders(box: SyncSandbox, folder: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub" / "empty").mkdir(parents=True)
    (source / "sub" / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (source / "sub" / "run.sh").chmod(0o755)
    (source / "link").symlink_to("sub/run.sh")
    box.put_dir(source, f"{folder}/copy")
    assert box.exec([f"{folder}/copy/link"]).stdout == b"ran\n"
    box.exec(f"cd {folder}/copy && ln sub/run.sh hard && chmod 600 sub/run.sh")
    assert box.get_dir(f"{folder}/copy", tmp_path / "back") == []
    back = tmp_path / "back"
    assert (back / "hard").read_bytes() == (back / "sub" / "run.sh").read_bytes() == (source / "link").read_bytes()
    assert (back / "link").readlink() == Path("sub/run.sh") and (back / "sub" / "empty").is_dir()
    with pytest.raises(InvalidArgument, match="empty"):
        box.get_dir(f"{folder}/copy", back)
    with pytest.raises(FileNotFoundError):
        box.get_dir(f"{folder}/missing", tmp_path / "x")
    with pytest.raises(InvalidArgument):
        box.put_dir(tmp_path / "no-such-folder", folder)
    with pytest.raises(OSError, match="larger"):
        box.get_dir(f"{folder}/copy", tmp_path / "y", limit=5)


def test_nothing_of_a_folder_leads_out_of_it(box: SyncSandbox, folder: str, tmp_path: Path) -> None:
    """The links that a hostile process leaves are not made on the host."""
    (tmp_path / "secret").write_text("secret")
    box.exec(
        f"mkdir -p {folder}/d && cd {folder} && ln -s {tmp_path}/secret abs && ln -s ../secret up"
        " && ln -s d/../../secret via && ln -s .. d/back && ln -s d/back/.. chain && mkfifo pipe && echo ok > d/f"
    )
    left_out = box.get_dir(folder, tmp_path / "out")
    assert sorted(Path(name).name for name in left_out if "pipe" not in name) == ["abs", "chain", "up", "via"]
    inside = (tmp_path / "out").resolve()
    assert all(path.resolve().is_relative_to(inside) for path in inside.rglob("*"))
    assert (inside / "d" / "f").read_text() == "ok\n" and not (inside / "pipe").exists()


def test_mounts_are_read_only(sandbox_backends: Backend, tmp_path: Path) -> None:
    if not sandbox_backends.make().capabilities.secure:
        pytest.skip("it has no mounts")
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "f").write_text("shown")
    (tmp_path / "one").write_text("one")
    tmp_path.chmod(0o700)
    mounts = (Mount(tmp_path / "shown", "/data/shown"), Mount(tmp_path / "one", "/data/one"))
    box = sandbox_backends(SandboxSpec(mounts=mounts))
    assert box.exec("cat /data/shown/f /data/one").stdout == b"shownone"
    assert box.exec("echo x > /data/shown/f || echo x > /data/shown/new || echo x > /data/one").exit_code != 0
    assert box.exec("rm -rf /data/shown/f").exit_code != 0
    assert (tmp_path / "shown" / "f").read_text() == "shown" and (tmp_path / "one").read_text() == "one"
    for target in ("relative", "/", "/a/../../b"):
        with pytest.raises(InvalidArgument):
            Mount(tmp_path, target)


CHANGES = """
echo new > /etc/new; rm /etc/passwd; mkdir -p /w/d; echo 1 > /w/d/f; ln -s d/f /w/l; ln /w/d/f /w/h; chmod 711 /w
mkfifo /w/p; rm -rf /srv; mkdir /srv; echo 'a b' > '/w/with space'; truncate -s 1M /w/sparse
"""
LOOK = "cat /etc/new /w/l /w/h; ls /etc/passwd 2>&1; stat -c '%n %a %F %s' /w /w/* /srv; readlink /w/l"


def test_reset(box: SyncSandbox, needs: Needs) -> None:
    needs("snapshot")
    box.exec("sleep 1357 & " + CHANGES)
    box.reset()
    assert box.exec("ls /w /etc/new").exit_code != 0 and box.exec("test -f /etc/passwd").exit_code == 0
    assert b"1357" not in box.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout


def test_snapshot_and_restore(sandbox_backends: Backend, box: SyncSandbox, needs: Needs) -> None:
    needs("snapshot")
    first = box.snapshot()
    box.exec(CHANGES)
    seen, mark = box.exec(LOOK).stdout, box.fingerprint()
    snapshot = box.snapshot()
    box.exec("rm -rf /w /etc/new; echo other > /etc/passwd; sleep 2468 & true")
    assert box.fingerprint() != mark
    for _ in range(2):
        box.restore(snapshot)
        assert box.exec(LOOK).stdout == seen and box.fingerprint() == mark
        assert b"2468" not in box.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout
    assert box.exec("echo 2 >> /w/h; cat /w/d/f").stdout == b"1\n2\n"  # still one file with two names
    box.restore(first)
    assert box.exec("test -e /w || test -e /etc/new || ! test -f /etc/passwd").exit_code != 0
    with pytest.raises(InvalidArgument):
        box.restore(type(snapshot)("elsewhere", snapshot.image, snapshot.data))
    with pytest.raises(InvalidArgument):
        box.restore(type(snapshot)(snapshot.backend, "other", snapshot.data))
    if sandbox_backends.name != "docker":  # its snapshots are images of the daemon
        other = sandbox_backends()
        other.restore(pickle.loads(pickle.dumps(snapshot)))
        assert other.exec(LOOK).stdout == seen


def test_fork(box: SyncSandbox, needs: Needs) -> None:
    needs("snapshot")
    box.put(b"1", "/tmp/a")
    with box.fork() as other:
        assert other.get("/tmp/a") == b"1"
        other.put(b"2", "/tmp/a")
        box.put(b"3", "/tmp/b")
        assert box.get("/tmp/a") == b"1"
        with pytest.raises(FileNotFoundError):
            other.get("/tmp/b")


def test_fingerprints(box: SyncSandbox, needs: Needs) -> None:
    needs("snapshot")
    first = box.fingerprint()
    assert box.fingerprint() == first
    steps = (
        "mkdir -p /w/d; echo 1 > /w/f",
        "echo 2 > /w/f",
        "chmod 600 /w/f",
        "ln -s f /w/l",
        "ln -sfn g /w/l",
        "rm /etc/passwd",
        "mv /w/f /w/d/f",
    )
    seen = [first]
    for step in steps:
        assert box.exec(step).exit_code == 0
        seen.append(box.fingerprint())
    assert len(set(seen)) == len(seen)
    box.exec("touch -d 2001-01-01 /w/d /w/d/f; cat /w/d/f")
    assert box.fingerprint() == seen[-1]  # times do not count
    box.reset()
    for step in steps:
        box.exec(step)
    assert box.fingerprint() == seen[-1]  # nor does when and where it was done
    part = box.fingerprint(["/w/d"])
    box.exec("echo x > /etc/other")
    assert box.fingerprint(["/w/d"]) == part and box.fingerprint() != seen[-1]
    box.exec("echo x >> /w/d/f")
    assert box.fingerprint(["/w/d"]) != part
