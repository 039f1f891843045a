"""Makes homes from a number: rooms, devices with the names people give them, residents, weather, rules.

Equal arguments give equal homes in any process. A home's split is part of its seed; the splits "valid_unseen" and
"test" use ways of naming devices, and names of people, that no training home has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Any

from ...core.errors import InvalidArgument
from ...core.tasks import check_split
from ..sim.beginning import slug
from ..sim.sky import weather_trace
from ..spec import DeviceSpec, EntitySpec, FloorSpec, HomeSpec, LinkSpec, OpeningSpec, RoomSpec
from . import people, rooms, things
from .plan import lay_out
from .things import Part

STYLES = ("room", "room", "thing", "brand", "owner")
"""How devices are called: "Bedroom Lamp", "Lamp 2", "Philips Lamp", "Anna's Lamp"."""
HELD_OUT_STYLES = ("behind", "room", "initials")
"""In held-out homes also: "Lamp Bedroom", "LR Lamp"."""
SIZES = ("small", "medium", "large")
HELD_OUT = ("valid_unseen", "test")
_MEAN = (2, 3, 6, 10, 14, 17, 19, 19, 15, 11, 6, 3)  # outdoors by month, Celsius


@dataclass
class _Bill:
    """What is collected while a home is made."""

    rooms: list[RoomSpec]
    devices: list[DeviceSpec]
    entities: list[EntitySpec]
    openings: list[OpeningSpec]
    area_of: dict[str, str | None]


def make_home(split: str, number: int, size: str | None = None) -> HomeSpec:
    """Home `number` of a split.

    Args:
        split: one of the four.
        number: any whole number of at least 0.
        size: "small" (8 to 15 devices), "medium" (20 to 50) or "large" (60 to 135); None lets the number decide.

    Raises:
        InvalidArgument: there is no such size.
        UnknownTask: there is no such split.
    """
    check_split(split)
    rng = Random(f"home/{split}/{number}")
    drawn = rng.choice(("small", "small", "medium", "medium", "large"))
    size = size or drawn
    if size not in SIZES:
        raise InvalidArgument(f"no size {size!r}; choose from {', '.join(SIZES)}")
    held_out = split in HELD_OUT
    month, hour = rng.randrange(12), rng.choice((7, 9, 10, 13, 15, 17, 18, 19, 20))
    kinds = rng.choice(rooms.PLANS[size])
    bill = _Bill([], [], [], [], {})
    by_kind = _rooms(rng, kinds, bill, cold=month in (0, 1, 2, 10, 11))
    who = people.residents(rng, rng.randint(1, 2 if size == "small" else 4), by_kind, held_out, hour)
    style = rng.choice(HELD_OUT_STYLES if held_out else STYLES)
    _furnish(rng, kinds, by_kind, size, style, [person.name for person in who], bill)
    _shared(rng, bill)
    rules = people.automations(
        rng, bill.entities, bill.area_of, rng.randint(0, {"small": 2, "medium": 4, "large": 8}[size])
    )
    indoors = [room for room in bill.rooms if not room.outdoor]
    return HomeSpec(
        f"{split}-{number}",
        f"Home {number}",
        start=f"2026-{month + 1:02}-{rng.randint(1, 28):02}T{hour:02}:00:00",
        utc_offset=1.0,
        latitude=52.0,
        longitude=5.0,
        floors=tuple(_floors(bill.rooms)),
        rooms=tuple(bill.rooms),
        links=tuple(LinkSpec(a.id, b.id, 12.0) for a, b in pairwise(indoors)),
        openings=tuple(bill.openings),
        devices=tuple(bill.devices),
        entities=tuple(bill.entities),
        residents=who,
        weather=weather_trace(
            rng.randrange(10**6), 48, mean=_MEAN[month], swing=4, start_hour=hour, cloud=rng.uniform(0.2, 0.8)
        ),
        automations=rules,
        tariff=(0.22,) * 7 + (0.31,) * 15 + (0.22,) * 2,
        seed=rng.randrange(10**6),
        extra={"size": size, "style": style},
    )


def _rooms(rng: Random, kinds: tuple[str, ...], bill: _Bill, cold: bool) -> dict[str, list[str]]:
    by_kind: dict[str, list[str]] = {}
    names: list[str] = []
    for kind in kinds:
        model = rooms.KINDS[kind]
        name = rng.choice(model.names)
        while name in names:
            free = [other for other in model.names if other not in names]
            name = free[0] if free else f"{model.names[0]} {1 + sum(n.startswith(model.names[0]) for n in names)}"
        names.append(name)
        side = round((model.square * rng.uniform(0.8, 1.2)) ** 0.5, 1)
        bill.rooms.append(
            RoomSpec(
                slug(name),
                name,
                "upper" if model.upstairs and len(kinds) > 5 else "ground",
                *(0.0, 0.0, side, side),
                outdoor=model.outdoor,
                window=model.window,
                azimuth=rng.choice((0.0, 90.0, 180.0, 270.0)),
                temperature=rng.uniform(16.5, 20.0) if cold else rng.uniform(20.0, 25.0),
                humidity=rng.uniform(38, 60),
            )
        )
        by_kind.setdefault(kind, []).append(slug(name))
        if model.window >= 2 and not model.outdoor:
            bill.openings.append(OpeningSpec(f"{slug(name)}_window", slug(name), open=rng.random() < 0.1))
    places = lay_out([(room.floor or "", room.area, room.outdoor) for room in bill.rooms])
    bill.rooms = [replace(room, **place._asdict()) for room, place in zip(bill.rooms, places, strict=True)]
    return by_kind


def _floors(made: list[RoomSpec]) -> list[FloorSpec]:
    known = {room.floor for room in made}
    return [
        FloorSpec(*floor) for floor in (("ground", "Ground Floor", 0), ("upper", "Upper Floor", 1)) if floor[0] in known
    ]


def _furnish(
    rng: Random,
    kinds: tuple[str, ...],
    by_kind: Mapping[str, list[str]],
    size: str,
    style: str,
    who: list[str],
    bill: _Bill,
) -> None:
    least, most = rooms.DEVICES[size]
    wanted = rng.randint(least, most)
    places = [(kind, room) for kind in by_kind for room in by_kind[kind]]
    for kind, room in places:
        for thing in rooms.KINDS[kind].always:
            if len(bill.devices) < most:
                _install(rng, thing, room, style, who, bill)
    for opening in bill.openings:
        if rng.random() < 0.4 and len(bill.devices) < wanted:
            room = next(item for item in bill.rooms if item.id == opening.room)
            _add(
                bill,
                f"{room.name} Window",
                "Aqara",
                room.id,
                (Part("binary_sensor", "", None, {"device_class": "window"}, {"measures": f"open:{opening.id}"}),),
            )
    there: dict[tuple[str, str], int] = {}
    while len(bill.devices) < wanted:
        kind, room = rng.choice(places)
        weights, options = zip(*rooms.KINDS[kind].more, strict=True)
        thing = rng.choices(options, weights)[0]
        if there.setdefault((room, thing), 0) < (
            3 if "lamp" in thing or thing in ("plug", "blind", "simple_light") else 1
        ):
            there[room, thing] += 1
            _install(rng, thing, room, style, who, bill)


def _install(rng: Random, thing: str, room: str, style: str, who: list[str], bill: _Bill) -> None:
    kind = things.KINDS[thing]
    title, brand = rng.choice(kind.titles), rng.choice(kind.brands)
    place = next(item.name for item in bill.rooms if item.id == room)
    titled = title if title.startswith(place) else f"{place} {title}"  # not "Garage Garage Door"
    name = {
        "room": titled,
        "thing": title,
        "brand": f"{brand} {title}",
        "owner": f"{rng.choice(who)}'s {title}" if rng.random() < 0.4 else titled,
        "behind": f"{title} {place}",
        "initials": f"{''.join(word[0] for word in place.split())} {title}",
    }[style]
    _add(bill, _numbered(name, {device.name for device in bill.devices}), brand, room, kind.make(rng))


def _numbered(name: str, taken: set[str]) -> str:
    number, found = 2, name
    while found in taken:
        found, number = f"{name} {number}", number + 1
    return found


def _add(bill: _Bill, name: str, brand: str, room: str | None, parts: tuple[Part, ...]) -> None:
    device = slug(name)
    bill.devices.append(DeviceSpec(device, name, room, brand))
    ids = []
    for part in parts:
        entity = f"{part.domain}.{slug(f'{name} {part.suffix}'.strip())}"
        while entity in bill.area_of:
            entity += "_2"
        ids.append(entity)
        bill.area_of[entity] = room
    for part, entity in zip(parts, ids, strict=True):
        title = f"{name} {part.suffix}".strip()
        bill.entities.append(
            EntitySpec(entity, title, device, None, part.state, dict(part.attributes), _filled(part.params, ids))
        )


def _filled(value: Any, ids: list[str]) -> Any:
    if isinstance(value, str):
        return value.format(*ids) if "{" in value else value
    return {key: _filled(item, ids) for key, item in value.items()} if isinstance(value, Mapping) else value


def _shared(rng: Random, bill: _Bill) -> None:
    """What belongs to no room: meters, lists, modes, scenes, the weather."""
    lamps = [entity.entity_id for entity in bill.entities if entity.entity_id.startswith("light.")]
    covers = [entity.entity_id for entity in bill.entities if entity.entity_id.startswith("cover.")]
    scene = {lamp: {"state": "on", "brightness": 60} for lamp in lamps[:2]} | {
        cover: {"state": "closed"} for cover in covers[:1]
    }
    extra = [
        EntitySpec("sensor.home_power", "Home Power", params={"measures": "home.power"}),
        EntitySpec("sensor.home_energy", "Home Energy", params={"measures": "home.energy"}),
        EntitySpec("sensor.outdoor_temperature", "Outdoor Temperature", params={"measures": "outdoor.temperature"}),
        EntitySpec("weather.home", "Weather"),
        EntitySpec(
            "todo.shopping_list",
            "Shopping List",
            params={"items": rng.sample(("milk", "bread", "eggs", "tea", "apples", "rice"), 3)},
        ),
        EntitySpec("input_boolean.guest_mode", "Guest Mode"),
        EntitySpec(
            "input_select.house_mode", "House Mode", attributes={"options": ["day", "evening", "night", "away"]}
        ),
        EntitySpec("timer.kitchen", "Kitchen Timer", attributes={"duration": "0:10:00"}),
        EntitySpec("scene.movie_night", "Movie Night", params={"entities": scene}),
    ]
    bill.entities += extra
    bill.area_of.update({entity.entity_id: None for entity in extra})
