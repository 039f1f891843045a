"""Automations of `SimHome`: every kind of trigger, condition and action, modes, and rules that never end."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sandlot.envs.smarthome.sim.home import SimHome
from sandlot.envs.smarthome.spec import EntitySpec, HomeSpec, ResidentSpec, RoomSpec

LAMPS = tuple(EntitySpec(f"light.{name}", name.title(), area="room") for name in "abc")
OTHERS = (
    EntitySpec("input_boolean.flag", "Flag"),
    EntitySpec("input_number.level", "Level", state="10.0"),
    EntitySpec("input_number.limit", "Limit", state="50.0"),
    EntitySpec("counter.runs", "Runs"),
    EntitySpec("timer.tea", "Tea", attributes={"duration": "0:01:00"}),
    EntitySpec("scene.dim", "Dim", params={"entities": {"light.b": {"state": "on", "brightness": 20}}}),
)
FLAG_ON = {"trigger": "state", "entity_id": "input_boolean.flag", "to": "on"}
COUNT = {"action": "counter.increment", "target": {"entity_id": "counter.runs"}}


@pytest.fixture
def sim() -> SimHome:
    """A Monday, eight in the morning."""
    anna = ResidentSpec("anna", "Anna", "room")
    return SimHome(HomeSpec("test", rooms=(RoomSpec("room", "Room"),), entities=(*LAMPS, *OTHERS), residents=(anna,)))


def rule(sim: SimHome, triggers: Any, actions: Any = COUNT, conditions: Any = (), **more: Any) -> None:
    result = sim.add_automation(
        {"id": "rule", "alias": "Rule", "triggers": triggers, "conditions": conditions, "actions": actions, **more}
    )
    assert result.ok, result.error


def runs(sim: SimHome) -> int:
    return int(sim.states()["counter.runs"].state)


def lit(sim: SimHome) -> str:
    return "".join(name for name in "abc" if sim.states()[f"light.{name}"].state == "on")


def on(name: str) -> dict[str, Any]:
    return {"action": "light.turn_on", "target": {"entity_id": f"light.{name}"}}


def off(name: str) -> dict[str, Any]:
    return {"action": "light.turn_off", "target": {"entity_id": f"light.{name}"}}


def test_state_triggers(sim: SimHome) -> None:
    rule(sim, {"trigger": "state", "entity_id": "light.a", "from": "off", "to": "on"})
    sim.call_service("light", "turn_on", None, {"entity_id": "light.a"})
    assert runs(sim) == 1
    sim.call_service("light", "turn_on", {"brightness": 9}, {"entity_id": "light.a"})
    assert runs(sim) == 1  # still on: not from off
    rule(sim, {"trigger": "state", "entity_id": ["light.a", "light.b"], "attribute": "brightness"})
    sim.call_service("light", "turn_on", {"brightness": 20}, {"entity_id": "light.a"})
    sim.call_service("light", "turn_off", None, {"entity_id": "light.c"})
    assert runs(sim) == 2
    entity = sim.states()["automation.rule"]
    assert entity.attributes["last_triggered"] == sim.now().isoformat() and entity.state == "on"


def test_on_and_off_as_yaml_reads_them(sim: SimHome) -> None:
    rule(sim, {"platform": "state", "entity_id": "light.a", "to": True})
    sim.call_service("light", "turn_on", None, {"entity_id": "light.a"})
    assert runs(sim) == 1


def test_a_state_that_must_hold(sim: SimHome) -> None:
    rule(sim, {**FLAG_ON, "for": {"minutes": 5}})
    sim.inject("input_boolean.flag", "on")
    sim.advance(200)
    sim.inject("input_boolean.flag", "off")
    sim.inject("input_boolean.flag", "on")
    sim.advance(200)
    assert runs(sim) == 0  # it was interrupted
    sim.advance(101)
    assert runs(sim) == 1


def test_numeric_triggers_fire_on_crossing(sim: SimHome) -> None:
    rule(
        sim, {"trigger": "numeric_state", "entity_id": "input_number.level", "above": "input_number.limit", "below": 90}
    )
    for value, expected in ((40, 0), (60, 1), (70, 1), (95, 1), (80, 2), (10, 2), (50, 2), (51, 3)):
        sim.call_service("input_number", "set_value", {"value": value}, {"entity_id": "input_number.level"})
        assert runs(sim) == expected, value


def test_triggers_of_time(sim: SimHome) -> None:
    rule(
        sim, [{"trigger": "time", "at": ["08:30:00", "09:00"]}, {"trigger": "time", "at": "08:45", "weekday": ["tue"]}]
    )
    sim.advance(1799)
    assert runs(sim) == 0
    sim.advance(2)
    assert runs(sim) == 1
    sim.advance(3600)
    assert runs(sim) == 2
    sim.advance(86_400)
    assert runs(sim) == 5  # the same two, and Tuesday's


def test_time_patterns(sim: SimHome) -> None:
    rule(sim, {"trigger": "time_pattern", "minutes": "/20"})
    sim.advance(3600)
    assert runs(sim) == 3  # 8:20, 8:40, 9:00
    rule(sim, {"trigger": "time_pattern", "hours": "10"})
    sim.advance(86_400)
    assert runs(sim) == 4


def test_the_sun(sim: SimHome) -> None:
    rule(sim, {"trigger": "sun", "event": "sunset", "offset": "-00:30:00"})
    edge = sim.sky.next_edge(sim.time, "sunset")
    sim.advance(edge - 1801 - sim.time)
    assert runs(sim) == 0
    sim.advance(2)
    assert runs(sim) == 1
    night = {"condition": "sun", "after": "sunset", "before": "sunrise"}
    rule(sim, FLAG_ON, conditions=[night])
    sim.inject("input_boolean.flag", "on")
    assert runs(sim) == 1
    sim.inject("input_boolean.flag", "off")
    for seconds in (3600, 8 * 3600):  # the evening, and after midnight
        sim.advance(seconds)
        sim.inject("input_boolean.flag", "on")
        sim.inject("input_boolean.flag", "off")
    assert runs(sim) == 3


def test_events_and_people(sim: SimHome) -> None:
    rule(sim, {"trigger": "event", "event_type": "doorbell", "event_data": {"door": "front"}})
    sim.fire_event("doorbell", {"door": "back"})
    assert runs(sim) == 0
    sim.fire_event("doorbell", {"door": "front", "loud": True})
    assert runs(sim) == 1
    rule(sim, {"trigger": "zone", "entity_id": "person.anna", "zone": "zone.home", "event": "leave"})
    sim.people.move("anna", "away")
    sim.advance(0)
    assert runs(sim) == 2
    rule(sim, {"trigger": "event", "event_type": "timer.finished"})
    sim.call_service("timer", "start", None, {"entity_id": "timer.tea"})
    sim.advance(61)
    assert runs(sim) == 3


def test_conditions(sim: SimHome) -> None:
    light = {"condition": "state", "entity_id": "light.a", "state": "on", "for": 60}
    morning = {"condition": "time", "after": "07:00", "before": "09:00", "weekday": ["mon"]}
    low = {"condition": "numeric_state", "entity_id": "input_number.level", "below": 20}
    either = {"or": [light, {"condition": "not", "conditions": [low]}]}
    rule(sim, FLAG_ON, conditions=[morning, either])

    def attempt() -> int:
        sim.inject("input_boolean.flag", "off")
        sim.inject("input_boolean.flag", "on")
        return runs(sim)

    assert attempt() == 0
    sim.call_service("light", "turn_on", None, {"entity_id": "light.a"})
    assert attempt() == 0  # not yet for a minute
    sim.advance(61)
    assert attempt() == 1
    sim.call_service("light", "turn_off", None, {"entity_id": "light.a"})
    sim.inject("input_number.level", "30")
    assert attempt() == 2
    sim.advance(3600)
    assert attempt() == 2  # after nine


def test_sequences_take_time(sim: SimHome) -> None:
    rule(sim, FLAG_ON, [on("a"), {"delay": "00:01:00"}, off("a"), on("b")])
    sim.inject("input_boolean.flag", "on")
    assert lit(sim) == "a" and sim.states()["automation.rule"].attributes["current"] == 1
    sim.advance(59)
    assert lit(sim) == "a"
    sim.advance(2)
    assert lit(sim) == "b" and sim.states()["automation.rule"].attributes["current"] == 0
    assert sim.states()["light.b"].cause == "automation.rule"


def test_choices_and_branches(sim: SimHome) -> None:
    choose = {
        "choose": [{"conditions": {"condition": "trigger", "id": "flag"}, "sequence": [on("a")]}],
        "default": [on("b")],
    }
    branch = {
        "if": {"condition": "state", "entity_id": "light.a", "state": "on"},
        "then": [on("c")],
        "else": [off("c")],
    }
    rule(sim, [{**FLAG_ON, "id": "flag"}, {"trigger": "event", "event_type": "go"}], [choose, branch])
    sim.fire_event("go")
    assert lit(sim) == "b"
    sim.inject("input_boolean.flag", "on")
    assert lit(sim) == "abc"


def test_repeats_scenes_events_and_stops(sim: SimHome) -> None:
    actions = [
        {"repeat": {"count": 3, "sequence": [COUNT, {"delay": 10}]}},
        {"scene": "scene.dim"},
        {"event": "done", "event_data": {"x": 1}},
        {"condition": "state", "entity_id": "light.c", "state": "on"},
        on("a"),
    ]
    rule(sim, FLAG_ON, actions)
    sim.inject("input_boolean.flag", "on")
    sim.advance(15)
    assert runs(sim) == 2
    sim.advance(20)
    assert runs(sim) == 3 and lit(sim) == "b"  # the condition stopped it
    assert [event[1] for event in sim.journal.events] == ["done"]
    until = {
        "repeat": {
            "until": {"condition": "numeric_state", "entity_id": "counter.runs", "above": 6},
            "sequence": [COUNT],
        }
    }
    rule(sim, {"trigger": "event", "event_type": "go"}, [until, {"stop": "enough"}, on("a")])
    sim.fire_event("go")
    assert runs(sim) == 7 and lit(sim) == "b"


def test_waiting_for_a_trigger(sim: SimHome) -> None:
    wait = {"wait_for_trigger": [{"trigger": "state", "entity_id": "light.c", "to": "on"}], "timeout": 60}
    rule(sim, FLAG_ON, [wait, on("a")])
    sim.inject("input_boolean.flag", "on")
    sim.advance(30)
    assert lit(sim) == ""
    sim.call_service("light", "turn_on", None, {"entity_id": "light.c"})
    assert lit(sim) == "ac"
    sim.call_service("light", "turn_off", None, {"entity_id": "all"})
    sim.inject("input_boolean.flag", "off")
    rule(sim, FLAG_ON, [{**wait, "continue_on_timeout": False}, on("a")])
    sim.inject("input_boolean.flag", "on")
    sim.advance(61)
    assert lit(sim) == "" and sim.states()["automation.rule"].attributes["current"] == 0


@pytest.mark.parametrize(("mode", "expected"), [("single", 1), ("restart", 1), ("parallel", 3), ("queued", 3)])
def test_modes(sim: SimHome, mode: str, expected: int) -> None:
    rule(sim, {"trigger": "event", "event_type": "go"}, [{"delay": 10}, COUNT], mode=mode)
    for _ in range(3):
        sim.fire_event("go")
        sim.advance(4)
    sim.advance(2)  # 14 seconds after the first
    assert runs(sim) == {"single": 1, "restart": 0, "parallel": 2, "queued": 1}[mode]
    sim.advance(40)
    assert runs(sim) == expected


def test_off_disabled_and_by_hand(sim: SimHome) -> None:
    rule(sim, FLAG_ON, [{**COUNT, "enabled": False}, COUNT])
    sim.call_service("automation", "turn_off", None, {"entity_id": "automation.rule"})
    sim.inject("input_boolean.flag", "on")
    assert runs(sim) == 0
    sim.call_service("automation", "trigger", None, {"entity_id": "automation.rule"})
    assert runs(sim) == 1
    assert sim.remove_automation("rule").ok and sim.state("automation.rule") is None
    assert sim.call_service("automation", "trigger", None, {"entity_id": "automation.rule"}).ok  # passed over


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"actions": COUNT}, "required key not provided @ data['triggers']"),
        ({"triggers": FLAG_ON}, "required key not provided @ data['actions']"),
        ({"triggers": {"trigger": "moon"}, "actions": COUNT}, "Invalid trigger 'moon' specified"),
        ({"triggers": {"trigger": "time", "at": "25:00"}, "actions": COUNT}, "Invalid time specified: 25:00"),
        ({"triggers": {"trigger": "state"}, "actions": COUNT}, "required key not provided"),
        (
            {"triggers": {"trigger": "numeric_state", "entity_id": "x.y"}, "actions": COUNT},
            "at least one of below, above",
        ),
        ({"triggers": FLAG_ON, "actions": {"fly": 1}}, "Unable to determine action"),
        ({"triggers": FLAG_ON, "actions": {"delay": "soon"}}, "invalid time span"),
        ({"triggers": FLAG_ON, "actions": {"action": "light"}}, "does not match format"),
        ({"triggers": FLAG_ON, "conditions": {"condition": "mood"}, "actions": COUNT}, "Invalid condition 'mood'"),
        ({"triggers": FLAG_ON, "actions": COUNT, "mode": "wild"}, "value must be one of"),
        ({"triggers": FLAG_ON, "actions": {**COUNT, "data": {"x": "{{ 1 }}"}}}, "templates are not supported"),
    ],
)
def test_what_cannot_be_read_is_refused(sim: SimHome, config: dict[str, Any], words: str) -> None:
    before = sim.key()
    result = sim.add_automation({"id": "x", **config})
    assert words in str(result.error) and sim.key() == before and not sim.automations()


def test_the_key_tells_rules_and_times_apart(sim: SimHome) -> None:
    saved = sim.snapshot()
    keys = set()
    for lamp in "ab":
        sim.restore(saved)
        rule(sim, FLAG_ON, [on(lamp)])
        keys.add(sim.key())
    sim.restore(saved)
    sim.advance(60)
    keys.add(sim.key())
    sim.restore(saved)
    sim.call_service("input_boolean", "turn_on", None, {"entity_id": "input_boolean.flag"})
    sim.advance(30)
    sim.call_service("input_boolean", "turn_off", None, {"entity_id": "input_boolean.flag"})
    sim.advance(30)
    keys.add(sim.key())  # off again, but for another time
    assert len(keys) == 4


def test_rules_that_trigger_each_other_for_ever_come_to_rest(sim: SimHome) -> None:
    began = time.process_time()
    for here, there in (("a", "b"), ("b", "a")):
        for state, action in (("on", on(there)), ("off", off(there))):
            trigger = {"trigger": "state", "entity_id": f"light.{here}", "to": state}
            flip = {"action": "light.toggle", "target": {"entity_id": f"light.{here}"}}
            more = {"triggers": trigger, "actions": [action, flip], "mode": "parallel"}
            assert sim.add_automation({"id": f"{here}{state}", "alias": f"{here} {state}", **more}).ok
    endless = {"repeat": {"count": 10**9, "sequence": {"repeat": {"count": 10**9, "sequence": [COUNT]}}}}
    rule(sim, {"trigger": "time_pattern", "seconds": "/1"}, [endless])
    sim.call_service("light", "turn_on", None, {"entity_id": "light.a"})
    sim.advance(120)
    assert time.process_time() - began < 10
