"""The toys against their own exact decision processes: known optima, known random values, options."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.envs import make
from sandlot.envs.core import SPLITS, InvalidArgument, UnknownTask
from sandlot.envs.toys.exact import unroll
from sandlot.envs.toys.hint import Hint
from sandlot.envs.toys.keydoor import KeyDoor
from sandlot.envs.toys.mini_search import Corpus, MiniSearch
from sandlot.envs.toys.noisy_anchor import NoisyAnchor
from sandlot.envs.toys.rooms import Rooms
from sandlot.envs.toys.tasks import NumberedTasks
from sandlot.envs.toys.tool_form import ToolForm
from sandlot.envs.toys.toy import Toy

SMALL = {
    "Corridor": ({"rooms": 5}, 8),
    "KeyDoor": ({"doors": 2, "decoys": 1}, 12),
    "Bandit": ({"features": 2, "arms": 6}, 2),
    "ToolForm": ({"fields": 2}, 6),
    "Hint": ({}, 4),
    "MiniSearch": ({"corpus": 3, "budget": 2}, 4),
    "Rooms": ({"rooms": 8}, 12),
}


def _small(name: str, split: str = "train") -> tuple[Toy, int]:
    arguments, horizon = SMALL[name]
    env = make(name, split=split, **arguments)
    assert isinstance(env, Toy)
    env.reset(seed=1)
    return env, horizon


@pytest.mark.parametrize("name", SMALL)
def test_optimal_value_is_what_value_iteration_finds(name: str) -> None:
    env, horizon = _small(name)
    assert unroll(env).optimal(horizon) == pytest.approx(env.optimal_value())


@pytest.mark.parametrize("name", SMALL)
def test_oracle_is_shortest_and_starts_from_anywhere(name: str) -> None:
    env, _ = _small(name)
    exact = unroll(env)
    shortest = next(horizon for horizon in range(50) if exact.optimal(horizon) > 0)
    start = env.snapshot()
    actions = []
    for action in env.oracle():
        assert action in env.actions()
        env.step(action)
        actions.append(action)
    assert len(actions) == shortest
    for detour in env.restore(start)[1]["admissible"]:
        env.restore(start)
        _, _, terminated, _, info = env.step(detour)
        for action in env.oracle():
            *_, info = env.step(action)
        assert info["success"] or terminated


@pytest.mark.parametrize("name", SMALL)
def test_splits_share_no_task(name: str) -> None:
    sets = [_small(name, split)[0].tasks for split in SPLITS]
    contents = [set(), set(), set(), set()]
    for content, tasks in zip(contents, sets, strict=True):
        for i in range(min(len(tasks), 500)):
            content.add(repr({key: value for key, value in tasks.at(i).params.items() if key != "seed"}))
    assert all(contents)
    assert sum(map(len, contents)) == len(set().union(*contents))
    for tasks in sets:
        assert sets[0].get(tasks.at(0).id) == tasks.at(0)


@given(st.integers(10, 400))
def test_numbered_tasks_use_every_number_once(count: int) -> None:
    numbers = [
        task.params["number"] for split in SPLITS for task in NumberedTasks("n", count, lambda n: {"number": n}, split)
    ]
    assert sorted(numbers) == list(range(count))


@pytest.mark.parametrize(
    "wrong", ["n-train-7", "n-train-01", "n-dev-0", "m-train-0", "n-train-", "n-train-1²", "n-train--1"]
)
def test_numbered_tasks_accept_their_own_ids_only(wrong: str) -> None:
    tasks = NumberedTasks("n", 10, lambda n: {}, "test")
    assert tasks.get("n-train-6").split == "train"  # 7 of 10 are for training
    with pytest.raises(UnknownTask, match="ids look like 'n-test-0'"):
        tasks.get(wrong)
    with pytest.raises(InvalidArgument, match="only 9 different tasks"):
        NumberedTasks("n", 9, lambda n: {}, "test")


def test_random_value_of_the_bandit_is_one_in_arms() -> None:
    env, _ = _small("Bandit")
    assert unroll(env).random(1) == pytest.approx(1 / 6)


def test_random_value_of_a_corridor_by_hand() -> None:
    # 3 rooms, 4 verbs, so two advances (1/4 each). In the first room everything else stays (3/4), in the second only
    # two verbs do (1/2). Two steps: 1/4 * 1/4 = .0625. Three: + 3/4 * 1/4 * 1/4 + 1/4 * 1/2 * 1/4 = .140625.
    env = make("Corridor", rooms=3)
    env.reset(seed=0)
    exact = unroll(env)
    assert exact.random(2) == pytest.approx(0.0625)
    assert exact.random(3) == pytest.approx(0.140625)
    assert exact.value(lambda observation, info: [0.25] * 4, 3) == pytest.approx(0.140625)


def test_only_small_deterministic_processes_unroll() -> None:
    env = KeyDoor()
    env.reset(seed=0)
    with pytest.raises(InvalidArgument, match="more than 100 states"):
        unroll(env, most=100)
    noisy = NoisyAnchor()
    noisy.reset(seed=0)
    with pytest.raises(InvalidArgument, match="stochastic"):
        unroll(noisy)


def test_aliased_rooms_look_the_same_in_different_states() -> None:
    env = KeyDoor(aliased=True, distractors=3)
    first, info = env.reset(seed=3)
    second, _, _, _, after = env.step(next(env.oracle()))
    assert first == second
    assert info["obs_key"] == after["obs_key"]
    assert info["state_key"] != after["state_key"]
    assert len(first) > 150  # three sentences of chatter


def test_keydoor_distance_is_exact_in_every_state() -> None:
    env = KeyDoor(doors=2, decoys=1)
    env.reset(seed=5)
    exact = unroll(env)
    # Breadth first from the goal, backwards, over the unrolled process.
    steps = {state: 0 for state, after in enumerate(exact.successors) if not after}
    while True:
        found = {
            state: 1 + min(steps[s] for s in after if s in steps)
            for state, after in enumerate(exact.successors)
            if state not in steps and any(s in steps for s in after)
        }
        if not found:
            break
        steps |= found
    assert len(steps) == len(exact.successors)  # nothing the agent does makes the task unsolvable
    assert env.distance() == steps[0] == 2 * env.routine
    states = {info["state_key"]: state for state, info in enumerate(exact.infos)}
    rng = np.random.default_rng(0)
    for _ in range(300):
        *_, info = env.step(str(rng.choice(env.actions())))
        assert env.distance() == steps[states[info["state_key"]]]
        if info["success"]:
            env.reset(options={"task": info["task_id"]})


def test_a_random_policy_fills_in_the_form_less_than_once_in_a_hundred() -> None:
    env = ToolForm()
    env.reset(seed=0)
    assert 0 < unroll(env).random(12) < 0.01


def test_form_errors_name_the_field_and_the_reason() -> None:
    env = ToolForm(fields=2)
    env.reset(options={"task": "toolform-2-train-0"})  # 1 January 2027, one guest
    env.step("set date to 1 January")
    env.step("set guests to 2")
    text, reward, terminated, _, info = env.step("submit")
    assert "date must be YYYY-MM-DD, not '1 January'" in text
    assert "guests is well formed but '2' is not what was asked for" in text
    assert (reward, terminated, info["valid"], info["success"]) == (0.0, False, True, False)


def test_noisy_doors_are_equally_good_and_the_oracle_sees_the_coin() -> None:
    env = NoisyAnchor(clean=1, noisy=1, doors=3)
    # Coins of a hall with 3 doors: the 6 sets that are neither empty nor full; every door is in 3 of them.
    assert env.optimal_value() == 0.5
    assert env.random_value() == pytest.approx(1 / 6)
    wins = np.zeros(3)
    for seed in range(300):
        env.reset(seed=seed, options={"task": "noisyanchor-1x1x3-train-5"})
        *_, info = env.step(next(env.oracle()))
        branch = env.snapshot()
        for door, action in enumerate(info["admissible"]):
            env.restore(branch)
            wins[door] += env.step(action)[4]["success"]
        env.restore(branch)
        assert env.step(next(env.oracle()))[4]["success"]
    # 300 coins, each door wins half of them: standard error 8.7
    assert (abs(wins - 150) < 30).all()


def test_seeds_change_the_coin_and_nothing_else() -> None:
    env = NoisyAnchor()
    starts = {env.reset(seed=seed, options={"task": "noisyanchor-2x1x4-test-3"})[1]["state_key"] for seed in range(9)}
    assert len(starts) == 1


def test_a_third_of_the_skills_is_true_and_following_hints_pays() -> None:
    skills = Hint().skills()
    assert (len(skills), sum(skill.good for skill in skills)) == (48, 16)
    success = {}
    for shown in ("good", "poisoned", "mixed"):
        env, wins = Hint(shown=shown), 0
        for task in env.tasks:
            text, info = env.reset(options={"task": task.id})
            while info["admissible"]:
                text, _, _, _, info = env.step(f"press {text.split()[-1].rstrip('.')}")  # the hint's last word
            wins += info["success"]
        success[shown] = wins / len(env.tasks)
    assert success["good"] == 1
    assert success["poisoned"] == 0
    assert 0.2 < success["mixed"] < 0.5  # trust is .35


def test_fifty_documents_and_every_name_finds_its_own() -> None:
    for number in range(30):
        corpus = Corpus(number)
        assert len(corpus.documents) == 50
        for name in (*corpus.town, *corpus.river):
            assert corpus.search(name, 1) == [corpus.find(name)]
        for title in corpus.titles:
            assert corpus.find(title) in corpus.search(title, 2)


def test_misleading_films_come_first() -> None:
    env = MiniSearch(misleading=True)
    for task in env.tasks.first(20):
        _, info = env.reset(options={"task": task.id})
        text = env.step(info["admissible"][0])[0]
        assert "(film)" in text.splitlines()[0]
        assert "is a novel by" in text.splitlines()[1]


def test_a_search_beyond_the_budget_is_refused() -> None:
    env = MiniSearch(budget=2)
    env.reset(seed=0)
    assert "Searches left: 1" in env.step("search river")[0]
    assert "Searches left: 0" in env.step("Search:  town")[0]
    text, _, _, _, info = env.step("search film")
    assert text.startswith("No searches are left")
    assert not info["valid"]
    assert all(action.startswith("answer ") for action in info["admissible"])


def test_anchors_hold_the_answer_step_by_step() -> None:
    env = MiniSearch(hops=3)
    env.reset(seed=4)
    novel, person, town = env.anchors()
    assert env.hint().removeprefix("The answer is ").rstrip(".") in town
    assert novel.split(" is a novel by ")[1].rstrip(".") in person
    assert env.verify() == {"hop 1": 0, "hop 2": 0, "hop 3": 0, "answer": 0}


def test_signs_in_every_room_lead_to_the_goal() -> None:
    env = Rooms(signs=1.0)
    for task in env.tasks.first(20):
        text, _ = env.reset(options={"task": task.id})
        assert env.distance() >= 2
        while "A sign says" in text:
            before = env.distance()
            text = env.step(f"go to {text.split()[-1].rstrip('.')}")[0]
            assert env.distance() == before - 1
        assert env.step("stop")[1] == 1


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Corridor", {"rooms": 2}),
        ("Corridor", {"verbs": "4"}),
        ("Corridor", {"split": "dev"}),
        ("KeyDoor", {"doors": 1}),
        ("KeyDoor", {"decoys": 7}),
        ("Bandit", {"arms": 17}),
        ("ToolForm", {"fields": 5}),
        ("Hint", {"shown": "yes"}),
        ("Hint", {"trust": 2}),
        ("NoisyAnchor", {"clean": True}),
        ("MiniSearch", {"budget": 1}),
        ("MiniSearch", {"misleading": True, "corpus": 1}),
        ("Rooms", {"signs": -1}),
    ],
)
def test_wrong_sizes_name_the_argument(name: str, arguments: dict[str, object]) -> None:
    with pytest.raises((InvalidArgument, KeyError), match=next(iter(arguments))):
        make(name, **arguments)
