"""What can be bought: kinds of devices with their entities, capabilities and starting states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from ..frozen import FrozenDict


@dataclass(frozen=True)
class Part:
    """One entity of a device to be."""

    domain: str
    suffix: str = ""
    """Behind the device's name, e.g. "Power"."""
    state: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=FrozenDict)
    params: Mapping[str, Any] = field(default_factory=FrozenDict)
    """"{self}" stands for the id of the device's first entity, "{0}", "{1}" ... for any by number."""


@dataclass(frozen=True)
class Kind:
    """A kind of device."""

    titles: tuple[str, ...]
    """What people call it."""
    brands: tuple[str, ...]
    make: Callable[[Random], tuple[Part, ...]]


def _light(
    *modes: str, lumens: int = 800, extra: Mapping[str, Any] = FrozenDict()
) -> Callable[[Random], tuple[Part, ...]]:
    def make(rng: Random) -> tuple[Part, ...]:
        lit = rng.random() < 0.35
        level = {"brightness": rng.choice((60, 90, 128, 180, 230))} if lit and modes != ("onoff",) else {}
        attributes = {"supported_color_modes": list(modes), **extra, **level}
        return (Part("light", "", "on" if lit else "off", attributes, {"lumens": lumens}),)

    return make


def _climate(rng: Random) -> tuple[Part, ...]:
    target, state = rng.choice((18.0, 19.0, 20.0, 21.0)), rng.choice(("heat", "heat", "off"))
    power = rng.choice((1200, 1500, 2000))
    return (
        Part(
            *("climate", "", state, {"hvac_modes": ["off", "heat"], "temperature": target}),
            {"heating_power": power, "preset_temperatures": {"eco": 17.0}},
        ),
    )


def _aircon(rng: Random) -> tuple[Part, ...]:
    attributes = {
        "hvac_modes": ["off", "heat", "cool", "dry", "fan_only"],
        "supported_features": 1 | 8 | 128 | 256,
        "temperature": rng.choice((20.0, 22.0, 24.0)),
    }
    return (Part("climate", "", "off", attributes, {"heating_power": 3000, "cooling_power": 3000}),)


def _cover(device_class: str, features: int) -> Callable[[Random], tuple[Part, ...]]:
    def make(rng: Random) -> tuple[Part, ...]:
        position = rng.choice((0, 100)) if device_class == "garage" else rng.choice((0, 50, 100, 100))
        attributes: dict[str, Any] = {"device_class": device_class, "supported_features": features}
        if features & 4:
            attributes["current_position"] = position
        return (Part("cover", "", "open" if position else "closed", attributes),)

    return make


def _switch(power: int, on: float = 0.2, **params: Any) -> Callable[[Random], tuple[Part, ...]]:
    return lambda rng: (Part("switch", "", "on" if rng.random() < on else "off", {}, {"power": power, **params}),)


def _cycle(power: int, programs: Mapping[str, int]) -> Callable[[Random], tuple[Part, ...]]:
    def make(rng: Random) -> tuple[Part, ...]:
        return (
            Part("switch", params={"power": power, "cycle": {"select": "{1}", "programs": dict(programs)}}),
            Part("select", "Program", rng.choice(list(programs)), {"options": list(programs)}),
            Part("sensor", "Power", params={"measures": "power:{0}"}),
            Part("sensor", "Energy", params={"measures": "energy:{0}"}),
        )

    return make


def _media(device_class: str, features: int) -> Callable[[Random], tuple[Part, ...]]:
    def make(rng: Random) -> tuple[Part, ...]:
        state = rng.choice(("off", "playing", "paused", "off"))
        attributes = {"device_class": device_class, "supported_features": features}
        attributes["volume_level"] = rng.choice((0.2, 0.3, 0.5, 0.7))
        return (Part("media_player", "", state, attributes),)

    return make


def _one(domain: str, *states: str, **attributes: Any) -> Callable[[Random], tuple[Part, ...]]:
    return lambda rng: (Part(domain, "", rng.choice(states) if states else None, attributes),)


def _fan(features: int, **params: Any) -> Callable[[Random], tuple[Part, ...]]:
    def make(rng: Random) -> tuple[Part, ...]:
        level = rng.choice((0, 0, 25, 50, 75))
        attributes = {"supported_features": features, "percentage": level}
        return (Part("fan", "", "on" if level else "off", attributes, params),)

    return make


def _measures(*quantities: str) -> Callable[[Random], tuple[Part, ...]]:
    titles = {"co2": "CO2", "pm25": "Particles"}
    return lambda rng: tuple(
        Part("sensor", titles.get(name, name.title()), params={"measures": name}) for name in quantities
    )


def _charger(rng: Random) -> tuple[Part, ...]:
    return (
        Part(
            "switch",
            params={
                "power": 7400,
                "charger": {"capacity": 60, "level": rng.choice((20, 35, 50)), "limit": "{1}"},
            },
        ),
        Part("number", "Limit", "80.0", {"min": 50, "max": 100, "step": 5, "unit_of_measurement": "%"}),
        Part("sensor", "Battery", params={"measures": "charge:{0}"}),
    )


def _binary(device_class: str, **params: Any) -> Callable[[Random], tuple[Part, ...]]:
    return lambda rng: (Part("binary_sensor", "", None if params else "off", {"device_class": device_class}, params),)


def _lock(rng: Random) -> tuple[Part, ...]:
    return (
        Part("lock", "", rng.choice(("locked", "locked", "unlocked"))),
        Part("sensor", "Battery", params={"measures": "battery:{0}"}),
    )


_LAMPS = ("Philips", "IKEA", "Osram", "Yeelight")
KINDS: Mapping[str, Kind] = {
    "ceiling_light": Kind(("Ceiling Light", "Main Light"), _LAMPS, _light("brightness", lumens=1600)),
    "lamp": Kind(("Floor Lamp", "Lamp", "Corner Lamp"), _LAMPS, _light("color_temp", lumens=900)),
    "desk_lamp": Kind(("Desk Lamp", "Reading Lamp"), _LAMPS, _light("color_temp", lumens=700)),
    "bedside_lamp": Kind(("Bedside Lamp", "Night Light"), _LAMPS, _light("brightness", lumens=400)),
    "strip": Kind(
        ("LED Strip", "Mood Light"),
        _LAMPS,
        _light(
            "color_temp",
            "hs",
            lumens=500,
            extra={"supported_features": 36, "effect_list": ["none", "candle", "rainbow"]},
        ),
    ),
    "simple_light": Kind(("Light", "Wall Light"), _LAMPS, _light("onoff", lumens=800)),
    "plug": Kind(("Plug", "Smart Plug"), ("TP-Link", "Shelly", "Eve"), _switch(60, 0.4)),
    "coffee": Kind(("Coffee Machine", "Espresso Machine"), ("DeLonghi", "Sage"), _switch(1200, 0.0)),
    "kettle": Kind(("Kettle",), ("Bosch", "Smeg"), _switch(2000, 0.0)),
    "washer": Kind(
        ("Washing Machine", "Washer"), ("Miele", "Bosch"), _cycle(500, {"quick": 30, "cotton": 120, "eco": 180})
    ),
    "dryer": Kind(("Dryer", "Tumble Dryer"), ("Miele", "Siemens"), _cycle(900, {"quick": 40, "normal": 90})),
    "dishwasher": Kind(("Dishwasher",), ("Bosch", "Siemens"), _cycle(700, {"quick": 30, "auto": 90, "eco": 200})),
    "radiator": Kind(("Radiator", "Thermostat", "Heating"), ("Tado", "Danfoss", "Netatmo"), _climate),
    "aircon": Kind(("Air Conditioner", "AC"), ("Daikin", "Midea", "LG"), _aircon),
    "fan": Kind(("Ceiling Fan", "Fan"), ("Hunter", "Dyson"), _fan(1 | 2 | 4)),
    "exhaust": Kind(("Exhaust Fan", "Extractor"), ("Vent-Axia", "Maico"), _fan(1, role="exhaust", air_changes=6.0)),
    "purifier": Kind(("Air Purifier",), ("Xiaomi", "Coway"), _fan(1, role="purifier", clean_air=300)),
    "humidifier": Kind(
        ("Humidifier",), ("Venta", "Levoit"), _one("humidifier", "off", supported_features=1, humidity=45)
    ),
    "dehumidifier": Kind(
        ("Dehumidifier",), ("Meaco", "DeLonghi"), _one("humidifier", "off", device_class="dehumidifier", humidity=55)
    ),
    "boiler": Kind(("Boiler", "Water Heater"), ("Stiebel Eltron", "Ariston"), _one("water_heater", "eco")),
    "blind": Kind(("Blind", "Roller Blind"), ("IKEA", "Somfy"), _cover("blind", 15)),
    "curtain": Kind(("Curtain", "Curtains"), ("SwitchBot", "Aqara"), _cover("curtain", 15)),
    "garage_door": Kind(("Garage Door",), ("Hormann", "Chamberlain"), _cover("garage", 11)),
    "awning": Kind(("Awning",), ("Markilux", "Somfy"), _cover("awning", 15)),
    "lock": Kind(("Door Lock", "Front Door"), ("Nuki", "Yale", "August"), _lock),
    "tv": Kind(("TV", "Television"), ("Samsung", "LG", "Sony"), _media("tv", 2048 + 5565)),
    "speaker": Kind(("Speaker", "Soundbar"), ("Sonos", "Bose", "Denon"), _media("speaker", 22_461)),
    "vacuum": Kind(("Robot Vacuum", "Vacuum"), ("Roborock", "iRobot", "Ecovacs"), _one("vacuum")),
    "mower": Kind(("Mower", "Robot Mower"), ("Husqvarna", "Gardena"), _one("lawn_mower")),
    "alarm": Kind(("Alarm", "Alarm Panel"), ("Ajax", "Bosch"), _one("alarm_control_panel", "disarmed")),
    "siren": Kind(("Siren",), ("Ajax", "Aeotec"), _one("siren", "off")),
    "camera": Kind(("Camera",), ("Reolink", "Arlo"), _one("camera", "idle")),
    "tap": Kind(("Garden Tap", "Sprinkler"), ("Gardena", "Orbit"), _one("valve", "closed", supported_features=15)),
    "water_main": Kind(("Water Main", "Main Valve"), ("Grohe", "Moen"), _one("valve", "open", supported_features=3)),
    "charger": Kind(("Car Charger", "Wallbox"), ("Easee", "Zaptec"), _charger),
    "climate_sensor": Kind(
        ("Climate Sensor", "Weather Station"), ("Aqara", "Netatmo"), _measures("temperature", "humidity")
    ),
    "air_sensor": Kind(("Air Monitor", "Air Quality Sensor"), ("Awair", "Netatmo"), _measures("co2", "pm25")),
    "light_sensor": Kind(("Light Sensor",), ("Aqara", "Eve"), _measures("illuminance")),
    "motion": Kind(("Motion Sensor",), ("Philips", "Aqara"), _binary("motion", measures="motion")),
    "presence": Kind(("Presence Sensor",), ("Aqara", "Everything"), _binary("occupancy", measures="occupancy")),
    "smoke": Kind(("Smoke Detector",), ("Nest", "Bosch"), _binary("smoke")),
    "leak": Kind(("Leak Sensor",), ("Aqara", "Fibaro"), _binary("moisture")),
}
