"""Kinds of rooms: what they are called, how large they are, and what stands in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class RoomKind:
    """A kind of room."""

    names: tuple[str, ...]
    square: float
    """Square metres, about."""
    window: float
    """Square metres of glass."""
    always: tuple[str, ...]
    """Kinds of devices that every such room has first."""
    more: tuple[tuple[float, str], ...]
    """Weight and kind: what is drawn after that."""
    outdoor: bool = False
    upstairs: bool = False


_SENSORS = ((1.0, "climate_sensor"), (0.8, "motion"), (0.4, "presence"), (0.3, "smoke"), (0.5, "light_sensor"))
_SLEEP = (
    *((2.0, "bedside_lamp"), (1.0, "bedside_lamp"), (1.0, "blind"), (0.8, "curtain"), (1.0, "radiator"), (0.5, "fan")),
    *((0.4, "humidifier"), (0.4, "aircon"), (0.4, "speaker"), (0.3, "strip"), (0.4, "air_sensor"), (0.4, "plug")),
)
KINDS: Mapping[str, RoomKind] = {
    "living_room": RoomKind(
        ("Living Room", "Lounge", "Family Room"),
        *(26, 5.0, ("ceiling_light", "lamp", "tv", "radiator")),
        (
            *((2.0, "lamp"), (1.0, "strip"), (1.5, "blind"), (0.6, "curtain"), (1.0, "speaker"), (0.5, "aircon")),
            *((0.6, "air_sensor"), (0.4, "purifier"), (0.5, "vacuum"), (0.6, "plug"), (0.3, "fan"), *_SENSORS),
        ),
    ),
    "kitchen": RoomKind(
        ("Kitchen",),
        *(14, 2.0, ("ceiling_light", "coffee")),
        (
            *((1.0, "simple_light"), (1.0, "dishwasher"), (0.6, "kettle"), (0.6, "speaker"), (0.7, "exhaust")),
            *((0.5, "leak"), (0.6, "blind"), (0.4, "air_sensor"), (0.6, "radiator"), (0.6, "plug"), *_SENSORS),
        ),
    ),
    "bedroom": RoomKind(
        ("Bedroom", "Master Bedroom", "Main Bedroom"),
        *(16, 2.5, ("bedside_lamp", "radiator"), (*_SLEEP, *_SENSORS)),
        upstairs=True,
    ),
    "guest_room": RoomKind(
        ("Guest Room", "Spare Room"), 13, 2.0, ("simple_light",), (*_SLEEP, *_SENSORS), upstairs=True
    ),
    "kids_room": RoomKind(("Kids Room", "Nursery"), 12, 2.0, ("ceiling_light",), (*_SLEEP, *_SENSORS), upstairs=True),
    "bathroom": RoomKind(
        ("Bathroom", "Main Bathroom"),
        *(8, 0.6, ("simple_light",)),
        (
            *((1.2, "exhaust"), (0.8, "radiator"), (0.5, "boiler"), (0.5, "leak"), (0.4, "dehumidifier")),
            *((0.4, "speaker"), (0.5, "washer"), (0.3, "blind"), *_SENSORS),
        ),
        upstairs=True,
    ),
    "hallway": RoomKind(
        ("Hallway", "Entrance", "Hall"),
        *(9, 0.3, ("simple_light", "lock")),
        (
            (1.5, "motion"),
            (0.6, "lamp"),
            (0.5, "alarm"),
            (0.3, "siren"),
            (0.3, "smoke"),
            (0.3, "climate_sensor"),
            (0.3, "plug"),
        ),
    ),
    "office": RoomKind(
        ("Office", "Study"),
        *(11, 2.0, ("desk_lamp",)),
        (
            *((1.0, "ceiling_light"), (1.0, "radiator"), (1.0, "blind"), (0.8, "plug"), (0.5, "fan"), (0.5, "speaker")),
            *((0.6, "air_sensor"), (0.4, "aircon"), (0.3, "purifier"), *_SENSORS),
        ),
        upstairs=True,
    ),
    "dining_room": RoomKind(
        ("Dining Room",),
        *(15, 3.0, ("ceiling_light",)),
        ((1.0, "lamp"), (1.0, "blind"), (0.6, "speaker"), (0.8, "radiator"), (0.5, "strip"), (0.4, "plug"), *_SENSORS),
    ),
    "laundry": RoomKind(
        ("Laundry Room", "Utility Room"),
        *(7, 0.5, ("washer", "simple_light")),
        (
            (1.0, "dryer"),
            (0.7, "leak"),
            (0.6, "dehumidifier"),
            (0.4, "water_main"),
            (0.4, "boiler"),
            (0.4, "plug"),
            *_SENSORS,
        ),
    ),
    "garage": RoomKind(
        ("Garage",),
        *(20, 0.5, ("garage_door", "simple_light")),
        ((1.0, "charger"), (0.5, "plug"), (0.4, "camera"), (0.5, "motion"), (0.4, "climate_sensor"), (0.3, "smoke")),
    ),
    "garden": RoomKind(
        ("Garden", "Backyard", "Terrace"),
        *(80, 0.0, ("simple_light",)),
        (
            *((1.0, "tap"), (0.6, "mower"), (0.8, "camera"), (0.6, "awning"), (0.8, "simple_light"), (0.4, "plug")),
            *((0.4, "speaker"), (0.6, "motion"), (0.3, "strip")),
        ),
        outdoor=True,
    ),
}
PLANS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "small": (
        ("living_room", "kitchen", "bedroom", "bathroom"),
        ("living_room", "kitchen", "bedroom", "hallway"),
        ("living_room", "kitchen", "bedroom", "bathroom", "hallway"),
    ),
    "medium": (
        ("living_room", "kitchen", "hallway", "bedroom", "kids_room", "bathroom", "office", "garden"),
        ("living_room", "kitchen", "hallway", "dining_room", "bedroom", "guest_room", "bathroom", "garage"),
        ("living_room", "kitchen", "hallway", "laundry", "bedroom", "bathroom", "office"),
    ),
    "large": (
        (
            *(
                "living_room",
                "kitchen",
                "hallway",
                "dining_room",
                "laundry",
                "garage",
                "garden",
                "bedroom",
                "kids_room",
            ),
            *("kids_room", "guest_room", "bathroom", "bathroom", "office"),
        ),
        (
            *("living_room", "living_room", "kitchen", "hallway", "dining_room", "laundry", "garage", "garden"),
            *("bedroom", "bedroom", "kids_room", "guest_room", "bathroom", "bathroom", "bathroom", "office", "office"),
        ),
    ),
}
"""Size -> lists of room kinds."""
DEVICES = {"small": (8, 15), "medium": (20, 50), "large": (60, 135)}
"""Size -> how many devices, from and to."""
