"""Goals as text: the printer. `text.parse` is the inverse."""

from __future__ import annotations

import re
from typing import Any

from .data import show_clock
from .goal import (
    END,
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
    State,
    Unchanged,
    Until,
    Within,
)


def show(goal: Blueprint) -> str:
    """The goal as text; `parse` is the inverse."""
    lines = [f"horizon {_duration(goal.horizon)}"]
    lines += [f"must {show_condition(item)}" for item in goal.must]
    lines += [f"must_not {show_condition(item)}" for item in goal.must_not]
    lines += [f"prefer {_plain(weight)} {show_condition(item)}" for weight, item in goal.prefer]
    return "\n".join(lines)


def show_condition(condition: Condition) -> str:
    """A condition as text; `parse_condition` is the inverse."""
    match condition:
        case State(entity, value):
            return f"{entity} is {_word(value)}"
        case Attribute(entity, name, op, value, tolerance):
            more = f" tolerance {_plain(tolerance)}" if tolerance else ""
            return f"{entity}.{name} {op} {_value(value)}{more}"
        case Room(room, quantity, op, value):
            return f"room {room}.{quantity} {op} {_plain(value)}"
        case Energy(op, value, start, end):
            return f"energy{_window(start, end)} {op} {_plain(value)}"
        case Called(service, entity) | Forbid(service, entity):
            verb = "called" if isinstance(condition, Called) else "forbid"
            return f"{verb} {service}" + (f" on {entity}" if entity else "")
        case Looked(entity):
            return f"looked at {entity}"
        case Said(pattern):
            return f"said {quoted(pattern)}"
        case Asked(slot):
            return f"asked about {quoted(slot)}"
        case Refused(reason, about):
            return f"refused {reason}" + (f" about {quoted(about)}" if about else "")
        case Each(quantifier, selector, of, op, number):
            area = f" in {selector.area}" if selector.area else ""
            without = f" except {', '.join(selector.without)}" if selector.without else ""
            more = f" {op} {number}" if quantifier == "count" else ""
            return f"{quantifier} {selector.domain}{area}{without} ({show_condition(of)}){more}"
        case Not(of):
            return f"not ({show_condition(of)})"
        case And(of) | Or(of):
            word = " and " if isinstance(condition, And) else " or "
            return word.join(
                f"({show_condition(part)})" if isinstance(part, And | Or) else show_condition(part) for part in of
            )
        case At(time, of, tolerance):
            return f"at {_moment(time)} tolerance {_duration(tolerance)} ({show_condition(of)})"
        case Within(seconds, of):
            return f"within {_duration(seconds)} ({show_condition(of)})"
        case Until(hold, release):
            return f"until ({show_condition(hold)}) ({show_condition(release)})"
        case Always(of, start, end) | Never(of, start, end):
            word = "always" if isinstance(condition, Always) else "never"
            return f"{word}{_window(start, end)} ({show_condition(of)})"
        case HoldsFor(seconds, of):
            return f"holds for {_duration(seconds)} ({show_condition(of)})"
        case After(event, of, delay, tolerance):
            times = f" by {_duration(delay)} tolerance {_duration(tolerance)}"
            return f"after ({show_condition(event)}){times} ({show_condition(of)})"
        case Unchanged(without):
            return "unchanged" + (f" except {', '.join(without)}" if without else "")


def _window(start: Moment, end: Moment) -> str:
    return "" if (start, end) == (START, END) else f" from {_moment(start)} to {_moment(end)}"


def _moment(time: Moment) -> str:
    if time.kind == "end":
        return "end"
    return show_clock(time.seconds) if time.kind == "clock" else f"+{_duration(time.seconds)}"


def _duration(seconds: float) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds and seconds % size == 0:
            return f"{_plain(seconds // size)} {unit}"
    return f"{_plain(seconds)} s"


def _plain(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else repr(float(number))


def quoted(text: str) -> str:
    """The text in quotes; `text.unquoted` is the inverse."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _word(value: str) -> str:
    return value if re.fullmatch(r"[A-Za-z_]\w*", value) else quoted(value)


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int | float):
        return _plain(value)
    return value if re.fullmatch(r"[A-Za-z_]\w*", value) and value not in ("true", "false", "null") else quoted(value)
