"""The words, numbers and marks of a goal's text."""

from __future__ import annotations

import re
from typing import NamedTuple

from .errors import BlueprintError

_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)|(?P<string>"(?:[^"\\]|\\.)*")|(?P<clock>\d{1,2}:\d\d(?::\d\d)?)"""
    r"""|(?P<number>-?\d+(?:\.\d+)?(?:e-?\d+)?)|(?P<word>[A-Za-z_*?][\w*?]*(?:\.[\w*?]+)*)|(?P<mark><=|>=|!=|[-+<>=()\[\],])"""
)


class Token(NamedTuple):
    """One of them; the last of a text is of the kind "end"."""

    kind: str
    """"string", "clock", "number", "word", "mark" or "end"."""
    text: str
    at: int
    """Characters before it."""


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text. Raises `BlueprintError` at a character that begins none."""
    found, at = list[Token](), 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise BlueprintError(place(text, at), "a word, a number or a mark", repr(text[at]))
        if match.lastgroup != "space":
            found.append(Token(str(match.lastgroup), match[0], at))
        at = match.end()
    return [*found, Token("end", "", len(text))]


def place(text: str, at: int) -> str:
    """A place in a text, as people count."""
    before = text[:at]
    return f"line {before.count(chr(10)) + 1}, column {at - before.rfind(chr(10))}"


def unquoted(text: str) -> str:
    """What is between the quotes: a backslash guards a quote or a backslash, and is itself before anything else."""
    return re.sub(r'\\(["\\])', r"\1", text[1:-1])
