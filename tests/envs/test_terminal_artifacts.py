"""What an agent left, on its way into the verifier's sandbox: every trick of an archive comes to nothing."""

from __future__ import annotations

import contextlib
import io
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs.terminal.artifacts import Members, _cleaned, members
from sandlot.envs.terminal.task import Artifact, File

APP = Artifact("/app", "/app")


def packed(*entries: tuple[str, bytes | None, dict]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content, attributes in entries:
            entry = tarfile.TarInfo(name)
            entry.mode = 0o644
            for key, value in attributes.items():
                setattr(entry, key, value)
            entry.size = len(content or b"")
            archive.addfile(entry, io.BytesIO(content or b""))
    return stream.getvalue()


def kept(*entries: tuple[str, bytes | None, dict], artifact: Artifact = APP) -> dict[str, tuple[bytes, int, bytes]]:
    found: Members = _cleaned(packed(*entries), "app", artifact)
    return {entry.name: (entry.type, entry.mode, content) for entry, content in found}


FOLDER = {"type": tarfile.DIRTYPE, "mode": 0o755}


def link(to: str, kind: bytes = tarfile.SYMTYPE) -> dict:
    return {"type": kind, "linkname": to, "mode": 0o777}


def test_ordinary_files_keep_content_and_mode() -> None:
    found = kept((".", None, FOLDER), ("./a", b"1", {"mode": 0o640}), ("./b", None, FOLDER), ("./b/c", b"2", {}))
    assert found == {
        "app": (tarfile.DIRTYPE, 0o755, b""),
        "app/a": (tarfile.REGTYPE, 0o640, b"1"),
        "app/b": (tarfile.DIRTYPE, 0o755, b""),
        "app/b/c": (tarfile.REGTYPE, 0o644, b"2"),
    }


@pytest.mark.parametrize("name", ["/etc/passwd", "../tests/test.sh", "./x/../../tests/y", "..", "/"])
def test_names_that_lead_out_are_left_out(name: str) -> None:
    assert kept((name, b"x", {})) == {}


def test_nothing_is_written_through_a_link() -> None:
    assert set(kept(("./out", None, link("/tests")), ("./out/test.sh", b"x", {}))) == {"app/out"}
    assert set(kept(("./out/test.sh", b"x", {}), ("./out", None, link("/tests")))) == {"app/out"}
    entry = _cleaned(packed(("./l", None, link("/etc/shadow"))), "app", APP)[0][0]
    assert entry.issym() and entry.linkname == "/etc/shadow"  # a link stays a link: it is never followed here


def test_devices_pipes_and_special_bits_do_not_come_along() -> None:
    kinds = (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)
    assert kept(*((f"./d{number}", None, {"type": kind}) for number, kind in enumerate(kinds))) == {}
    assert kept(("./s", b"x", {"mode": 0o6755, "uid": 7, "uname": "eve"}))["app/s"] == (tarfile.REGTYPE, 0o755, b"x")


def test_hard_links_become_copies_and_only_within() -> None:
    found = kept(("./a", b"1", {}), ("./b", None, link("./a", tarfile.LNKTYPE)))
    assert found["app/b"] == (tarfile.REGTYPE, 0o777, b"1")
    assert kept(("./b", None, link("/etc/passwd", tarfile.LNKTYPE))) == {}


def test_destination_and_exclusions() -> None:
    moved = Artifact("/srv/data", "/elsewhere/x", ("*.tmp", "cache*"))
    found = kept((".", None, FOLDER), ("./a.tmp", b"", {}), ("./cache/b", b"", {}), ("./c", b"", {}), artifact=moved)
    assert set(found) == {"elsewhere/x", "elsewhere/x/c"}
    assert set(kept(("app", b"x", {}), artifact=Artifact("/var/app", "/var/app"))) == {"var/app"}  # one file


def test_placed_files_do_not_leave_their_root() -> None:
    found = members([File("a/../b", b""), File("/c", b"")], "/app")
    assert [entry.name for entry, _ in found] == ["app/b", "c"]


@given(st.binary(max_size=2000))
@settings(max_examples=50, deadline=None)
def test_any_bytes_are_an_archive_or_an_error(data: bytes) -> None:
    with contextlib.suppress(tarfile.TarError, OSError, ValueError, UnicodeError, EOFError):
        _cleaned(data, "app", APP)
