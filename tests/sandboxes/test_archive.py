"""Folders that come out of a sandbox: hostile archives and what becomes of them."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.sandboxes.archive import pack, unpack
from sandlot.sandboxes.errors import InvalidArgument

Member = tuple[str, str, str]  # kind, name, content or goal
KINDS = {"file": tarfile.REGTYPE, "dir": tarfile.DIRTYPE, "sym": tarfile.SYMTYPE, "hard": tarfile.LNKTYPE}
KINDS |= {"char": tarfile.CHRTYPE, "fifo": tarfile.FIFOTYPE}


def archive(members: list[Member]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for kind, name, content in members:
            member = tarfile.TarInfo(name)
            member.type, member.mode = KINDS[kind], 0o6777
            if kind == "file":
                member.size = len(content.encode())
            else:
                member.linkname = content
            tar.addfile(member, io.BytesIO(content.encode()) if kind == "file" else None)
    return buffer.getvalue()


def test_good_members(tmp_path: Path) -> None:
    data = archive(
        [
            ("dir", ".", ""),
            ("file", "./a/f", "text"),
            ("hard", "./a/h", "./a/f"),
            ("sym", "./a/l", "f"),
            ("sym", "l2", "a/l"),
            ("sym", "a/up", "../l2"),
        ]
    )
    assert unpack(data, tmp_path / "t", limit=100) == []
    assert {path.read_text() for path in (tmp_path / "t" / name for name in ("a/f", "a/h", "a/l", "l2", "a/up"))} == {
        "text"
    }
    assert (tmp_path / "t" / "a" / "f").stat().st_mode & 0o7777 == 0o755  # no set-id bits, nobody else may write


@pytest.mark.parametrize(
    "members",
    [
        [("file", "/abs", "x")],
        [("file", "../up", "x")],
        [("file", "a/../../up", "x")],
        [("sym", "l", "/etc/passwd")],
        [("sym", "l", "../x")],
        [("sym", "a/l", "../../x")],
        [("sym", "l", "")],
        [("hard", "h", "/etc/passwd")],
        [("hard", "h", "../x")],
        [("char", "c", "")],
        [("fifo", "p", "")],
        [("sym", "a/l", "f"), ("file", "a", "x")],
    ],
)
def test_bad_members_are_left_out(members: list[Member], tmp_path: Path) -> None:
    (tmp_path / "x").write_text("outside")
    assert unpack(archive(members), tmp_path / "t", limit=100) == [members[0][1]]
    assert list((tmp_path / "t").iterdir()) in ([], [tmp_path / "t" / "a"])


def test_a_link_never_becomes_a_way(tmp_path: Path) -> None:
    """Files are written before any link exists, so a link's name as a folder is just a folder."""
    (tmp_path / "out").mkdir()
    members: list[Member] = [
        ("sym", "d", str(tmp_path / "out")),
        ("file", "d/f", "x"),
        ("sym", "e", "d"),
        ("sym", "e/g", "f"),
    ]
    unpack(archive(members), tmp_path / "t", limit=100)
    assert list((tmp_path / "out").iterdir()) == [] and (tmp_path / "t" / "d" / "f").read_text() == "x"
    # l is the top itself, so m, whose text stays inside, would be above it
    deep: list[Member] = [("dir", "p/q", ""), ("sym", "p/q/l", "../.."), ("sym", "m", "p/q/l/../secret")]
    assert unpack(archive(deep), tmp_path / "u", limit=100) == ["m"]


NAMES = st.sampled_from(["a", "b", "a/b", "b/a", "a/b/c", ".", "..", "../a", "/a", "a/../b", "a/../../b"])


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(KINDS)), NAMES, NAMES), max_size=8))
def test_no_archive_reaches_out(members: list[Member]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder).resolve()
        unpack(archive(members), top / "in" / "t", limit=1000)
        assert sorted(path.name for path in top.iterdir()) == ["in"]
        assert sorted(path.name for path in (top / "in").iterdir()) == ["t"]
        for path in (top / "in" / "t").rglob("*"):
            if path.is_symlink():
                try:
                    goal = path.resolve()
                except (OSError, RuntimeError):
                    continue  # a loop
                assert goal.is_relative_to(top / "in" / "t")


def test_sizes(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="larger"):
        unpack(archive([("file", "a", "x" * 60), ("file", "b", "x" * 60)]), tmp_path / "t", limit=100)
    with pytest.raises(OSError, match="larger"):  # a hard link is a copy here, and counts
        unpack(archive([("file", "a", "x" * 60), ("hard", "b", "a"), ("file", "c", "")]), tmp_path / "u", limit=100)


def test_broken_archives(tmp_path: Path) -> None:
    data = archive([("file", "a", "x" * 3000)])
    for index, broken in enumerate((b"junk" * 200, data[:700])):
        with pytest.raises(OSError):
            unpack(broken, tmp_path / str(index), limit=10_000)


def test_pack_takes_links_as_links(tmp_path: Path) -> None:
    source = tmp_path / "s"
    source.mkdir(mode=0o700)
    (source / "f").write_text("x")
    (source / "l").symlink_to("/etc/passwd")
    with tarfile.open(fileobj=io.BytesIO(pack(source))) as tar:
        found = {member.name: member for member in tar}
    assert found["./l"].issym() and found["./f"].uid == 0 and found["."].mode == 0o755
    with pytest.raises(InvalidArgument):
        pack(source / "f")
