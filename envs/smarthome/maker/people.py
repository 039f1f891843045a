"""The residents of a made home: who they are, what they like, how their days go; and the rules they have set up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from ..spec import ActivitySpec, EntitySpec, ResidentSpec

NAMES = (
    *("Anna", "Ben", "Carla", "David", "Elif", "Farid", "Grace", "Hugo", "Ines", "Jonas", "Kemal", "Lena", "Mila"),
    *("Noah", "Olga", "Pablo", "Rosa", "Samir", "Tara", "Yuki"),
)
HELD_OUT_NAMES = ("Amara", "Bruno", "Chiara", "Dmitri", "Esra", "Finn", "Hana", "Ivo", "Jamila", "Koji")


def preferences(rng: Random) -> dict[str, Any]:
    """What a resident likes; tasks refer to it."""
    return {
        "comfort_temperature": rng.choice((20.5, 21.0, 21.5, 22.0, 22.5)),
        "sleep_temperature": rng.choice((16.0, 17.0, 17.5, 18.0, 18.5)),
        "reading_brightness_pct": rng.choice((60, 70, 80, 90)),
        "evening_brightness_pct": rng.choice((15, 20, 25, 30, 40)),
        "volume_pct": rng.choice((15, 25, 35, 45)),
        "wake": rng.choice(("06:00", "06:15", "06:30", "06:45", "07:00", "07:15")),
        "bed": rng.choice(("22:00", "22:30", "22:45", "23:00", "23:30")),
    }


def residents(
    rng: Random, count: int, rooms: Mapping[str, list[str]], held_out: bool, hour: int
) -> tuple[ResidentSpec, ...]:
    """Some residents; their day follows from their preferences and the rooms there are.

    Args:
        rng: draws everything.
        count: how many.
        rooms: room kind -> ids.
        held_out: whether names come from the list that training homes never use.
        hour: of the home's start.
    """
    found = []
    sleeping = [room for kind in ("bedroom", "kids_room", "guest_room") for room in rooms.get(kind, ())]
    for number, name in enumerate(rng.sample(HELD_OUT_NAMES if held_out else NAMES, count)):
        likes = preferences(rng)
        bed = sleeping[number // 2 % len(sleeping)]
        works = rng.random() < 0.6
        routine = _day(rng, likes, rooms, bed, works)
        now = _now(routine, hour)
        found.append(ResidentSpec(name.lower(), name, now.room, now.activity, routine, likes))
    return tuple(found)


def _day(
    rng: Random, likes: Mapping[str, Any], rooms: Mapping[str, list[str]], bed: str, works: bool
) -> tuple[ActivitySpec, ...]:
    living, kitchen = rooms["living_room"][0], rooms["kitchen"][0]
    bath = rooms.get("bathroom", [bed])[0]
    desk = rooms.get("office", [living])[0]
    wake = int(likes["wake"][:2]) * 60 + int(likes["wake"][3:])
    lines = [
        ActivitySpec(likes["wake"], bath, "shower", jitter=5),
        ActivitySpec(_clock(wake + 25), kitchen, "eat", jitter=5),
    ]
    if works:
        leave, back = wake + rng.choice((60, 75, 90)), rng.choice((16 * 60, 17 * 60, 17 * 60 + 30))
        lines += [ActivitySpec(_clock(leave), "away", days="weekday", jitter=5)]
        lines += [ActivitySpec(_clock(back), living, "idle", days="weekday", jitter=10)]
    else:
        lines += [ActivitySpec(_clock(wake + 60), desk, "work", days="weekday", jitter=10)]
        lines += [
            ActivitySpec("12:30", kitchen, "cook", jitter=10),
            ActivitySpec("13:30", desk, "work", days="weekday"),
        ]
    lines += [
        ActivitySpec("18:15", kitchen, "cook", jitter=15),
        ActivitySpec("19:15", living, "tv", jitter=10),
        ActivitySpec(likes["bed"], bed, "sleep", jitter=10),
    ]
    return tuple(lines)


def _now(routine: Sequence[ActivitySpec], hour: int) -> ActivitySpec:
    """Where the day has got to at an hour (of a weekday)."""
    past = [line for line in routine if line.days != "weekend" and int(line.at[:2]) < hour]
    return past[-1] if past else routine[-1]


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def automations(
    rng: Random, entities: Sequence[EntitySpec], area_of: Mapping[str, str | None], most: int
) -> tuple[dict[str, Any], ...]:
    """Rules that the residents have set up: lights by motion or by the sun, heating by the clock, doors."""

    def of(domain: str, device_class: str | None = None) -> list[str]:
        return [
            entity.entity_id
            for entity in entities
            if entity.entity_id.startswith(f"{domain}.")
            and (device_class is None or entity.attributes.get("device_class") == device_class)
        ]

    found: list[dict[str, Any]] = []
    for motion in of("binary_sensor", "motion"):
        lamps = [lamp for lamp in of("light") if area_of[lamp] == area_of[motion]]
        if lamps:
            lamp = rng.choice(lamps)
            found.append(
                {
                    "id": f"motion_{lamp.partition('.')[2]}",
                    "alias": f"Motion light {motion.partition('.')[2].replace('_', ' ')}",
                    "triggers": [{"trigger": "state", "entity_id": motion, "to": "on"}],
                    "conditions": [{"condition": "sun", "after": "sunset"}],
                    "actions": [{"action": "light.turn_on", "target": {"entity_id": lamp}}],
                }
            )
    outdoor = [lamp for lamp in of("light") if "garden" in str(area_of[lamp]) or "terrace" in str(area_of[lamp])]
    if outdoor:
        found.append(
            {
                "id": "sunset_lights",
                "alias": "Outdoor light at sunset",
                "triggers": [{"trigger": "sun", "event": "sunset"}],
                "actions": [{"action": "light.turn_on", "target": {"entity_id": rng.choice(outdoor)}}],
            }
        )
    if of("climate"):
        stat = rng.choice(of("climate"))
        found.append(
            {
                "id": "night_setback",
                "alias": "Night setback",
                "triggers": [{"trigger": "time", "at": "23:00:00"}],
                "actions": [
                    {"action": "climate.set_temperature", "target": {"entity_id": stat}, "data": {"temperature": 17}}
                ],
            }
        )
    for lock in of("lock"):
        found.append(
            {
                "id": f"lock_{lock.partition('.')[2]}",
                "alias": f"Lock {lock.partition('.')[2].replace('_', ' ')} at night",
                "triggers": [{"trigger": "time", "at": rng.choice(("22:00:00", "23:30:00"))}],
                "actions": [{"action": "lock.lock", "target": {"entity_id": lock}}],
            }
        )
    rng.shuffle(found)
    return tuple({item["id"]: item for item in found[:most]}.values())
