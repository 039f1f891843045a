"""The wrappers on toys: history, parsing of hostile output, discrete choice, and a real library training on it."""

from __future__ import annotations

import json
import zlib
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from sandlot.envs.core import InvalidArgument, TextEnv, text_key
from sandlot.envs.core.wrappers import ActionParser, AdmissibleChoice, HistoryWrapper, parse_json, parse_tags


def _corridor(**kwargs: Any) -> gymnasium.Env[str, str]:
    return gymnasium.make("sandlot/Corridor-v0", **kwargs)


def _oracle(env: gymnasium.Env) -> str:
    assert isinstance(env.unwrapped, TextEnv)
    return next(env.unwrapped.oracle())


def test_history_shows_the_task_and_the_last_turns() -> None:
    env = HistoryWrapper(_corridor(), turns=2)
    first, info = env.reset(seed=1)
    assert first.splitlines() == [f"Task: {info['instruction']}", first.splitlines()[1]]
    action = _oracle(env)
    second, _, _, _, info = env.step(action)
    assert second.splitlines()[:3] == [*first.splitlines(), f"> {action}"]
    assert info["obs_key"] == text_key(second)
    third = env.step("\x1b[31m" + "x" * 10_000)[0]  # the first observation leaves the window, hostile text is cut
    assert first.splitlines()[1] not in third
    assert third.startswith("Task: ")
    assert "\x1b" not in third
    assert len(third) < 1500
    assert env.reset(seed=1)[0] == first


@pytest.mark.parametrize(
    ("output", "action"),
    [
        ("<action>go on</action>", "go on"),
        ("I <think>. <action>a</action> no: <action> b \n</action> done", "b"),
        ("<action><action>x</action>", "x"),
        ("<action>never closed", None),
        ("</action><action>", None),
        ("<action> </action>", None),
        ("", None),
        ("go on", None),
    ],
)
def test_tags(output: str, action: str | None) -> None:
    assert parse_tags(output) == action


@pytest.mark.parametrize(
    ("output", "action"),
    [
        ('{"action": "go on"}', "go on"),
        ('Let me see {1, 2}. ```json\n{"thought": "{", "action": " go on "}\n```', "go on"),
        ('{"action": "a"} {"action": "b"}', "b"),
        ('{"action": {"name": "x"}}', None),
        ('{"action": 3}', None),
        ('{"action": "cut', None),
        ("{" * 90_000, None),
        ('{"a":' * 20_000, None),
        ("[" * 99_000 + '{"action": "x"}', "x"),
        ("x" * 10_000_000 + '{"action": "x"}', None),
    ],
)
def test_json(output: str, action: str | None) -> None:
    assert parse_json(output) == action


@given(st.text())
def test_parsers_find_what_was_written(text: str) -> None:
    stripped = text.strip() or None
    if "<action>" not in text and "</action>" not in text:
        assert parse_tags(f"thinking… <action>{text}</action> done") == stripped
    assert parse_json(f"thinking… {json.dumps({'action': text})}") == stripped


@pytest.mark.parametrize("format", ["tags", "json"])
def test_output_without_an_action_takes_the_invalid_path(format: str) -> None:
    env = ActionParser(_corridor(), format)
    observation, before = env.reset(seed=2)
    written = {"tags": "Hm. <action>{}</action>", "json": 'Hm. {{"action": "{}"}}'}[format]
    for output in ("", "go", "<action>", '{"action"', "\ud800", "z" * 1_000_000, None):
        text, reward, terminated, truncated, info = env.step(output)  # type: ignore[arg-type]
        assert text.startswith("No action was found. Write the action as ")
        assert text.endswith(observation)
        assert (reward, terminated, truncated, info["valid"], info["action"]) == (0.0, False, False, False, None)
        assert info["state_key"] == before["state_key"]
        assert info["obs_key"] == text_key(text)
    action = _oracle(env)
    _, _, _, _, info = env.step(written.format(action))
    assert info["valid"]
    assert info["action"] == action
    assert info["progress"] > 0


def test_choice_follows_the_list() -> None:
    env = AdmissibleChoice(gymnasium.make("sandlot/KeyDoor-v0", doors=2), n=12, features=64)
    vector, info = env.reset(seed=0)
    while True:
        assert vector in env.observation_space
        listed = info["admissible"]
        assert info["action_mask"].tolist() == [1] * len(listed) + [0] * (12 - len(listed))
        assert (env.action_masks() == info["action_mask"].astype(bool)).all()
        key = info["state_key"]
        vector, reward, terminated, _, info = env.step(np.int64(11))  # beyond the list
        assert (reward, info["valid"], info["state_key"]) == (0.0, False, key)
        vector, reward, terminated, _, info = env.step(np.int64(listed.index(_oracle(env))))
        if terminated:
            break
    assert reward == 1.0
    assert info["success"]
    assert not info["action_mask"].any()


@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version")
def test_choice_passes_gymnasiums_checker_and_is_stable() -> None:
    env = AdmissibleChoice(_corridor(), n=4, features=32)
    vector, info = env.reset(seed=3)
    # Places are CRC-32 of the words: the second half holds the four verbs with their places in the list.
    places = {16 + zlib.crc32(f"{i} {verb}".encode()) % 16 for i, verb in enumerate(info["admissible"])}
    assert set(np.flatnonzero(vector)) >= places
    assert set(np.flatnonzero(vector[16:]) + 16) == places
    check_env(AdmissibleChoice(_corridor().unwrapped, n=4, features=32), skip_render_check=True)


def test_choice_explains_what_does_not_fit() -> None:
    with pytest.raises(InvalidArgument, match="16 actions are listed, AdmissibleChoice has n=4: pass a larger n"):
        AdmissibleChoice(gymnasium.make("sandlot/Bandit-v0"), n=4).reset(seed=0)
    with pytest.raises(InvalidArgument, match="features"):
        AdmissibleChoice(_corridor(), features=3)
    with pytest.raises(InvalidArgument, match="format"):
        ActionParser(_corridor(), "xml")
    with pytest.raises(InvalidArgument, match="turns"):
        HistoryWrapper(_corridor(), turns=0)


def test_wrapped_specs_round_trip() -> None:
    env = AdmissibleChoice(HistoryWrapper(ActionParser(_corridor(), "json"), turns=3), n=8, features=64)
    assert env.spec is not None
    for spec in (env.spec, EnvSpec.from_json(env.spec.to_json())):
        again = gymnasium.make(spec)
        assert again.action_space == env.action_space
        assert (again.reset(seed=4)[0] == env.reset(seed=4)[0]).all()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_wrapped_environments_make_vectors(mode: str) -> None:
    wrappers = [lambda env: HistoryWrapper(env, turns=2), lambda env: AdmissibleChoice(env, n=4, features=32)]
    vector = gymnasium.make_vec("sandlot/Corridor-v0", num_envs=2, vectorization_mode=mode, wrappers=wrappers)
    try:
        observations, _ = vector.reset(seed=0)
        assert observations.shape == (2, 32)
        observations, rewards, *_ = vector.step(np.array([0, 1]))
        assert observations.shape == (2, 32)
        assert rewards.shape == (2,)
    finally:
        vector.close()


def test_stable_baselines_trains_on_a_toy() -> None:
    ppo = pytest.importorskip("stable_baselines3", reason="stable_baselines3 is not installed").PPO
    env = AdmissibleChoice(_corridor(rooms=3), n=4, features=32)
    model = ppo("MlpPolicy", env, n_steps=64, batch_size=32, n_epochs=2, seed=0, device="cpu")
    before = [parameter.detach().clone() for parameter in model.policy.parameters()]
    model.learn(192)
    assert any(not parameter.equal(old) for parameter, old in zip(model.policy.parameters(), before))
    rewards = [info["r"] for info in model.ep_info_buffer]
    assert 0 < np.mean(rewards) <= 1  # it meets successes and failures, so there is something to learn
