"""Family "scheduling": at a time, for a while, after something else, and rules that hold from now on."""

from __future__ import annotations

from datetime import timedelta
from random import Random

from ..blueprint.goal import After, At, HoldsFor, Moment, Never, State
from ..blueprint.run import Happening
from .scene import HOUR, MINUTE, Draft, Scene, orders, politely, the

Maybe = Draft | None
_DONE = 12 * MINUTE  # when the machine that a request waits for is done


def at_time(rng: Random, scene: Scene) -> Maybe:
    """At a time of day, and not before."""
    found = [o for state in scene.of("light", "switch", "climate", "cover", "fan") for o in orders(rng, state)]
    order = rng.choice(found)
    now = scene.home.now()
    time = (now + timedelta(minutes=rng.choice((30, 45, 60, 90, 120, 150)))).replace(second=0, microsecond=0)
    time -= timedelta(minutes=time.minute % 5)
    since_midnight = time.hour * HOUR + time.minute * MINUTE
    delay = time.timestamp() - scene.home.time
    goal = order.conditions[0]
    must = (
        At(Moment("clock", since_midnight), goal, 90.0),
        Never(goal, end=Moment("start", delay - 5 * MINUTE)),
        goal,
    )
    words = f"{order.words} {rng.choice(('at', 'at exactly', 'not now but at'))} {time:%H:%M}"
    return Draft(politely(rng, words), must, order.touched, horizon=delay + 10 * MINUTE)


def in_a_while(rng: Random, scene: Scene) -> Maybe:
    """After some minutes, and not before."""
    found = [
        o for state in scene.of("light", "switch", "climate", "media_player", "vacuum") for o in orders(rng, state)
    ]
    order = rng.choice(found)
    minutes = rng.choice((5, 10, 15, 20, 30, 45))
    goal = order.conditions[0]
    must = (
        At(Moment("start", minutes * MINUTE), goal, 120.0),
        Never(goal, end=Moment("start", (minutes - 2) * MINUTE)),
    )
    when = rng.choice((f"in {minutes} minutes", f"after {minutes} minutes", f"{minutes} minutes from now"))
    words = f"{order.words} {when}"
    return Draft(politely(rng, words), must, order.touched, horizon=(minutes + 5) * MINUTE)


def for_a_while(rng: Random, scene: Scene) -> Maybe:
    """On now, and off again after some minutes."""
    states = [
        state
        for state in scene.of("light", "switch", "fan")
        if state.state == "off" and "cycle" not in scene.home.params(state.entity_id)
    ]
    if not states:
        return None
    chosen = rng.choice(states)
    minutes = rng.choice((5, 10, 15, 20, 30, 45))
    on, off = State(chosen.entity_id, "on"), State(chosen.entity_id, "off")
    must = (HoldsFor((minutes - 2) * MINUTE, on), off)
    too_long = (HoldsFor((minutes + 3) * MINUTE, on),)
    words = rng.choice(
        (
            f"turn on {the(chosen)} for {minutes} minutes",
            f"let {the(chosen)} run for {minutes} minutes and then switch it off",
        )
    )
    touched = (chosen.entity_id,)
    horizon = (minutes + 10) * MINUTE
    # The last state is "off", as at the start: what must have been in between makes the difference.
    return Draft(politely(rng, words), must, touched, too_long, horizon=horizon)


def after_device(rng: Random, scene: Scene) -> Maybe:
    """Once another device is done."""
    machines = [state for state in scene.of("switch") if "cycle" in scene.home.params(state.entity_id)]
    lamps = [state for state in scene.of("light", "fan") if state.state == "off"]
    if not machines or not lamps:
        return None
    machine, lamp = rng.choice(machines), rng.choice(lamps)
    done = State(machine.entity_id, "off")
    delay = rng.choice((0, 0, 5, 10))
    on = State(lamp.entity_id, "on")
    must = (After(done, on, delay * MINUTE, 45.0), Never(on, end=Moment("start", _DONE - MINUTE)))  # not at once
    when = f"{delay} minutes after {the(machine)} has finished" if delay else f"when {the(machine)} has finished"
    words = f"{rng.choice(('turn on', 'switch on'))} {the(lamp)} {when}"
    horizon = 40 * MINUTE
    world = (Happening(2 * MINUTE, machine.entity_id, "on"), Happening(_DONE, machine.entity_id, "off"))
    return Draft(politely(rng, words), must, (lamp.entity_id, "automation.*"), horizon=horizon, world=world)


def automation(rng: Random, scene: Scene) -> Maybe:
    """A rule: whenever a sensor says so, a device does this; and only then."""
    sensors = [
        state
        for state in scene.of("binary_sensor")
        if state.attributes.get("device_class") in ("smoke", "moisture") and state.state == "off"
    ]
    devices = [state for state in scene.of("light", "siren", "fan", "switch") if state.state == "off"]
    valves = [state for state in scene.of("valve") if state.state == "open"]
    if not sensors or not devices:
        return None
    sensor = rng.choice(sensors)
    wet = sensor.attributes["device_class"] == "moisture"
    chosen = rng.choice(valves) if wet and valves and rng.random() < 0.6 else rng.choice(devices)
    wanted = State(chosen.entity_id, "closed" if chosen.domain == "valve" else "on")
    order = f"close {the(chosen)}" if chosen.domain == "valve" else f"turn on {the(chosen)}"
    alarm = State(sensor.entity_id, "on")
    must = (After(alarm, wanted, 0.0, 30.0), Never(wanted, end=Moment("start", 9 * MINUTE)))
    what = f"{the(sensor)} detects {'water' if wet else 'smoke'}"
    words = rng.choice(
        (f"whenever {what}, {order}", f"{order} every time {what}", f"make a rule: if {what}, then {order}")
    )
    world = (Happening(10 * MINUTE, sensor.entity_id, "on"), Happening(14 * MINUTE, sensor.entity_id, "off"))
    return Draft(politely(rng, words), must, (chosen.entity_id, "automation.*"), horizon=20 * MINUTE, world=world)
