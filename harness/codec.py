"""Codecs: what a completion says to the environment. Plain text, `<action>` tags, or JSON.

Completions are hostile text: of any length, with any characters, with tags that never close. A codec always answers;
where it finds no action the answer is the empty string, which environments refuse as they refuse any other nonsense.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..envs.core.errors import InvalidArgument
from .records import Call, Span

LONGEST_JSON = 1 << 16  # characters that are searched for an object
ATTEMPTS = 64  # braces that are tried as an object's beginning


@dataclass(frozen=True, slots=True)
class Parsed:
    """A completion taken apart."""

    action: str
    """What to send to the environment; empty if the format was not kept."""
    valid: bool
    """Whether the format was kept."""
    spans: dict[str, tuple[Span, ...]] = field(default_factory=dict)
    """Named parts ("action", "think" …) as [start, stop) in characters of the completion."""
    args: dict[str, Any] = field(default_factory=dict)
    """The other fields of a JSON object."""


class Codec(ABC):
    """Takes completions apart. Calling it on a `Call` names the call's token spans and returns the action.

    Args:
        offsets: character offsets before each token and after the last, from completion ids (`ChatFormat.offsets`);
            None leaves the call's spans as the policy set them.
    """

    def __init__(self, offsets: Callable[[Sequence[int]], Sequence[int]] | None = None) -> None:
        self.offsets = offsets

    @abstractmethod
    def parse(self, text: str) -> Parsed:
        """The parts of `text`. Never raises."""

    def __call__(self, call: Call) -> str:
        """The call's action; its named token spans are replaced by what was found."""
        parsed = self.parse(call.text)
        if self.offsets is not None and call.completion_ids:
            ends = self.offsets(call.completion_ids)
            call.spans = {
                name: tuple(_tokens(span, ends) for span in spans) for name, spans in parsed.spans.items() if spans
            }
        return parsed.action


class PlainCodec(Codec):
    """The first line that is not blank, without the space around it."""

    def parse(self, text: str) -> Parsed:
        """See `Codec.parse`."""
        start = len(text) - len(text.lstrip())
        line = re.compile(r"[^\r\n]*").match(text, start)
        assert line is not None
        return _cut(text, line.start(), line.end(), {})


class TagCodec(Codec):
    """The last `<action>…</action>` outside `<think>…</think>`; one that is never closed runs to the end.

    Args:
        offsets: see `Codec`.
        action: name of the action's tag.
        think: name of the reasoning's tag. An unclosed one hides everything after it.
    """

    def __init__(
        self,
        offsets: Callable[[Sequence[int]], Sequence[int]] | None = None,
        *,
        action: str = "action",
        think: str = "think",
    ) -> None:
        super().__init__(offsets)
        self.action, self.think = action, think
        self._tag = re.compile(f"<(/?)({re.escape(think)}|{re.escape(action)})>")

    def parse(self, text: str) -> Parsed:
        """See `Codec.parse`."""
        found: dict[str, list[Span]] = {self.think: [], self.action: []}
        inside, start = "", 0
        for tag in self._tag.finditer(text):
            closing, name = bool(tag[1]), tag[2]
            if not inside and not closing:
                inside, start = name, tag.end()
            elif inside == name and closing:
                found[name].append((start, tag.start()))
                inside = ""
            elif inside == self.action and not closing:  # opened again: the later one counts
                inside, start = name, tag.end()
        if inside:
            found[inside].append((start, len(text)))
        thoughts = {"think": tuple(found[self.think])} if found[self.think] else {}
        if not found[self.action]:
            return Parsed("", False, thoughts)
        return _cut(text, *found[self.action][-1], thoughts)


class JSONCodec(Codec):
    """The last JSON object with the action's key, wherever it stands (within the first and last 32,768 characters).

    Args:
        offsets: see `Codec`.
        action: key of the action, whose value is a string.
        think: key of the reasoning; only named, never sent.
    """

    def __init__(
        self,
        offsets: Callable[[Sequence[int]], Sequence[int]] | None = None,
        *,
        action: str = "action",
        think: str = "think",
    ) -> None:
        super().__init__(offsets)
        self.action, self.think = action, think

    def parse(self, text: str) -> Parsed:
        """See `Codec.parse`. The span of "action" is the whole object."""
        best = Parsed("", False)
        for piece, shift in self._windows(text):
            for start, stop, value in _objects(piece):
                action = value.get(self.action)
                if isinstance(action, str):
                    rest = {key: item for key, item in value.items() if key != self.action}
                    span = (shift + start, shift + stop)
                    best = Parsed(action.strip(), bool(action.strip()), {"action": (span,)}, rest)
        return best

    @staticmethod
    def _windows(text: str) -> list[tuple[str, int]]:
        if len(text) <= LONGEST_JSON:
            return [(text, 0)]
        half = LONGEST_JSON // 2
        return [(text[:half], 0), (text[-half:], len(text) - half)]


CODECS: dict[str, type[Codec]] = {"plain": PlainCodec, "tags": TagCodec, "json": JSONCodec}


def make_codec(name: str, offsets: Callable[[Sequence[int]], Sequence[int]] | None = None) -> Codec:
    """The codec called `name`: "plain", "tags" or "json".

    Raises:
        InvalidArgument: there is none of that name.
    """
    if name not in CODECS:
        raise InvalidArgument(f"no codec {name!r}; use {', '.join(CODECS)}")
    return CODECS[name](offsets)


def _cut(text: str, start: int, stop: int, spans: dict[str, tuple[Span, ...]]) -> Parsed:
    """`text[start:stop]` without the space around it, as the action."""
    inner = text[start:stop]
    start += len(inner) - len(inner.lstrip())
    action = inner.strip()
    if not action:
        return Parsed("", False, spans)
    return Parsed(action, True, {**spans, "action": ((start, start + len(action)),)})


def _tokens(span: Span, ends: Sequence[int]) -> Span:
    """The tokens that hold any character of `span`."""
    touched = [n for n in range(len(ends) - 1) if ends[n] < span[1] and ends[n + 1] > span[0]]
    return (touched[0], touched[-1] + 1) if touched else (0, 0)


def _objects(text: str) -> list[tuple[int, int, dict[str, Any]]]:
    """Top-level JSON objects in `text` with where they stand; broken ones are passed over."""
    decoder = json.JSONDecoder(strict=False)  # models write raw newlines into strings
    found = []
    at = 0
    for _ in range(ATTEMPTS):
        at = text.find("{", at)
        if at < 0:
            break
        try:
            value, stop = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        found.append((at, stop, value))
        at = stop
    return found
