"""Compressed formats without compression: the same bytes on every machine, where compressors differ."""

from __future__ import annotations

import zlib


def zlib_stored(data: bytes) -> bytes:
    """`data` as a zlib stream (RFC 1950) of stored blocks."""
    return b"\x78\x01" + _blocks(data) + zlib.adler32(data).to_bytes(4, "big")


def gzip_stored(data: bytes) -> bytes:
    """`data` as a gzip file (RFC 1952) of stored blocks, without name and time."""
    head = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
    return head + _blocks(data) + zlib.crc32(data).to_bytes(4, "little") + (len(data) % 2**32).to_bytes(4, "little")


def _blocks(data: bytes) -> bytes:
    """Stored blocks of deflate (RFC 1951): a flag on the last, the length, its complement, the bytes."""
    pieces = [data[start : start + 65535] for start in range(0, len(data), 65535)] or [b""]
    return b"".join(
        bytes([number == len(pieces) - 1])
        + len(piece).to_bytes(2, "little")
        + (len(piece) ^ 0xFFFF).to_bytes(2, "little")
        + piece
        for number, piece in enumerate(pieces)
    )
