"""Climate devices and fans: what their services set. `air` computes what they do to the rooms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..backend import EntityState
from ..spec import EntitySpec
from .domain import Domain, Refused, Service, flags, one_of
from .fields import Boolean, Choice, Number, Text

if TYPE_CHECKING:
    from .home import SimHome

TARGET_TEMPERATURE, TARGET_TEMPERATURE_RANGE, TARGET_HUMIDITY, FAN_MODE, PRESET_MODE, SWING_MODE = 1, 2, 4, 8, 16, 32
TURN_OFF, TURN_ON = 128, 256
SET_SPEED, OSCILLATE, DIRECTION, FAN_PRESET = 1, 2, 4, 8
HVAC_MODES = ("off", "auto", "cool", "dry", "fan_only", "heat_cool", "heat")
_PREFERRED = ("heat_cool", "heat", "cool")  # what turn_on chooses from, in Home Assistant's order


def _climate(spec: EntitySpec) -> tuple[str, dict[str, Any]]:
    given = spec.attributes
    features = int(given.get("supported_features", TARGET_TEMPERATURE | TURN_OFF | TURN_ON))
    attributes: dict[str, Any] = {
        "hvac_modes": ["off", "heat"],
        "min_temp": 7,
        "max_temp": 35,
        "target_temp_step": 0.5,
        "current_temperature": None,
        "hvac_action": "off",
        "supported_features": features,
    }
    if features & TARGET_TEMPERATURE:
        attributes["temperature"] = 20.0
    if features & TARGET_TEMPERATURE_RANGE:
        attributes |= {"target_temp_low": None, "target_temp_high": None}
    if features & TARGET_HUMIDITY:
        attributes |= {"humidity": 50, "min_humidity": 30, "max_humidity": 99}
    if features & FAN_MODE:
        attributes |= {"fan_modes": ["auto", "low", "medium", "high"], "fan_mode": "auto"}
    if features & PRESET_MODE:
        attributes |= {"preset_modes": ["none", "eco", "away", "comfort"], "preset_mode": "none"}
    if features & SWING_MODE:
        attributes |= {"swing_modes": ["off", "vertical"], "swing_mode": "off"}
    return "off", attributes


def _set_hvac_mode(home: SimHome, climate: EntityState, data: dict[str, Any]) -> None:
    mode = data.get("hvac_mode")
    if mode is None:
        return
    one_of("hvac_mode", mode, climate.attributes.get("hvac_modes"))
    if mode != "off":
        home.remember(climate.entity_id, {"hvac_mode": mode})
    home.update(climate.entity_id, mode)


def _set_temperature(home: SimHome, climate: EntityState, data: dict[str, Any]) -> None:
    low, high = climate.attributes.get("min_temp", 7), climate.attributes.get("max_temp", 35)
    for key in ("temperature", "target_temp_high", "target_temp_low"):
        if key in data and not low <= data[key] <= high:
            raise Refused(f"Provided temperature {data[key]} is not valid. Accepted range is {low} to {high}")
    if data.get("target_temp_low", low) > data.get("target_temp_high", high):
        raise Refused("target_temp_low is above target_temp_high")
    mode = data.get("hvac_mode")
    if mode is not None:
        one_of("hvac_mode", mode, climate.attributes.get("hvac_modes"))
    supported = flags(climate)
    changes: dict[str, Any] = {}
    if supported & TARGET_TEMPERATURE and "temperature" in data:
        changes["temperature"] = data["temperature"]
    if supported & TARGET_TEMPERATURE_RANGE:
        changes |= {key: data[key] for key in ("target_temp_low", "target_temp_high") if key in data}
    if not changes and mode is None:
        wanted = "a range of temperatures" if "temperature" in data else "one temperature"
        raise Refused(f"Entity {climate.entity_id} takes {wanted}.", "home_assistant_error")
    home.update(climate.entity_id, mode, changes)
    if mode not in (None, "off"):
        home.remember(climate.entity_id, {"hvac_mode": mode})


def _set_humidity(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
    low, high = entity.attributes.get("min_humidity", 0), entity.attributes.get("max_humidity", 100)
    if not low <= data["humidity"] <= high:
        raise Refused(f"Provided humidity {data['humidity']} is not valid. Accepted range is {low} to {high}")
    home.update(entity.entity_id, None, {"humidity": data["humidity"]})


def _set_mode(kind: str) -> Any:
    def handle(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
        one_of(kind, data[kind], entity.attributes.get(f"{kind}s"))
        changes: dict[str, Any] = {kind: data[kind]}
        targets = home.params(entity.entity_id).get("preset_temperatures", {})
        if kind == "preset_mode" and data[kind] in targets and "temperature" in entity.attributes:
            changes["temperature"] = targets[data[kind]]
        home.update(entity.entity_id, None, changes)

    return handle


def _climate_on(home: SimHome, climate: EntityState, data: dict[str, Any]) -> None:
    if climate.state != "off":
        return
    modes = climate.attributes.get("hvac_modes", ())
    last = home.memory(climate.entity_id).get("hvac_mode")
    mode = last or next((mode for mode in _PREFERRED if mode in modes), None)
    mode = mode or next((mode for mode in modes if mode != "off"), "off")
    home.update(climate.entity_id, mode)


def _climate_off(home: SimHome, climate: EntityState, data: dict[str, Any]) -> None:
    if climate.state != "off":
        home.remember(climate.entity_id, {"hvac_mode": climate.state})
    home.update(climate.entity_id, "off")


def _climate_toggle(home: SimHome, climate: EntityState, data: dict[str, Any]) -> None:
    (_climate_on if climate.state == "off" else _climate_off)(home, climate, data)


CLIMATE = Domain(
    "climate",
    ", ".join(HVAC_MODES),
    {
        "set_hvac_mode": Service(_set_hvac_mode, {"hvac_mode": Choice(HVAC_MODES)}),
        "set_temperature": Service(
            _set_temperature,
            {
                "temperature": Number(),
                "target_temp_high": Number(),
                "target_temp_low": Number(),
                "hvac_mode": Choice(HVAC_MODES),
            },
            features=(TARGET_TEMPERATURE, TARGET_TEMPERATURE_RANGE),
            at_least=("temperature", "target_temp_high", "target_temp_low"),
        ),
        "set_humidity": Service(
            _set_humidity, {"humidity": Number(integer=True)}, ("humidity",), features=(TARGET_HUMIDITY,)
        ),
        "set_fan_mode": Service(_set_mode("fan_mode"), {"fan_mode": Text()}, ("fan_mode",), (FAN_MODE,)),
        "set_preset_mode": Service(_set_mode("preset_mode"), {"preset_mode": Text()}, ("preset_mode",), (PRESET_MODE,)),
        "set_swing_mode": Service(_set_mode("swing_mode"), {"swing_mode": Text()}, ("swing_mode",), (SWING_MODE,)),
        "turn_on": Service(_climate_on, features=(TURN_ON,)),
        "turn_off": Service(_climate_off, features=(TURN_OFF,)),
        "toggle": Service(_climate_toggle, features=(TURN_ON | TURN_OFF,)),
    },
    _climate,
    {
        "TARGET_TEMPERATURE": TARGET_TEMPERATURE,
        "TARGET_TEMPERATURE_RANGE": TARGET_TEMPERATURE_RANGE,
        "TARGET_HUMIDITY": TARGET_HUMIDITY,
        "FAN_MODE": FAN_MODE,
        "PRESET_MODE": PRESET_MODE,
        "SWING_MODE": SWING_MODE,
        "AUX_HEAT": 64,
        "TURN_OFF": TURN_OFF,
        "TURN_ON": TURN_ON,
    },
    timing="the room's temperature follows from heat flows; the thermostat reports every 5 minutes",
)


def _fan(spec: EntitySpec) -> tuple[str, dict[str, Any]]:
    features = int(spec.attributes.get("supported_features", SET_SPEED))
    attributes: dict[str, Any] = {"supported_features": features}
    if features & SET_SPEED:
        attributes |= {"percentage": 0, "percentage_step": 25.0}
    if features & OSCILLATE:
        attributes["oscillating"] = False
    if features & DIRECTION:
        attributes["direction"] = "forward"
    if features & FAN_PRESET:
        attributes |= {"preset_modes": ["auto", "sleep"], "preset_mode": None}
    return "off", attributes


def _fan_on(home: SimHome, fan: EntityState, data: dict[str, Any]) -> None:
    if "preset_mode" in data:
        return _fan_preset(home, fan, data)
    if not flags(fan) & SET_SPEED:
        return home.update(fan.entity_id, "on")
    last = home.memory(fan.entity_id).get("percentage", 100)
    percentage = data.get("percentage", fan.attributes.get("percentage") or last)
    return _fan_speed(home, fan, {"percentage": percentage})


def _fan_speed(home: SimHome, fan: EntityState, data: dict[str, Any]) -> None:
    percentage = data["percentage"]
    if percentage == 0:
        return _fan_off(home, fan, {})
    home.remember(fan.entity_id, {"percentage": percentage})
    changes: dict[str, Any] = {"percentage": percentage}
    if "preset_mode" in fan.attributes:
        changes["preset_mode"] = None
    return home.update(fan.entity_id, "on", changes)


def _fan_off(home: SimHome, fan: EntityState, data: dict[str, Any]) -> None:
    zero = {"percentage": 0, "preset_mode": None}
    home.update(fan.entity_id, "off", {key: value for key, value in zero.items() if key in fan.attributes})


def _fan_toggle(home: SimHome, fan: EntityState, data: dict[str, Any]) -> None:
    (_fan_off if fan.state == "on" else _fan_on)(home, fan, {})


def _fan_step(sign: int) -> Any:
    def handle(home: SimHome, fan: EntityState, data: dict[str, Any]) -> None:
        step = data.get("percentage_step", fan.attributes.get("percentage_step", 25))
        percentage = (fan.attributes.get("percentage") or 0) + sign * step
        _fan_speed(home, fan, {"percentage": int(max(0, min(100, percentage)))})

    return handle


def _fan_preset(home: SimHome, fan: EntityState, data: dict[str, Any]) -> None:
    options = fan.attributes.get("preset_modes") or ()
    if data["preset_mode"] not in options:
        listed = ", ".join(map(str, options))
        raise Refused(f"Preset mode {data['preset_mode']} is not valid, valid preset modes are: {listed}.")
    home.update(fan.entity_id, "on", {"preset_mode": data["preset_mode"]})


def _fan_power(fan: EntityState, params: Mapping[str, Any]) -> float:
    if fan.state != "on":
        return 0.0
    return float(params.get("power", 45.0)) * (fan.attributes.get("percentage") or 50) / 100


FAN = Domain(
    "fan",
    "on, off",
    {
        "turn_on": Service(_fan_on, {"percentage": Number(0, 100, integer=True), "preset_mode": Text()}),
        "turn_off": Service(_fan_off),
        "toggle": Service(_fan_toggle),
        "set_percentage": Service(
            _fan_speed, {"percentage": Number(0, 100, integer=True)}, ("percentage",), features=(SET_SPEED,)
        ),
        "increase_speed": Service(_fan_step(1), {"percentage_step": Number(0, 100, True)}, features=(SET_SPEED,)),
        "decrease_speed": Service(_fan_step(-1), {"percentage_step": Number(0, 100, True)}, features=(SET_SPEED,)),
        "oscillate": Service(
            lambda home, fan, data: home.update(fan.entity_id, None, {"oscillating": data["oscillating"]}),
            {"oscillating": Boolean()},
            ("oscillating",),
            (OSCILLATE,),
        ),
        "set_direction": Service(
            lambda home, fan, data: home.update(fan.entity_id, None, {"direction": data["direction"]}),
            {"direction": Choice(("forward", "reverse"))},
            ("direction",),
            (DIRECTION,),
        ),
        "set_preset_mode": Service(_fan_preset, {"preset_mode": Text()}, ("preset_mode",), (FAN_PRESET,)),
    },
    _fan,
    {"SET_SPEED": SET_SPEED, "OSCILLATE": OSCILLATE, "DIRECTION": DIRECTION, "PRESET_MODE": FAN_PRESET},
    power=_fan_power,
    timing="with the parameter `role`: a purifier cleans particles, an exhaust fan changes the room's air",
)
