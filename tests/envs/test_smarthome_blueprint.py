"""The goal language: reading and printing, when conditions hold, side effects, and the checks of goals."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs.smarthome.blueprint import goal as g
from sandlot.envs.smarthome.blueprint import spans
from sandlot.envs.smarthome.blueprint.checks import played, problems
from sandlot.envs.smarthome.blueprint.data import from_data, to_data
from sandlot.envs.smarthome.blueprint.errors import BlueprintError
from sandlot.envs.smarthome.blueprint.evaluate import changes, holds, judge, when
from sandlot.envs.smarthome.blueprint.run import Happening, Recorder, run_without_agent
from sandlot.envs.smarthome.blueprint.show import show, show_condition
from sandlot.envs.smarthome.blueprint.text import parse, parse_condition
from sandlot.envs.smarthome.example import example_home
from sandlot.envs.smarthome.sim.home import SimHome

LAMP = "light.living_room_lamp"

# -- reading and printing ----------------------------------------------------------------------------------------------

_entity = st.sampled_from([LAMP, "cover.garage", "climate.bedroom"])
_number = st.one_of(st.integers(-500, 500), st.floats(-500, 500).map(lambda x: round(x, 3)))
_seconds = st.one_of(st.integers(0, 100_000), st.floats(0, 1000).map(lambda x: round(x, 2)))
_words = st.one_of(
    st.sampled_from(["on", "heat_cool", "Living room", '4 "x" \\', "7.5", "true", ""]), st.text(max_size=8)
)
_value = st.recursive(
    st.one_of(_number, _words, st.booleans(), st.none()),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)
_moment = st.one_of(
    st.just(g.END),
    _seconds.map(lambda s: g.Moment("start", s)),
    st.integers(0, 86_399).map(lambda s: g.Moment("clock", s)),
)
_op = st.sampled_from(g.OPERATORS)
_pattern = st.sampled_from(["42", r"\bon\b", 'a "b"', "21[.]5"])
_without = st.lists(
    st.sampled_from(["light.*", "cover.garage", "*.a.brightness", "light.a.color_mode"]), max_size=2
).map(tuple)
_atoms = st.one_of(
    st.builds(g.State, _entity, _words),
    st.builds(g.Attribute, _entity, st.sampled_from(["brightness", "state"]), _op, _value, st.floats(0, 9).map(round)),
    st.builds(g.Room, st.just("kitchen"), st.sampled_from(g.QUANTITIES), _op, _number),
    st.builds(g.Energy, _op, _number, _moment, _moment),
    st.builds(g.Called, st.sampled_from(["light.turn_on", "lock.*"]), st.one_of(st.none(), _entity)),
    st.builds(g.Forbid, st.just("lock.unlock"), st.one_of(st.none(), _entity)),
    st.builds(g.Looked, _entity),
    st.builds(g.Said, _pattern),
    st.builds(g.Asked, st.sampled_from(["which", "value"])),
    st.builds(g.Refused, st.sampled_from(list(g.REASONS)), st.one_of(st.just(""), _pattern)),
    st.builds(g.Unchanged, _without),
)
_selector = st.builds(
    g.Selector,
    st.sampled_from(["light", "*"]),
    st.sampled_from([None, "kitchen"]),
    st.lists(_entity, max_size=2).map(tuple),
)


def _wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    many = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(g.Not, inner),
        st.builds(g.And, many),
        st.builds(g.Or, many),
        st.builds(g.At, _moment, inner, _seconds),
        st.builds(g.Within, _seconds, inner),
        st.builds(g.Until, inner, inner),
        st.builds(g.Always, inner, _moment, _moment),
        st.builds(g.Never, inner, _moment, _moment),
        st.builds(g.HoldsFor, _seconds, inner),
        st.builds(g.After, inner, inner, _seconds, _seconds),
        st.builds(g.Each, st.sampled_from(["all", "any"]), _selector, inner),
        st.builds(g.Each, st.just("count"), _selector, inner, _op, st.integers(0, 9)),
    )


_conditions = st.recursive(_atoms, _wider, max_leaves=5)
_goals = st.builds(
    g.Blueprint,
    st.lists(_conditions, min_size=1, max_size=3).map(tuple),
    st.lists(_conditions, max_size=2).map(tuple),
    st.lists(st.tuples(st.integers(1, 5), _conditions), max_size=2).map(tuple),
    _seconds,
)


@settings(max_examples=150, deadline=None)
@given(_goals)
def test_text_and_json_say_the_same_goal(goal: g.Blueprint) -> None:
    assert parse(show(goal)) == goal
    assert from_data(to_data(goal)) == goal


def test_a_goal_as_a_person_writes_it() -> None:
    goal = parse(
        """
        horizon 3 h   # until eleven
        must all light in living_room except light.corner (it is off) and not cover.garage is open
        must at 19:00 tolerance 2 min (light.desk.brightness >= 120)
        must after (switch.washer is off) by 10 min (light.kitchen is on) or said "washing"
        must_not called lock.unlock on lock.front_door
        prefer 0.5 energy from 17:00 to end < 2
        """
    )
    assert goal.horizon == 10_800
    assert goal.must[0] == g.And(
        (
            g.Each("all", g.Selector("light", "living_room", ("light.corner",)), g.State("it", "off")),
            g.Not(g.State("cover.garage", "open")),
        )
    )
    assert goal.must[1] == g.At(g.Moment("clock", 68_400), g.Attribute("light.desk", "brightness", ">=", 120), 120)
    assert goal.prefer == ((0.5, g.Energy("<", 2, g.Moment("clock", 61_200), g.END)),)


@pytest.mark.parametrize(
    ("text", "position", "expected", "found"),
    [
        ("must light.a on", "line 1, column 14", '"is"', "'on'"),
        ("must light.a is on\nmust not", "line 2, column 9", "a condition", "the end"),
        ("must room kitchen.smell > 3", "line 1, column 11", "a quantity: temperature", "'kitchen.smell'"),
        ("must light.a.brightness ~ 3", "line 1, column 25", "a word, a number or a mark", "'~'"),
        ("must (light.a is on", "line 1, column 20", '")"', "the end"),
        ("must within 5 (light.a is on)", "line 1, column 15", "a unit: s, min, h or d", "'('"),
        ("must at 25:00 (light.a is on)", "line 1, column 9", "a time of day", "'25:00'"),
        ('must said "("', "line 1, column 11", "a regular expression", "'('"),
        ("must refused because", "line 1, column 14", "a reason: no_such_device", "'because'"),
        ("horizon 1 h", "line 1, column 12", 'a line that begins with "must"', "the end"),
        ("must it.a.b = 1", "line 1, column 6", "a condition", "'it.a.b'"),
        ("must " + "not " * 5000 + "light.a is on", "line 1, column 166", "at most 40 conditions", "'not'"),
        ("must " + "(" * 90, "line 1, column 46", "at most 40 conditions", "'('"),
    ],
)
def test_errors_of_texts_say_where_what_and_instead(text: str, position: str, expected: str, found: str) -> None:
    with pytest.raises(BlueprintError) as caught:
        parse(text)
    error = caught.value
    assert error.position == position and expected in error.expected and found in error.found
    assert str(error) == f"{error.position}: expected {error.expected}, found {error.found}"


@pytest.mark.parametrize(
    ("data", "position"),
    [
        ("{", "the text"),
        ([], "the goal"),
        ({"must": []}, "must"),
        ({"must": [{"type": "state", "entity": "light.a"}]}, "must[0]"),
        ({"must": [{"type": "state", "entity": "light", "value": "on"}]}, "must[0].entity"),
        ({"must": [{"type": "light"}]}, "must[0].type"),
        (
            {"must": [{"type": "not", "of": {"type": "room", "room": "a", "quantity": "x", "op": "<", "value": 1}}]},
            "must[0].of.quantity",
        ),
        ({"must": [{"type": "said", "pattern": "("}]}, "must[0].pattern"),
        ({"must": [{"type": "said", "pattern": "a"}], "prefer": [[1]]}, "prefer[0]"),
        ({"must": [{"type": "said", "pattern": "a", "loud": True}]}, "must[0]"),
        ({"must": [{"type": "within", "seconds": -1, "of": {"type": "said", "pattern": "a"}}]}, "must[0].seconds"),
    ],
)
def test_errors_of_json_say_where(data: Any, position: str) -> None:
    with pytest.raises(BlueprintError) as caught:
        from_data(data)
    assert caught.value.position == position


# -- when conditions hold ----------------------------------------------------------------------------------------------


def test_the_algebra_of_spans() -> None:
    a, b = ((0.0, 10.0), (20.0, 30.0)), ((5.0, 25.0),)
    assert spans.both(a, b) == ((5.0, 10.0), (20.0, 25.0))
    assert spans.either(a, b) == ((0.0, 30.0),)
    assert spans.inverse(b) == ((-spans.FOREVER, 5.0), (25.0, spans.FOREVER))
    assert spans.steps([(0, True), (5, False), (5, True), (9, False)]) == ((0, 9),)
    assert spans.both() == spans.ALWAYS and spans.either() == spans.NEVER


def recorded() -> tuple[Recorder, Any]:
    """The lamp is on from 60 s to 660 s, and again, dim, from 1260 s; the run ends after 1800 s (08:30)."""
    home = SimHome(example_home())
    alone = run_without_agent(home, 1800)
    recorder = Recorder(home)
    target = {"entity_id": LAMP}
    recorder.advance(60)
    home.call_service("light", "turn_on", {"brightness": 200}, target)
    recorder.act("say", "The lamp is ON now.")
    recorder.advance(600)
    home.call_service("light", "turn_off", None, target)
    recorder.act("look", "sensor.kitchen_temperature")
    recorder.advance(600)
    home.call_service("light", "turn_on", {"brightness": 50}, target)
    recorder.act("refuse", "no_such_device", "the sauna")
    recorder.advance(540)
    return recorder, alone


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{LAMP} is on", True),
        (f"{LAMP}.brightness = 53 tolerance 3", True),
        (f"{LAMP}.brightness = 54 tolerance 3", False),
        (f"{LAMP}.brightness < 60 and {LAMP}.friendly_name != Lamp", True),
        ("light.missing is on", False),
        (f"within 60 s ({LAMP} is on)", True),  # from second 60 on
        (f"within 59 s ({LAMP} is on)", False),
        (f"holds for 10 min ({LAMP} is on)", True),  # 60 s to 660 s
        (f"holds for 601 s ({LAMP} is on)", False),
        (f"at 08:06 tolerance 0 s ({LAMP} is on)", True),  # second 360
        (f"at 08:15 tolerance 3 min ({LAMP} is on)", False),  # seconds 720 to 1080
        (f"at 08:15 tolerance 6 min ({LAMP} is on)", True),  # from 540
        (f"at 07:00 ({LAMP} is on)", False),  # tomorrow
        (f"always from +1 min to +11 min ({LAMP} is on)", True),
        (f"always from +59 s to +11 min ({LAMP} is on)", False),
        (f"always from +30 min to +40 min ({LAMP} is on)", True),  # what can be seen of it
        (f"always from +31 min to +40 min ({LAMP} is on)", False),  # nothing can
        (f"never from 08:11 to 08:21 ({LAMP} is on)", True),
        (f"never ({LAMP}.brightness > 200)", True),
        (f"never ({LAMP}.brightness >= 200)", False),
        (f"until ({LAMP} is off) ({LAMP}.brightness = 200)", True),
        (f"until ({LAMP} is off) ({LAMP}.brightness = 50)", False),
        ("until (cover.garage is closed) (cover.garage is open)", False),  # it never opens
        # the lamp goes off at 660 s, and on 600 s later
        (f"after (not {LAMP} is on) by 10 min tolerance 30 s ({LAMP} is on)", True),
        (f"after (not {LAMP} is on) by 5 min tolerance 30 s ({LAMP} is on)", False),
        (f"after ({LAMP} is on) by 10 min tolerance 9 min ({LAMP} is on)", False),  # on at once, not after 1 min
        ("after (cover.garage is open) (cover.garage is open)", False),  # it never happens
        ("called light.turn_on", True),
        (f"called light.* on {LAMP} and not called light.* on light.garden", True),
        (f"forbid light.turn_off on {LAMP}", False),
        ("forbid lock.unlock", True),
        ("looked at sensor.kitchen_temperature and not looked at sensor.home_power", True),
        (r'said "\bon\b" and not said "off"', True),
        ('refused no_such_device about "sauna" and not refused no_such_device about "pool"', True),
        ('asked about "which"', False),
        ("count light (it is on) = 2", True),  # the kitchen's is on too
        ("all light in living_room (it is on)", True),
        ("all light in attic (it is on)", False),  # of nothing
        ("any light except light.living_room_lamp, light.kitchen_ceiling (it is on)", False),
        ("energy > 0", True),
        ("energy from +10 min to +20 min < 1", True),
        ("room kitchen.temperature > 15 and room kitchen.temperature < 25", True),
        ("room kitchen.illuminance > 0 and room attic.co2 > 0", False),
        (f"unchanged except {LAMP}", True),
        (f"unchanged except {LAMP}.brightness", False),
        (f"unchanged except {LAMP}.*, *.{LAMP[6:]}", True),
    ],
)
def test_when_conditions_hold(text: str, expected: bool) -> None:
    recorder, alone = recorded()
    condition = parse_condition(text)
    assert holds(condition, recorder.run(), alone) is expected
    assert parse_condition(show_condition(condition)) == condition


def test_a_condition_holds_for_stretches_of_time() -> None:
    recorder, alone = recorded()
    run = recorder.run()
    found = when(parse_condition(f"{LAMP} is on"), run, alone)
    assert [(start - run.start, end - run.start) for start, end in found] == [(60, 660), (1260, spans.FOREVER)]


def test_only_what_the_agent_did_is_a_side_effect() -> None:
    """Ben turns the lamp on at 18:30 and the automation the garden's at sunset; nobody is blamed for it."""
    home = SimHome(example_home())
    alone = run_without_agent(home, 11 * 3600)
    recorder = Recorder(home)
    recorder.advance(10.7 * 3600)
    assert home.states()[LAMP].cause == "resident.ben" and home.states()["light.garden"].state == "on"
    assert changes(recorder.run(), alone) == ()
    home.call_service("light", "turn_off", None, {"entity_id": "light.garden"})
    home.call_service("climate", "set_temperature", {"temperature": 25}, {"entity_id": "climate.bedroom"})
    wake = {"action": "light.turn_on", "target": {"entity_id": LAMP}}
    assert home.add_automation({"alias": "New", "triggers": [{"trigger": "time", "at": "05:00"}], "actions": [wake]}).ok
    recorder.advance(0.3 * 3600)
    found = ("automation.new", "climate.bedroom.temperature", "light.garden", "light.garden.brightness")
    assert (
        {"automation.new", "climate.bedroom.temperature", "light.garden"}
        <= set(changes(recorder.run(), alone))
        <= {
            *found,
            "light.garden.color_mode",
        }
    )
    goal = parse("horizon 11 h\nmust unchanged except automation.*, light.*\nmust light.garden is off")
    verdict = judge(goal, recorder.run(), alone)
    assert not verdict.success and verdict.side_effects == ("climate.bedroom.temperature",)


def test_preferences_have_weights() -> None:
    recorder, alone = recorded()
    goal = parse(f"must {LAMP} is on\nprefer 3 {LAMP}.brightness = 50\nprefer 1 light.garden is on")
    verdict = judge(goal, recorder.run(), alone)
    assert verdict.success and verdict.preferred == 0.75  # 3 of 3 + 1


def test_what_happens_in_the_world_is_in_both_runs() -> None:
    home = SimHome(example_home())
    world = (Happening(600, "binary_sensor.kitchen_motion", "on"), Happening(700, "bedroom_window", "open"))
    alone = run_without_agent(home, 900, world)
    assert alone.state_at("binary_sensor.bedroom_window", alone.end).state == "on"  # type: ignore[union-attr]
    recorder = Recorder(home, world)
    saved = recorder.save()
    for pieces in ([900], [100, 500, 100, 200], [599, 301]):  # however the time is cut
        recorder.load(saved)
        for seconds in pieces:
            recorder.advance(seconds)
        run = recorder.run()
        assert {key: run.state_at(key, run.end) for key in run.states} == {
            key: alone.state_at(key, alone.end) for key in alone.states
        }


def test_the_recorder_goes_back() -> None:
    recorder = recorded()[0]
    saved, before = recorder.save(), recorder.run()
    recorder.act("say", "more")
    recorder.advance(600)
    recorder.home.call_service("light", "turn_off", None, {"entity_id": LAMP})
    recorder.load(saved)
    assert recorder.run() == before


# -- checks ------------------------------------------------------------------------------------------------------------


def test_the_checks_find_goals_that_are_worth_nothing() -> None:
    home = SimHome(example_home())

    def plan(recorder: Recorder) -> None:
        recorder.home.call_service("light", "turn_on", None, {"entity_id": LAMP})

    def check(text: str) -> list[str]:
        return problems(parse(text), home, plan)

    key = home.key()
    assert check(f"must {LAMP} is on\nmust unchanged except {LAMP}") == []
    assert check("must light.kitchen_ceiling is on")[:2] == [
        "it holds at the start",
        "it holds if nobody does anything",
    ]
    assert check("horizon 11 h\nmust light.garden is on") == [
        "it holds if nobody does anything",
        "it holds if the agent just refuses",
    ]
    assert check("must refused no_such_device")[0] == "it holds if the agent just refuses"
    assert check(f"must {LAMP} is on\nmust light.garden is on\nmust_not called light.turn_on") == [
        "the plan does not reach it: must [1], must_not [0]"
    ]
    assert home.key() == key
    assert played(parse(f"must {LAMP} is on"), home, plan).success
