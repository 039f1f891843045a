"""Family "personalised": what somebody likes, and what their day is like."""

from __future__ import annotations

from random import Random

from ..blueprint.goal import At, Attribute, Looked, Moment, Never, State
from .scene import HOUR, MINUTE, Draft, Scene, politely, the

Maybe = Draft | None


def preference(rng: Random, scene: Scene) -> Maybe:
    """A value that only somebody's preferences tell."""
    likes, me = scene.speaker.preferences, f"person.{scene.speaker.id}"
    found: list[Draft] = []
    for state in scene.of("climate"):
        for key, name in (
            ("comfort_temperature", "the temperature I like"),
            ("sleep_temperature", "my sleeping temperature"),
        ):
            if state.state != "off" and state.attributes.get("temperature") != likes[key]:
                must = (Attribute(state.entity_id, "temperature", "=", likes[key]), Looked(me))
                found.append(Draft(politely(rng, f"set {the(state)} to {name}"), must, (state.entity_id,)))
    for state in scene.of("light"):
        if state.attributes.get("supported_color_modes") == ["onoff"]:
            continue
        for key, name in (
            ("reading_brightness_pct", "my reading light"),
            ("evening_brightness_pct", "how I like it in the evening"),
        ):
            if abs((state.attributes.get("brightness") or 0) - likes[key] * 2.55) > 8:
                must = (Attribute(state.entity_id, "brightness", "=", round(likes[key] * 2.55), 2), Looked(me))
                found.append(Draft(politely(rng, f"make {the(state)} {name}"), must, (state.entity_id,)))
    for state in scene.of("media_player"):
        if state.state == "playing" and abs(state.attributes.get("volume_level", 0) * 100 - likes["volume_pct"]) > 2:
            must = (Attribute(state.entity_id, "volume_level", "=", likes["volume_pct"] / 100, 0.001), Looked(me))
            found.append(Draft(politely(rng, f"put {the(state)} at my usual volume"), must, (state.entity_id,)))
    return rng.choice(found) if found else None


def other_person(rng: Random, scene: Scene) -> Maybe:
    """What somebody else likes."""
    others = [who for who in scene.home.spec.residents if who.id != scene.speaker.id]
    stats = [state for state in scene.of("climate") if state.state != "off"]
    if not others or not stats:
        return None
    who, stat = rng.choice(others), rng.choice(stats)
    value = who.preferences["comfort_temperature"]
    if stat.attributes.get("temperature") == value or scene.speaker.preferences["comfort_temperature"] == value:
        return None
    must = (Attribute(stat.entity_id, "temperature", "=", value), Looked(f"person.{who.id}"))
    words = (
        f"set {the(stat)} to what {who.name} likes",
        f"{who.name} is coming; bring {the(stat)} to their favourite temperature",
    )
    return Draft(politely(rng, rng.choice(words)), must, (stat.entity_id,))


def routine(rng: Random, scene: Scene) -> Maybe:
    """At a time that only somebody's day tells: when they get up or go to bed."""
    key, words = rng.choice((("wake", "when I get up"), ("bed", "when I go to bed")))
    states = [state for state in scene.of("light", "switch") if "cycle" not in scene.home.params(state.entity_id)]
    if not states:
        return None
    chosen = rng.choice(states)
    wanted = "on" if chosen.state == "off" else "off"
    at = str(scene.speaker.preferences[key])
    seconds = int(at[:2]) * HOUR + int(at[3:]) * MINUTE
    now = scene.home.now()
    delay = (seconds - (now.hour * HOUR + now.minute * MINUTE + now.second)) % (24 * HOUR)
    if delay < HOUR / 2:
        return None
    goal, me = State(chosen.entity_id, wanted), f"person.{scene.speaker.id}"
    must = (
        At(Moment("clock", seconds), goal, 180.0),
        Never(goal, end=Moment("start", delay - 5 * MINUTE)),
        Looked(me),
    )
    order = f"turn {wanted} {the(chosen)} {words}"
    return Draft(politely(rng, order), must, (chosen.entity_id,), horizon=delay + 10 * MINUTE)
