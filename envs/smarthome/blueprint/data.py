"""Goals as JSON and back. Every condition is `{"type": "state", ...}` with the names of its record's fields."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from . import goal as language
from .errors import BlueprintError
from .goal import OPERATORS, QUANTITIES, REASONS, Blueprint, Condition, Moment, Selector

_NAMES = {
    **{"state": "State", "attribute": "Attribute", "room": "Room", "energy": "Energy", "called": "Called"},
    **{"looked": "Looked", "said": "Said", "asked": "Asked", "refused": "Refused", "each": "Each"},
    **{"not": "Not", "and": "And", "or": "Or", "at": "At", "within": "Within", "until": "Until"},
    **{"always": "Always", "never": "Never", "holds_for": "HoldsFor", "after": "After"},
    **{"unchanged": "Unchanged", "forbid": "Forbid"},
}
TYPES: dict[str, Any] = {name: getattr(language, record) for name, record in _NAMES.items()}
_TYPE_OF = {record: name for name, record in TYPES.items()}
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")
_DEPTH = 40


def to_data(goal: Blueprint) -> dict[str, Any]:
    """The goal as plain JSON values; `from_data` is the inverse."""
    return {
        "horizon": goal.horizon,
        "must": [_write(item) for item in goal.must],
        "must_not": [_write(item) for item in goal.must_not],
        "prefer": [[weight, _write(item)] for weight, item in goal.prefer],
    }


def from_data(data: Any) -> Blueprint:
    """The goal that JSON values, or a JSON text, describe.

    Raises:
        BlueprintError: they describe none; the error says where, what was expected and what was found.
    """
    if isinstance(data, str):
        try:
            data = json.loads(data)
        except ValueError as error:
            raise BlueprintError("the text", "JSON", str(error)) from None
    known = {"horizon", "must", "must_not", "prefer"}
    _mapping(data, "the goal", known, required={"must"})
    must = tuple(_read(item, f"must[{index}]") for index, item in enumerate(_list(data["must"], "must")))
    if not must:
        raise BlueprintError("must", "at least one condition", "none")
    banned = _list(data.get("must_not", []), "must_not")
    prefer = []
    for index, pair in enumerate(_list(data.get("prefer", []), "prefer")):
        where = f"prefer[{index}]"
        if not isinstance(pair, list) or len(pair) != 2:
            raise BlueprintError(where, "a weight and a condition", _show(pair))
        prefer.append((_number(pair[0], f"{where}[0]"), _read(pair[1], f"{where}[1]")))
    return Blueprint(
        must,
        tuple(_read(item, f"must_not[{index}]") for index, item in enumerate(banned)),
        tuple(prefer),
        _number(data.get("horizon", 60.0), "horizon"),
    )


def clock(text: str) -> float | None:
    """Seconds after midnight of "HH:MM" or "HH:MM:SS"; None where it is no time of day."""
    found = _CLOCK.fullmatch(text)
    return None if found is None else sum(int(part or 0) * unit for part, unit in zip(found.groups(), (3600, 60, 1)))


def show_clock(seconds: float) -> str:
    """A time of day as `clock` reads it."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60:02}:{minutes % 60:02}" + (f":{rest:02}" if rest else "")


def _write(value: Any) -> Any:
    if type(value) in _TYPE_OF:
        inner = {field.name: _write(getattr(value, field.name)) for field in fields(value)}
        return {"type": _TYPE_OF[type(value)], **inner}
    if isinstance(value, Moment):
        return {"end": "end", "start": value.seconds, "clock": show_clock(value.seconds)}[value.kind]
    if isinstance(value, Selector):
        return {field.name: _write(getattr(value, field.name)) for field in fields(value)}
    return [_write(item) for item in value] if isinstance(value, tuple) else value


def _read(data: Any, where: str, depth: int = 0) -> Condition:
    if depth > _DEPTH:
        raise BlueprintError(where, f"at most {_DEPTH} conditions inside each other", "more")
    if not isinstance(data, Mapping) or data.get("type") not in TYPES:
        found = data.get("type") if isinstance(data, Mapping) else data
        raise BlueprintError(f"{where}.type", f"one of {', '.join(TYPES)}", _show(found))
    record = TYPES[data["type"]]
    known = {field.name: field for field in fields(record)}
    required = {name for name in known if name not in _defaults(record)}
    _mapping(data, where, {*known, "type"}, required)
    values = {}
    for name, value in data.items():
        if name != "type":
            values[name] = _field(record, name, value, f"{where}.{name}", depth)
    return record(**values)


def _defaults(record: Any) -> set[str]:
    from dataclasses import MISSING

    return {field.name for field in fields(record) if field.default is not MISSING}


def _field(record: Any, name: str, value: Any, where: str, depth: int) -> Any:
    if name in ("of", "hold", "release", "event"):
        if record in (language.And, language.Or):
            return tuple(_read(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(_list(value, where)))
        return _read(value, where, depth + 1)
    if record in (language.At, language.Always, language.Never, language.Energy) and name in ("time", "start", "end"):
        return _moment(value, where)
    return _READERS[f"value of {_TYPE_OF[record]}" if name == "value" else name](value, where)


def _moment(value: Any, where: str) -> Moment:
    if value == "end":
        return language.END
    if isinstance(value, str) and clock(value) is not None:
        return Moment("clock", clock(value) or 0.0)
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return Moment("start", value)
    raise BlueprintError(where, '"HH:MM", "end", or seconds after the start', _show(value))


def _choice(options: Any) -> Callable[[Any, str], str]:
    def read(value: Any, where: str) -> str:
        if value not in options:
            raise BlueprintError(where, f"one of {', '.join(options)}", _show(value))
        return value

    return read


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise BlueprintError(where, "a text", _show(value))
    return value


def _pattern(value: Any, where: str) -> str:
    try:
        re.compile(_text(value, where))
    except re.error as error:
        raise BlueprintError(where, "a regular expression", f"{value!r} ({error})") from None
    return value


def _entity(value: Any, where: str) -> str:
    if value != language.IT and not re.fullmatch(r"\w+\.\w+", _text(value, where)):
        raise BlueprintError(where, 'an entity like "light.desk"', _show(value))
    return value


def _number(value: Any, where: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= abs(value) < float("inf"):
        raise BlueprintError(where, "a number", _show(value))
    return value


def _positive(value: Any, where: str) -> float:
    if _number(value, where) < 0:
        raise BlueprintError(where, "a number of at least 0", _show(value))
    return value


def _count(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise BlueprintError(where, "a whole number", _show(value))
    return value


def _value(value: Any, where: str) -> Any:
    if isinstance(value, list):
        return tuple(_value(item, where) for item in value)
    if value is None or isinstance(value, str | bool):
        return value
    return _number(value, where)


def _optional(read: Callable[[Any, str], str]) -> Callable[[Any, str], str | None]:
    return lambda value, where: None if value is None else read(value, where)


def _selector(value: Any, where: str) -> Selector:
    _mapping(value, where, {"domain", "area", "without"})
    area = value.get("area")
    without = tuple(_entity(item, f"{where}.without") for item in _list(value.get("without", []), where))
    return Selector(
        _text(value.get("domain", "*"), f"{where}.domain"),
        None if area is None else _text(area, f"{where}.area"),
        without,
    )


_READERS: dict[str, Callable[[Any, str], Any]] = {
    **{"entity": _optional(_entity), "name": _text, "op": _choice(OPERATORS), "room": _text, "slot": _text},
    **{"quantity": _choice(QUANTITIES), "tolerance": _positive, "seconds": _positive, "delay": _positive},
    **{"service": _text, "pattern": _pattern, "reason": _choice(REASONS), "about": _pattern},
    **{"quantifier": _choice(("all", "any", "count")), "selector": _selector, "number": _count},
    **{"value of state": _text, "value of attribute": _value, "value of room": _number, "value of energy": _number},
    "without": lambda value, where: tuple(_text(item, where) for item in _list(value, where)),
}


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise BlueprintError(where, "a list", _show(value))
    return list(value)


def _mapping(value: Any, where: str, known: set[str], required: set[str] = frozenset()) -> None:  # type: ignore[assignment]
    if not isinstance(value, Mapping):
        raise BlueprintError(where, "an object", _show(value))
    for name in value:
        if name not in known:
            raise BlueprintError(where, f"only {', '.join(sorted(known))}", _show(name))
    for name in sorted(required - {*value}):
        raise BlueprintError(where, f"a field {name!r}", "none")


def _show(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
