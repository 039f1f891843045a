"""Action grammars: which actions a program understands, one form per line.

`go <north|south>` is a choice, `answer <0..99>` an integer, `say <text>` anything on one line. Everything else is
literal. A grammar tells the agent what to write, refuses what is no action, and makes random actions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .program import ProgramError

_SLOT = re.compile(r"<([^<>\n]*)>")
_RANGE = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})")
_WORD = re.compile(r"[^\s.,:;!?\"'()]+")
_NUMBER = re.compile(r"-?[0-9]{1,10}")
_FORMS = 20
_FREE = 1_000  # characters of free text


@dataclass(frozen=True)
class Slot:
    """A gap in a form."""

    choices: tuple[str, ...] = ()
    """What may stand there; empty for a range or free text."""
    low: int = 0
    high: int = -1
    """A range where `low <= high`; free text where it is not and `choices` is empty."""

    @property
    def free(self) -> bool:
        """Whether anything may stand there."""
        return not self.choices and self.low > self.high

    def ends(self, text: str, start: int) -> set[int]:
        """Where in `text` what fills this gap from `start` on may end."""
        if self.choices:
            return {start + len(choice) for choice in self.choices if text.startswith(choice, start)}
        if self.free:
            return {end for end in range(start + 1, min(len(text), start + _FREE) + 1) if text[end - 1] != " "}
        number = _NUMBER.match(text, start)
        shortest = start + 1 + text.startswith("-", start)
        ends = range(shortest, number.end() + 1) if number else ()
        return {end for end in ends if self.low <= int(text[start:end]) <= self.high}


Form = tuple[str | Slot, ...]


class Grammar:
    """A parsed grammar.

    Args:
        text: one form per line.

    Raises:
        ProgramError: a line is no form; the message shows it.
    """

    def __init__(self, text: str) -> None:
        lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
        if not 1 <= len(lines) <= _FORMS:
            raise ProgramError(f"an action grammar has 1 to {_FORMS} lines, not {len(lines)}")
        self.forms: tuple[Form, ...] = tuple(_form(line) for line in lines)
        self._folded = [tuple(_fold(part) for part in form) for form in self.forms]

    def accepts(self, action: str) -> bool:
        """Whether `action`, with single spaces, is of one of the forms; letters' case does not count."""
        text = action.casefold()
        return any(_matches(form, text) for form in self._folded)

    def sample(self, rng: np.random.Generator, observation: str = "") -> str:
        """A random action: a form, and in each gap a random choice, number, or words of the observation."""
        form = self.forms[int(rng.integers(len(self.forms)))]
        return "".join(part if isinstance(part, str) else _fill(part, rng, observation) for part in form)


def _form(line: str) -> Form:
    parts: list[str | Slot] = []
    end = 0
    for match in _SLOT.finditer(line):
        parts += [line[end : match.start()], _slot(match[1], line)]
        end = match.end()
    parts.append(line[end:])
    form = tuple(part for part in parts if part != "")
    if any("<" in part or ">" in part for part in form if isinstance(part, str)):
        raise ProgramError(f"a < without its >, or the reverse, in the action {line!r:.80}")
    return form


def _fold(part: str | Slot) -> str | Slot:
    if isinstance(part, str):
        return part.casefold()
    return replace(part, choices=tuple(choice.casefold() for choice in part.choices))


def _matches(form: Form, text: str) -> bool:
    """By sets of places instead of a regular expression, which a hostile form and action could keep busy for ever."""
    places = {0}
    for part in form:
        if isinstance(part, str):
            places = {place + len(part) for place in places if text.startswith(part, place)}
        elif part.free:
            starts = [place for place in places if text[place : place + 1].strip()]
            places = part.ends(text, min(starts)) if starts else set()  # the first start reaches what later ones do
        else:
            places = {end for place in places for end in part.ends(text, place)}
    return len(text) in places


def _slot(inside: str, line: str) -> Slot:
    if inside == "text":
        return Slot()
    if match := _RANGE.fullmatch(inside):
        low, high = int(match[1]), int(match[2])
        if low <= high:
            return Slot(low=low, high=high)
    choices = tuple(choice.strip() for choice in inside.split("|"))
    if ".." in inside or not all(choices):
        raise ProgramError(f"<{inside}> in the action {line!r:.80} is neither <a|b|c>, <1..9> nor <text>")
    return Slot(choices=choices)


def _fill(slot: Slot, rng: np.random.Generator, observation: str) -> str:
    if slot.choices:
        return slot.choices[int(rng.integers(len(slot.choices)))]
    if slot.low <= slot.high:
        return str(int(rng.integers(slot.low, slot.high + 1)))
    words: Sequence[str] = _WORD.findall(observation) or ("something",)
    start = int(rng.integers(len(words)))
    return " ".join(words[start : start + int(rng.integers(1, 4))])
