"""Home Assistant's own tools for assistants (the Assist API of 2025.4): devices by name, area, floor and class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .backend import EntityState, HomeBackend, Registry

_SWITCHED = ("light", "switch", "fan", "humidifier", "input_boolean", "media_player", "climate", "siren", "automation")
_OPENED = {"cover": ("open_cover", "close_cover"), "valve": ("open_valve", "close_valve"), "lock": ("lock", "unlock")}
_STARTED = {"scene": "turn_on", "script": "turn_on", "button": "press", "input_button": "press"}
_WHERE = ("name", "area", "floor", "domain", "device_class")


@dataclass(frozen=True)
class AssistTool:
    """One of the tools: the service it calls and the argument that it passes on."""

    domains: tuple[str, ...]
    service: str
    fields: Mapping[str, str]
    """Argument -> field of the service."""
    help: str


TOOLS: Mapping[str, AssistTool] = {
    "HassLightSet": AssistTool(
        ("light",),
        "turn_on",
        {"brightness": "brightness_pct", "color": "color_name", "temperature": "color_temp_kelvin"},
        "brightness in percent, color, temperature in kelvin",
    ),
    "HassClimateSetTemperature": AssistTool(
        ("climate",), "set_temperature", {"temperature": "temperature"}, "temperature"
    ),
    "HassSetPosition": AssistTool(("cover", "valve"), "", {"position": "position"}, "position 0 to 100"),
    "HassSetVolume": AssistTool(
        ("media_player",), "volume_set", {"volume_level": "volume_level"}, "volume_level in percent"
    ),
    "HassMediaPause": AssistTool(("media_player",), "media_pause", {}, ""),
    "HassMediaUnpause": AssistTool(("media_player",), "media_play", {}, ""),
    "HassMediaNext": AssistTool(("media_player",), "media_next_track", {}, ""),
    "HassMediaPrevious": AssistTool(("media_player",), "media_previous_track", {}, ""),
    "HassVacuumStart": AssistTool(("vacuum",), "start", {}, ""),
    "HassVacuumReturnToBase": AssistTool(("vacuum",), "return_to_base", {}, ""),
    "HassHumidifierSetpoint": AssistTool(("humidifier",), "set_humidity", {"humidity": "humidity"}, "humidity"),
    "HassHumidifierMode": AssistTool(("humidifier",), "set_mode", {"mode": "mode"}, "mode"),
    "HassListAddItem": AssistTool(("todo",), "add_item", {"item": "item"}, "item"),
}
SWITCHES = ("HassTurnOn", "HassTurnOff")


@dataclass(frozen=True)
class Assisted:
    """A service call that an Assist tool stands for, or why there is none."""

    calls: tuple[tuple[str, str, dict[str, Any], list[str]], ...] = ()
    """(domain, service, data, entities)."""
    error: str | None = None


def translate(home: HomeBackend, tool: str, args: Mapping[str, Any]) -> Assisted:
    """The service calls of an Assist tool (`SWITCHES` or one of `TOOLS`)."""
    known = TOOLS.get(tool)
    allowed = {*_WHERE, *(known.fields if known else ())}
    strange = [key for key in args if key not in allowed]
    if strange:
        return Assisted(error=f"{tool} has no argument {strange[0]!r}; it takes {', '.join(sorted(allowed))}.")
    domains = (
        known.domains if known else (*_SWITCHED, *_OPENED, *_STARTED, "vacuum", "lawn_mower", "camera", "water_heater")
    )
    found = match(home, args, domains)
    if isinstance(found, str):
        return Assisted(error=found)
    calls: dict[tuple[str, str], list[str]] = {}
    data: dict[str, Any] = {}
    if known is not None:
        data = {known.fields[key]: value for key, value in args.items() if key in known.fields}
        if "volume_level" in data and isinstance(data["volume_level"], int | float):
            data["volume_level"] = data["volume_level"] / 100
        if known.fields and not data:
            return Assisted(error=f"{tool} needs {' or '.join(known.fields)}.")
    for state in found:
        service = known.service if known else _switch(state, tool == "HassTurnOn")
        if service is None:
            return Assisted(error=f"{state.name} cannot be turned on or off.")
        service = service or f"set_{state.domain}_position"
        calls.setdefault((state.domain, service), []).append(state.entity_id)
    return Assisted(tuple((domain, service, data, entities) for (domain, service), entities in calls.items()))


def match(home: HomeBackend, where: Mapping[str, Any], domains: tuple[str, ...]) -> list[EntityState] | str:
    """The entities that name, area, floor, domain and device class tell, or why there are none.

    As in Home Assistant: a name that two things have is an error (DUPLICATE_NAME), and so is nothing found.
    """
    registry, wanted = home.registry(), {key: _texts(where.get(key)) for key in _WHERE}
    if not any(wanted[key] for key in ("name", "area", "floor")):
        return "MatchFailedError: say a name, an area or a floor."
    areas = _areas(registry, wanted["area"], wanted["floor"])
    if isinstance(areas, str):
        return areas
    found = []
    for entity_id, state in home.states().items():
        entity = registry.entities.get(entity_id)
        if entity is None or not entity.exposed or state.domain not in domains:
            continue
        device = registry.devices.get(entity.device or "")
        names = {text.lower() for text in (entity.name, *entity.aliases, *([device.name] if device else []))}
        fits = not wanted["name"] or bool(names & set(wanted["name"]))
        fits = fits and (areas is None or registry.area_of(entity_id) in areas)
        fits = fits and (not wanted["domain"] or state.domain in wanted["domain"])
        if fits and (not wanted["device_class"] or state.attributes.get("device_class") in wanted["device_class"]):
            found.append(state)
    if not found:
        reason = next(
            (key.upper() for key in ("name", "area", "domain", "device_class", "floor") if wanted[key]), "NAME"
        )
        return f"MatchFailedError: nothing matches (no_match_reason={reason})."
    if wanted["name"] and len({state.entity_id for state in found}) > 1:
        exact = [state for state in found if state.name.lower() in wanted["name"]]
        if len(exact) != 1:
            return f"MatchFailedError: {len(found)} things match (no_match_reason=DUPLICATE_NAME)."
        return exact
    return sorted(found, key=lambda state: state.entity_id)


def _areas(registry: Registry, areas: list[str], floors: list[str]) -> set[str] | str | None:
    if not areas and not floors:
        return None
    named = {
        area.id
        for area in registry.areas.values()
        if {area.id, area.name.lower(), *(a.lower() for a in area.aliases)} & set(areas)
    }
    if areas and not named:
        return f"MatchFailedError: there is no area {areas[0]!r} (no_match_reason=INVALID_AREA)."
    storeys = {floor.id for floor in registry.floors.values() if {floor.id, floor.name.lower()} & set(floors)}
    if floors and not storeys:
        return f"MatchFailedError: there is no floor {floors[0]!r} (no_match_reason=INVALID_FLOOR)."
    upon = {area.id for area in registry.areas.values() if area.floor in storeys}
    return named & upon if areas and floors else named or upon


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [str(item).lower() for item in values if isinstance(item, str | int | float) and str(item)]


def _switch(state: EntityState, on: bool) -> str | None:
    if state.domain in _OPENED:
        return _OPENED[state.domain][0 if on else 1]
    if state.domain in _STARTED:
        return _STARTED[state.domain] if on else None
    if state.domain in ("vacuum", "lawn_mower"):
        names = {"vacuum": ("start", "return_to_base"), "lawn_mower": ("start_mowing", "dock")}[state.domain]
        return names[0 if on else 1]
    return "turn_on" if on else "turn_off"
