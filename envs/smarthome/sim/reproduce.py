"""Which service calls bring an entity into a wanted state: what scenes do, and what going back means in a real home."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..backend import UNAVAILABLE, UNKNOWN, EntityState

Call = tuple[str, dict[str, Any]]
_LIGHT = ("brightness", "effect")
_COLOR = {"color_temp": "color_temp_kelvin"}
_ON_OFF = ("switch", "input_boolean", "automation", "siren", "camera", "script")


def calls_for(now: EntityState, state: str, attributes: Mapping[str, Any]) -> list[Call]:
    """The calls (service of the entity's domain, data) that bring it to `state` and `attributes`, as far as it can."""
    if state in (UNAVAILABLE, UNKNOWN):
        return []
    maker = _MAKERS.get(now.domain)
    return list(maker(now, state, attributes)) if maker else []


def _on_off(now: EntityState, state: str, attributes: Mapping[str, Any]) -> Iterator[Call]:
    if now.state != state and state in ("on", "off"):
        yield f"turn_{state}", {}


def _light(now: EntityState, state: str, attributes: Mapping[str, Any]) -> Iterator[Call]:
    if state != "on":
        yield from _on_off(now, state, attributes)
        return
    data = {key: attributes[key] for key in _LIGHT if attributes.get(key) is not None}
    color = _COLOR.get(str(attributes.get("color_mode")), "rgb_color" if attributes.get("rgb_color") else "")
    color = color or ("color_temp_kelvin" if "color_temp_kelvin" in attributes else "")
    if color and attributes.get(color) is not None:
        data[color] = attributes[color]
    if now.state != "on" or any(now.attributes.get(key) != value for key, value in data.items()):
        yield "turn_on", data


def _climate(now: EntityState, state: str, attributes: Mapping[str, Any]) -> Iterator[Call]:
    if now.state != state:
        yield "set_hvac_mode", {"hvac_mode": state}
    targets = ("temperature", "target_temp_low", "target_temp_high")
    wanted = {key: attributes[key] for key in targets if attributes.get(key) is not None}
    if any(now.attributes.get(key) != value for key, value in wanted.items()):
        yield "set_temperature", wanted
    for mode in ("preset_mode", "fan_mode", "swing_mode"):
        yield from _mode(now, attributes, mode, f"set_{mode}")
    yield from _mode(now, attributes, "humidity", "set_humidity")


def _mode(
    now: EntityState, attributes: Mapping[str, Any], key: str, service: str, field: str | None = None
) -> Iterator[Call]:
    value = attributes.get(key)
    if value is not None and now.attributes.get(key) != value:
        yield service, {field or key: value}


def _fan(now: EntityState, state: str, attributes: Mapping[str, Any]) -> Iterator[Call]:
    if state != "on":
        yield from _on_off(now, state, attributes)
        return
    if now.state != "on":
        yield "turn_on", {}
    if attributes.get("percentage"):
        yield from _mode(now, attributes, "percentage", "set_percentage")
    yield from _mode(now, attributes, "preset_mode", "set_preset_mode")
    yield from _mode(now, attributes, "oscillating", "oscillate")
    yield from _mode(now, attributes, "direction", "set_direction")


def _positioned(domain: str) -> Any:
    def calls(now: EntityState, state: str, attributes: Mapping[str, Any]) -> Iterator[Call]:
        wanted = attributes.get("current_position", attributes.get("position"))
        if wanted is not None and now.attributes.get("current_position") is not None:
            if now.attributes["current_position"] != wanted:
                yield f"set_{domain}_position", {"position": wanted}
        elif now.state != state:
            yield (f"open_{domain}" if state in ("open", "opening") else f"close_{domain}"), {}
        if domain == "cover":
            yield from _mode(now, attributes, "current_tilt_position", "set_cover_tilt_position", "tilt_position")

    return calls


def _lock(now: EntityState, state: str, attributes: Mapping[str, Any]) -> Iterator[Call]:
    verbs = {"locked": "lock", "locking": "lock", "unlocked": "unlock", "unlocking": "unlock", "open": "open"}
    if now.state != state and state in verbs:
        yield verbs[state], {}


def _media(now: EntityState, state: str, attributes: Mapping[str, Any]) -> Iterator[Call]:
    if state == "off":
        if now.state != "off":
            yield "turn_off", {}
        return
    if now.state == "off":
        yield "turn_on", {}
    yield from _mode(now, attributes, "volume_level", "volume_set")
    yield from _mode(now, attributes, "is_volume_muted", "volume_mute")
    yield from _mode(now, attributes, "source", "select_source")
    yield from _mode(now, attributes, "sound_mode", "select_sound_mode")
    verbs = {"playing": "media_play", "paused": "media_pause", "idle": "media_stop"}
    if now.state != state and state in verbs:
        yield verbs[state], {}


def _vacuum(now: EntityState, state: str, attributes: Mapping[str, Any]) -> Iterator[Call]:
    verbs = {"cleaning": "start", "docked": "return_to_base", "returning": "return_to_base", "paused": "pause"}
    verbs["idle"] = "stop"
    if now.state != state and state in verbs and not (now.state == "returning" and state == "docked"):
        yield verbs[state], {}
    yield from _mode(now, attributes, "fan_speed", "set_fan_speed")


def _mower(now: EntityState, state: str, attributes: Mapping[str, Any]) -> Iterator[Call]:
    verbs = {"mowing": "start_mowing", "docked": "dock", "paused": "pause"}
    if now.state != state and state in verbs:
        yield verbs[state], {}


def _humidifier(now: EntityState, state: str, attributes: Mapping[str, Any]) -> Iterator[Call]:
    yield from _on_off(now, state, attributes)
    yield from _mode(now, attributes, "humidity", "set_humidity")
    yield from _mode(now, attributes, "mode", "set_mode")


def _water_heater(now: EntityState, state: str, attributes: Mapping[str, Any]) -> Iterator[Call]:
    if now.state != state:
        yield ("turn_off", {}) if state == "off" else ("set_operation_mode", {"operation_mode": state})
    yield from _mode(now, attributes, "temperature", "set_temperature")


def _alarm(now: EntityState, state: str, attributes: Mapping[str, Any]) -> Iterator[Call]:
    if now.state != state:
        if state == "disarmed":
            yield "alarm_disarm", {}
        elif state.startswith("armed_"):
            yield f"alarm_arm_{state.removeprefix('armed_')}", {}
        elif state == "triggered":
            yield "alarm_trigger", {}


def _value(service: str, field: str) -> Any:
    def calls(now: EntityState, state: str, attributes: Mapping[str, Any]) -> Iterator[Call]:
        if now.state != state:
            yield service, {field: state}

    return calls


def _timer(now: EntityState, state: str, attributes: Mapping[str, Any]) -> Iterator[Call]:
    verbs = {"active": "start", "paused": "pause", "idle": "cancel"}
    if now.state != state and state in verbs:
        yield verbs[state], {}


_MAKERS = {
    **dict.fromkeys(_ON_OFF, _on_off),
    "light": _light,
    "climate": _climate,
    "fan": _fan,
    "cover": _positioned("cover"),
    "valve": _positioned("valve"),
    "lock": _lock,
    "media_player": _media,
    "vacuum": _vacuum,
    "lawn_mower": _mower,
    "humidifier": _humidifier,
    "water_heater": _water_heater,
    "alarm_control_panel": _alarm,
    "number": _value("set_value", "value"),
    "input_number": _value("set_value", "value"),
    "input_text": _value("set_value", "value"),
    "counter": _value("set_value", "value"),
    "select": _value("select_option", "option"),
    "input_select": _value("select_option", "option"),
    "timer": _timer,
}
