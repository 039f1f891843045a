"""`HomeBackend`: what an agent's tools need of a home, simulated or real, in Home Assistant's vocabulary.

Implementations: `sim.home.SimHome` (the default) and `hass.backend.HassBackend` (a Home Assistant server, or
`hass.server.HomeServer` which speaks the same protocol for a `SimHome`). One contract test suite runs over all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import Any, Protocol

from .frozen import FrozenDict

UNAVAILABLE, UNKNOWN = "unavailable", "unknown"


@dataclass(frozen=True, slots=True)
class EntityState:
    """The state of one entity at one time."""

    entity_id: str
    """"domain.object_id"."""
    state: str
    attributes: FrozenDict
    last_changed: float
    """Seconds since 1970 (UTC) at which `state` took this value."""
    last_updated: float
    """Seconds since 1970 (UTC) at which the state or an attribute took this value."""
    cause: str = field(default="home", compare=False)
    """Who made it so: "agent", "automation.<id>", "resident.<id>", "fault", or "home" (physics, time)."""
    _digest: bytes | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def domain(self) -> str:
        """The part of the id before the dot."""
        return self.entity_id.partition(".")[0]

    @property
    def name(self) -> str:
        """The friendly name, or the id where there is none."""
        return str(self.attributes.get("friendly_name", self.entity_id))

    @property
    def digest(self) -> bytes:
        """Eight bytes that are equal for equal states and attributes (times and cause do not count)."""
        if self._digest is None:
            text = repr((self.entity_id, self.state, sorted(self.attributes.items())))
            object.__setattr__(self, "_digest", blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())
        assert self._digest is not None
        return self._digest


@dataclass(frozen=True, slots=True)
class Floor:
    """A storey of the home."""

    id: str
    name: str
    level: int = 0


@dataclass(frozen=True, slots=True)
class Area:
    """A room or an outdoor place."""

    id: str
    name: str
    floor: str | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Device:
    """A thing that one can hold; it provides one or more entities."""

    id: str
    name: str
    area: str | None = None
    manufacturer: str = ""
    model: str = ""
    sw_version: str = ""


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity's place in the registry."""

    entity_id: str
    name: str
    device: str | None = None
    area: str | None = None
    """The entity's own area; None means its device's."""
    aliases: tuple[str, ...] = ()
    exposed: bool = True
    """Whether assistants may see and use it."""


@dataclass(frozen=True)
class Registry:
    """What there is in a home and where; ids map to records."""

    floors: Mapping[str, Floor]
    areas: Mapping[str, Area]
    devices: Mapping[str, Device]
    entities: Mapping[str, Entity]

    def area_of(self, entity_id: str) -> str | None:
        """The id of the area an entity is in: its own, else its device's."""
        entity = self.entities.get(entity_id)
        if entity is None:
            return None
        device = self.devices.get(entity.device or "")
        return device.area if entity.area is None and device is not None else entity.area

    def in_area(self, area: str) -> list[str]:
        """The ids of the entities in an area, sorted."""
        return sorted(entity for entity in self.entities if self.area_of(entity) == area)

    def on_floor(self, floor: str) -> list[str]:
        """The ids of the entities on a floor, sorted."""
        areas = {area.id for area in self.areas.values() if area.floor == floor}
        return sorted(entity for entity in self.entities if self.area_of(entity) in areas)

    def of_device(self, device: str) -> list[str]:
        """The ids of a device's entities, sorted."""
        return sorted(entity.entity_id for entity in self.entities.values() if entity.device == device)


@dataclass(frozen=True, slots=True)
class ServiceResult:
    """What a service call did at once; a cover that starts to move is `changed` now and arrives later."""

    changed: tuple[EntityState, ...] = ()
    """The new states of the entities that the call changed."""
    error: str | None = None
    """Why nothing was done (Home Assistant's text), or None."""
    code: str | None = None
    """The error's kind: "not_found", "invalid_format", "service_validation_error", "home_assistant_error"."""
    response: Any = None
    """The data of a service that answers (`todo.get_items`, `calendar.get_events`, `weather.get_forecasts`)."""
    warnings: tuple[str, ...] = ()
    """What Home Assistant would only write to its log, e.g. that an entity does not exist."""

    @property
    def ok(self) -> bool:
        """Whether the call was accepted."""
        return self.error is None


@dataclass(frozen=True, slots=True)
class ServiceCall:
    """One call in a home's log."""

    time: float
    """Seconds since 1970 (UTC)."""
    domain: str
    service: str
    data: FrozenDict
    entities: tuple[str, ...]
    """The entities it was resolved to."""
    cause: str
    error: str | None = None


class HomeBackend(Protocol):
    """A home. Methods return what Home Assistant would; a refused call is a `ServiceResult` with an `error`.

    Raises:
        EnvironmentFault: from any method of a backend behind a network, when the server is lost.
    """

    def states(self) -> Mapping[str, EntityState]:
        """Every entity's state by id."""
        ...

    def state(self, entity_id: str) -> EntityState | None:
        """One entity's state, or None where there is no such entity."""
        ...

    def call_service(
        self,
        domain: str,
        service: str,
        data: Mapping[str, Any] | None = None,
        target: Mapping[str, str | Sequence[str]] | None = None,
        *,
        cause: str = "agent",
    ) -> ServiceResult:
        """Call `domain.service`; `target` may name "entity_id", "device_id", "area_id" and "floor_id"."""
        ...

    def services(self) -> Mapping[str, Mapping[str, Any]]:
        """Domain -> service -> description in Home Assistant's form ({"fields": {...}, "target": {...}})."""
        ...

    def areas(self) -> Sequence[Area]:
        """The areas, sorted by id."""
        ...

    def registry(self) -> Registry:
        """Floors, areas, devices and entities."""
        ...

    def now(self) -> datetime:
        """The home's local time, with its UTC offset."""
        ...

    def advance(self, seconds: float) -> None:
        """Let the time pass: at once in a simulation, by waiting in a real home."""
        ...

    def history(self, entity_id: str, start: datetime | None = None, end: datetime | None = None) -> list[EntityState]:
        """An entity's states over a period, oldest first, beginning with the one that held at `start`."""
        ...

    def automations(self) -> Mapping[str, Mapping[str, Any]]:
        """Automation id -> its configuration in Home Assistant's form."""
        ...

    def add_automation(self, config: Mapping[str, Any]) -> ServiceResult:
        """Create or replace the automation `config["id"]`; the response holds its "entity_id"."""
        ...

    def remove_automation(self, automation_id: str) -> ServiceResult:
        """Delete an automation."""
        ...

    def fire_event(self, event_type: str, data: Mapping[str, Any] | None = None) -> None:
        """Fire an event on the home's bus, for automations with event triggers."""
        ...

    def snapshot(self) -> Any:
        """A point to go back to. Exact for a simulation; for a real home the states that services can set again."""
        ...

    def restore(self, snapshot: Any) -> None:
        """Go back to `snapshot`."""
        ...

    def close(self) -> None:
        """Release connections; harmless when repeated."""
        ...


def entity_ids(value: str | Iterable[str] | None) -> list[str]:
    """A target's ids as a list: Home Assistant accepts a list, one id, or several ids with commas."""
    if value is None:
        return []
    parts = value.split(",") if isinstance(value, str) else list(value)
    return [part.strip() for part in parts if isinstance(part, str) and part.strip()]
