"""Reads the homes of the home-assistant-datasets project: `_fixtures.yaml` (with devices) and `homes.yaml` (without).

The files are Apache-2.0, from github.com/allenporter/home-assistant-datasets; none of them is part of sandlot. Their
attributes use the names of Home Assistant's Python enums ("cover.CoverEntityFeature.OPEN") and of its native values;
here they become what the state machine shows. Sensors, and what thermostats measure, keep their values: the tests that
come with these homes expect nothing to change by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..core.errors import InvalidArgument, MissingData, MissingExtra
from .sim.beginning import slug
from .sim.catalogue import DOMAINS
from .spec import DeviceSpec, EntitySpec, FloorSpec, HomeSpec, LinkSpec, RoomSpec, WeatherPoint

_OUTDOORS = (
    *("garden", "terrace", "patio", "pool", "yard", "porch", "balcony", "driveway", "deck", "outside", "lawn"),
    *("grove", "courtyard", "fire pit", "garage roof", "pergola", "backyard", "fountain"),
)
_ROOM = re.compile(
    r"(?:(\d+)(?:\.5)?[- ])?(?:\w+ )*?(bedroom|bathroom|living room|dining room|dining area|family room|kitchen|garage|"
    r"office|laundry|porch|patio|deck|garden|backyard|balcony|terrace|basement|attic|library|gym|workshop|pool|"
    r"sunroom)s?\b",
    re.IGNORECASE,
)
_RENAMED = {
    "native_unit_of_measurement": "unit_of_measurement",
    "target_temperature": "temperature",
    "target_temperature_high": "target_temp_high",
    "target_temperature_low": "target_temp_low",
    "target_humidity": "humidity",
}
_NOT_SHOWN = ("hvac_mode", "native_value", "todo_items", "condition", "current_humidity_unit")
_COLUMNS, _SIDE = 4, 4.0  # the plan: rooms in rows of four, four metres each


def load_fixtures(path: str | Path) -> HomeSpec:
    """The home of a `_fixtures.yaml`.

    Raises:
        MissingData: there is no such file, or it is not such a file.
        MissingExtra: PyYAML is not installed.
    """
    path = Path(path)
    data = _yaml(path)
    if not isinstance(data, Mapping) or "entities" not in data:
        raise MissingData(f"{path} is not a fixtures file: it has no entities")
    floors = tuple(dict.fromkeys(area["floor"] for area in data.get("areas", ()) if area.get("floor")))
    rooms = [_room(area, index) for index, area in enumerate(data.get("areas", ()))]
    known = {room.id for room in rooms}
    devices = tuple(
        DeviceSpec(
            device["id"],
            device["name"],
            device.get("area") if device.get("area") in known else None,
            **{key: str((device.get("info") or {}).get(key, "")) for key in ("manufacturer", "model", "sw_version")},
        )
        for device in data.get("devices", ())
    )
    owners = {device.id for device in devices}
    entities = tuple(_entity(item, known, owners) for item in data["entities"])
    temperatures = {
        entity.area: float(entity.attributes["current_temperature"])
        for entity in entities
        if entity.area and 5 < float(entity.attributes.get("current_temperature") or 0) < 40
    }
    return HomeSpec(
        slug(path.parent.name),
        path.parent.name,
        floors=tuple(FloorSpec(slug(name), name, level) for level, name in enumerate(floors)),
        rooms=tuple(_warmed(room, temperatures.get(room.id)) for room in rooms),
        links=_links(rooms),
        devices=devices,
        entities=entities,
        weather=(_weather(data["entities"]),),
    )


def load_homes(path: str | Path) -> tuple[HomeSpec, ...]:
    """The homes of `homes.yaml`: names and rooms as their amenities tell, without devices.

    Raises:
        MissingData: there is no such file, or it is not such a file.
        MissingExtra: PyYAML is not installed.
    """
    data = _yaml(Path(path))
    if not isinstance(data, Mapping) or "homes" not in data:
        raise MissingData(f"{path} lists no homes")
    homes = []
    for home in data["homes"]:
        names = [name for amenity in home.get("amenities", ()) for name in _rooms_in(str(amenity))]
        rooms = [_room({"id": slug(name), "name": name}, index) for index, name in enumerate(dict.fromkeys(names))]
        extra = {key: str(home.get(key, "")) for key in ("country_code", "location", "type")}
        homes.append(HomeSpec(slug(home["name"]), home["name"], rooms=tuple(rooms), links=_links(rooms), extra=extra))
    return tuple(homes)


def load_blueprint(path: str | Path, inputs: Mapping[str, Any], automation_id: str = "blueprint") -> dict[str, Any]:
    """The automation that a blueprint file makes with `inputs` (its defaults fill what is not given).

    Raises:
        MissingData: there is no such file, or it is not a blueprint.
        InvalidArgument: an input without a default is not given.
        MissingExtra: PyYAML is not installed.
    """
    data = _yaml(Path(path), inputs=True)
    if not isinstance(data, Mapping) or "blueprint" not in data:
        raise MissingData(f"{path} is not a blueprint")
    known = data["blueprint"].get("input", {})
    values = {name: (item or {}).get("default") for name, item in known.items() if "default" in (item or {})}
    values |= inputs

    def fill(value: Any) -> Any:
        if isinstance(value, _Input):
            if value.name not in values:
                raise InvalidArgument(f"the blueprint {path} needs the input {value.name!r}")
            return values[value.name]
        if isinstance(value, Mapping):
            return {key: fill(item) for key, item in value.items()}
        return [fill(item) for item in value] if isinstance(value, list) else value

    body = {key: fill(value) for key, value in data.items() if key != "blueprint"}
    return {"id": automation_id, "alias": data["blueprint"]["name"], **body}


class _Input:
    """A place in a blueprint that an input fills."""

    def __init__(self, name: str) -> None:
        self.name = name


def _yaml(path: Path, inputs: bool = False) -> Any:
    try:
        import yaml
    except ModuleNotFoundError:
        raise MissingExtra("pyyaml", "smarthome") from None

    class Loader(yaml.SafeLoader):
        """The safe loader, with blueprints' `!input`."""

    if inputs:
        Loader.add_constructor("!input", lambda loader, node: _Input(str(node.value)))
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader)
    except OSError as error:
        raise MissingData(f"{path} cannot be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise MissingData(f"{path} is not valid YAML: {error}") from None


def _room(area: Mapping[str, Any], index: int) -> RoomSpec:
    name = str(area["name"])
    row, column = divmod(index, _COLUMNS)
    outdoor = any(word in name.lower() for word in _OUTDOORS)
    floor = slug(area["floor"]) if area.get("floor") else None
    return RoomSpec(str(area["id"]), name, floor, column * _SIDE, row * _SIDE, outdoor=outdoor)


def _warmed(room: RoomSpec, temperature: float | None) -> RoomSpec:
    return room if temperature is None else replace(room, temperature=temperature)


def _links(rooms: list[RoomSpec]) -> tuple[LinkSpec, ...]:
    """Indoor rooms that follow each other on the plan share a wall."""
    indoors = [room for room in rooms if not room.outdoor]
    return tuple(LinkSpec(a.id, b.id) for a, b in pairwise(indoors))


def _rooms_in(amenity: str) -> list[str]:
    names = []
    for count, noun in _ROOM.findall(amenity):
        title = noun.title()
        number = int(count or 1)
        names += [title] if number == 1 else [f"{title} {index}" for index in range(1, min(number, 9) + 1)]
    return names


def _entity(item: Mapping[str, Any], rooms: set[str], devices: set[str]) -> EntitySpec:
    entity_id = str(item["id"])
    domain = entity_id.partition(".")[0]
    given = dict(item.get("attributes") or {})
    state = item.get("state")
    if isinstance(state, Mapping):  # the intents' fixtures say how a state is spoken and how it is stored
        state = state.get("out")
    if state is None:
        state = given.get("native_value", given.get("hvac_mode"))
    attributes = {
        str(_RENAMED.get(key, key)): _value(domain, key, value) for key, value in given.items() if key not in _NOT_SHOWN
    }
    if domain == "weather":
        state = given.get("condition")
        attributes = {key.removeprefix("native_"): value for key, value in given.items() if key != "condition"}
    return EntitySpec(
        entity_id,
        str(item["name"]),
        item.get("device") if item.get("device") in devices else None,
        item.get("area") if item.get("area") in rooms else None,
        None if state is None else _state(state),
        attributes,
        {"static": True} | ({"items": tuple(map(_todo, given["todo_items"]))} if given.get("todo_items") else {}),
    )


def _todo(item: Any) -> Any:
    return item if isinstance(item, str) else {"summary": str(item.get("summary", item.get("name", "")))}


def _state(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def _value(domain: str, key: str, value: Any) -> Any:
    if key == "supported_features":
        names = value if isinstance(value, list) else [value]
        return sum(item if isinstance(item, int) else _feature(domain, str(item)) for item in names)
    if key in ("device_class", "state_class") and isinstance(value, str):
        return value.rpartition(".")[2].lower()
    return value


def _feature(domain: str, name: str) -> int:
    features = DOMAINS[domain].features if domain in DOMAINS else {}
    short = name.rpartition(".")[2]
    if short not in features:
        raise InvalidArgument(f"the domain {domain} has no feature {short}")
    return features[short]


def _weather(entities: list[Mapping[str, Any]]) -> WeatherPoint:
    """The weather that the home's weather entity tells, for ever; mild where there is none."""
    for item in entities:
        if str(item["id"]).startswith("weather."):
            given = item.get("attributes") or {}
            temperature = float(given.get("native_temperature", 12))
            if "F" in str(given.get("native_temperature_unit", "")):
                temperature = (temperature - 32) / 1.8
            cloud = {"sunny": 0.1, "partlycloudy": 0.5}.get(str(given.get("condition", "")), 0.8)
            wind = float(given.get("native_wind_speed", 3)) * 0.447  # miles per hour
            return WeatherPoint(round(temperature, 1), float(given.get("humidity", 60)), cloud, round(wind, 1))
    return WeatherPoint(12.0)
