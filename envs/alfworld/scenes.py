"""The 120 scenes: their receptacles, their kinds of objects, and which tasks can be set in them.

Receptacles come from the wheel's layouts, with their real ids and poses. The layouts list some kinds by name only
(bins, coffee machines, toasters, stove burners, holders); those are placed once per scene, by a generator seeded
with the scene's number, so that a scene is furnished alike in every game.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from . import wheel
from .game import TASK_TYPES

ROOMS = {
    "kitchen": range(1, 31),
    "livingroom": range(201, 231),
    "bedroom": range(301, 331),
    "bathroom": range(401, 431),
}
"""Room -> its scenes."""
_TABLE_NAMES = {"kitchen": "Kitchen", "livingroom": "LivingRoom", "bedroom": "Bedroom", "bathroom": "Bathroom"}
VALID_UNSEEN = (10, 219, 308, 424)
"""The benchmark's unseen validation scenes: one of each room."""
TEST = (9, 29, 215, 226, 315, 325, 404, 425)
"""The scenes that neither training nor validation games use."""

TOOLS = {
    TASK_TYPES[3]: ("SinkBasin", "Cleanable"),
    TASK_TYPES[4]: ("Microwave", "Heatable"),
    TASK_TYPES[5]: ("Fridge", "Coolable"),
}
"""Task type -> the receptacle that cleans, heats or cools, and the table of objects that it works on."""
LAMP = "DeskLamp"
LAMP_HOLDERS = ("CoffeeTable", "Desk", "DiningTable", "Dresser", "Shelf", "SideTable")
_SYNTHESISED = {"StoveBurner": 4, "HandTowelHolder": 2}  # how many where the layout does not say
_NARROW = ("CoffeeMachine", "HandTowelHolder", "StoveBurner", "Toaster", "ToiletPaperHanger", "TowelHolder")


@dataclass(frozen=True, slots=True)
class Combo:
    """What a task is about; types as the benchmark writes them ("Mug")."""

    task_type: str
    object: str
    receptacle: str
    """Where it goes, or the lamp it is looked at under."""
    scene: int

    @property
    def name(self) -> str:
        """The benchmark's folder name: "pick_and_place_simple-Mug-None-Desk-308"."""
        return f"{self.task_type}-{self.object}-None-{self.receptacle}-{self.scene}"


@dataclass(frozen=True, slots=True)
class Stock:
    """What the layouts say is in a scene."""

    room: str
    portable: tuple[str, ...]
    """The kinds of objects that can be carried, sorted."""
    kinds: tuple[str, ...]
    """The kinds of receptacles, sorted."""
    lamp: bool
    """Whether there is a desk lamp."""
    poses: dict[str, tuple[float, ...]]
    """Receptacle id -> where the agent stands to use it (x, z, rotation, horizon); not every kind has one."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A furnished room; ids as ALFRED writes them ("Desk|-01.29|+00.01|+00.62", "loc|-2|4|3|60")."""

    stock: Stock
    receptacles: dict[str, str]
    """Receptacle -> location."""
    spots: dict[str, tuple[str, ...]]
    """Kind of object -> the receptacles that may hold it."""
    points: tuple[tuple[float, float], ...]
    """Where the agent can stand: (x, z) in metres."""


def scene_numbers(split: str) -> tuple[int, ...]:
    """The scenes of a split. `train` and `valid_seen` share theirs."""
    if split == "valid_unseen":
        return VALID_UNSEEN
    if split == "test":
        return TEST
    return tuple(number for room in ROOMS.values() for number in room if number not in VALID_UNSEEN + TEST)


def room_of(number: int) -> str:
    """The room of a scene: "kitchen", "livingroom", "bedroom" or "bathroom"."""
    return next(room for room, numbers in ROOMS.items() if number in numbers)


@lru_cache(None)
def kind_of(receptacle: str) -> str:
    """The type in a receptacle's id; basins carry theirs at the end."""
    parts = receptacle.split("|")
    return parts[4] if len(parts) == 5 else parts[0]


@lru_cache(1)
def portable_kinds() -> frozenset[str]:
    """Whatever the benchmark allows in some receptacle, slices aside (no game starts with one)."""
    table, objects = wheel.constants().VAL_RECEPTACLE_OBJECTS, wheel.constants().OBJECTS_SET
    return frozenset(name for names in table.values() for name in names if name in objects)


@lru_cache(1)
def static_kinds() -> tuple[str, ...]:
    """The receptacles that cannot be carried, sorted."""
    constants = wheel.constants()
    return tuple(sorted(set(constants.RECEPTACLES) - constants.MOVABLE_RECEPTACLES_SET))


def fits(item: str, receptacle_kind: str) -> bool:
    """Whether the benchmark allows the object in the receptacle."""
    return item in wheel.constants().VAL_RECEPTACLE_OBJECTS.get(receptacle_kind, ())


@lru_cache(None)
def stock(number: int) -> Stock:
    """The contents of the scene with this number."""
    types = sorted(json.loads(wheel.layout(number, "objects.json").read_text()))
    poses = json.loads(wheel.layout(number, "openable.json").read_text())
    static = static_kinds()
    kept = {name: tuple(pose) for name, pose in sorted(poses.items()) if kind_of(name) in static}
    kinds = {kind_of(name) for name in kept} | {kind for kind in types if kind in static}
    portable = tuple(kind for kind in types if kind in portable_kinds())
    return Stock(room_of(number), portable, tuple(sorted(kinds)), LAMP in types, kept)


@lru_cache(None)
def scene(number: int) -> Scene:
    """The scene with this number, always furnished alike."""
    rng = random.Random(f"alfworld-scene-{number}")
    content = stock(number)
    points = tuple(sorted((float(x), float(z)) for x, z in np.load(wheel.layout(number, "layout.npy"))[:, :2]))
    receptacles = {name: _location(*pose) for name, pose in content.poses.items()}
    known = {kind_of(name) for name in receptacles}
    for kind in content.kinds:
        if kind in known:
            continue
        for _ in range(_SYNTHESISED.get(kind, 1)):
            x, z = rng.choice(points)
            name = object_id(kind.removesuffix("Basin"), rng, x, z, height=1.2)
            name += f"|{kind}" if kind.endswith("Basin") else ""
            receptacles[name] = _location(x, z, rng.choice((0, 90, 180, 270)), rng.choice((0, 30, 45, 60)))
    spots = {item: tuple(name for name in receptacles if fits(item, kind_of(name))) for item in content.portable}
    spots[LAMP] = tuple(name for name in receptacles if kind_of(name) in LAMP_HOLDERS)
    return Scene(content, receptacles, spots, points)


@lru_cache(None)
def combos(number: int, task_type: str) -> tuple[Combo, ...]:
    """Every task of a type that can be set in a scene, in a fixed order."""
    place = stock(number)
    if _TABLE_NAMES[place.room] not in wheel.constants().GOALS_VALID[task_type]:
        return ()
    hosts = {item: [kind for kind in place.kinds if fits(item, kind)] for item in place.portable}
    if task_type == TASK_TYPES[2]:
        if not place.lamp or not set(place.kinds) & set(LAMP_HOLDERS):
            return ()
        return tuple(Combo(task_type, item, LAMP, number) for item, kinds in hosts.items() if kinds)
    tool, table = TOOLS.get(task_type, ("", ""))
    able = wheel.constants().VAL_ACTION_OBJECTS[table] if tool else place.portable
    if tool and tool not in place.kinds:
        return ()
    return tuple(
        Combo(task_type, item, kind, number)
        for item, kinds in hosts.items()
        if item in able and len(kinds) > 1  # it must have somewhere else to be at the start
        for kind in kinds
        if kind != tool and not (kind in _NARROW and task_type == TASK_TYPES[6])
    )


def object_id(kind: str, rng: random.Random, x: float, z: float, *, height: float) -> str:
    """An ALFRED-style id for a thing near (x, z): "Mug|-00.84|+01.09|-01.56"."""
    spot = (x + rng.uniform(-0.6, 0.6), rng.uniform(0.05, height), z + rng.uniform(-0.6, 0.6))
    return "|".join((kind, *(f"{'-' if value < 0 else '+'}{abs(value):05.2f}" for value in spot)))


def _location(x: float, z: float, rotation: float, horizon: float) -> str:
    return f"loc|{round(x * 4)}|{round(z * 4)}|{int(rotation) // 90}|{int(horizon)}"
