"""A home at the moment of a request, as the makers of tasks see it, and the language in which residents speak."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from ..backend import EntityState
from ..blueprint.goal import Attribute, Blueprint, Condition, State, Unchanged
from ..blueprint.run import Happening
from ..frozen import FrozenDict
from ..sim.home import SimHome
from ..spec import HomeSpec, ResidentSpec

MINUTE, HOUR = 60.0, 3600.0
SOON = 15 * MINUTE
"""The horizon of what is asked for now."""
_POLITE = (
    "{}",
    "{}",
    "Please {}",
    "Could you {}?",
    "Can you {}?",
    "I'd like you to {}",
    "{}, please",
    "Hey, {}",
    "Would you {}?",
)


@dataclass(frozen=True)
class Draft:
    """What a maker makes of a home: a request and the goal behind it; `make.make_task` adds the rest."""

    request: str
    must: tuple[Condition, ...]
    touched: tuple[str, ...] = ()
    """What may differ at the end (see `Unchanged.without`)."""
    must_not: tuple[Condition, ...] = ()
    prefer: tuple[tuple[float, Condition], ...] = ()
    horizon: float = SOON
    answers: Mapping[str, str] = field(default_factory=FrozenDict)
    world: tuple[Happening, ...] = ()
    answer: str = ""
    about: str = ""
    home: HomeSpec | None = None
    """The home with something else in it, e.g. a fault."""

    def goal(self) -> Blueprint:
        """The goal, with "and nothing else changes"."""
        return Blueprint((*self.must, Unchanged(self.touched)), self.must_not, self.prefer, self.horizon)


class Scene:
    """A home at the moment of the request.

    Args:
        home: has run for the warm-up.
        speaker: who speaks.
    """

    def __init__(self, home: SimHome, speaker: ResidentSpec) -> None:
        self.home, self.speaker = home, speaker
        self.registry = home.registry()
        where = home.people.where[speaker.id][0]
        self.area = where if where in self.registry.areas else None

    def of(self, *domains: str, area: str | None = None) -> list[EntityState]:
        """The devices of some domains (in an area) that work, by id."""
        return [
            state
            for key, state in sorted(self.home.states().items())
            if state.domain in domains
            and key in self.registry.entities
            and state.state not in ("unavailable", "unknown")
            and (area is None or self.registry.area_of(key) == area)
        ]

    def room(self, area: str) -> str:
        """What an area is called in a sentence."""
        return self.registry.areas[area].name.lower()

    def area_of(self, state: EntityState) -> str | None:
        """Where a device is."""
        return self.registry.area_of(state.entity_id)

    def indoors(self) -> list[str]:
        """The rooms that are not outdoors."""
        return [room.id for room in self.home.spec.rooms if not room.outdoor]


def politely(rng: Random, order: str) -> str:
    """An order in one of the ways in which people give it."""
    said = rng.choice(_POLITE).format(order)
    return said[0].upper() + said[1:] + ("" if said.endswith("?") else rng.choice(("", ".", ".")))


def the(state: EntityState) -> str:
    """A device in a sentence."""
    name = state.name
    return name if "'s " in name else f"the {name}"


@dataclass(frozen=True)
class Order:
    """Something that one device can be told, and how it is said."""

    words: str
    conditions: tuple[Condition, ...]
    touched: tuple[str, ...]


def orders(rng: Random, state: EntityState) -> list[Order]:
    """What a device can be told that makes a difference now."""
    name, entity, on = the(state), state.entity_id, state.state

    def order(words: tuple[str, ...], *conditions: Condition) -> Order:
        return Order(rng.choice(words).format(name), conditions, (entity,))

    switch = order(("turn on {}", "switch on {}", "turn {} on"), State(entity, "on"))
    if on == "on":
        switch = order(("turn off {}", "switch off {}", "turn {} off"), State(entity, "off"))
    found: list[Order] = []
    if state.domain == "light":
        found.append(switch)
        if state.attributes.get("supported_color_modes") != ["onoff"]:
            percent = rng.choice((10, 20, 30, 40, 50, 60, 70, 80, 100))
            level = Attribute(entity, "brightness", "=", round(percent * 2.55), 2)
            if abs((state.attributes.get("brightness") or 0) - percent * 2.55) > 5:
                found.append(
                    order(
                        (f"set {{}} to {percent}%", f"put {{}} at {percent} percent", f"dim {{}} to {percent}%"), level
                    )
                )
    elif state.domain in ("switch", "input_boolean", "siren"):
        found.append(switch)
    elif state.domain == "fan":
        percent = rng.choice((25, 50, 75, 100))
        if state.attributes.get("percentage") != percent:
            found.append(
                order(
                    (f"set {{}} to {percent}%", f"run {{}} at {percent} percent"),
                    Attribute(entity, "percentage", "=", percent),
                )
            )
        if on == "on":
            found.append(switch)
    elif state.domain == "humidifier":
        found.append(switch)
    elif state.domain == "climate":
        target = rng.choice((18, 19, 20, 21, 22, 23, 24))
        if state.attributes.get("temperature") != target and on != "off":
            found.append(
                order(
                    (f"set {{}} to {target} degrees", f"put {{}} on {target}"),
                    Attribute(entity, "temperature", "=", target),
                )
            )
        wanted = "heat" if on == "off" else "off"
        words = ("start heating with {}", "set {} to heat") if wanted == "heat" else ("turn off {}", "switch {} off")
        found.append(order(words, State(entity, wanted)))
    elif state.domain in ("cover", "valve"):
        wanted = "closed" if on == "open" else "open"
        found.append(order(("open {}",) if wanted == "open" else ("close {}", "shut {}"), State(entity, wanted)))
        position = rng.choice((25, 40, 50, 60, 75))
        if "current_position" in state.attributes and state.attributes["current_position"] != position:
            found.append(
                order(
                    (f"set {{}} to {position}%", f"move {{}} to {position} percent"),
                    Attribute(entity, "current_position", "=", position),
                )
            )
    elif state.domain == "lock":
        wanted = "unlocked" if on == "locked" else "locked"
        found.append(order((f"{wanted.removesuffix('ed')} {{}}",), State(entity, wanted)))
    elif state.domain == "media_player":
        if on == "playing":
            found.append(order(("pause {}", "stop the sound on {}"), State(entity, "paused")))
            percent = rng.choice((10, 20, 30, 40, 60, 80))
            if state.attributes.get("volume_level") != percent / 100:
                level = Attribute(entity, "volume_level", "=", percent / 100, 0.001)
                found.append(order((f"set the volume of {{}} to {percent}%", f"put {{}} at volume {percent}"), level))
        if on == "off" and state.attributes.get("device_class") == "tv":  # a speaker that is turned on is "idle"
            found.append(order(("turn on {}", "switch {} on"), State(entity, "on")))
        elif on != "off":
            found.append(order(("turn off {}", "switch {} off"), State(entity, "off")))
    elif state.domain == "vacuum":
        found.append(order(("start {}", "let {} clean"), State(entity, "cleaning")))
    elif state.domain == "lawn_mower":
        found.append(order(("start {}", "let {} mow"), State(entity, "mowing")))
    elif state.domain == "select":
        options = [option for option in state.attributes.get("options", ()) if option != on]
        option = rng.choice(options)
        found.append(order((f"set {{}} to {option}", f"choose {option} for {{}}"), State(entity, option)))
    return found


CONTROLLED = (
    "light",
    "switch",
    "fan",
    "humidifier",
    "climate",
    "cover",
    "valve",
    "lock",
    "media_player",
    "vacuum",
    "lawn_mower",
)
"""The domains that people give orders to."""
