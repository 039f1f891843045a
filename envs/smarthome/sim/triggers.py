"""Automation triggers in Home Assistant's form: read, checked, and matched against what happens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..backend import EntityState, entity_ids
from .fields import span, too_deep
from .sky import DAY

if TYPE_CHECKING:
    from .home import SimHome

KINDS = ("state", "numeric_state", "time", "time_pattern", "sun", "event", "zone", "homeassistant")
_ANY = object()


class BadConfig(Exception):
    """A part of an automation that cannot be read; the message says which and why."""


@dataclass(frozen=True)
class Trigger:
    """One trigger."""

    kind: str
    id: str
    config: Mapping[str, Any]
    entities: tuple[str, ...] = ()
    hold: float = 0.0
    """Seconds for which it must stay so ("for")."""


def listed(value: Any) -> list[Any]:
    """A value as a list: Home Assistant accepts one or several almost everywhere."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def no_templates(value: Any, where: str) -> None:
    """Raise `BadConfig` where a template is used (this home renders none), or data is nested without end."""
    if too_deep(value):
        raise BadConfig(f"nested too deeply @ {where}")
    _no_templates(value, where)


def _no_templates(value: Any, where: str) -> None:
    if isinstance(value, str) and ("{{" in value or "{%" in value):
        raise BadConfig(f"templates are not supported @ {where}")
    if isinstance(value, Mapping):
        for key, item in value.items():
            _no_templates(item, f"{where}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for item in value:
            _no_templates(item, where)


def read(config: Any, index: int = 0) -> Trigger:
    """The trigger that `config` describes. Raises `BadConfig`."""
    where = f"data['triggers'][{index}]"
    if not isinstance(config, Mapping):
        raise BadConfig(f"expected a dictionary @ {where}")
    no_templates(config, where)
    kind = config.get("trigger", config.get("platform"))
    if kind not in KINDS:
        raise BadConfig(f"Invalid trigger {kind!r} specified @ {where}; supported are {', '.join(KINDS)}")
    hold = span(config.get("for", 0))
    if hold is None or hold < 0:
        raise BadConfig(f"invalid time span @ {where}['for']")
    entities = tuple(entity_ids(config.get("entity_id")))
    needed = {"state": "entity_id", "numeric_state": "entity_id", "zone": "entity_id", "event": "event_type"}
    needed |= {"time": "at", "sun": "event"}
    if kind in needed and not config.get(needed[kind]):
        raise BadConfig(f"required key not provided @ {where}[{needed[kind]!r}]")
    if kind == "numeric_state":
        if "above" not in config and "below" not in config:
            raise BadConfig(f"must contain at least one of below, above. @ {where}")
        for key in ("above", "below"):
            if key in config and not _is_limit(config[key]):
                raise BadConfig(f"expected float @ {where}[{key!r}]")
    if kind == "time":
        for at in listed(config["at"]):
            if clock_seconds(at) is None:
                raise BadConfig(f"Invalid time specified: {at} @ {where}['at']")
    if kind == "time_pattern" and not any(_pattern(config, unit, size) for unit, size in _SIZES.items()):
        raise BadConfig(f"must contain at least one of hours, minutes, seconds. @ {where}")
    if kind == "sun":
        if config["event"] not in ("sunrise", "sunset"):
            raise BadConfig(f"value must be one of ['sunrise', 'sunset'] @ {where}['event']")
        offset = span(config.get("offset", 0))
        if offset is None or abs(offset) > DAY:
            raise BadConfig(f"invalid time span @ {where}['offset']")
    return Trigger(str(kind), str(config.get("id", index)), config, entities, hold)


def _is_limit(value: Any) -> bool:
    if isinstance(value, str) and "." in value and not value.replace(".", "").replace("-", "").isdigit():
        return True  # an entity's id
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def clock_seconds(at: Any) -> float | None:
    """Seconds since midnight of "HH:MM[:SS]" (or of a number of seconds, as YAML reads 7:30), or None."""
    seconds = span(at) if isinstance(at, str) and ":" in at else float(at) if isinstance(at, (int, float)) else None
    return seconds if seconds is not None and 0 <= seconds < DAY else None


# -- matching -------------------------------------------------------------------------------------------------------


def holds(home: SimHome, trigger: Trigger, new: EntityState) -> bool:
    """Whether the state that a trigger waits for holds: what must stay so during "for"."""
    config = trigger.config
    if trigger.kind == "numeric_state":
        return in_range(home, new, config)
    value = new.attributes.get(config["attribute"]) if "attribute" in config else new.state
    return _among(value, config.get("to", _ANY)) and not ("not_to" in config and _among(value, config["not_to"]))


def fires(home: SimHome, trigger: Trigger, old: EntityState, new: EntityState) -> bool:
    """Whether the change from `old` to `new` is what the trigger waits for."""
    config = trigger.config
    if trigger.kind == "numeric_state":
        return in_range(home, new, config) and not in_range(home, old, config)
    if trigger.kind == "zone":
        left, entered = old.state == "home", new.state == "home"
        return left != entered and entered == (config.get("event", "enter") == "enter")
    if trigger.kind != "state":
        return False
    if "attribute" in config:
        before, after = (state.attributes.get(config["attribute"]) for state in (old, new))
        if before == after:
            return False
    else:
        before, after = old.state, new.state
        narrowed = any(key in config for key in ("to", "from", "not_to", "not_from"))
        if before == after and narrowed:
            return False
    return (
        _among(before, config.get("from", _ANY))
        and _among(after, config.get("to", _ANY))
        and not ("not_from" in config and _among(before, config["not_from"]))
        and not ("not_to" in config and _among(after, config["not_to"]))
    )


def _among(value: Any, wanted: Any) -> bool:
    """Whether a value is one of the wanted ones; YAML reads on and off as truth values."""
    if wanted is _ANY or wanted is None:
        return True
    return any(value == item or str(value) == state_text(item) for item in listed(wanted))


def state_text(value: Any) -> str:
    """A state as text: True is "on", as YAML reads it."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def in_range(home: SimHome, state: EntityState, config: Mapping[str, Any]) -> bool:
    """Whether a numeric state (or attribute) is strictly between "above" and "below"."""
    value = number(state.attributes.get(config["attribute"]) if "attribute" in config else state.state)
    if value is None:
        return False
    for key in ("above", "below"):
        if key in config:
            limit = config[key]
            if isinstance(limit, str) and (other := home.state(limit)) is not None:
                limit = other.state
            limit = number(limit)
            if limit is None or not (value > limit if key == "above" else value < limit):
                return False
    return True


def number(value: Any) -> float | None:
    """A finite number, or None."""
    try:
        result = float(value)
    except (TypeError, ValueError):
        return None
    return result if abs(result) < float("inf") else None


def matches_event(trigger: Trigger, event_type: str, data: Mapping[str, Any]) -> bool:
    """Whether an event trigger waits for this event."""
    if trigger.kind != "event" or event_type not in listed(trigger.config["event_type"]):
        return False
    wanted = trigger.config.get("event_data") or {}
    return all(data.get(key) == value for key, value in wanted.items())


# -- times ----------------------------------------------------------------------------------------------------------

_SIZES = {"hours": 24, "minutes": 60, "seconds": 60}
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def weekday(home: SimHome, time: float) -> str:
    """The local day of the week, "mon" to "sun"."""
    return _DAYS[int((time + home.spec.utc_offset * 3600) // DAY + 3) % 7]


def next_time(home: SimHome, trigger: Trigger, after: float) -> float | None:
    """When a trigger of time fires next, or None for one that waits for something else."""
    config, offset = trigger.config, home.spec.utc_offset * 3600
    if trigger.kind == "sun":
        return home.sky.next_edge(after, config["event"], span(config.get("offset", 0)) or 0.0)
    if trigger.kind == "time":
        midnight = (after + offset) // DAY * DAY - offset
        times = [midnight + day * DAY + (clock_seconds(at) or 0) for at in listed(config["at"]) for day in range(9)]
        days = listed(config.get("weekday")) or _DAYS
        return min((time for time in times if time > after and weekday(home, time) in days), default=None)
    if trigger.kind == "time_pattern":
        return _next_pattern(config, after + offset) - offset
    return None


def _pattern(config: Mapping[str, Any], unit: str, size: int) -> Sequence[int]:
    """The values of a unit at which a time pattern matches; () where the unit is not given or not understood."""
    text = str(config[unit]).strip() if unit in config else ""
    if text == "*":
        return range(size)
    step = text.startswith("/")
    value = int(text.lstrip("/")) if text.lstrip("/").isdigit() else -1
    if step:
        return range(0, size, value) if value > 0 else ()
    return (value,) if 0 <= value < size else ()


def _next_pattern(config: Mapping[str, Any], after: float) -> float:
    """Smaller units that are not given are 0, larger ones are free, as in Home Assistant."""
    hours, minutes, seconds = (_pattern(config, unit, size) for unit, size in _SIZES.items())
    seconds = seconds or (0,)
    minutes = minutes or ((0,) if hours and "seconds" not in config else range(60))
    hours = hours or range(24)
    midnight = after // DAY * DAY
    for day in range(2):
        for hour in hours:
            at_hour = midnight + day * DAY + hour * 3600
            for minute in minutes if at_hour + 3600 > after else ():
                at_minute = at_hour + minute * 60
                for second in seconds if at_minute + 60 > after else ():
                    if at_minute + second > after:
                        return at_minute + second
    return midnight + 2 * DAY


def watched(triggers: Iterable[Trigger]) -> set[str]:
    """The entities whose changes matter to some triggers."""
    return {entity for trigger in triggers for entity in trigger.entities}
