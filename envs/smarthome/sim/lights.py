"""Lights and switches: light, switch, input_boolean, and the buttons."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..backend import EntityState
from ..spec import EntitySpec
from . import charging
from .colors import COLORS
from .domain import Domain, Refused, Service, flags
from .fields import Choice, Number, Numbers, Text

if TYPE_CHECKING:
    from .home import SimHome

EFFECT, FLASH, TRANSITION = 4, 8, 32
_COLOR_MODES = ("hs", "xy", "rgb", "rgbw", "rgbww")
_COLOR_FIELDS = {
    "color_temp": Number(1, integer=True),
    "color_temp_kelvin": Number(1, integer=True),
    "kelvin": Number(1, integer=True),
    "hs_color": Numbers(2, 0, (360, 100), integer=False),
    "rgb_color": Numbers(3),
    "color_name": Text(),
    "white": Number(0, 255, integer=True),
}
_BRIGHTNESS_FIELDS = {
    "brightness": Number(0, 255, integer=True),
    "brightness_pct": Number(0, 100),
    "brightness_step": Number(-255, 255, integer=True),
    "brightness_step_pct": Number(-100, 100),
}
_TURN_ON = {
    **_BRIGHTNESS_FIELDS,
    **_COLOR_FIELDS,
    "transition": Number(0, 6553),
    "flash": Choice(("short", "long")),
    "effect": Text(),
    "profile": Text(),
}
_EXCLUSIVE = (tuple(_BRIGHTNESS_FIELDS), tuple(_COLOR_FIELDS))


def _light(spec: EntitySpec) -> tuple[str, dict[str, Any]]:
    modes = list(spec.attributes.get("supported_color_modes", ("brightness",)))
    attributes: dict[str, Any] = {"supported_color_modes": modes, "color_mode": None, "supported_features": 0}
    if modes != ["onoff"]:
        attributes["brightness"] = None
    if "color_temp" in modes:
        attributes |= {"min_color_temp_kelvin": 2000, "max_color_temp_kelvin": 6500, "color_temp_kelvin": None}
    if any(mode in _COLOR_MODES for mode in modes):
        attributes |= {"hs_color": None, "rgb_color": None}
    if int(spec.attributes.get("supported_features", 0)) & EFFECT:
        attributes |= {"effect_list": ["none"], "effect": None}
    return "off", attributes


def _turn_on(home: SimHome, light: EntityState, data: dict[str, Any]) -> None:
    modes = light.attributes.get("supported_color_modes", ())
    dims = any(mode != "onoff" for mode in modes)
    last = home.memory(light.entity_id)
    level = light.attributes.get("brightness") if light.state == "on" else last.get("brightness")
    level = int(level or 255)  # a lamp that is off may say 0
    if "brightness" in data:
        level = data["brightness"]
    elif "brightness_pct" in data:
        level = round(255 * data["brightness_pct"] / 100)
    elif "brightness_step" in data or "brightness_step_pct" in data:
        base = level if light.state == "on" else 0
        step = data.get("brightness_step", 255 * data.get("brightness_step_pct", 0) / 100)
        level = max(0, min(255, base + round(step)))
    if dims and level == 0:
        return _turn_off(home, light, {})
    changes: dict[str, Any] = {}
    if dims:
        changes["brightness"] = level
    changes |= _color(light, data, last)
    if "effect" in data and flags(light) & EFFECT:
        options = light.attributes.get("effect_list") or ()
        if data["effect"] not in options:
            raise Refused(f"{data['effect']} is not a valid effect: {', '.join(map(str, options))}", "invalid_format")
        changes["effect"] = data["effect"]
    home.update(light.entity_id, "on", changes)
    home.remember(light.entity_id, {key: changes[key] for key in ("brightness", *_KEPT) if key in changes})
    return None


_KEPT = ("color_mode", "color_temp_kelvin", "hs_color", "rgb_color")


def _color(light: EntityState, data: Mapping[str, Any], last: Mapping[str, Any]) -> dict[str, Any]:
    """The colour attributes after a call; what the light cannot do is left out, as Home Assistant does."""
    modes = light.attributes.get("supported_color_modes", ())
    colorful = next((mode for mode in _COLOR_MODES if mode in modes), None)
    kelvin = data.get("color_temp_kelvin", data.get("kelvin"))
    if "color_temp" in data:
        kelvin = round(1_000_000 / data["color_temp"])
    rgb = data.get("rgb_color")
    if "color_name" in data:
        rgb = COLORS.get(data["color_name"].replace(" ", "").lower(), (255, 255, 255))
    hs = data.get("hs_color")
    if kelvin is not None and "color_temp" in modes:
        low = light.attributes.get("min_color_temp_kelvin", 2000)
        high = light.attributes.get("max_color_temp_kelvin", 6500)
        changes: dict[str, Any] = {"color_mode": "color_temp", "color_temp_kelvin": int(max(low, min(high, kelvin)))}
        return changes | ({"hs_color": None, "rgb_color": None} if colorful else {})
    if (rgb is not None or hs is not None) and colorful:
        if rgb is None:
            red, green, blue = colorsys.hsv_to_rgb(hs[0] / 360, hs[1] / 100, 1.0)  # pyright: ignore[reportOptionalSubscript]
            rgb = (round(red * 255), round(green * 255), round(blue * 255))
        hue, saturation, _ = colorsys.rgb_to_hsv(*(part / 255 for part in rgb))
        hs = (round(hue * 360, 3), round(saturation * 100, 3)) if hs is None else hs
        changes = {"color_mode": colorful, "hs_color": list(hs), "rgb_color": list(rgb)}
        return changes | ({"color_temp_kelvin": None} if "color_temp" in modes else {})
    if light.state == "on" and light.attributes.get("color_mode"):
        return {}
    if last.get("color_mode"):
        return {key: last[key] for key in _KEPT if key in last and (key in light.attributes or key == "color_mode")}
    mode = "color_temp" if "color_temp" in modes else colorful or (modes[0] if modes else "onoff")
    return {"color_mode": mode} | ({"color_temp_kelvin": 3000} if mode == "color_temp" else {})


def _turn_off(home: SimHome, light: EntityState, data: dict[str, Any]) -> None:
    gone = ("brightness", "color_mode", "color_temp_kelvin", "hs_color", "rgb_color", "effect")
    if light.state == "on":
        kept = {key: light.attributes[key] for key in ("brightness", *_KEPT) if light.attributes.get(key) is not None}
        home.remember(light.entity_id, kept)
    home.update(light.entity_id, "off", {key: None for key in gone if key in light.attributes})


def _toggle(home: SimHome, light: EntityState, data: dict[str, Any]) -> None:
    if light.state == "on":
        _turn_off(home, light, data)
    else:
        _turn_on(home, light, data)


def _light_power(light: EntityState, params: Mapping[str, Any]) -> float:
    if light.state != "on":
        return 0.3
    return 0.3 + float(params.get("power", 9.0)) * (light.attributes.get("brightness") or 255) / 255


def _on(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
    if entity.state == "on":
        return
    if "charger" in home.params(entity.entity_id):
        charging.begin(home, entity.entity_id)
    home.update(entity.entity_id, "on")
    cycle = home.params(entity.entity_id).get("cycle")
    if cycle:
        # An appliance: it runs its program and switches itself off; a select entity may choose the program.
        chosen = home.state(str(cycle.get("select", "")))
        minutes = cycle["programs"].get(chosen.state if chosen else "", cycle.get("minutes", 60))
        home.begin(entity.entity_id, "cycle_done", minutes * 60)


def _off(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
    home.cancel(entity.entity_id)
    if "charger" in home.params(entity.entity_id):
        charging.end(home, entity.entity_id)
    home.update(entity.entity_id, "off")


def _switch_toggle(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
    (_off if entity.state == "on" else _on)(home, entity, data)


def _cycle_done(home: SimHome, entity_id: str, payload: tuple[Any, ...]) -> None:
    home.update(entity_id, "off")
    home.fire_event("appliance_finished", {"entity_id": entity_id})


def _switch_power(entity: EntityState, params: Mapping[str, Any]) -> float:
    usual = 7400.0 if "charger" in params else 40.0
    return float(params.get("power", usual)) if entity.state == "on" else float(params.get("standby", 0.5))


def _press(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
    home.update(entity.entity_id, home.now().isoformat())


_SWITCHES = {"turn_on": Service(_on), "turn_off": Service(_off), "toggle": Service(_switch_toggle)}

LIGHT = Domain(
    "light",
    "on, off",
    {
        "turn_on": Service(_turn_on, _TURN_ON, exclusive=_EXCLUSIVE),
        "turn_off": Service(_turn_off, {"transition": Number(0, 6553), "flash": Choice(("short", "long"))}),
        "toggle": Service(_toggle, _TURN_ON, exclusive=_EXCLUSIVE),
    },
    _light,
    {"EFFECT": EFFECT, "FLASH": FLASH, "TRANSITION": TRANSITION},
    power=_light_power,
)
SWITCH = Domain(
    "switch",
    "on, off",
    _SWITCHES,
    lambda spec: ("off", {}),
    events={"cycle_done": _cycle_done, "charged": charging.charged},
    power=_switch_power,
    timing="with the parameter `cycle` an appliance's program, with `charger` a battery: then off, and an event",
)
INPUT_BOOLEAN = Domain("input_boolean", "on, off", _SWITCHES, lambda spec: ("off", {"editable": True}))
BUTTON = Domain("button", "time of the last press", {"press": Service(_press)})
INPUT_BUTTON = Domain("input_button", "time of the last press", {"press": Service(_press)})
