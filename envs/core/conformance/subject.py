"""What is checked, and how it is played: shared by all checks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from ..text_env import TextEnv

Record = tuple[str, float, bool, bool, dict[str, Any]]


class Skip(Exception):
    """Raised by a check that does not apply; the message says why."""


@dataclass(frozen=True)
class Subject:
    """The environment under test."""

    spec: EnvSpec
    episodes: int

    @property
    def limit(self) -> int:
        """The registered step limit."""
        return self.spec.max_episode_steps or 50

    def wrapped(self, **kwargs: Any) -> gymnasium.Env[str, str]:
        """As `gymnasium.make` gives it: checked, ordered, limited."""
        return gymnasium.make(self.spec, **kwargs)

    @contextmanager
    def bare(self, **kwargs: Any) -> Iterator[TextEnv]:
        """The environment without wrappers, closed at the end."""
        env = gymnasium.make(self.spec, disable_env_checker=True, **kwargs).unwrapped
        assert isinstance(env, TextEnv), f"{type(env).__name__} is no TextEnv"
        try:
            yield env
        finally:
            env.close()

    def accepts(self, argument: str) -> bool:
        """Whether the constructor has this argument."""
        with self.bare() as env:
            return argument in inspect.signature(type(env)).parameters


def play(env: TextEnv, policy: Callable[[str, dict[str, Any]], str], limit: int) -> Iterator[Record]:
    """The steps of an episode that has been reset, up to `limit`."""
    observation, info = env.restore(env.snapshot())
    for _ in range(limit):
        record = env.step(policy(observation, info))
        yield record
        observation, _, terminated, truncated, info = record
        if terminated or truncated:
            return


def follow_oracle(env: TextEnv) -> Callable[[str, dict[str, Any]], str]:
    """A policy that follows one run of the oracle, started at its first action."""
    running: list[Iterator[str]] = []

    def policy(observation: str, info: dict[str, Any]) -> str:
        if not running:
            running.append(iter(env.oracle()))
        return next(running[0], "")

    return policy


def random_action(env: Any, rng: np.random.Generator, info: dict[str, Any]) -> str:
    """An admissible action; where they are not listed, random text of the characters that the action space samples.

    Those leave out what lets a shell do two things at once, whose order no environment could repeat.
    """
    if info["admissible"]:
        return info["admissible"][int(rng.integers(len(info["admissible"])))]
    characters = env.action_space.character_list
    return "".join(characters[int(code)] for code in rng.integers(len(characters), size=int(rng.integers(1, 30))))


def trace(env: TextEnv, seed: int, steps: int) -> list[Any]:
    """One episode of scripted choices: random ones where actions are listed, else the oracle's and garbage."""
    rng = np.random.default_rng(seed)
    records: list[Any] = [env.reset(seed=seed)]
    info = records[0][1]
    for step in range(steps):
        follow = info["admissible"] is None and step % 3 != 2
        action = next(iter(env.oracle()), "") if follow else random_action(env, rng, info)
        record = env.step(action)
        records.append((action, record))
        info = record[4]
        if record[2] or record[3]:
            break
    return records


def difference(before: Any, after: Any) -> str:
    """The first place where two nested values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        pairs = [(key, before.get(key), after.get(key)) for key in {**before, **after}]
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple) and len(before) == len(after):
        pairs = [(index, *pair) for index, pair in enumerate(zip(before, after, strict=True))]
    else:
        return f"{str(before)[:200]!r} != {str(after)[:200]!r}"
    key, first, second = next((pair for pair in pairs if pair[1] != pair[2]), ("", before, after))
    return f"[{key}] {difference(first, second) if first is not before else 'equal'}"
