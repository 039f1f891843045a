"""Agent text on its way to a program."""

from __future__ import annotations

import re

NO_BYTES = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # lone surrogates that stand for no byte


def encode(text: str) -> bytes:
    """Bytes of any Python string: UTF-8; undecodable bytes restored; other lone surrogates become U+FFFD."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return NO_BYTES.sub("\ufffd", text).encode("utf-8", "surrogateescape")
