"""Family "query": questions about states, sums and the past. The answer must be told, and have been looked up."""

from __future__ import annotations

import re
from random import Random

from ..blueprint.goal import Condition, Looked, Or, Said
from .scene import Draft, Scene, the

Maybe = Draft | None


def number(value: float, digits: int = 0) -> str:
    """A pattern that finds a number in a sentence, and not as part of another."""
    text = re.escape(f"{value:.{digits}f}")
    return rf"(?<![\d.]){text}(?![\d]|\.\d)"


def state(rng: Random, scene: Scene) -> Maybe:
    """What a device does, or a sensor reads."""
    chosen = rng.choice(scene.of("light", "switch", "lock", "cover", "climate", "media_player", "sensor"))
    entity, value = chosen.entity_id, chosen.state
    if chosen.domain == "sensor":
        if chosen.attributes.get("device_class") not in ("temperature", "humidity", "carbon_dioxide", "battery"):
            return None
        request = rng.choice(("What does {} say?", "What's the reading of {}?", "Tell me what {} shows.")).format(
            the(chosen)
        )
        pattern = number(float(value), len(value.partition(".")[2]))
    else:
        request = rng.choice(("What is {} doing right now?", "What's the state of {}?", "How is {} set at the moment?"))
        request, pattern = request.format(the(chosen)), rf"\b{re.escape(value)}\b"
    return Draft(request, (Said(pattern), Looked(entity)), answer=f"{chosen.name}: {value}.")


def aggregate(rng: Random, scene: Scene) -> Maybe:
    """How many of a kind are on, open or unlocked."""
    domain, value, words = rng.choice(
        (
            ("light", "on", ("How many lights are on?", "How many lamps are burning in the whole house?")),
            ("cover", "open", ("How many blinds, curtains and other covers are open?",)),
            ("switch", "on", ("How many switches and plugs are on?",)),
            ("media_player", "playing", ("How many players are playing?",)),
            ("fan", "on", ("How many fans are running?",)),
        )
    )
    states = scene.of(domain)
    if not states:
        return None
    count = sum(item.state == value for item in states)
    looked: list[Condition] = [Looked(item.entity_id) for item in states]
    must = (Said(number(count)), *looked)
    return Draft(rng.choice(words), must, answer=f"{count} of {len(states)}.")


def extreme(rng: Random, scene: Scene) -> Maybe:
    """Which room is the warmest or coldest."""
    sensors = [
        item
        for item in scene.of("sensor")
        if item.attributes.get("device_class") == "temperature" and scene.area_of(item) in scene.indoors()
    ]
    if len(sensors) < 2 or len({item.state for item in sensors}) < len(sensors):
        return None
    warmest = rng.random() < 0.5
    found = sorted(sensors, key=lambda item: float(item.state))[-1 if warmest else 0]
    place = scene.area_of(found)
    assert place is not None
    name = scene.registry.areas[place].name
    word = "warmest" if warmest else "coldest"
    request = rng.choice((f"Which room is the {word}?", f"Where is it {word} right now, by the sensors?"))
    must = (Said(rf"\b{re.escape(name)}\b(?! \d)"), *(Looked(item.entity_id) for item in sensors))
    others = [area.name for area in scene.registry.areas.values() if area.id != place]
    listing = tuple(Said(rf"\b{re.escape(other)}\b") for other in others if other not in name and name not in other)
    return Draft(request, must, must_not=(Or(listing),) if len(listing) > 1 else (), answer=f"{name}.")


def history(rng: Random, scene: Scene) -> Maybe:
    """How warm or how damp it was at its highest, in the hours before."""
    sensors = [
        item for item in scene.of("sensor") if item.attributes.get("device_class") in ("temperature", "humidity")
    ]
    if not sensors:
        return None
    chosen = rng.choice(sensors)
    readings = [float(item.state) for item in scene.home.history(chosen.entity_id)]
    if len(set(readings)) < 3:
        return None
    value = max(readings)
    if value == float(chosen.state):
        return None
    digits = len(chosen.state.partition(".")[2])
    request = rng.choice(("What was the highest reading of {} today?", "How high did {} go since this morning?"))
    must = (Said(number(value, digits)), Looked(chosen.entity_id))
    return Draft(request.format(the(chosen)), must, answer=f"{value:.{digits}f}.")
