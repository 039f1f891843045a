"""Families "explicit", "implicit" and "ambiguous": what people want of devices now, said in full, in part, or not."""

from __future__ import annotations

from random import Random

from ..blueprint.goal import (
    IT,
    Asked,
    Attribute,
    Each,
    Room,
    Selector,
    State,
)
from .scene import CONTROLLED, HOUR, SOON, Draft, Scene, orders, politely, the

Maybe = Draft | None


def single(rng: Random, scene: Scene) -> Maybe:
    """One device, one order."""
    options = [order for state in scene.of(*CONTROLLED) for order in orders(rng, state)]
    order = rng.choice(options)
    return Draft(politely(rng, order.words), order.conditions, order.touched)


def multi(rng: Random, scene: Scene) -> Maybe:
    """Two or three devices, each with its own order."""
    states = [state for state in scene.of(*CONTROLLED) if orders(Random(0), state)]
    if len(states) < 3:
        return None
    chosen = [rng.choice(orders(rng, state)) for state in rng.sample(states, rng.choice((2, 2, 3)))]
    words = (
        ", ".join(order.words for order in chosen[:-1])
        + rng.choice((" and ", ", then ", " and also "))
        + chosen[-1].words
    )
    conditions = tuple(condition for order in chosen for condition in order.conditions)
    return Draft(politely(rng, words), conditions, tuple(name for order in chosen for name in order.touched))


def area(rng: Random, scene: Scene) -> Maybe:
    """All the lamps or covers of a room."""
    domain, words = rng.choice((("light", ("lights", "lamps")), ("cover", ("blinds", "covers"))))
    rooms = [room for room in scene.registry.areas if len(scene.of(domain, area=room)) >= 2]
    if not rooms:
        return None
    room = rng.choice(rooms)
    states = scene.of(domain, area=room)
    if domain == "light":
        wanted = "off" if any(state.state == "on" for state in states) else "on"
        order = f"turn {wanted} all the {rng.choice(words)} in the {scene.room(room)}"
    else:
        wanted = "closed" if any(state.state == "open" for state in states) else "open"
        order = f"{'close' if wanted == 'closed' else 'open'} all the {rng.choice(words)} in the {scene.room(room)}"
    must = (Each("all", Selector(domain, room), State(IT, wanted)),)
    return Draft(politely(rng, order), must, tuple(state.entity_id for state in states))


def area_except(rng: Random, scene: Scene) -> Maybe:
    """All the lamps of a room but one."""
    rooms = [room for room in scene.registry.areas if len(scene.of("light", area=room)) >= 2]
    if not rooms:
        return None
    room = rng.choice(rooms)
    states = scene.of("light", area=room)
    kept = rng.choice(states)
    others = tuple(state.entity_id for state in states if state is not kept)
    wanted = "on" if kept.state == "off" else "off"
    if all(state.state == wanted for state in states if state is not kept):
        return None
    words = (
        f"turn {wanted} the {scene.room(room)} lights except {the(kept)}",
        f"switch {wanted} everything that shines in the {scene.room(room)}, but leave {the(kept)} as it is",
    )
    must = (Each("all", Selector("light", room, (kept.entity_id,)), State(IT, wanted)),)
    return Draft(politely(rng, rng.choice(words)), must, others)


def relative(rng: Random, scene: Scene) -> Maybe:
    """A bit warmer, brighter, louder, more open, by a step that is said."""
    found: list[Draft] = []
    for state in scene.of("climate", "light", "media_player", "cover"):
        entity, name = state.entity_id, the(state)
        up = rng.random() < 0.5
        if state.domain == "climate" and state.state != "off" and state.attributes.get("temperature"):
            step = rng.choice((1, 1.5, 2, 3))
            target = state.attributes["temperature"] + (step if up else -step)
            word = f"make {name} {step:g} degrees {'warmer' if up else 'cooler'}"
            found.append(Draft(politely(rng, word), (Attribute(entity, "temperature", "=", target),), (entity,)))
        if state.domain == "light" and state.state == "on" and state.attributes.get("brightness"):
            level, step = state.attributes["brightness"] / 2.55, rng.choice((10, 20, 30))
            if 5 < level + (step if up else -step) < 100:
                target = round((level + (step if up else -step)) * 2.55)
                word = f"make {name} {step} percent {'brighter' if up else 'darker'}"
                found.append(Draft(politely(rng, word), (Attribute(entity, "brightness", "=", target, 3),), (entity,)))
        if state.domain == "media_player" and state.state == "playing":
            level = round(state.attributes.get("volume_level", 0.5) + (0.1 if up else -0.1), 2)
            word = f"turn {name} {'up' if up else 'down'} by 10 percent"
            found.append(Draft(politely(rng, word), (Attribute(entity, "volume_level", "=", level, 0.011),), (entity,)))
        if state.domain == "cover" and 20 <= (state.attributes.get("current_position") or 0) <= 80:
            target = state.attributes["current_position"] + (20 if up else -20)
            word = f"{'open' if up else 'close'} {name} by another 20 percent"
            found.append(
                Draft(politely(rng, word), (Attribute(entity, "current_position", "=", target, 1),), (entity,))
            )
    return rng.choice(found) if found else None


# -- implicit: people say how they feel ----------------------------------------------------------------------------

_COLD = ("I'm freezing in here", "It's too cold in the {room}", "My hands are cold, the {room} is chilly")
_DARK = ("I can't see my book", "It's far too dark in the {room}", "I can hardly find anything in the {room}")
_LOUD = ("I can't hear myself think with that noise in the {room}", "It's too loud in the {room}")
_STUFFY = ("The air in the {room} is stuffy", "It's hard to breathe in the {room}")
_DAMP = ("The {room} is so damp that the mirror is fogged", "It's terribly humid in the {room}")


def _saying(rng: Random, scene: Scene, sayings: tuple[str, ...], room: str) -> str:
    """What somebody who is in the room says, or somebody who is not: they name it."""
    fits = sayings if room == scene.area else tuple(item for item in sayings if "{room}" in item)
    return rng.choice(fits).format(room=scene.room(room)) + rng.choice((".", "!", ". Can you do something about it?"))


def _helpers(scene: Scene, room: str, *domains: str) -> tuple[str, ...]:
    return tuple(state.entity_id for state in scene.of(*domains, area=room))


def warmer(rng: Random, scene: Scene) -> Maybe:
    """The room is to be warmer in an hour than it would be."""
    rooms = [room for room in scene.indoors() if _helpers(scene, room, "climate")]
    if not rooms:
        return None
    room = rng.choice(rooms)
    now = scene.home.rooms()[room].temperature
    must = (Room(room, "temperature", ">=", round(now + 1.0, 1)),)
    touched = _helpers(scene, room, "climate", "fan", "cover")
    return Draft(_saying(rng, scene, _COLD, room), must, touched, horizon=HOUR)


def _lux_soon(scene: Scene, room: str, lit: tuple[str, ...]) -> float:
    """The light in a room at the horizon, with these lamps on."""
    home, before = scene.home, scene.home.snapshot()
    if lit:
        home.call_service("light", "turn_on", None, {"entity_id": list(lit)})
    home.advance(SOON)
    found = home.air.lux(room)
    home.restore(before)
    return found


def brighter(rng: Random, scene: Scene) -> Maybe:
    """There is to be light to read by."""
    rooms = [room for room in scene.indoors() if scene.home.air.lux(room) < 60 and _helpers(scene, room, "light")]
    if not rooms:
        return None
    room = rng.choice(rooms)
    lamps = _helpers(scene, room, "light")
    dark, light = (_lux_soon(scene, room, lit) for lit in ((), lamps))
    if light - dark < 5:
        return None
    must = (Room(room, "illuminance", ">=", round(dark + 0.4 * (light - dark), 1)),)
    return Draft(_saying(rng, scene, _DARK, room), must, _helpers(scene, room, "light", "cover"))


def quieter(rng: Random, scene: Scene) -> Maybe:
    """What plays is to be quiet or off."""
    rooms = [room for room in scene.indoors() if any(s.state == "playing" for s in scene.of("media_player", area=room))]
    if not rooms:
        return None
    room = rng.choice(rooms)
    players = [state for state in scene.of("media_player", area=room) if state.state == "playing"]
    must = tuple(
        Attribute(state.entity_id, "volume_level", "<=", round(state.attributes["volume_level"] / 2, 2))
        for state in players
    )
    return Draft(_saying(rng, scene, _LOUD, room), must, tuple(state.entity_id for state in players))


def fresher(rng: Random, scene: Scene) -> Maybe:
    """The air is to be cleaner, or drier, in an hour than it would be."""
    found: list[Draft] = []
    for room in scene.indoors():
        air = scene.home.rooms()[room]
        fans = [state for state in scene.of("fan", area=room) if scene.home.params(state.entity_id).get("role")]
        dry = [s for s in scene.of("humidifier", area=room) if s.attributes.get("device_class") == "dehumidifier"]
        touched = _helpers(scene, room, "fan", "humidifier")
        if (
            any(scene.home.params(fan.entity_id)["role"] == "exhaust" and fan.state == "off" for fan in fans)
            and air.co2 > 600
        ):
            must = (Room(room, "co2", "<=", round(air.co2 - 100)),)
            found.append(Draft(_saying(rng, scene, _STUFFY, room), must, touched, horizon=HOUR))
        if dry and air.humidity > 50:
            must = (Room(room, "humidity", "<=", round(air.humidity - 4, 1)),)
            found.append(Draft(_saying(rng, scene, _DAMP, room), must, touched, horizon=HOUR))
    return rng.choice(found) if found else None


# -- ambiguous: several things fit what is said --------------------------------------------------------------------


def _several(rng: Random, scene: Scene, *domains: str) -> tuple[str, str, list[str]] | None:
    """A word that fits several devices of different rooms: (domain, word, their ids)."""
    words = {
        "light": ("lamp", "light"),
        "cover": ("blind",),
        "climate": ("heating",),
        "fan": ("fan",),
        "switch": ("plug",),
    }
    options = []
    for domain in domains:
        states = scene.of(domain)
        if len({scene.area_of(state) for state in states}) >= 2:
            options.append((domain, rng.choice(words[domain]), [state.entity_id for state in states]))
    return rng.choice(options) if options else None


def ask_which(rng: Random, scene: Scene) -> Maybe:
    """Several devices fit, and nothing tells which: the resident has to be asked."""
    found = _several(rng, scene, "light", "climate", "fan")
    if found is None:
        return None
    _, word, entities = found
    meant = scene.home.states()[rng.choice(entities)]
    place = scene.area_of(meant)
    options = [order for order in orders(rng, meant) if order.words.startswith(("turn", "switch", "set", "start"))]
    if place is None or not options:
        return None
    order = rng.choice(options)
    words = order.words.replace(the(meant), f"the {word}")
    said = f"I mean {the(meant)}, in the {scene.room(place)}."
    hint = rng.choice(("Not the one here, the other one.", "You know which one.", "The one I told you about."))
    return Draft(
        f"{politely(rng, words)} {hint}",
        (*order.conditions, Asked("which")),
        order.touched,
        answers={"which": said},
    )


def ask_value(rng: Random, scene: Scene) -> Maybe:
    """The value is left out: how warm, how bright, how loud?"""
    states = [state for state in scene.of("climate", "light") if state.state != "off"]
    found = [order for state in states for order in orders(rng, state) if isinstance(order.conditions[0], Attribute)]
    if not found:
        return None
    order = rng.choice(found)
    condition = order.conditions[0]
    assert isinstance(condition, Attribute) and isinstance(condition.value, int | float)
    state = scene.home.states()[condition.entity]
    if state.domain == "climate":
        request, said = f"set {the(state)} to another temperature", f"{condition.value:g} degrees."
    else:
        request, said = f"dim {the(state)} to the level I want", f"{round(condition.value / 2.55)} percent."
    must = (*order.conditions, Asked("value"))
    return Draft(politely(rng, request), must, order.touched, answers={"value": said})


def context(rng: Random, scene: Scene) -> Maybe:
    """Several devices fit, and where the speaker is tells which: asking is a burden."""
    found = _several(rng, scene, "light", "cover", "climate", "fan")
    if found is None or scene.area is None:
        return None
    domain, word, _ = found
    here = scene.of(domain, area=scene.area)
    if len(here) != 1:
        return None
    options = [order for order in orders(rng, here[0]) if the(here[0]) in order.words]
    if not options:
        return None
    order = rng.choice(options)
    words = order.words.replace(the(here[0]), f"the {word} in here")
    return Draft(politely(rng, words), order.conditions, order.touched, must_not=(Asked("which"),))
