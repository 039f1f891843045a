"""Goal regression: which service call makes a condition about a device true. The effects are Home Assistant's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..backend import EntityState
from ..blueprint.goal import Attribute, Condition, State, Value
from ..frozen import FrozenDict
from ..sim.home import SimHome

_SWITCHED = {"on": "turn_on", "off": "turn_off"}
STATES: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(("light", "switch", "fan", "humidifier", "siren", "input_boolean", "automation"), _SWITCHED),
    "script": _SWITCHED,
    "camera": {"idle": "turn_on", "off": "turn_off"},
    "cover": {"open": "open_cover", "closed": "close_cover"},
    "valve": {"open": "open_valve", "closed": "close_valve"},
    "lock": {"locked": "lock", "unlocked": "unlock", "open": "open"},
    "media_player": {
        **{"playing": "media_play", "paused": "media_pause", "off": "turn_off", "on": "turn_on", "idle": "media_stop"},
    },
    "vacuum": {
        **{"cleaning": "start", "docked": "return_to_base", "returning": "return_to_base", "paused": "pause"},
        "idle": "stop",
    },
    "lawn_mower": {"mowing": "start_mowing", "docked": "dock", "paused": "pause"},
    "alarm_control_panel": {
        "disarmed": "alarm_disarm",
        **{f"armed_{mode}": f"alarm_arm_{mode}" for mode in ("home", "away", "night", "vacation")},
    },
    "timer": {"active": "start", "idle": "cancel", "paused": "pause"},
}
"""Domain -> state -> the service that leads to it."""
CHOSEN: Mapping[str, tuple[str, str]] = {
    "climate": ("set_hvac_mode", "hvac_mode"),
    "water_heater": ("set_operation_mode", "operation_mode"),
    "select": ("select_option", "option"),
    "input_select": ("select_option", "option"),
    "number": ("set_value", "value"),
    "input_number": ("set_value", "value"),
    "input_text": ("set_value", "value"),
    "counter": ("set_value", "value"),
}
"""Domain -> the service that takes the state as this field."""
ATTRIBUTES: Mapping[tuple[str, str], tuple[str, str]] = {
    **{("light", name): ("turn_on", name) for name in ("brightness", "color_temp_kelvin", "rgb_color", "hs_color")},
    ("light", "effect"): ("turn_on", "effect"),
    ("climate", "temperature"): ("set_temperature", "temperature"),
    ("climate", "humidity"): ("set_humidity", "humidity"),
    **{("climate", f"{name}_mode"): (f"set_{name}_mode", f"{name}_mode") for name in ("fan", "preset", "swing")},
    ("fan", "percentage"): ("set_percentage", "percentage"),
    ("fan", "oscillating"): ("oscillate", "oscillating"),
    ("fan", "direction"): ("set_direction", "direction"),
    ("fan", "preset_mode"): ("set_preset_mode", "preset_mode"),
    ("cover", "current_position"): ("set_cover_position", "position"),
    ("cover", "current_tilt_position"): ("set_cover_tilt_position", "tilt_position"),
    ("valve", "current_position"): ("set_valve_position", "position"),
    ("media_player", "volume_level"): ("volume_set", "volume_level"),
    ("media_player", "is_volume_muted"): ("volume_mute", "is_volume_muted"),
    ("media_player", "source"): ("select_source", "source"),
    ("media_player", "shuffle"): ("shuffle_set", "shuffle"),
    ("humidifier", "humidity"): ("set_humidity", "humidity"),
    ("humidifier", "mode"): ("set_mode", "mode"),
    ("water_heater", "temperature"): ("set_temperature", "temperature"),
    ("vacuum", "fan_speed"): ("set_fan_speed", "fan_speed"),
    ("number", "state"): ("set_value", "value"),
    ("input_number", "state"): ("set_value", "value"),
}
"""(domain, attribute) -> the service that sets it and the field that takes the value."""
_ON_FIRST = ("volume_level", "is_volume_muted", "source", "shuffle")  # a media player that is off has none of these


@dataclass(frozen=True)
class Call:
    """A service call."""

    service: str
    """"domain.service"."""
    entities: tuple[str, ...]
    data: Mapping[str, Any] = field(default_factory=FrozenDict)

    def make(self, home: SimHome, cause: str = "agent") -> str | None:
        """Make the call; returns its error."""
        domain, _, service = self.service.partition(".")
        return home.call_service(domain, service, self.data, {"entity_id": list(self.entities)}, cause=cause).error


def achieve(home: SimHome, condition: Condition) -> list[Call] | None:
    """The calls that make a condition about one device true, from its state now; None where no service does."""
    match condition:
        case State(entity, value):
            return _reach_state(home, entity, value)
        case Attribute():
            return _reach_attribute(home, condition)
    return None


def joined(calls: Iterable[Call]) -> list[Call]:
    """The same with fewer calls: what goes to one device is one call, and what is said to several of them too."""
    merged: list[Call] = []
    for call in calls:
        for index, known in enumerate(merged):
            fits = all(known.data.get(key, value) == value for key, value in call.data.items())
            if (known.service, known.entities) == (call.service, call.entities) and fits:
                merged[index] = Call(call.service, call.entities, FrozenDict({**known.data, **call.data}))
                break
        else:
            merged.append(call)
    found: list[Call] = []
    for call in merged:
        for index, known in enumerate(found):
            if known.service == call.service and known.data == call.data:
                found[index] = Call(call.service, tuple(dict.fromkeys((*known.entities, *call.entities))), call.data)
                break
        else:
            found.append(call)
    return found


def _reach_state(home: SimHome, entity: str, value: str) -> list[Call] | None:
    now = home.state(entity)
    if now is None:
        return None
    if now.state == value:
        return []
    domain = now.domain
    if domain in CHOSEN:
        service, name = CHOSEN[domain]
        given: Any = float(value) if name == "value" and domain != "input_text" else value
        return [_call(home, now, service, {name: given})]
    if domain == "todo" and value.isdigit() and now.state.isdigit() and int(value) > int(now.state):
        return [_call(home, now, "add_item", {"item": f"item {n}"}) for n in range(int(now.state), int(value))]
    service = STATES.get(domain, {}).get(value)
    if service is None:
        return None
    first = ["turn_on"] if domain == "media_player" and now.state == "off" and value in ("playing", "paused") else []
    return [_call(home, now, name) for name in dict.fromkeys((*first, service))]


def _reach_attribute(home: SimHome, condition: Attribute) -> list[Call] | None:
    now = home.state(condition.entity)
    if now is None:
        return None
    value = _value(condition)
    if now.domain == "media_player" and condition.name == "media_track":
        step = int(value) - int(now.attributes.get("media_track") or 0)
        service = "media_next_track" if step > 0 else "media_previous_track"
        return [_call(home, now, service)] * abs(step)
    if now.domain == "climate" and condition.name in ("target_temp_low", "target_temp_high"):
        limits = {name: now.attributes.get(name) for name in ("target_temp_low", "target_temp_high")}
        return [_call(home, now, "set_temperature", {**limits, condition.name: value})]
    known = ATTRIBUTES.get((now.domain, condition.name))
    if known is None:
        return None
    first = ["turn_on"] if now.domain == "media_player" and now.state == "off" and condition.name in _ON_FIRST else []
    return [*(_call(home, now, name) for name in first), _call(home, now, known[0], {known[1]: value})]


def _value(condition: Attribute) -> Any:
    value: Value = condition.value
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"<": value - 1, ">": value + 1}.get(condition.op, value)
    return value


def _call(home: SimHome, now: EntityState, service: str, data: Mapping[str, Any] | None = None) -> Call:
    code = home.params(now.entity_id).get("code")
    wanted = (now.domain == "alarm_control_panel" and service == "alarm_disarm") or now.domain == "lock"
    given = {"code": code} if code is not None and wanted else {}
    return Call(f"{now.domain}.{service}", (now.entity_id,), FrozenDict({**(data or {}), **given}))


def calls_for(home: SimHome, conditions: Sequence[Condition]) -> list[Call] | None:
    """The calls that make all of these true at once, joined; None where one of them cannot be."""
    found: list[Call] = []
    for condition in conditions:
        calls = achieve(home, condition)
        if calls is None:
            return None
        found += calls
    return joined(found)
