"""Goals as text that people can read and write: the parser (`show` prints; docs/smarthome_tasks.md has the grammar)."""

from __future__ import annotations

import re
from typing import NoReturn

from .data import clock
from .errors import BlueprintError
from .goal import (
    END,
    IT,
    OPERATORS,
    QUANTITIES,
    REASONS,
    START,
    After,
    Always,
    And,
    Asked,
    At,
    Attribute,
    Blueprint,
    Called,
    Condition,
    Each,
    Energy,
    Forbid,
    HoldsFor,
    Looked,
    Moment,
    Never,
    Not,
    Or,
    Refused,
    Room,
    Said,
    Selector,
    State,
    Unchanged,
    Until,
    Value,
    Within,
)
from .tokens import Token, place, tokens_of, unquoted

_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
_DEPTH = 40


def parse(text: str) -> Blueprint:
    """The goal that a text describes.

    Raises:
        BlueprintError: it describes none; the error says where, what was expected and what was found.
    """
    return _Parser(text).blueprint()


def parse_condition(text: str) -> Condition:
    """The condition that a text describes. Raises as `parse` does."""
    parser = _Parser(text)
    found = parser.condition()
    if parser.token.kind != "end":
        parser.fail('"and", "or" or the end')
    return found


class _Parser:
    """Recursive descent: one token of look-ahead."""

    def __init__(self, text: str) -> None:
        self.source, self.tokens = text, tokens_of(text)
        self.index, self.depth = 0, 0

    # -- tokens ----------------------------------------------------------------------------------------------------

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    def error(self, at: int, expected: str, found: str) -> NoReturn:
        raise BlueprintError(place(self.source, at), expected, found)

    def fail(self, expected: str) -> NoReturn:
        self.error(self.token.at, expected, repr(self.token.text) if self.token.text else "the end")

    def take(self, kind: str, expected: str) -> str:
        if self.token.kind != kind:
            self.fail(expected)
        self.index += 1
        return self.tokens[self.index - 1].text

    def has(self, *words: str) -> bool:
        """Whether these words come next; they are consumed."""
        here = [token.text for token in self.tokens[self.index : self.index + len(words)]]
        if here != list(words):
            return False
        self.index += len(words)
        return True

    def need(self, *words: str) -> None:
        for word in words:
            if not self.has(word):
                self.fail(f'"{word}"')

    # -- values ----------------------------------------------------------------------------------------------------

    def number(self) -> float:
        text = self.take("number", "a number")
        return float(text) if "." in text or "e" in text else int(text)

    def string(self, expected: str, pattern: bool = False) -> str:
        at = self.token.at
        text = unquoted(self.take("string", f"{expected} in quotes"))
        if pattern:
            try:
                re.compile(text)
            except re.error as error:
                self.error(at, "a regular expression", f"{text!r} ({error})")
        return text

    def duration(self) -> float:
        number = self.number()
        if number < 0:
            self.error(self.tokens[self.index - 1].at, "a duration of at least 0", str(number))
        if self.token.text not in _UNITS:
            self.fail("a unit: s, min, h or d")
        self.index += 1
        return number * _UNITS[self.tokens[self.index - 1].text]

    def moment(self) -> Moment:
        if self.has("end"):
            return END
        if self.has("+"):
            return Moment("start", self.duration())
        at, text = self.token.at, self.take("clock", 'a time: "19:00", "+10 min" or "end"')
        seconds = clock(text)
        if seconds is None:
            self.error(at, "a time of day", repr(text))
        return Moment("clock", seconds)

    def window(self) -> tuple[Moment, Moment]:
        if not self.has("from"):
            return START, END
        start = self.moment()
        self.need("to")
        return start, self.moment()

    def operator(self) -> str:
        if self.token.text not in OPERATORS:
            self.fail(f"one of {' '.join(OPERATORS)}")
        return self.take("mark", "an operator")

    def value(self) -> Value:
        if self.token.kind == "string":
            return self.string("a text")
        if self.token.kind == "number":
            return self.number()
        if self.has("["):
            items: list[Value] = []
            while not self.has("]"):
                items.append(self.value())
                if self.token.text != "]":
                    self.need(",")
            return tuple(items)
        word = self.take("word", "a value")
        return {"true": True, "false": False, "null": None}.get(word, word)

    def dotted(self, least: int, most: int, expected: str) -> list[str]:
        parts = self.token.text.split(".")
        if self.token.kind != "word" or not least <= len(parts) <= most:
            self.fail(expected)
        self.index += 1
        return parts

    def entity(self) -> str:
        return IT if self.has(IT) else ".".join(self.dotted(2, 2, 'an entity like "light.desk"'))

    # -- conditions ------------------------------------------------------------------------------------------------

    def blueprint(self) -> Blueprint:
        must, banned, prefer, horizon = [], [], [], 60.0
        while self.token.kind != "end":
            if self.has("horizon"):
                horizon = self.duration()
            elif self.has("must"):
                must.append(self.condition())
            elif self.has("must_not"):
                banned.append(self.condition())
            elif self.has("prefer"):
                weight = self.number()
                prefer.append((weight, self.condition()))
            else:
                self.fail('"horizon", "must", "must_not" or "prefer"')
        if not must:
            self.fail('a line that begins with "must"')
        return Blueprint(tuple(must), tuple(banned), tuple(prefer), horizon)

    def condition(self) -> Condition:
        found = [self.conjunction()]
        while self.has("or"):
            found.append(self.conjunction())
        return found[0] if len(found) == 1 else Or(tuple(found))

    def conjunction(self) -> Condition:
        found = [self.single()]
        while self.has("and"):
            found.append(self.single())
        return found[0] if len(found) == 1 else And(tuple(found))

    def group(self) -> Condition:
        self.need("(")
        found = self.condition()
        self.need(")")
        return found

    def single(self) -> Condition:
        self.depth += 1
        if self.depth > _DEPTH:
            self.fail(f"at most {_DEPTH} conditions inside each other")
        found = self._single()
        self.depth -= 1
        return found

    def _single(self) -> Condition:
        if self.token.text == "(":
            return self.group()
        read = getattr(self, f"_{self.token.text}", None) if self.token.text in _KEYWORDS else None
        if read is not None:
            self.index += 1
            return read()
        return self._about_entity()

    def _about_entity(self) -> Condition:
        parts = [*self.dotted(1, 3, "a condition")]
        least = 1 if parts[0] == IT else 2
        if len(parts) < least or (parts[0] == IT and len(parts) > 2):
            self.index -= 1
            self.fail("a condition")
        entity, rest = ".".join(parts[:least]), parts[least:]
        if not rest:
            if not self.has("is"):
                self.fail('"is"')
            if self.token.kind in ("word", "number", "clock"):
                self.index += 1
                return State(entity, self.tokens[self.index - 1].text)
            return State(entity, self.string("a state"))
        op, value = self.operator(), self.value()
        return Attribute(entity, rest[0], op, value, self.number() if self.has("tolerance") else 0.0)

    def _room(self) -> Condition:
        room, quantity = self.dotted(2, 2, 'a room and a quantity like "kitchen.temperature"')
        if quantity not in QUANTITIES:
            self.index -= 1
            self.fail(f"a quantity: {', '.join(QUANTITIES)}")
        return Room(room, quantity, self.operator(), self.number())

    def _energy(self) -> Condition:
        start, end = self.window()
        return Energy(self.operator(), self.number(), start, end)

    def _service(self) -> tuple[str, str | None]:
        service = ".".join(self.dotted(2, 2, 'a service like "light.turn_on"'))
        return service, self.entity() if self.has("on") else None

    def _called(self) -> Condition:
        return Called(*self._service())

    def _forbid(self) -> Condition:
        return Forbid(*self._service())

    def _looked(self) -> Condition:
        self.need("at")
        return Looked(self.entity())

    def _said(self) -> Condition:
        return Said(self.string("what was said", pattern=True))

    def _asked(self) -> Condition:
        self.need("about")
        return Asked(self.string("a slot"))

    def _refused(self) -> Condition:
        if self.token.text not in REASONS:
            self.fail(f"a reason: {', '.join(REASONS)}")
        reason = self.take("word", "a reason")
        return Refused(reason, self.string("what cannot be done", pattern=True) if self.has("about") else "")

    def _each(self, quantifier: str) -> Condition:
        domain = self.dotted(1, 1, 'a domain like "light", or "*"')[0]
        area = self.dotted(1, 1, "an area")[0] if self.has("in") else None
        without = [self.entity()] if self.has("except") else []
        while without and self.has(","):
            without.append(self.entity())
        of, selector = self.group(), Selector(domain, area, tuple(without))
        if quantifier == "count":
            return Each(quantifier, selector, of, self.operator(), int(self.number()))
        return Each(quantifier, selector, of)

    def _all(self) -> Condition:
        return self._each("all")

    def _any(self) -> Condition:
        return self._each("any")

    def _count(self) -> Condition:
        return self._each("count")

    def _not(self) -> Condition:
        return Not(self.single())

    def _at(self) -> Condition:
        time = self.moment()
        tolerance = self.duration() if self.has("tolerance") else 60.0
        return At(time, self.group(), tolerance)

    def _within(self) -> Condition:
        seconds = self.duration()
        return Within(seconds, self.group())

    def _until(self) -> Condition:
        hold = self.group()
        return Until(hold, self.group())

    def _always(self) -> Condition:
        start, end = self.window()
        return Always(self.group(), start, end)

    def _never(self) -> Condition:
        start, end = self.window()
        return Never(self.group(), start, end)

    def _holds(self) -> Condition:
        self.need("for")
        seconds = self.duration()
        return HoldsFor(seconds, self.group())

    def _after(self) -> Condition:
        event = self.group()
        delay = self.duration() if self.has("by") else 0.0
        tolerance = self.duration() if self.has("tolerance") else 60.0
        return After(event, self.group(), delay, tolerance)

    def _unchanged(self) -> Condition:
        without = list[str]()
        if self.has("except"):
            without.append(".".join(self.dotted(1, 3, 'an entity or a pattern like "light.*"')))
            while self.has(","):
                without.append(".".join(self.dotted(1, 3, 'an entity or a pattern like "light.*"')))
        return Unchanged(tuple(without))


_KEYWORDS = (
    *("room", "energy", "called", "forbid", "looked", "said", "asked", "refused", "all", "any", "count", "not", "at"),
    *("within", "until", "always", "never", "holds", "after", "unchanged"),
)
