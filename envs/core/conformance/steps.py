"""Every step: what `info` holds, what actions do and do not do, and when an episode ends."""

from __future__ import annotations

import time
import types
import typing
from typing import Any

import gymnasium
import numpy as np

from ..errors import InvalidArgument
from ..text_env import StepInfo, text_key
from .subject import Skip, Subject, follow_oracle, play, random_action

# What a confused or hostile model may send. None of it is an action of any environment that lists its actions.
GARBAGE = (
    *("", " ", "\n", "\x00", "\x1b[2J\x1b[31m", "\r\b\b\b", "\ud800\udfff", "\u202e\u200b\ufeff"),
    *("é" * 50, "🦊" * 4096),
    *("qwertyuiop zxcvbnm", "{0.__class__} %s %n ${HOME} `id`", "'; DROP TABLE tasks; --", "../" * 99 + "etc/passwd"),
    *("a" * 4095 + "!", "(" * 4000, "[" * 2000 + "]" * 2000, "<action>" * 500, '{"action": {"action": 1e999}}'),
)
TOO_LONG = ("x" * 10_000_000, "\x00" * 10_000_000)
NOT_TEXT = (None, 7, b"go", ["go"], {"action": "go"})
_CONTROL = {chr(code) for code in (*range(9), *range(11, 32), *range(127, 160))}


def info_is_step_info(subject: Subject) -> None:
    """`info` holds the keys and types of `StepInfo` and the declared `extra_info`; ranges are kept."""
    hints = typing.get_type_hints(StepInfo)
    rng = np.random.default_rng(1)
    with subject.bare() as env:
        low, high = env.reward_range
        extra = set(env.extra_info)
        assert not extra & set(hints), f"extra_info repeats {sorted(extra & set(hints))}"
        untold = [name for name in env.extra_info if f"`{name}`" not in (type(env).__doc__ or "")]
        assert not untold, f"the docstring does not explain {untold}"
        for seed, policy in enumerate((follow_oracle(env), lambda o, i: random_action(env, rng, i), lambda o, i: "?")):
            observation, info = env.reset(seed=seed)
            assert info["valid"] is True, "info['valid'] is not True after a reset"
            records = [(observation, 0.0, False, False, info), *play(env, policy, subject.limit)]
            for observation, reward, terminated, _, info in records:
                assert set(info) == set(hints) | extra, f"keys differ: {sorted(set(info) ^ (set(hints) | extra))}"
                for key, hint in hints.items():
                    assert _is(info[key], hint), f"info[{key!r}] is {info[key]!r}, expected {hint}"
                for key in extra:
                    plain = type(info[key]) in (str, int, float, bool, type(None))
                    assert plain, f"info[{key!r}] is {info[key]!r}, expected a plain value"
                assert observation in env.observation_space, f"an observation of {len(observation)} characters"
                assert not _CONTROL & set(observation), "control characters in an observation"
                assert info["obs_key"] == text_key(observation), "obs_key is not text_key(observation)"
                assert 0.0 <= info["score"] <= 1.0, f"score {info['score']}"
                assert info["progress"] is None or 0.0 <= info["progress"] <= 1.0, f"progress {info['progress']}"
                assert type(reward) is float and low <= reward <= high, f"reward {reward!r} outside [{low}, {high}]"
                listed = info["admissible"]
                assert listed is None or len(set(listed)) == len(listed), "an action is listed twice"
                assert terminated or listed is None or listed, "no action is left although the episode goes on"


def invalid_actions_change_nothing(subject: Subject) -> None:
    """Garbage is answered and marked invalid, and changes nothing; it neither raises nor hangs."""
    with subject.bare() as env:
        _, before = env.reset(seed=5)
        for action in (*GARBAGE, *TOO_LONG, *NOT_TEXT):
            label = repr(action[:20]) if isinstance(action, str | bytes) else repr(action)
            started = time.perf_counter()
            observation, reward, terminated, _, info = env.step(action)  # type: ignore[arg-type]
            assert time.perf_counter() - started < 5, f"{label} takes {time.perf_counter() - started:.1f} s"
            must_refuse = before["admissible"] is not None or action in TOO_LONG or not isinstance(action, str)
            assert not (must_refuse and info["valid"]), f"{label} is accepted"
            if not info["valid"]:
                assert observation.strip(), f"{label} is refused without a message"
                assert observation in env.observation_space and not _CONTROL & set(observation), f"{label}: bad message"
                assert reward <= 0 and not terminated, f"{label} is refused, yet earns {reward} or ends the episode"
                changed = [key for key in before if key not in ("valid", "obs_key") and info[key] != before[key]]
                assert not changed, f"{label} is refused, yet changes {changed}"
            else:
                _, before = env.reset(seed=5)


def admissible_actions_are_valid(subject: Subject) -> None:
    """Every listed action is accepted as it is listed, and stays the same when made canonical twice."""
    rng = np.random.default_rng(2)
    with subject.bare() as env:
        _, info = env.reset(seed=0)
        if info["admissible"] is None:
            raise Skip("this environment does not list its actions")
        for seed in range(3):
            _, info = env.reset(seed=seed)
            for _ in range(4):
                here = env.snapshot()
                for action in info["admissible"][:40]:
                    assert env.canonical(env.canonical(action)) == env.canonical(action), f"canonical({action!r}) moves"
                    observation, _, _, _, after = env.step(action)
                    assert after["valid"], f"{action!r} is listed and refused: {observation[:200]!r}"
                    env.restore(here)
                info = env.step(random_action(env, rng, info))[4]
                if not info["admissible"]:
                    break


def late_actions_are_refused(subject: Subject) -> None:
    """After the end, actions earn nothing and change nothing."""
    with subject.bare() as env:
        env.reset(seed=2)
        info = list(play(env, follow_oracle(env), subject.limit))[-1][4]
        _, reward, terminated, _, late = env.step("anything")
        assert (reward, terminated, late["valid"]) == (0.0, True, False), "an action after the end is not refused"
        assert late["state_key"] == info["state_key"], "an action after the end changes the state"


def step_limit_truncates(subject: Subject) -> None:
    """The registered limit truncates and nothing else does; `max_steps` shortens it and cannot lengthen it."""
    limits = {subject.limit: {}}
    if subject.accepts("max_steps"):
        limits[2] = {"max_steps": 2}
    for limit, kwargs in limits.items():
        env = subject.wrapped(**kwargs)
        env.reset(seed=4)
        for step in range(1, limit + 1):
            _, _, terminated, truncated, _ = env.step("")
            assert not terminated, "an empty action ends the episode"
            assert truncated == (step == limit), f"truncated={truncated} at step {step} of {limit}"
        env.close()
    if subject.accepts("max_steps") and subject.spec.id in gymnasium.registry:
        with subject.bare(max_steps=subject.limit + 1) as env:
            try:
                env.reset(seed=0)
            except InvalidArgument:
                return
        raise AssertionError("max_steps above the registered limit raises no InvalidArgument")


def _is(value: Any, hint: Any) -> bool:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return any(_is(value, option) for option in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return type(value) is tuple and all(type(item) is str for item in value)
    return type(value) is hint
