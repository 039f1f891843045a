"""`sandlot/ALFWorld-v0`: actions, answers, oracle, expert, snapshots, sub-goals, both engines, hostile text."""

from __future__ import annotations

import pickle
import random
import time
from collections.abc import Iterator

import gymnasium
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs import make
from sandlot.envs.alfworld.env import AlfworldEnv
from sandlot.envs.alfworld.expert import Expert
from sandlot.envs.core import InvalidArgument, TextEnv, UnknownTask

HEAT = "alfworld/gen1r6/train/pick_heat_then_place_in_recep-Mug-None-Cabinet-2/1"
TWO = "alfworld/gen1r6/train/pick_two_obj_and_place-Book-None-Bed-301/5"
LOOK = "alfworld/gen1r6/train/look_at_obj_in_light-Book-None-DeskLamp-301/3"


def start(task: str, **arguments: object) -> AlfworldEnv:
    env = make("ALFWorld", source="generated", **arguments)
    assert isinstance(env, AlfworldEnv)
    env.reset(options={"task": task})
    return env


def finish(env: AlfworldEnv, who: str = "oracle", limit: int = 60) -> list[float]:
    """Progress after each action of the oracle or the expert, to the end."""
    progress = []
    for action in getattr(env, who)():
        _, reward, terminated, _, info = env.step(action)
        assert info["valid"], action
        assert reward == float(info["success"]) == float(terminated)
        progress.append(info["progress"])
        assert len(progress) < limit
    return progress


def test_progress_counts_the_sub_goals_of_each_task() -> None:
    heat = finish(start(HEAT))
    assert sorted(set(heat)) == [0, pytest.approx(1 / 3), pytest.approx(2 / 3), 1]
    assert heat == sorted(heat)
    two = finish(start(TWO))
    assert sorted(set(two)) == [0, 0.25, 0.5, 0.75, 1]
    look = finish(start(LOOK))
    assert look[-1] == 1 and look == sorted(look)
    env = start(HEAT)
    assert env.verify() == {"found": 0, "hot": 0, "placed": 0}
    finish(env)
    assert env.verify() == {"found": 1, "hot": 1, "placed": 1}


def test_the_first_observation_and_the_instruction_are_the_benchmarks() -> None:
    env = make("ALFWorld", source="generated")
    observation, info = env.reset(options={"task": HEAT})
    assert observation.startswith("-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room.")
    assert observation.endswith(f"\n\nYour task is to: {info['instruction']}")
    assert info["instruction"] in ("put a hot mug in cabinet.", "heat some mug and put it in cabinet.")
    assert "help" not in info["admissible"]
    assert list(info["admissible"]) == sorted(info["admissible"])
    answer, reward, terminated, truncated, info = env.step("help")
    assert answer.startswith("Available commands:") and info["valid"]
    assert (reward, terminated, truncated) == (0.0, False, False)


@pytest.mark.parametrize(
    "wording",
    ["put {} in/on {}", "Put {} on {}.", "place {} in {}", "  PUT {}  into {} ", "move {} to {}", "put {} onto {}"],
)
def test_older_wordings_of_move_are_understood(wording: str) -> None:
    env = start(TWO)
    action = next(env.oracle())
    while not action.startswith("move "):
        env.step(action)
        action = next(env.oracle())
    item, place = action.removeprefix("move ").split(" to ")
    assert env.canonical(wording.format(item, place)) == action
    observation, *_, info = env.step(wording.format(item, place))
    assert info["valid"]
    assert observation == f"You move the {item} to the {place}."


def test_what_is_impossible_changes_nothing() -> None:
    env = start(HEAT)
    _, *_, before = env.step("look")
    for action in ("", "fly", "take mug 1", "go to the moon", "put", "put a in/on b", "move x to y", "open sesame\x00"):
        observation, reward, terminated, truncated, info = env.step(action)
        assert (observation, reward, terminated, truncated) == ("Nothing happens.", 0.0, False, False)
        assert info["valid"] is False
        assert (info["state_key"], info["admissible"]) == (before["state_key"], before["admissible"])
    assert finish(env)[-1] == 1


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_answered(text: str) -> None:
    env = _shared()
    before = env.step("inventory")[-1]
    observation, reward, _, _, info = env.step(text)
    assert isinstance(observation, str) and reward == 0
    if not info["valid"]:
        assert info["state_key"] == before["state_key"]


_SHARED: list[AlfworldEnv] = []


def _shared() -> AlfworldEnv:
    if not _SHARED:
        _SHARED.append(start(HEAT))
    return _SHARED[0]


def test_long_text_costs_little_time() -> None:
    env = start(HEAT)
    for text in (
        "put " * 5000,
        "put a in " * 455,
        "go to " + "x" * 4000,
        "a" * 10_000_000,
        "put " + " in" * 1300 + " on",
    ):
        began = time.process_time()
        assert not env.step(text)[-1]["valid"]
        assert time.process_time() - began < 0.5


@pytest.mark.parametrize("who", ["oracle", "expert"])
@pytest.mark.parametrize("max_receptacles", [None, 5])
def test_plans_start_from_any_state(who: str, max_receptacles: int | None) -> None:
    """Random walks first: the wrong thing in hand, the target moved, the lamp lit, doors open."""
    rng = random.Random(3)
    env = make("ALFWorld", split="valid_seen", source="generated", max_receptacles=max_receptacles, max_steps=400)
    assert isinstance(env, AlfworldEnv)
    solved = 0
    for task in env.tasks.first(48):
        _, info = env.reset(options={"task": task.id})
        for _ in range(rng.choice((1, 8, 30, 60))):
            doing = [action for action in info["admissible"] if not action.startswith(("go to", "examine", "look"))]
            *_, info = env.step(rng.choice(doing if rng.random() < 0.6 else info["admissible"]))
            if info["success"]:
                break
        if not info["success"]:
            progress = finish(env, who, limit=30 if who == "oracle" else 150)
            assert progress[-1] == 1
            solved += 1
    assert solved > 30


def test_the_expert_recovers_from_interruptions_and_reads_only_what_it_is_given() -> None:
    rng = random.Random(1)
    env = make("ALFWorld", split="valid_unseen", source="generated", max_steps=150)
    lengths = []
    for task in env.tasks.first(60):
        observation, info = env.reset(options={"task": task.id})
        expert = Expert(info["instruction"])
        terminated = truncated = False
        steps = 0
        while not terminated and not truncated:
            action = expert.act(observation, info["admissible"])
            assert action in info["admissible"]
            if rng.random() < 0.15:
                action = rng.choice(info["admissible"])
            observation, _, terminated, truncated, info = env.step(action)
            steps += 1
        assert info["success"], task.id
        lengths.append(steps)
    assert sum(length <= 50 for length in lengths) >= 57
    with pytest.raises(InvalidArgument, match="sentences"):
        Expert("please tidy up")


def test_the_hint_names_the_next_thing_and_action() -> None:
    env = start(HEAT)
    hint = env.hint()
    action = next(env.oracle())
    assert hint.endswith(f"A good next action is: {action}")
    assert hint.startswith("There is a mug ")
    finish(env)
    assert env.hint() == ""


def test_nothing_privileged_reaches_the_agent() -> None:
    env = start(HEAT)
    _, *_, info = env.step("look")
    text = repr(info)
    assert "recipe" not in text and "verify" not in text
    closed = [place for place in env.game.receptacles if not env.engine.reachable(place)]
    hidden = {env.game.names[item] for place in closed for item in env.engine.contents(place)}
    assert not any(f"take {name} " in text for name in hidden)


def test_snapshots_branch_exactly_and_travel() -> None:
    env = start(TWO)
    plan = list(_ahead(env))
    for action in plan[: len(plan) // 2]:
        env.step(action)
    point = pickle.loads(pickle.dumps(env.snapshot()))
    rest = [env.step(action)[:4] for action in plan[len(plan) // 2 :]]
    for other in (env, make("ALFWorld", split="test", source="generated")):
        _, info = other.restore(point)
        assert info["progress"] == pytest.approx(0.5, abs=0.26) and not info["success"]
        assert [other.step(action)[:4] for action in plan[len(plan) // 2 :]] == rest


def _ahead(env: TextEnv) -> Iterator[str]:
    """The oracle's whole plan, without leaving the present."""
    point = env.snapshot()
    plan = []
    for action in env.oracle():
        env.step(action)
        plan.append(action)
    env.restore(point)
    return iter(plan)


def test_a_group_starts_alike_and_shares_its_game() -> None:
    envs = gymnasium.make_vec("sandlot/ALFWorld-v0", num_envs=3, vectorization_mode="sync", source="generated")
    observations, infos = envs.reset(seed=[7, 7, 7])  # type: ignore[arg-type]
    assert len(set(observations)) == 1
    assert len(set(infos["task_id"])) == len(set(infos["state_key"])) == 1
    observations, infos = envs.reset(seed=[7, 8, 9])  # type: ignore[arg-type]
    assert len(set(infos["task_id"])) == 3
    envs.close()
    one, two = start(HEAT), start(HEAT)
    assert one.game is two.game
    one.step(one.engine.admissible()[3])
    assert two.engine.state != one.engine.state


def test_steps_end_at_the_registered_limit() -> None:
    env = gymnasium.make("sandlot/ALFWorld-v0", source="generated")
    env.reset(seed=1)
    ends = [env.step("look")[2:4] for _ in range(50)]
    assert ends == [(False, False)] * 49 + [(False, True)]
    short = make("ALFWorld", source="generated", max_steps=2)
    short.reset(seed=1)
    assert [short.step("look")[3] for _ in range(2)] == [False, True]


def test_wrong_arguments_are_named() -> None:
    for wrong in (
        {"engine": "slow"},
        {"source": "web"},
        {"task_types": [9]},
        {"rooms": "hall"},
        {"max_receptacles": -1},
    ):
        with pytest.raises(InvalidArgument):
            make("ALFWorld", **wrong)
    with pytest.raises(InvalidArgument, match="generated"):
        make("ALFWorld", source="generated", data="somewhere")
    with pytest.raises(UnknownTask, match="alfworld/gen1/train/"):
        make("ALFWorld").reset(options={"task": "alfworld/gen1/train/nothing"})
    with pytest.raises(gymnasium.error.ResetNeeded):
        make("ALFWorld").step("look")


def test_the_original_engine_plays_the_same_episode() -> None:
    pytest.importorskip("textworld")
    pytest.importorskip("fast_downward")
    fast, original = (make("ALFWorld", source="generated", engine=engine) for engine in ("fast", "textworld"))
    try:
        assert fast.reset(options={"task": LOOK}) == original.reset(options={"task": LOOK})
        for action in ("inventory", "nonsense", next(fast.oracle())):
            assert fast.step(action) == original.step(action)
        point = original.snapshot()
        ends = []
        for action in _ahead(fast):
            ends.append(fast.step(action))
            assert ends[-1] == original.step(action)
        assert ends[-1][2] is True and ends[-1][4]["success"]
        _, info = original.restore(point)
        assert not info["success"] and info["admissible"]
        again = [original.step(action) for action in _ahead(original)]
        assert again == ends
    finally:
        original.close()
        original.close()
