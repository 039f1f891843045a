"""How states and registries look on Home Assistant's wire, in both directions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ..backend import Area, Device, Entity, EntityState, Floor, Registry
from ..frozen import FrozenDict


def utc_text(time: float) -> str:
    """A time as Home Assistant sends it."""
    return datetime.fromtimestamp(time, UTC).isoformat()


def state_to_wire(state: EntityState) -> dict[str, Any]:
    """A state as `GET /api/states` shows it; the cause travels as the context's id."""
    return {
        "entity_id": state.entity_id,
        "state": state.state,
        "attributes": dict(state.attributes),
        "last_changed": utc_text(state.last_changed),
        "last_updated": utc_text(state.last_updated),
        "context": {"id": state.cause, "parent_id": None, "user_id": None},
    }


def state_from_wire(data: Mapping[str, Any]) -> EntityState:
    """The state that was sent."""
    changed, updated = (datetime.fromisoformat(data[key]).timestamp() for key in ("last_changed", "last_updated"))
    context = data.get("context") or {}
    return EntityState(
        data["entity_id"],
        data["state"],
        FrozenDict(data["attributes"]),
        changed,
        updated,
        str(context.get("id", "home")),
    )


def registry_to_wire(registry: Registry, kind: str) -> list[dict[str, Any]]:
    """A registry as the WebSocket command `config/<kind>_registry/list` lists it."""
    if kind == "floor":
        return [
            {"floor_id": floor.id, "name": floor.name, "level": floor.level, "aliases": [], "icon": None}
            for floor in registry.floors.values()
        ]
    if kind == "area":
        return [
            {
                "area_id": area.id,
                "name": area.name,
                "floor_id": area.floor,
                "aliases": list(area.aliases),
                "picture": None,
            }
            for area in registry.areas.values()
        ]
    if kind == "device":
        return [
            {
                "id": device.id,
                "name": device.name,
                "name_by_user": None,
                "area_id": device.area,
                "manufacturer": device.manufacturer,
                "model": device.model,
                "sw_version": device.sw_version,
            }
            for device in registry.devices.values()
        ]
    return [
        {
            "entity_id": entity.entity_id,
            "unique_id": entity.entity_id,
            "platform": "sandlot",
            "name": entity.name,
            "original_name": entity.name,
            "device_id": entity.device,
            "area_id": entity.area,
            "aliases": list(entity.aliases),
            "options": {"conversation": {"should_expose": entity.exposed}},
            "disabled_by": None,
            "hidden_by": None,
        }
        for entity in registry.entities.values()
    ]


def registry_from_wire(
    floors: list[dict[str, Any]],
    areas: list[dict[str, Any]],
    devices: list[dict[str, Any]],
    entities: list[dict[str, Any]],
    states: Mapping[str, EntityState],
) -> Registry:
    """The registry from its four lists; entities that only have a state are in it too."""
    known = {
        item["entity_id"]: Entity(
            item["entity_id"],
            _name(item, states),
            item.get("device_id"),
            item.get("area_id"),
            tuple(item.get("aliases") or ()),
            bool(((item.get("options") or {}).get("conversation") or {}).get("should_expose", True)),
        )
        for item in entities
        if not item.get("disabled_by")
    }
    known |= {key: Entity(key, state.name) for key, state in states.items() if key not in known}
    return Registry(
        {item["floor_id"]: Floor(item["floor_id"], item["name"], item.get("level") or 0) for item in floors},
        {
            item["area_id"]: Area(item["area_id"], item["name"], item.get("floor_id"), tuple(item.get("aliases") or ()))
            for item in areas
        },
        {
            item["id"]: Device(
                item["id"],
                item.get("name_by_user") or item.get("name") or "",
                item.get("area_id"),
                item.get("manufacturer") or "",
                item.get("model") or "",
                item.get("sw_version") or "",
            )
            for item in devices
        },
        known,
    )


def _name(item: Mapping[str, Any], states: Mapping[str, EntityState]) -> str:
    state = states.get(item["entity_id"])
    return item.get("name") or (state.name if state else None) or item.get("original_name") or item["entity_id"]
