"""`sandlot/SmartHome-v0`: the contract, the tools, the resident, rewards that telescope, and metrics at the end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs import make
from sandlot.envs.core.errors import InvalidArgument, UnknownTask
from sandlot.envs.smarthome.blueprint.goal import REASONS, Asked
from sandlot.envs.smarthome.calls import ToolCall, parse_call
from sandlot.envs.smarthome.env import SmartHomeEnv
from sandlot.envs.smarthome.example import example_home
from sandlot.envs.smarthome.resident import NOTHING, slot_of
from sandlot.envs.smarthome.session import Session, beginning
from sandlot.envs.smarthome.task import FAMILIES, HomeTask
from sandlot.envs.smarthome.tasks.make import KINDS, NAMES
from sandlot.envs.smarthome.tools import TOOLS, use

LAMP = "light.living_room_lamp"


def session(goal: str, **more: Any) -> Session:
    from sandlot.envs.smarthome.blueprint.text import parse

    return Session(HomeTask("explicit", "test", example_home(), "anna", "kitchen", "Do it.", parse(goal), **more))


def say(home: Session, tool: str, /, **args: Any) -> str:
    reply = use(home, ToolCall(tool, args))
    assert reply.valid, reply.text
    return reply.text


def refused(home: Session, tool: str, /, **args: Any) -> str:
    before = (home.home.key(), home.recorder.acts, home.recorder.planned)
    reply = use(home, ToolCall(tool, args))
    assert not reply.valid and reply.text and not reply.ended
    assert (home.home.key(), home.recorder.acts, home.recorder.planned) == before
    return reply.text


# -- calls -----------------------------------------------------------------------------------------------------------

_values = st.recursive(
    st.one_of(st.integers(-999, 999), st.booleans(), st.none(), st.text(max_size=12), st.floats(-9, 9)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=2)),
    max_leaves=4,
)
_calls = st.builds(
    ToolCall,
    st.sampled_from(list(TOOLS)),
    st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), _values, max_size=4),
)


@settings(max_examples=150, deadline=None)
@given(_calls)
def test_calls_are_read_as_they_are_written(call: ToolCall) -> None:
    for text in (call.text(), call.json(), f"```json\n{call.json()}\n```"):
        assert parse_call(text) == call


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("get_state(entity_id=light.desk)", ToolCall("get_state", {"entity_id": "light.desk"})),
        ("finish()", ToolCall("finish")),
        (' finish( message = "Done, all off." ) ', ToolCall("finish", {"message": "Done, all off."})),
        ("wait(minutes=5)", ToolCall("wait", {"minutes": 5})),
        (
            "schedule(at=19:30, service=light.turn_on)",
            ToolCall("schedule", {"at": "19:30", "service": "light.turn_on"}),
        ),
        ('{"name": "wait", "arguments": {"minutes": 5}}', ToolCall("wait", {"minutes": 5})),
    ],
)
def test_calls_as_people_and_models_write_them(text: str, call: ToolCall) -> None:
    assert parse_call(text) == call


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Write one tool call"),
        ("turn on the light", "Write one tool call"),
        ("f(light)", "key=value"),
        ("f(a=1, a=2)", "twice"),
        ('f(a="1" b=2)', "A comma is missing"),
        ("{", "not JSON"),
        ('{"tool": 3}', "A call in JSON is"),
        ("[" * 5000, "Write one tool call"),
        ('{"a":' * 3000, "not JSON"),
    ],
)
def test_what_is_no_call_is_answered(text: str, message: str) -> None:
    found = parse_call(text)
    assert isinstance(found, str) and message in found


# -- tools -----------------------------------------------------------------------------------------------------------


def test_looking_changes_nothing_but_what_was_looked_at() -> None:
    home = session(f"must {LAMP} is on")
    key = home.home.key()
    assert "kitchen (Kitchen), Ground Floor" in say(home, "list_areas")
    listed = say(home, "list_entities", area="Lounge", domain="light")  # an alias of the living room
    assert listed.startswith(f"{LAMP} (Living Room Lamp): off") and listed.count("\n") == 0
    assert "brightness" in say(home, "get_state", entity_id="light.kitchen_ceiling")
    assert "climate.bedroom" in say(home, "GetLiveContext")
    assert say(home, "get_history", entity_id="sensor.bedroom_co2", hours=1).count("\n") >= 5
    assert "evening_lights" in say(home, "list_automations")
    assert say(home, "get_preferences", person="Ben") == "Nothing is known."
    assert home.home.key() == key
    looked = {act.what for act in home.recorder.acts}
    assert {LAMP, "light.kitchen_ceiling", "sensor.bedroom_co2", "person.ben"} <= looked
    assert "no area" in refused(home, "list_entities", area="attic")
    assert "Entity not found" in refused(home, "get_state", entity_id="light.none")
    assert "Nobody here" in refused(home, "get_preferences", person="Zoe")
    assert "hours" in refused(home, "get_history", entity_id=LAMP, hours="many")


def test_services_and_their_errors_are_home_assistants() -> None:
    home = session(f"must {LAMP} is on")
    assert f"{LAMP} (Living Room Lamp): on" in say(home, "call_service", service="light.turn_on", entity_id=LAMP)
    assert "unlocking" in say(home, "call_service", service="lock.unlock", target={"entity_id": ["lock.front_door"]})
    nested = {"entity_id": "climate.living_room"}
    assert "23" in say(home, "call_service", service="climate.set_temperature", data={"temperature": 23}, target=nested)
    assert "at most 100" in refused(home, "call_service", service="light.turn_on", entity_id=LAMP, brightness_pct=500)
    assert refused(home, "call_service", service="light.explode", entity_id=LAMP)
    assert refused(home, "call_service", service="light.turn_on", entity_id="light.none")
    assert "needs 'service'" in refused(home, "call_service", entity_id=LAMP)
    assert "no tool" in refused(home, "explode")


def test_assist_tools() -> None:
    home = session(f"must {LAMP} is on")
    say(home, "HassTurnOn", name="Living Room Lamp")
    say(home, "HassLightSet", name="living room lamp", brightness=50)
    state = home.home.states()[LAMP]
    assert state.state == "on" and state.attributes["brightness"] == 128
    say(home, "HassTurnOff", area="Living Room", domain="light")
    assert home.home.states()[LAMP].state == "off"
    say(home, "HassTurnOff", name="Front Door")  # turning off is unlocking
    home.pass_time(5)
    assert home.home.states()["lock.front_door"].state == "unlocked"
    say(home, "HassSetPosition", name="Living Room Blind", position=30)
    say(home, "HassVacuumStart", name="Robot Vacuum")
    say(home, "HassListAddItem", name="Shopping List", item="tea")
    say(home, "HassClimateSetTemperature", area="Bedroom", temperature=19)
    home.pass_time(30)
    states = home.home.states()
    assert states["cover.living_room_blind"].attributes["current_position"] == 30
    assert states["vacuum.robot"].state == "cleaning" and states["todo.shopping"].state == "3"
    assert states["climate.bedroom"].attributes["temperature"] == 19
    assert "no_match_reason=NAME" in refused(home, "HassTurnOn", name="Sauna")
    assert "INVALID_AREA" in refused(home, "HassTurnOn", area="Attic")
    assert "say a name" in refused(home, "HassTurnOn", domain="light")
    assert "needs temperature" in refused(home, "HassClimateSetTemperature", area="Bedroom")
    assert "no argument" in refused(home, "HassTurnOn", name="TV", colour="red")
    assert "cannot be turned" in refused(home, "HassTurnOff", name="Movie")


def test_plans_wait_for_their_time() -> None:
    home = session(f"horizon 3 h\nmust {LAMP} is on", warmup=0)  # it is 08:00
    assert "08:30:00" in say(home, "schedule", at="08:30", service="light.turn_on", entity_id=LAMP, brightness_pct=20)
    assert "08:50:00" in say(home, "schedule", after=50, service="light.turn_off", entity_id=LAMP)
    for minutes, expected in ((29, "off"), (2, "on"), (18, "on"), (2, "off")):
        say(home, "wait", minutes=minutes)
        assert home.home.states()[LAMP].state == expected
    assert home.recorder.planned == ()
    assert "either" in refused(home, "schedule", service="light.turn_on", entity_id=LAMP)
    assert "either" in refused(home, "schedule", at="09:30", after=3, service="light.turn_on", entity_id=LAMP)
    assert "at is" in refused(home, "schedule", at="noon", service="light.turn_on", entity_id=LAMP)
    assert "next seven days" in refused(
        home, "schedule", at="2020-01-01T10:00", service="light.turn_on", entity_id=LAMP
    )
    assert "Error" in refused(home, "schedule", after=5, service="light.turn_on", entity_id="light.none")
    assert "up to 1440" in refused(home, "wait", minutes=-1)


def test_automations_can_be_made_and_removed() -> None:
    home = session(f"must {LAMP} is on")
    rule = {
        "id": "night",
        "alias": "Night",
        "triggers": [{"trigger": "state", "entity_id": "binary_sensor.garage", "to": "on"}],
        "actions": [{"action": "light.turn_on", "target": {"entity_id": LAMP}}],
    }
    assert say(home, "create_automation", config=json.dumps(rule)) == "Created automation.night."
    home.home.inject("binary_sensor.garage", "on")
    assert home.home.states()[LAMP].state == "on"
    say(home, "delete_automation", id="night")
    assert "Error" in refused(home, "delete_automation", id="night")
    assert "not JSON" in refused(home, "create_automation", config="{")
    assert "Error" in refused(home, "create_automation", config={"alias": "X"})
    assert "Error" in refused(home, "create_automation", config=[1])


# -- the resident ----------------------------------------------------------------------------------------------------


def test_the_resident_answers_what_is_open_and_nothing_else() -> None:
    home = session(f"must {LAMP} is on", answers={"which": "The lamp."})
    assert say(home, "ask", question="Which one do you mean?") == 'They say: "The lamp."'
    for question in ("What temperature?", "Are you sure?", "When?", "Tell me the goal.", "What is the answer?"):
        assert say(home, "ask", question=question) == f'They say: "{NOTHING}"'
    assert [act.what for act in home.recorder.acts] == ["which", "value", "confirm", "time", "other", "other"]
    assert "about is one of" in refused(home, "ask", question="?", about="goal")
    assert [slot_of(text) for text in ("How bright?", "In which room?", "Is it okay to go on? Really?", "Hm?")] == [
        *("value", "which", "confirm", "other"),
    ]
    assert "reason is one of" in refused(home, "refuse", reason="because", about="x")
    assert "needs 'about'" in refused(home, "refuse", reason="past")


def test_observations_never_hold_the_goal() -> None:
    """Nothing privileged is in what the agent sees: not the pattern of an answer, not what a question would bring."""
    env = SmartHomeEnv()
    for number in range(len(NAMES)):
        observation, info = env.reset(options={"task": f"train-any-{number}"})
        task = env.session.task
        assert info["instruction"] == task.request and task.request in observation
        for secret in (*task.answers.values(), task.answer if len(task.answer) > 12 else ""):
            assert not secret or secret not in observation
        assert all(
            info[key] is None for key in ("partial", "side_effects", "should_ask", "should_refuse", "oracle_calls")
        )


# -- episodes --------------------------------------------------------------------------------------------------------


def play(env: SmartHomeEnv, actions: list[str]) -> tuple[float, dict[str, Any]]:
    total, info = 0.0, {}
    for action in actions:
        _, reward, ended, _, info = env.step(action)
        total += reward
        if ended:
            break
    return total, info


def test_rewards_add_up_to_the_success_on_any_way() -> None:
    """The sum of potential differences: on the way half of `progress`, at the end the success, whatever was done."""
    env = SmartHomeEnv(size="small")
    for number in (4, 5, 6, 9, 13, 16, 18, 26):
        env.reset(options={"task": f"train-small-{number}"})
        way = [action for action, _ in zip(env.oracle(), range(1), strict=False)]
        total, info = play(
            env, [*way, "nonsense", "call_service(service=light.toggle, entity_id=all)", "wait(minutes=1)"]
        )
        clean = not env._verdict.broken and not env._verdict.side_effects
        if not env._done:
            assert total == pytest.approx(0.5 * info["progress"] if clean else 0.0)
        total += play(env, ["finish()"])[0] if not env._done else 0.0
        assert total == pytest.approx(float(env._success()))


def test_rewards_add_up_to_nothing_where_the_steps_run_out() -> None:
    """Half a success that is never finished is worth as little as none, whatever the last step is."""
    for last in ("wait(minutes=1)", "nonsense", "finish()"):
        env = SmartHomeEnv(size="small", max_steps=2)
        env.reset(options={"task": "train-small-13"})
        _, reward, *_ = env.step("ask(question=Which one?, about=which)")
        assert reward == pytest.approx(0.25)
        _, rest, terminated, truncated, info = env.step(last)
        assert rest == -reward and not info["success"] and terminated != truncated
        assert info["partial"] == 0.5


def test_the_oracle_solves_every_kind_with_as_many_calls_as_it_said() -> None:
    for call_format in ("text", "json"):
        env = SmartHomeEnv("valid_unseen", call_format=call_format)
        for number in range(0, len(NAMES), 1 if call_format == "text" else 6):
            env.reset(options={"task": f"valid_unseen-any-{number}"})
            total, info = 0.0, {}
            for action, _ in zip(env.oracle(), range(30), strict=False):
                assert action.startswith("{") == (call_format == "json")
                _, reward, _, _, info = env.step(action)
                total += reward
                assert info["valid"]
            assert info["success"] and info["kind"] == NAMES[number] and total == pytest.approx(1.0), info
            assert info["tool_calls"] == info["oracle_calls"] and info["partial"] == 1.0 and info["side_effects"] == 0
            assert set(env.verify().values()) == {1.0}


def test_trivial_agents_score_nothing_in_any_family() -> None:
    """Doing nothing, finishing at once with or without words, refusing everything, asking everything, echoing."""
    env = SmartHomeEnv("test")
    refusals = [json.dumps({"tool": "refuse", "args": {"reason": reason, "about": "it"}}) for reason in REASONS]
    families = set()
    for number in range(len(NAMES)):
        observation, info = env.reset(options={"task": f"test-any-{number}"})
        families.add(info["family"])
        begin = env.snapshot()
        everything = json.dumps(
            {"tool": "finish", "args": {"message": f"{info['instruction']} on off open closed 0 1"}}
        )
        for way in (
            [""] * 3,
            ["finish()"],
            ["finish(message=Done.)"],
            [everything],
            [*refusals, "finish(message=I cannot do that.)"],
            ["ask(question=Which one?)", "finish()"],
            [observation, info["instruction"], "finish()"],
        ):
            env.restore(begin)
            total, last = play(env, way)
            assert not last["success"] and last["score"] == 0.0 and total <= 1e-9, (info["kind"], way)
    assert families == set(FAMILIES) == {family for family, _ in KINDS.values()}


def test_what_is_told_at_the_end() -> None:
    env = SmartHomeEnv()
    number = NAMES.index("ask_which")
    env.reset(options={"task": f"train-any-{number}"})
    assert any(isinstance(item, Asked) for item in env.session.task.goal.must)
    begin = env.snapshot()
    *_, info = play(env, list(_oracle(env)))
    assert (info["should_ask"], info["should_refuse"], info["questions"], info["refusals"]) == (True, False, 1, 0)
    env.restore(begin)
    _, info = play(env, ["call_service(service=light.toggle, entity_id=all)", "finish()"])
    assert info["side_effects"] > 0 and not info["success"] and info["tool_calls"] == 2


def _oracle(env: SmartHomeEnv) -> list[str]:
    begin, actions = env.snapshot(), []
    for action in env.oracle():
        actions.append(action)
        env.step(action)
    env.restore(begin)
    return actions


def test_arguments() -> None:
    env = SmartHomeEnv("test", size="large", families=["query", "fault"])
    for seed in range(3):
        _, info = env.reset(seed=seed)
        assert info["family"] in ("query", "fault") and len(env.session.task.home.devices) >= 60
    for wrong in ({"size": "huge"}, {"families": ["magic"]}, {"call_format": "xml"}):
        with pytest.raises(InvalidArgument, match=r"magic|huge|xml"):
            SmartHomeEnv(**wrong)  # type: ignore[arg-type]
    for task in ("train-any-00", "train-any-100000", "dev-any-1", "train-any-"):
        with pytest.raises(UnknownTask, match="ids look like"):
            env.reset(options={"task": task})
    assert make("sandlot/SmartHome-v0").max_steps == 30


def test_a_task_that_has_run_begins_at_its_request() -> None:
    env = SmartHomeEnv()
    env.reset(options={"task": "train-any-3"})
    begin = beginning(env.session.task)
    assert begin.snapshot.clock.now == env.session.home.time == env.session.recorder.start
    assert Session(env.session.task).home.key() == env.session.home.key()


def test_what_is_wanted_later_must_not_be_done_at_once() -> None:
    """The device is moved now instead of by a plan or a rule."""
    env, tried = SmartHomeEnv("test"), set()
    for number in range(3 * len(NAMES)):
        kind = NAMES[number % len(NAMES)]
        if kind not in ("at_time", "in_a_while", "after_device", "automation", "routine"):
            continue
        _, info = env.reset(options={"task": f"test-any-{number}"})
        begin = env.snapshot()
        for action, _ in zip(env.oracle(), range(10), strict=False):
            call = parse_call(action)
            assert isinstance(call, ToolCall)
            if call.name in ("schedule", "create_automation"):
                break
            env.step(action)
        else:
            continue
        if call.name == "schedule":
            now = {key: value for key, value in call.args.items() if key not in ("at", "after")}
        else:
            config = call.args["config"]
            acts = (json.loads(config) if isinstance(config, str) else config)["actions"]
            act = next(act for act in acts if "action" in act)
            now = {"service": act["action"], **act["target"]}
        env.restore(begin)
        total, last = play(env, [ToolCall("call_service", now).json(), "finish()"])
        assert not last["success"] and total <= 1e-9, (number, kind, now)
        tried.add(info["kind"])
    assert len(tried) == 5
