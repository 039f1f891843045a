"""How a home begins: the registry and the first states, from its description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...core.errors import InvalidArgument
from ..backend import Area, Device, Entity, EntityState, Floor, Registry
from ..frozen import FrozenDict
from ..spec import EntitySpec, HomeSpec
from .domain import Domain
from .triggers import state_text

if TYPE_CHECKING:
    from .home import SimHome

_POSITIONED = ("cover", "valve")


def slug(text: str) -> str:
    """A name as an object id, e.g. "Night lights!" -> "night_lights"."""
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in text.lower())
    return "_".join(part for part in kept.split("_") if part) or "unnamed"


def all_entities(spec: HomeSpec) -> tuple[EntitySpec, ...]:
    """The described entities, and those that every home has: the sun, its zone, and its residents."""
    given = {entity.entity_id for entity in spec.entities}
    own = [EntitySpec("sun.sun", "Sun", exposed=False), EntitySpec("zone.home", spec.name, exposed=False)]
    own += [EntitySpec(f"person.{resident.id}", resident.name) for resident in spec.residents]
    for config in spec.automations:
        alias = str(config.get("alias", config.get("id", "automation")))
        own.append(EntitySpec(automation_entity(config), alias))
    return (*spec.entities, *(entity for entity in own if entity.entity_id not in given))


def automation_entity(config: Mapping[str, Any]) -> str:
    """The entity id that an automation gets from its alias."""
    return f"automation.{slug(str(config.get('alias') or config.get('id', 'automation')))}"


def registry_of(spec: HomeSpec, entities: tuple[EntitySpec, ...]) -> Registry:
    """The registry of a home."""
    return Registry(
        {floor.id: Floor(floor.id, floor.name, floor.level) for floor in spec.floors},
        {room.id: Area(room.id, room.name, room.floor, tuple(room.aliases)) for room in spec.rooms},
        {
            device.id: Device(device.id, device.name, device.area, device.manufacturer, device.model, device.sw_version)
            for device in spec.devices
        },
        {
            entity.entity_id: Entity(
                entity.entity_id, entity.name, entity.device, entity.area, tuple(entity.aliases), entity.exposed
            )
            for entity in entities
        },
    )


def check(spec: HomeSpec, domains: Mapping[str, Domain]) -> None:
    """Raise `InvalidArgument` for a description that does not fit together."""
    rooms = {room.id for room in spec.rooms}
    devices = {device.id for device in spec.devices}
    problems: list[str] = []
    seen: set[str] = set()
    for entity in spec.entities:
        if entity.entity_id.partition(".")[0] not in domains or entity.entity_id.count(".") != 1:
            problems.append(f"entity {entity.entity_id!r} is of no known domain")
        if entity.entity_id in seen:
            problems.append(f"entity {entity.entity_id!r} is there twice")
        if entity.device is not None and entity.device not in devices:
            problems.append(f"{entity.entity_id} belongs to no known device: {entity.device!r}")
        seen.add(entity.entity_id)
    places = [(f"device {device.id}", device.area) for device in spec.devices]
    places += [(entity.entity_id, entity.area) for entity in spec.entities]
    places += [(f"opening {opening.id}", opening.room) for opening in spec.openings]
    places += [(f"link {link.a}-{link.b}", room) for link in spec.links for room in (link.a, link.b)]
    places += [(f"resident {resident.id}", resident.room) for resident in spec.residents if resident.room != "away"]
    problems += [
        f"{what} is in no known room: {room!r}" for what, room in places if room is not None and room not in rooms
    ]
    problems += [f"fault of no known entity: {fault.entity!r}" for fault in spec.faults if fault.entity not in seen]
    if not spec.weather:
        problems.append("no weather")
    if problems:
        raise InvalidArgument(
            f"home {spec.id!r}: {problems[0]}" + (f" (and {len(problems) - 1} more)" * (len(problems) > 1))
        )


def first_state(spec: EntitySpec, domain: Domain, time: float) -> EntityState:
    """The state that an entity begins with: what its description says, over its domain's defaults."""
    state, attributes = domain.initial(spec)
    attributes = {**attributes, **spec.attributes, "friendly_name": spec.name}
    state = state if spec.state is None else state_text(spec.state)
    if domain.name in _POSITIONED and "current_position" in spec.attributes and spec.state is None:
        state = "open" if attributes["current_position"] else "closed"
    if domain.name == "light" and state == "on":
        modes = attributes.get("supported_color_modes") or ["onoff"]
        if attributes.get("color_mode") is None:
            attributes["color_mode"] = "color_temp" if "color_temp" in modes else modes[0]
        if attributes["color_mode"] == "color_temp" and attributes.get("color_temp_kelvin") is None:
            attributes["color_temp_kelvin"] = 3000
        if "brightness" in attributes and attributes["brightness"] is None:
            attributes["brightness"] = 255
    if domain.name == "fan" and state == "on" and attributes.get("percentage") == 0:
        attributes["percentage"] = 100
    return EntityState(spec.entity_id, state, FrozenDict(attributes), time, time)


def remember_start(home: SimHome, spec: EntitySpec) -> None:
    """What a device knows besides its state: the brightness it had before it was switched off."""
    if spec.entity_id.startswith("light."):
        state = home.states()[spec.entity_id]
        if spec.attributes.get("brightness") is not None:
            home.remember(spec.entity_id, {"brightness": spec.attributes["brightness"]})
        if state.state == "off" and "brightness" in state.attributes:
            home.update(spec.entity_id, None, {"brightness": None, "color_mode": None})
