"""`HomeSpec`: everything that makes one simulated home, as frozen records that travel as JSON.

Hand-written examples, `HomeMaker` and `ha_fixtures` produce it; `SimHome(spec)` runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .frozen import FrozenDict


@dataclass(frozen=True)
class RoomSpec:
    """A room (or an outdoor place): where it lies on the plan and how heat, air and light behave in it."""

    id: str
    """Also the id of its Home Assistant area."""
    name: str
    floor: str | None = None
    x: float = 0.0
    """Metres from the plan's left edge."""
    y: float = 0.0
    """Metres from the plan's top edge."""
    width: float = 4.0
    depth: float = 4.0
    height: float = 2.5
    outdoor: bool = False
    """Outdoor places follow the weather and have no climate of their own."""
    heat_capacity: float = 120_000.0
    """Joules per kelvin and square metre of floor (air, furniture and the inner walls)."""
    loss: float = 1.5
    """Watts per kelvin and square metre of floor, to the outside."""
    leakage: float = 0.3
    """Air changes per hour with everything closed."""
    window: float = 2.0
    """Square metres of glass."""
    azimuth: float = 180.0
    """The direction the glass faces, in degrees from north."""
    temperature: float = 20.0
    """Initial, in degrees Celsius."""
    humidity: float = 45.0
    """Initial, in percent."""
    aliases: tuple[str, ...] = ()

    @property
    def area(self) -> float:
        """Square metres of floor."""
        return self.width * self.depth


@dataclass(frozen=True)
class FloorSpec:
    """A storey."""

    id: str
    name: str
    level: int = 0


@dataclass(frozen=True)
class LinkSpec:
    """Two rooms that share a wall or a door."""

    a: str
    b: str
    conductance: float = 15.0
    """Watts per kelvin."""
    door: bool = True
    """Whether people can walk through."""


@dataclass(frozen=True)
class OpeningSpec:
    """A window or an outer door without a motor; only residents and events open it. Contact sensors read it."""

    id: str
    room: str
    kind: str = "window"
    """"window" or "door"."""
    open: bool = False
    air_changes: float = 5.0
    """Additional air changes per hour while open."""


@dataclass(frozen=True)
class DeviceSpec:
    """A device as in Home Assistant's device registry."""

    id: str
    name: str
    area: str | None = None
    manufacturer: str = ""
    model: str = ""
    sw_version: str = ""


@dataclass(frozen=True)
class EntitySpec:
    """An entity: its registry entry, its initial state, and what the simulation should know about it."""

    entity_id: str
    name: str
    device: str | None = None
    area: str | None = None
    """Its own area; None means its device's."""
    state: str | None = None
    """Initial state; None means the domain's default."""
    attributes: Mapping[str, Any] = field(default_factory=FrozenDict)
    """Initial attributes, over the domain's defaults ("device_class", "supported_features", "hvac_modes", ...)."""
    params: Mapping[str, Any] = field(default_factory=FrozenDict)
    """Simulation parameters; see docs/smarthome_engine.md: "measures" (what a sensor reads), "power", "lumens",
    "heating_power", "cooling_power", "travel_time", "code", "program", "warmth", ..."""
    aliases: tuple[str, ...] = ()
    exposed: bool = True


@dataclass(frozen=True)
class ActivitySpec:
    """A line of a resident's day: where they go and what they do there."""

    at: str
    """Local time, "HH:MM"."""
    room: str
    """A room's id, or "away"."""
    activity: str = "idle"
    """"idle", "sleep", "cook", "shower", "work", "tv" or "eat": sets heat, moisture, particles and motion."""
    days: str = "daily"
    """"daily", "weekday" or "weekend"."""
    jitter: float = 0.0
    """Minutes by which a day's time may differ, either way."""
    calls: tuple[Mapping[str, Any], ...] = ()
    """Service calls that the resident makes then ({"action": "light.turn_on", "target": {...}, "data": {...}})."""


@dataclass(frozen=True)
class ResidentSpec:
    """Somebody who lives in the home."""

    id: str
    """Also the object id of their `person` entity, where there is one."""
    name: str
    room: str
    """Where they are at the start: a room's id, or "away"."""
    activity: str = "idle"
    routine: tuple[ActivitySpec, ...] = ()
    preferences: Mapping[str, Any] = field(default_factory=FrozenDict)
    """Free for tasks; the simulation does not read it."""


@dataclass(frozen=True)
class WeatherPoint:
    """The weather at one hour."""

    temperature: float
    """Degrees Celsius."""
    humidity: float = 60.0
    """Percent."""
    cloud: float = 0.4
    """Covered fraction of the sky, 0 to 1."""
    wind: float = 3.0
    """Metres per second."""
    rain: float = 0.0
    """Millimetres per hour."""


@dataclass(frozen=True)
class FaultSpec:
    """Something that does not work for a time."""

    entity: str
    kind: str
    """"unavailable", "jammed" (locks, covers, valves: a movement stops half way), "stuck" (commands are
    accepted and change nothing) or "low_battery"."""
    start: float = 0.0
    """Seconds after the home's start."""
    end: float | None = None
    """Seconds after the home's start, or None for ever."""


@dataclass(frozen=True)
class HomeSpec:
    """A home. Equal specs and equal calls give equal states in any process."""

    id: str
    name: str = "Home"
    start: str = "2026-03-02T08:00:00"
    """Local date and time at which the simulation begins."""
    utc_offset: float = 0.0
    """Hours; fixed, there is no daylight saving."""
    latitude: float = 52.0
    longitude: float = 5.0
    floors: tuple[FloorSpec, ...] = ()
    rooms: tuple[RoomSpec, ...] = ()
    links: tuple[LinkSpec, ...] = ()
    openings: tuple[OpeningSpec, ...] = ()
    devices: tuple[DeviceSpec, ...] = ()
    entities: tuple[EntitySpec, ...] = ()
    residents: tuple[ResidentSpec, ...] = ()
    weather: tuple[WeatherPoint, ...] = (WeatherPoint(10.0),)
    """One point per hour from the start, repeated when it ends."""
    automations: tuple[Mapping[str, Any], ...] = ()
    """In Home Assistant's form, with an "id"."""
    faults: tuple[FaultSpec, ...] = ()
    tariff: tuple[float, ...] = (0.25,)
    """Price of a kilowatt-hour by hour of the day, repeated to 24."""
    seed: int = 0
    """Of everything that is drawn: the jitter of routines, and when people move."""
    extra: Mapping[str, Any] = field(default_factory=FrozenDict)
    """Free for generators and tasks; the simulation does not read it."""

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` is the inverse."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> HomeSpec:
        """The home that `to_json` described."""
        nested = {
            "floors": FloorSpec,
            "rooms": RoomSpec,
            "links": LinkSpec,
            "openings": OpeningSpec,
            "devices": DeviceSpec,
            "entities": EntitySpec,
            "weather": WeatherPoint,
            "faults": FaultSpec,
        }
        values: dict[str, Any] = {
            key: tuple(nested[key](**_tuples(item)) for item in value) if key in nested else _tuple(value)
            for key, value in data.items()
        }
        values["residents"] = tuple(
            ResidentSpec(
                **{**_tuples(item), "routine": tuple(ActivitySpec(**_tuples(line)) for line in item.get("routine", ()))}
            )
            for item in data.get("residents", ())
        )
        return HomeSpec(**values)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _tuples(item: Mapping[str, Any]) -> dict[str, Any]:
    """Lists at the record's own level are tuples in the record; nested mappings stay as they are."""
    return {key: _tuple(value) for key, value in item.items()}
