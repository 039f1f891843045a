"""The toys against their own exact decision processes: known optima, known random values, options."""

from __future__ import annotations

import pytest
from sandlot.envs import make
from sandlot.envs.core import SPLITS, InvalidArgument, TextEnv
from sandlot.envs.toys.exact import unroll
from sandlot.envs.toys.keydoor import KeyDoor

SMALL = {
    "Corridor": ({"rooms": 5}, 8),
    "KeyDoor": ({"doors": 2, "decoys": 1}, 12),
    "Bandit": ({"features": 2, "arms": 6}, 2),
}


def _small(name: str) -> tuple[TextEnv, int]:
    arguments, horizon = SMALL[name]
    env = make(name, **arguments)
    env.reset(seed=1)
    return env, horizon


@pytest.mark.parametrize("name", SMALL)
def test_optimal_value_is_what_value_iteration_finds(name: str) -> None:
    env, horizon = _small(name)
    assert unroll(env).optimal(horizon) == pytest.approx(env.optimal_value())  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", SMALL)
def test_oracle_is_shortest_and_starts_from_anywhere(name: str) -> None:
    env, _ = _small(name)
    home = env.snapshot()
    exact = unroll(env)
    shortest = next(h for h in range(50) if exact.optimal(h) > 0)
    assert sum(1 for action in env.oracle() if env.step(action)) == shortest
    env.restore(home)
    for action in (env._info()["admissible"] or ())[:2]:  # a detour, unless it ends the episode
        _, _, terminated, _, _ = env.step(action)
        if terminated:
            return
    for action in env.oracle():
        info = env.step(action)[4]
    assert info["success"]


@pytest.mark.parametrize("name", SMALL)
def test_splits_share_no_task(name: str) -> None:
    contents = [
        {repr(dict(task.params)) for task in make(name, split=split, **SMALL[name][0]).tasks} for split in SPLITS
    ]
    assert all(contents)
    assert sum(map(len, contents)) == len(set().union(*contents))


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


def test_aliased_rooms_look_the_same_in_different_states() -> None:
    env = make("KeyDoor", aliased=True, distractors=3)
    first, info = env.reset(seed=3)
    second, _, _, _, after = env.step(next(env.oracle()))
    assert first == second
    assert info["obs_key"] == after["obs_key"]
    assert info["state_key"] != after["state_key"]
    assert len(first) > 150  # three sentences of chatter


def test_keydoor_distance_is_exact_in_every_state() -> None:
    env = make("KeyDoor", doors=2, decoys=1)
    assert isinstance(env, KeyDoor)
    env.reset(seed=5)
    exact = unroll(env)
    # Breadth first from the goal, backwards, over the unrolled process.
    steps = {state: 0 for state, after in enumerate(exact.successors) if not after}
    while len(steps) < len(exact.successors):
        found = {
            state: 1 + min(steps[s] for s in after if s in steps)
            for state, after in enumerate(exact.successors)
            if state not in steps and any(s in steps for s in after)
        }
        if not found:
            break
        steps |= found
    assert len(steps) == len(exact.successors)  # nothing the agent does makes the task unsolvable
    assert env.distance() == steps[0] == 6
    states = {info["state_key"]: state for state, info in enumerate(exact.infos)}
    for _ in range(60):
        info = env.step(str(env.np_random.choice(env.actions())))[4]
        assert env.distance() == steps[states[info["state_key"]]]
        if info["success"]:
            break


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Corridor", {"rooms": 2}),
        ("Corridor", {"verbs": "4"}),
        ("Corridor", {"split": "dev"}),
        ("KeyDoor", {"doors": 1}),
        ("Bandit", {"arms": 17}),
    ],
)
def test_wrong_sizes_name_the_argument(name: str, arguments: dict[str, object]) -> None:
    with pytest.raises((InvalidArgument, KeyError), match=next(iter(arguments))):
        make(name, **arguments)
