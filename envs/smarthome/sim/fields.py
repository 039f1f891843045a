"""What a service's fields accept, as data: each kind checks a value and describes itself as a selector.

The error texts are those that Home Assistant's own validation (voluptuous) gives, so that an agent learns one dialect.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

_CLOCK = re.compile(r"([+-]?)(\d{1,3}):(\d{1,2})(?::(\d{1,2}(?:\.\d+)?))?")
_UNITS = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1, "milliseconds": 0.001}
_LONGEST = 10 * 365 * 86400  # seconds; what is longer would overflow dates
_LARGEST = 1e15  # above, floats are no longer exact
_TRUE, _FALSE = ("1", "true", "yes", "on", "enable"), ("0", "false", "no", "off", "disable")


class Invalid(Exception):
    """A value that a field does not accept; the message is Home Assistant's."""


class Field(Protocol):
    """One kind of value."""

    def check(self, value: Any) -> Any:
        """The value in canonical form. Raises `Invalid`."""
        ...

    def selector(self) -> dict[str, Any]:
        """Home Assistant's description of the kind."""
        ...


@dataclass(frozen=True)
class Number:
    """A number in [low, high]; text that reads as one is accepted."""

    low: float | None = None
    high: float | None = None
    integer: bool = False

    def check(self, value: Any) -> float | int:
        """The number, truncated where it must be whole."""
        try:
            number = int(value) if self.integer else float(value)
        except (TypeError, ValueError, OverflowError):
            raise Invalid(f"expected {'int' if self.integer else 'float'}") from None
        if not abs(number) <= _LARGEST:
            raise Invalid(f"expected {'int' if self.integer else 'float'}")
        if self.low is not None and number < self.low:
            raise Invalid(f"value must be at least {self.low:g}")
        if self.high is not None and number > self.high:
            raise Invalid(f"value must be at most {self.high:g}")
        return number

    def selector(self) -> dict[str, Any]:
        """{"number": {"min": ..., "max": ...}}."""
        limits = {"min": self.low, "max": self.high}
        return {"number": {key: value for key, value in limits.items() if value is not None}}


@dataclass(frozen=True)
class Choice:
    """One of some texts."""

    options: tuple[str, ...]

    def check(self, value: Any) -> str:
        """The text itself."""
        if isinstance(value, str) and value in self.options:
            return value
        raise Invalid(f"value must be one of {sorted(self.options)}")

    def selector(self) -> dict[str, Any]:
        """{"select": {"options": [...]}}."""
        return {"select": {"options": list(self.options)}}


@dataclass(frozen=True)
class Boolean:
    """True or False, or a text that means it."""

    def check(self, value: Any) -> bool:
        """The truth value."""
        if isinstance(value, bool):
            return value
        text = str(value).strip().lower() if isinstance(value, (str, int, float)) else ""
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        raise Invalid(f"invalid boolean value {value}")

    def selector(self) -> dict[str, Any]:
        """{"boolean": None}."""
        return {"boolean": None}


@dataclass(frozen=True)
class Text:
    """A text; numbers are accepted and written out."""

    def check(self, value: Any) -> str:
        """The text."""
        if value is None:
            raise Invalid("string value is None")
        if isinstance(value, (list, tuple, Mapping)):
            raise Invalid("value should be a string")
        return str(value)

    def selector(self) -> dict[str, Any]:
        """{"text": None}."""
        return {"text": None}


@dataclass(frozen=True)
class Numbers:
    """A fixed number of numbers, e.g. a colour."""

    count: int
    low: float = 0
    highs: tuple[float, ...] = (255,)
    integer: bool = True

    def check(self, value: Any) -> tuple[float, ...]:
        """The numbers as a tuple."""
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise Invalid("expected tuple")
        if len(value) != self.count:
            raise Invalid(f"expected a sequence of {self.count} values")
        highs = self.highs * self.count if len(self.highs) == 1 else self.highs
        return tuple(Number(self.low, high, self.integer).check(item) for item, high in zip(value, highs, strict=False))

    def selector(self) -> dict[str, Any]:
        """{"object": None}."""
        return {"object": None}


@dataclass(frozen=True)
class Duration:
    """A time span: seconds, "HH:MM:SS" or {"hours": 1, "minutes": 5}; canonical form: seconds."""

    def check(self, value: Any) -> float:
        """Seconds."""
        seconds = span(value)
        if seconds is None or abs(seconds) > _LONGEST:
            raise Invalid(f"offset {value} should be format 'HH:MM', 'HH:MM:SS' or 'HH:MM:SS.F'")
        return seconds

    def selector(self) -> dict[str, Any]:
        """{"duration": None}."""
        return {"duration": None}


@dataclass(frozen=True)
class Moment:
    """A date with time ("2026-03-02 08:00:00") or, with `day`, a date; canonical form: ISO text without offset."""

    day: bool = False

    def check(self, value: Any) -> str:
        """ISO text in local time."""
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            raise Invalid(f"Invalid {'date' if self.day else 'datetime'} specified: {value}") from None
        return moment.date().isoformat() if self.day else moment.replace(tzinfo=None).isoformat()

    def selector(self) -> dict[str, Any]:
        """{"date": None} or {"datetime": None}."""
        return {"date" if self.day else "datetime": None}


@dataclass(frozen=True)
class Texts:
    """A list of texts; one text is a list of one."""

    def check(self, value: Any) -> list[str]:
        """The list."""
        items = value if isinstance(value, (list, tuple)) else [value]
        return [Text().check(item) for item in items]

    def selector(self) -> dict[str, Any]:
        """{"object": None}."""
        return {"object": None}


@dataclass(frozen=True)
class Anything:
    """A mapping, or with `free` any value."""

    free: bool = False

    def check(self, value: Any) -> Any:
        """The value itself."""
        if not self.free and not isinstance(value, Mapping):
            raise Invalid("expected a dictionary")
        return value

    def selector(self) -> dict[str, Any]:
        """{"object": None}."""
        return {"object": None}


def too_deep(value: Any, limit: int = 30) -> bool:
    """Whether data is nested more than `limit` levels: nothing here needs it, and recursion over it could fail."""
    level = [value]
    for _ in range(limit):
        level = [
            item
            for part in level
            if isinstance(part, (Mapping, list, tuple))
            for item in (part.values() if isinstance(part, Mapping) else part)
        ]
        if not level:
            return False
    return True


def span(value: Any) -> float | None:
    """A time span in seconds, from a number, "HH:MM[:SS]" or a mapping of units; None where it is none of these."""
    seconds = _span(value)
    return seconds if seconds is not None and abs(seconds) <= _LARGEST else None


def _span(value: Any) -> float | None:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool):
        return None
    try:
        if isinstance(value, (int, float)):
            return float(value)
        if isinstance(value, Mapping):
            return float(sum(_UNITS[unit] * float(amount) for unit, amount in value.items()))
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    if isinstance(value, str):
        match = _CLOCK.fullmatch(value.strip())
        if match:
            seconds = int(match[2]) * 3600 + int(match[3]) * 60 + float(match[4] or 0)
            return -seconds if match[1] == "-" else seconds
        try:
            return float(value)
        except ValueError:
            return None
    return None
