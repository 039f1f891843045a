"""Automation conditions in Home Assistant's form: checked when an automation is made, evaluated when it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..backend import entity_ids
from .fields import span
from .sky import DAY
from .triggers import BadConfig, clock_seconds, in_range, listed, no_templates, state_text, weekday

if TYPE_CHECKING:
    from .home import SimHome

KINDS = ("state", "numeric_state", "time", "sun", "zone", "trigger", "and", "or", "not")
_JOINS = ("and", "or", "not")


def check(config: Any, where: str) -> None:
    """Raise `BadConfig` unless `config` is a condition that can be evaluated."""
    if not isinstance(config, Mapping):
        raise BadConfig(f"expected a dictionary @ {where}")
    no_templates(config, where)
    kind = _kind(config)
    if kind not in KINDS:
        raise BadConfig(f"Invalid condition {kind!r} specified @ {where}; supported are {', '.join(KINDS)}")
    if kind in _JOINS:
        for index, part in enumerate(_parts(config, kind)):
            check(part, f"{where}['conditions'][{index}]")
        return
    needed = {"state": ("entity_id", "state"), "numeric_state": ("entity_id",), "zone": ("entity_id", "zone")}
    for key in needed.get(kind, ("id",) if kind == "trigger" else ()):
        if config.get(key) in (None, "", []):
            raise BadConfig(f"required key not provided @ {where}[{key!r}]")
    if kind == "numeric_state" and "above" not in config and "below" not in config:
        raise BadConfig(f"must contain at least one of below, above. @ {where}")
    if kind == "time":
        for key in ("after", "before"):
            if key in config and clock_seconds(config[key]) is None:
                raise BadConfig(f"Invalid time specified: {config[key]} @ {where}[{key!r}]")
    if kind == "sun" and not any(config.get(key) in ("sunrise", "sunset") for key in ("after", "before")):
        raise BadConfig(f"must contain at least one of before, after. @ {where}")


def _kind(config: Mapping[str, Any]) -> str:
    if "condition" in config:
        return str(config["condition"])
    return next((join for join in _JOINS if join in config), "")


def _parts(config: Mapping[str, Any], kind: str) -> list[Any]:
    return listed(config.get("conditions", config.get(kind)))


def true(home: SimHome, config: Mapping[str, Any], trigger_id: str | None) -> bool:
    """Whether a condition holds now."""
    if config.get("enabled") is False:
        return True
    kind = _kind(config)
    if kind in _JOINS:
        parts = [true(home, part, trigger_id) for part in _parts(config, kind)]
        return all(parts) if kind == "and" else any(parts) if kind == "or" else not any(parts)
    if kind == "trigger":
        return trigger_id in [str(item) for item in listed(config["id"])]
    if kind == "time":
        return _time(home, config)
    if kind == "sun":
        return _sun(home, config)
    states = [home.state(entity) for entity in entity_ids(config["entity_id"])]
    if kind == "numeric_state":
        return all(state is not None and in_range(home, state, config) for state in states)
    if kind == "zone":
        inside = config["zone"] == "zone.home"
        return all(state is not None and (state.state == "home") == inside for state in states)
    wanted = [state_text(item) for item in listed(config["state"])]
    hold = span(config.get("for", 0)) or 0.0
    met = [
        state is not None
        and state_text(state.attributes.get(config["attribute"]) if "attribute" in config else state.state) in wanted
        and home.time - state.last_changed >= hold
        for state in states
    ]
    return any(met) if config.get("match") == "any" else all(met)


def _time(home: SimHome, config: Mapping[str, Any]) -> bool:
    now = (home.time + home.spec.utc_offset * 3600) % DAY
    after, before = clock_seconds(config.get("after", 0)) or 0.0, clock_seconds(config.get("before", DAY - 1))
    before = DAY if "before" not in config or before is None else before
    inside = after <= now < before if after <= before else now >= after or now < before
    days = listed(config.get("weekday"))
    return inside and (not days or weekday(home, home.time) in days)


def _sun(home: SimHome, config: Mapping[str, Any]) -> bool:
    offset = home.spec.utc_offset * 3600
    rise, fall = home.sky.edges(int((home.time + offset) // DAY))
    edges = {"sunrise": rise, "sunset": fall}
    after, before = config.get("after"), config.get("before")
    late = True if after is None else home.time >= edges[after] + (span(config.get("after_offset", 0)) or 0.0)
    early = True if before is None else home.time < edges[before] + (span(config.get("before_offset", 0)) or 0.0)
    # "after sunset, before sunrise" is a night, which begins on one day and ends on the next.
    return late or early if (after, before) == ("sunset", "sunrise") else late and early
