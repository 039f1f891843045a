"""Humidifiers and water heaters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..backend import EntityState
from ..spec import EntitySpec
from .domain import Domain, Refused, Service
from .fields import Boolean, Number, Text

if TYPE_CHECKING:
    from .home import SimHome

MODES = 1
TARGET_TEMPERATURE, OPERATION_MODE, AWAY_MODE, ON_OFF = 1, 2, 4, 8
OPERATIONS = ("eco", "electric", "performance", "high_demand", "heat_pump", "gas", "off")


def _humidifier(spec: EntitySpec) -> tuple[str, dict[str, Any]]:
    features = int(spec.attributes.get("supported_features", 0))
    attributes: dict[str, Any] = {
        "humidity": 45,
        "min_humidity": 30,
        "max_humidity": 80,
        "current_humidity": None,
        "action": "off",
        "device_class": "humidifier",
        "supported_features": features,
    }
    if features & MODES:
        attributes |= {"available_modes": ["normal", "sleep", "boost"], "mode": "normal"}
    return "off", attributes


def _switch(state: str) -> Any:
    def handle(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
        home.update(entity.entity_id, state)

    return handle


def _toggle(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
    home.update(entity.entity_id, "off" if entity.state == "on" else "on")


def _set_humidity(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
    low, high = entity.attributes.get("min_humidity", 0), entity.attributes.get("max_humidity", 100)
    if not low <= data["humidity"] <= high:
        raise Refused(f"Provided humidity {data['humidity']} is not valid. Accepted range is {low} to {high}")
    home.update(entity.entity_id, None, {"humidity": data["humidity"]})


def _set_mode(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
    modes = entity.attributes.get("available_modes") or ()
    if data["mode"] not in modes:
        raise Refused(f"Mode {data['mode']} is not valid, valid modes are: {', '.join(modes)}.")
    home.update(entity.entity_id, None, {"mode": data["mode"]})


HUMIDIFIER = Domain(
    "humidifier",
    "on, off",
    {
        "turn_on": Service(_switch("on")),
        "turn_off": Service(_switch("off")),
        "toggle": Service(_toggle),
        "set_humidity": Service(_set_humidity, {"humidity": Number(0, 100, integer=True)}, ("humidity",)),
        "set_mode": Service(_set_mode, {"mode": Text()}, ("mode",), (MODES,)),
    },
    _humidifier,
    {"MODES": MODES},
    timing="the room's humidity follows from a moisture balance; device class `dehumidifier` removes moisture",
)


def _water_heater(spec: EntitySpec) -> tuple[str, dict[str, Any]]:
    features = int(spec.attributes.get("supported_features", TARGET_TEMPERATURE | OPERATION_MODE | ON_OFF))
    attributes: dict[str, Any] = {
        "min_temp": 30,
        "max_temp": 75,
        "temperature": 55.0,
        "current_temperature": 50.0,
        "operation_list": ["off", "eco", "electric"],
        "operation_mode": "eco",
        "supported_features": features,
    }
    if features & AWAY_MODE:
        attributes["away_mode"] = "off"
    return "eco", attributes


def _set_temperature(home: SimHome, heater: EntityState, data: dict[str, Any]) -> None:
    low, high = heater.attributes.get("min_temp", 30), heater.attributes.get("max_temp", 75)
    if not low <= data["temperature"] <= high:
        raise Refused(f"Provided temperature {data['temperature']} is not valid. Accepted range is {low} to {high}")
    mode = data.get("operation_mode")
    if mode is not None:
        _check_operation(heater, mode)
    home.update(
        heater.entity_id, mode, {"temperature": data["temperature"]} | ({"operation_mode": mode} if mode else {})
    )


def _check_operation(heater: EntityState, mode: str) -> None:
    options = heater.attributes.get("operation_list") or ()
    if mode not in options:
        listed = ", ".join(options)
        raise Refused(
            f"Operation mode {mode} is not valid for {heater.entity_id}. Valid operation modes are: {listed}."
        )


def _set_operation(home: SimHome, heater: EntityState, data: dict[str, Any]) -> None:
    mode = data["operation_mode"]
    _check_operation(heater, mode)
    if mode != "off":
        home.remember(heater.entity_id, {"operation_mode": mode})
    home.update(heater.entity_id, mode, {"operation_mode": mode})


def _water_on(home: SimHome, heater: EntityState, data: dict[str, Any]) -> None:
    if heater.state == "off":
        options = [mode for mode in heater.attributes.get("operation_list") or () if mode != "off"]
        mode = home.memory(heater.entity_id).get("operation_mode", options[0] if options else "electric")
        home.update(heater.entity_id, mode, {"operation_mode": mode})


def _water_off(home: SimHome, heater: EntityState, data: dict[str, Any]) -> None:
    if heater.state != "off":
        home.remember(heater.entity_id, {"operation_mode": heater.state})
    home.update(heater.entity_id, "off", {"operation_mode": "off"})


WATER_HEATER = Domain(
    "water_heater",
    ", ".join(OPERATIONS),
    {
        "turn_on": Service(_water_on, features=(ON_OFF,)),
        "turn_off": Service(_water_off, features=(ON_OFF,)),
        "set_temperature": Service(
            _set_temperature,
            {"temperature": Number(), "operation_mode": Text()},
            ("temperature",),
            features=(TARGET_TEMPERATURE,),
        ),
        "set_operation_mode": Service(
            _set_operation, {"operation_mode": Text()}, ("operation_mode",), features=(OPERATION_MODE,)
        ),
        "set_away_mode": Service(
            lambda home, heater, data: home.update(
                heater.entity_id, None, {"away_mode": "on" if data["away_mode"] else "off"}
            ),
            {"away_mode": Boolean()},
            ("away_mode",),
            features=(AWAY_MODE,),
        ),
    },
    _water_heater,
    {
        "TARGET_TEMPERATURE": TARGET_TEMPERATURE,
        "OPERATION_MODE": OPERATION_MODE,
        "AWAY_MODE": AWAY_MODE,
        "ON_OFF": ON_OFF,
    },
    timing="heats its tank with the parameter `power` (2000 W); showers cool it",
)
