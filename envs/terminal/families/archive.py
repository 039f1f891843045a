"""Archive recovery: files inside archives inside encodings, some of them damaged."""

from __future__ import annotations

import base64
import io
import tarfile
import zipfile
from hashlib import sha256

from ..dice import Dice
from ..draft import Draft
from ..stored import gzip_stored

_CHECKS = """
def test_any_file():
    assert any((APP / "recovered" / name).is_file() for name in GOLD["files"])


def test_all_files():
    for name, text in GOLD["files"].items():
        assert read("recovered/" + name) == text, name


def test_nothing_else():
    found = {str(p.relative_to(APP / "recovered")) for p in (APP / "recovered").rglob("*") if p.is_file()}
    assert found == set(GOLD["files"])
"""


def draft(dice: Dice, level: int) -> Draft:
    """Level 1: a tar in a zip; 2: a tar in numbered parts in base64; 3: the same with damaged copies and checksums."""
    folder = dice.word()
    texts = {f"{folder}/{word}.txt": "".join(f"{dice.hex(24)}\n" for _ in range(3)) for word in dice.words(3)}
    packed = _tar(texts)
    return (_zipped, _parts, _damaged)[level - 1](dice, texts, packed)


def _zipped(dice: Dice, texts: dict[str, str], packed: bytes) -> Draft:
    name = f"{dice.word()}.bin"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("inner.tar"), packed)
    return Draft(
        instruction=(
            f"/app/{name} is a zip archive under another name, and in it is a tar archive. Unpack the files of the tar "
            "archive into /app/recovered, with the folder that they have there and without anything else."
        ),
        files={name: file.getvalue()},
        solution=(
            f"mkdir recovered && unzip -q -d /tmp/unpacked {name}",
            "tar -xf /tmp/unpacked/inner.tar -C recovered",
        ),
        checks=_CHECKS,
        gold={"files": texts},
        hint=f"unzip reads {name} whatever its name is; then tar -xf.",
    )


def _parts(dice: Dice, texts: dict[str, str], packed: bytes) -> Draft:
    lines = base64.encodebytes(gzip_stored(packed)).decode()
    word, count = dice.word(), dice.number(11, 13)
    size = -(-len(lines) // count)
    parts = {f"{word}.part{n + 1}": lines[n * size : (n + 1) * size] for n in range(count)}
    return Draft(
        instruction=(
            f"A gzip-compressed tar archive was encoded in base64 and cut into {count} pieces, /app/{word}.part1 to "
            f"/app/{word}.part{count}, to be joined in the order of their numbers. Unpack its files into "
            f"/app/recovered, "
            "with the folder that they have there and without anything else."
        ),
        files=parts,
        solution=(
            f"ls {word}.part* | sort -V | xargs cat | base64 -d > /tmp/whole.tgz",
            "mkdir recovered && tar -xzf /tmp/whole.tgz -C recovered",
        ),
        checks=_CHECKS,
        gold={"files": texts},
        hint="The shell sorts part10 before part2: use sort -V, then base64 -d and tar -xzf.",
    )


def _damaged(dice: Dice, texts: dict[str, str], packed: bytes) -> Draft:
    whole, word = gzip_stored(packed), dice.word()
    size = -(-len(whole) // 4)
    files: dict[str, str | bytes] = {}
    sums = []
    for number in range(4):
        piece = whole[number * size : (number + 1) * size]
        good = dice.choice("abc")
        for copy in "abc":
            data = piece
            if copy != good:
                at = dice.number(0, len(piece) - 1)
                data = piece[:at] + bytes([piece[at] ^ dice.number(1, 255)]) + piece[at + 1 :]
            files[f"{word}-{number}-{copy}"] = data
        sums.append(f"{sha256(piece).hexdigest()}  {word}-{number}\n")
    files["SHA256SUMS"] = "".join(sums)
    loop = (
        f"for n in 0 1 2 3; do for c in a b c; do [ \"$(sha256sum < {word}-$n-$c | cut -d' ' -f1)\" = "
        f"\"$(grep '{word}-'$n'$' SHA256SUMS | cut -d' ' -f1)\" ] && cat {word}-$n-$c; done; done > /tmp/whole.tgz"
    )
    return Draft(
        instruction=(
            f"A gzip-compressed tar archive was cut into four pieces, and each was stored three times: "
            f"/app/{word}-N-a, "
            f"/app/{word}-N-b and /app/{word}-N-c for N from 0 to 3. Only one copy of each piece is undamaged; "
            "/app/SHA256SUMS holds the pieces' checksums. Join the good copies in order and unpack the archive's files "
            "into /app/recovered, with the folder that they have there and without anything else."
        ),
        files=files,
        solution=(loop, "mkdir recovered && tar -xzf /tmp/whole.tgz -C recovered"),
        checks=_CHECKS,
        gold={"files": texts},
        hint="sha256sum of each copy against SHA256SUMS tells the good ones; then cat them and tar -xzf.",
    )


def _tar(texts: dict[str, str]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, text in sorted(texts.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return file.getvalue()
