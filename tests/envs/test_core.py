"""The contract's own parts: the text space, tasks, registration, and what `TextEnv` does for every environment."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st

from sandlot.envs import REGISTRY, find, make, register
from sandlot.envs.core import (
    EnvironmentFault,
    InvalidArgument,
    ListTasks,
    MissingExtra,
    Outcome,
    Task,
    TextEnv,
    UnicodeText,
    UnknownTask,
    UserError,
    text_key,
)
from sandlot.envs.core.text_env import printable
from sandlot.envs.toys.corridor import Corridor
from sandlot.envs.toys.noisy_anchor import NoisyAnchor

TEXTS = ("", "plain", "é ü 漢字 🦊", "line\nline\ttab", "🦊" * 50, "x" * 50, "\ud800")


class Speaker(gymnasium.Env[str, str]):
    """Says the texts in turn, starting with the seed's."""

    observation_space = UnicodeText(50)
    action_space = UnicodeText(20)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.turn = seed or 0
        return TEXTS[self.turn % len(TEXTS)], {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        return TEXTS[self.turn % len(TEXTS)], float(len(action)), False, False, {}


# -- the text space -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("build", [SyncVectorEnv, AsyncVectorEnv])
def test_every_text_travels_through_vectors(build: Any) -> None:
    vector = build([Speaker, Speaker])
    try:
        seen, _ = vector.reset(seed=[0, 3])
        assert seen == (TEXTS[0], TEXTS[3])
        for turn in range(1, len(TEXTS) + 1):
            before = seen
            seen, rewards, *_ = vector.step(("🦊", ""))
            assert seen == (TEXTS[turn % len(TEXTS)], TEXTS[(turn + 3) % len(TEXTS)])
            assert before == (TEXTS[turn - 1], TEXTS[(turn + 2) % len(TEXTS)])  # what was handed out stays
            assert rewards.tolist() == [1.0, 0.0]
    finally:
        vector.close()


def test_async_without_copies_shows_what_is_there_now() -> None:
    vector = AsyncVectorEnv([Speaker, Speaker], copy=False)
    try:
        seen, _ = vector.reset(seed=[1, 2])
        assert list(seen) == [TEXTS[1], TEXTS[2]]
        assert seen[-1] == TEXTS[2]
        assert seen[0:2] == (TEXTS[1], TEXTS[2])
        vector.step(("a", "b"))
        assert list(seen) == [TEXTS[2], TEXTS[3]]
        with pytest.raises(IndexError):
            seen[2]
    finally:
        vector.close()


def test_a_text_that_is_too_long_does_not_spill_into_the_next() -> None:
    from gymnasium.vector.utils import create_shared_memory, read_from_shared_memory, write_to_shared_memory

    space = UnicodeText(3)
    memory = create_shared_memory(space, 2)
    write_to_shared_memory(space, 1, "漢字🦊", memory)
    with pytest.raises(ValueError, match="4 characters in a space of 3"):
        write_to_shared_memory(space, 0, "four", memory)
    assert tuple(read_from_shared_memory(space, memory, 2)) == ("", "漢字🦊")


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=60))
def test_the_space_tests_the_length_only(text: str) -> None:
    assert (text in UnicodeText(50)) == (len(text) <= 50)


def test_the_space_compares_samples_and_pickles() -> None:
    space, twin = UnicodeText(9, seed=3), UnicodeText(9, seed=3)
    assert [space.sample() for _ in range(5)] == [twin.sample() for _ in range(5)]
    assert all(space.sample() in space for _ in range(100))
    assert space == UnicodeText(9) == pickle.loads(pickle.dumps(space)) == copy.deepcopy(space)
    assert space != UnicodeText(10)
    assert hash(space) == hash(UnicodeText(9))
    assert 9 not in space
    assert repr(space) == "UnicodeText(9)"


# -- tasks --------------------------------------------------------------------------------------------------------


def _tasks(split: str = "train") -> ListTasks:
    return ListTasks([Task(f"t-{i}", "test" if i % 3 == 0 else "train", {"i": i}) for i in range(9)], split)


def test_task_sets_number_their_split_and_know_all_ids() -> None:
    tasks = _tasks()
    assert [task.id for task in tasks] == ["t-1", "t-2", "t-4", "t-5", "t-7", "t-8"]
    assert tasks.get("t-3").split == "test"
    # Spread evenly: 6 tasks, 3 wanted -> numbers 0, 2, 4
    assert [task.id for task in tasks.first(3)] == ["t-1", "t-4", "t-7"]
    assert len(tasks.first(100)) == 6
    drawn = {tasks.sample(np.random.default_rng(seed)).id for seed in range(60)}
    assert drawn == {task.id for task in tasks}
    with pytest.raises(UnknownTask, match="no task 't-9'; ids look like 't-0'"):
        tasks.get("t-9")
    with pytest.raises(UnknownTask, match="no split 'dev'; choose from test, train"):
        _tasks("dev")
    with pytest.raises(IndexError):
        tasks.at(6)


def test_tasks_pickle_with_their_defaults() -> None:
    task = Task("a", "train")
    assert pickle.loads(pickle.dumps(task)) == task


# -- errors -------------------------------------------------------------------------------------------------------


def test_user_errors_are_one_line_that_names_the_fix() -> None:
    error = MissingExtra("textworld", "alfworld")
    assert str(error) == "textworld is not installed: pip install 'sandlot[alfworld]'"
    assert isinstance(error, UserError)
    assert isinstance(error, ImportError)
    assert str(UnknownTask("no task")) == "no task"  # not the repr that KeyError prints
    assert not issubclass(EnvironmentFault, UserError)


# -- registration -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sandlot/Corridor-v0", "Corridor-v0", "Corridor", "corridor", "SANDLOT/corridor-V0"])
def test_find_accepts_short_names(name: str) -> None:
    assert find(name).id == "sandlot/Corridor-v0"


def test_find_names_the_closest() -> None:
    with pytest.raises(InvalidArgument, match="no environment 'Coridor'; did you mean sandlot/Corridor-v0"):
        find("Coridor")
    with pytest.raises(InvalidArgument, match="`sandlot list` shows all"):
        find("")


def test_registering_twice_is_harmless_and_differently_is_an_error() -> None:
    entry = REGISTRY["sandlot/Corridor-v0"]
    same = {"id": entry.id, "entry_point": entry.entry_point, "max_episode_steps": entry.max_episode_steps}
    register(**same, family=entry.family)
    with pytest.raises(InvalidArgument, match=r"already registered as toys\.corridor:Corridor"):
        register(**{**same, "max_episode_steps": 99})
    assert REGISTRY["sandlot/Corridor-v0"] is entry


def test_make_gives_the_environment_itself_with_its_limit() -> None:
    env = make("Corridor", rooms=4)
    assert type(env) is Corridor
    assert (env.rooms, env.max_steps) == (4, 12)
    assert make("Corridor", max_steps=50).max_steps == 50  # no registered limit stands above it here
    env.reset(seed=0)
    ends = [env.step("")[3] for _ in range(12)]
    assert ends == [False] * 11 + [True]
    assert env.snapshot().steps == 12


def test_gymnasium_finds_everything_by_the_package_name() -> None:
    assert set(REGISTRY) <= set(gymnasium.registry)
    env = gymnasium.make("sandlot:sandlot/Corridor-v0")
    assert isinstance(env.unwrapped, Corridor)
    env.close()


# -- TextEnv ------------------------------------------------------------------------------------------------------


class Parrot(TextEnv):
    """Repeats what it hears; the word "stop" ends it."""

    max_observation = 100
    max_action = 30

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(_tasks(), **kwargs)

    def _reset(self, task: Task) -> str:
        self.heard: list[str] = []
        return "Speak!"

    def _step(self, action: str) -> Outcome:
        if not action:
            return Outcome("I hear nothing.", valid=False)
        self.heard.append(action)
        return Outcome(action * (8 if action.startswith("long") else 1), 0.5, terminated=action == "stop")

    def _state(self) -> str:
        return "\n".join(self.heard)

    def _save(self) -> list[str]:
        return list(self.heard)

    def _load(self, state: list[str]) -> None:
        self.heard = list(state)

    def _success(self) -> bool:
        return "stop" in self.heard

    def oracle(self) -> Any:
        yield "stop"


def test_defaults_of_the_base_class() -> None:
    env = Parrot()
    _, info = env.reset(seed=0)
    assert (info["admissible"], info["progress"], info["instruction"], info["score"]) == (None, None, "", 0.0)
    assert env.hint() == "stop"
    assert env.verify() == {"success": 0.0}
    assert env.canonical("  a   b ") == "a b"
    assert env.render() is None
    env.close()
    env.close()


def test_actions_are_cleaned_and_measured() -> None:
    env = Parrot()
    env.reset(seed=0)
    assert env.step("a\x00b\x1b\ud800\tc\né")[0] == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}" + (
        "\N{REPLACEMENT CHARACTER}\tc\né"
    )
    assert env.step("x" * 30)[4]["valid"]
    text, reward, _, _, info = env.step("x" * 31)
    assert text == "The action has 31 characters; at most 30 are accepted."
    assert (reward, info["valid"]) == (0.0, False)
    assert env.step(5)[0] == "An action is text, not int."  # type: ignore[arg-type]
    assert env.heard[1:] == ["x" * 30]


def test_long_observations_are_cut_with_a_note() -> None:
    env = Parrot()
    env.reset(seed=0)
    text = env.step("long" + "y" * 26)[0]  # 240 characters in a space of 100; 60 are kept
    assert text == ("long" + "y" * 26) * 2 + "\n[180 characters cut]"
    assert text in env.observation_space


def test_nothing_happens_before_the_start_or_after_the_end() -> None:
    env = Parrot()
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step("a")
    with pytest.raises(gymnasium.error.ResetNeeded):
        _ = env.task
    env.reset(seed=0)
    *_, terminated, _, info = env.step("stop")
    assert terminated
    again = env.step("stop")
    assert again[1:4] == (0.0, True, False)
    assert again[4] == {**info, "valid": False, "obs_key": text_key(again[0])}
    assert env.reset(seed=0)[1]["success"] is False


def test_the_last_step_terminates_rather_than_truncates() -> None:
    env = Parrot(max_steps=2)
    env.reset(seed=0)
    assert env.step("a")[2:4] == (False, False)
    assert env.step("stop")[2:4] == (True, False)
    env.reset(seed=0)
    env.step("")  # an invalid action costs a step
    assert env.step("b")[2:4] == (False, True)


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "3"])
def test_max_steps_is_a_positive_integer(wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="max_steps must be a positive integer"):
        Parrot(max_steps=wrong)


def test_max_steps_shortens_the_registered_limit_and_says_how_to_lengthen_it() -> None:
    env = gymnasium.make("sandlot/Corridor-v0", max_steps=3)
    env.reset(seed=0)
    assert [env.step("")[3] for _ in range(3)] == [False, False, True]
    env.close()
    env = gymnasium.make("sandlot/Corridor-v0", max_steps=40)
    message = "max_steps=40 is above the registered limit 12: pass max_episode_steps=40 to gymnasium.make instead"
    with pytest.raises(InvalidArgument, match=message):
        env.reset(seed=0)
    env.close()
    env = gymnasium.make("sandlot/Corridor-v0", max_episode_steps=40)
    env.reset(seed=0)
    assert [env.step("")[3] for _ in range(40)] == [False] * 39 + [True]
    env.close()


def test_render_mode_is_none_or_ansi() -> None:
    with pytest.raises(InvalidArgument, match="render_mode"):
        Parrot(render_mode="human")


def test_restore_in_a_fresh_instance_and_after_the_end() -> None:
    env, other = Parrot(max_steps=3), Parrot(max_steps=3)
    env.reset(seed=4)
    env.step("a")
    branch = env.snapshot()
    env.step("stop")
    ended = env.snapshot()
    observation, info = other.restore(branch)  # never reset
    assert (observation, other.heard, info["task_id"]) == ("a", ["a"], env.task.id)
    assert other.step("b")[2:4] == (False, False)
    assert other.step("c")[2:4] == (False, True)  # the steps before the branch count
    assert other.restore(ended)[1]["success"]
    assert other.step("d")[0].startswith("The episode is over")
    assert branch.state == ["a"]  # nothing that happened later reached the snapshot


def test_snapshots_hold_the_random_state() -> None:
    env = NoisyAnchor(clean=1, noisy=8)
    env.reset(seed=0)
    env.step(next(env.oracle()))
    branch = env.snapshot()
    script = [env.step(next(env.oracle()))[0] for _ in range(8)]
    env.restore(branch)
    assert [env.step(next(env.oracle()))[0] for _ in range(8)] == script


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_printable_leaves_nothing_that_breaks_a_terminal_or_an_encoder(text: str) -> None:
    clean = printable(text)
    assert len(clean) == len(text)
    clean.encode("utf-8")
    assert "\x1b" not in clean
    assert printable(clean) == clean


@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_keys_tell_parts_apart(first: list[str], second: list[str]) -> None:
    assert (text_key(*first) == text_key(*second)) == (first == second)


def test_keys_never_change() -> None:
    # Files hold keys: blake2b of 8 bytes over the lengths (8 bytes, little endian) and the UTF-8 of the parts.
    import hashlib

    assert text_key("ab", "") == hashlib.blake2b(b"\2" + b"\0" * 7 + b"ab" + b"\0" * 8, digest_size=8).hexdigest()
