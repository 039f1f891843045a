"""Gymnasium wrappers for text: a window of history, actions read from model output, choice among listed actions."""

from __future__ import annotations

import json
import re
import zlib
from collections import deque
from typing import Any, SupportsFloat, cast

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.utils import RecordConstructorArgs

from .errors import InvalidArgument
from .spaces import UnicodeText
from .text_env import printable, text_key

FORMATS = ("tags", "json")
OPEN, CLOSE = "<action>", "</action>"
_LONGEST_JSON = 100_000  # characters of a completion; more is no answer
_MOST_OBJECTS = 32  # opening braces that are tried, from the end
_SHOWN_ACTION = 300  # characters of an action in the history
_WORD = re.compile(r"\w+")

Step = tuple[str, SupportsFloat, bool, bool, dict[str, Any]]


class HistoryWrapper(gymnasium.Wrapper[str, str, str, str], RecordConstructorArgs):
    """Observations hold the task and the last turns: `Task: …`, then per turn `> action` and what was answered.

    For policies without memory of their own. `info["obs_key"]` is the key of the whole text.

    Args:
        env: a text environment.
        turns: how many observations are shown, the current one included.
        task: whether `info["instruction"]` stands first.
    """

    def __init__(self, env: gymnasium.Env[str, str], turns: int = 4, task: bool = True) -> None:
        if not isinstance(turns, int) or turns < 1:
            raise InvalidArgument(f"turns must be a positive integer, not {turns!r}")
        RecordConstructorArgs.__init__(self, turns=turns, task=task)
        gymnasium.Wrapper.__init__(self, env)
        longest = getattr(env.observation_space, "max_length", 16_384)
        self.observation_space = UnicodeText((turns + 1) * (longest + _SHOWN_ACTION + 10))
        self._task = task
        self._turns: deque[str] = deque(maxlen=turns)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode with an empty history."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._turns.clear()
        return self._remember(observation, info)

    def step(self, action: str) -> Step:
        """Take a turn and remember it."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        shown = printable(str(action)[:_SHOWN_ACTION])
        observation, info = self._remember(f"> {shown}\n{observation}", info)
        return observation, reward, terminated, truncated, info

    def _remember(self, turn: str, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        self._turns.append(turn)
        head = [f"Task: {info['instruction']}"] if self._task and info["instruction"] else []
        text = "\n".join([*head, *self._turns])
        return text, {**info, "obs_key": text_key(text)}


class ActionParser(gymnasium.Wrapper[str, str, str, str], RecordConstructorArgs):
    """Reads the action out of a model's output, so that it may think aloud before it acts.

    `format="tags"` takes the last `<action>…</action>`, `format="json"` the last object with a text under "action".
    Output without one costs a step, changes nothing, and is answered with what was expected
    (`info["valid"]` is False). `info["action"]` is what was read, or None.

    Args:
        env: a text environment.
        format: "tags" or "json".
    """

    def __init__(self, env: gymnasium.Env[str, str], format: str = "tags") -> None:
        if format not in FORMATS:
            raise InvalidArgument(f"format must be one of {', '.join(FORMATS)}, not {format!r}")
        RecordConstructorArgs.__init__(self, format=format)
        gymnasium.Wrapper.__init__(self, env)
        self._parse, self._expected = {
            "tags": (parse_tags, f"Write the action as {OPEN}…{CLOSE}."),
            "json": (parse_json, 'Write the action as {"action": "…"}.'),
        }[format]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, {**info, "action": None}

    def step(self, action: str) -> Step:
        """Take the action that the output holds."""
        found = self._parse(action) if isinstance(action, str) else None
        # The empty action is how an environment is told of a turn without an action.
        observation, reward, terminated, truncated, info = self.env.step("" if found is None else found)
        info = {**info, "action": found}
        if found is None and not terminated:
            observation = f"No action was found. {self._expected}\n{observation}"[: self._longest()]
            info |= {"valid": False, "obs_key": text_key(observation)}
        return observation, reward, terminated, truncated, info

    def _longest(self) -> int:
        return getattr(self.observation_space, "max_length", 16_384)


def parse_tags(output: str) -> str | None:
    """The text in the last complete `<action>…</action>`, stripped; None where there is none or it is empty."""
    stop = output.rfind(CLOSE)
    start = output.rfind(OPEN, 0, max(stop, 0))
    return output[start + len(OPEN) : stop].strip() or None if start >= 0 else None


def parse_json(output: str) -> str | None:
    """The text under "action" in the last JSON object that has one, stripped; None where there is none."""
    if len(output) > _LONGEST_JSON:
        return None
    decoder, start = json.JSONDecoder(), len(output)
    for _ in range(_MOST_OBJECTS):
        start = output.rfind("{", 0, start)
        if start < 0:
            return None
        try:
            found, _ = decoder.raw_decode(output, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(found.get("action"), str):
            return found["action"].strip() or None
    return None


class AdmissibleChoice(gymnasium.Wrapper[np.ndarray, np.int64, str, str], RecordConstructorArgs):
    """The listed actions as `Discrete(n)` and texts as a hashed vector: what classic RL libraries can train on.

    The action is an index into the `info["admissible"]` of the turn before; one beyond its end is invalid. The vector
    has one half for the words of task and observation and one for the words of the listed actions with their places.
    `info["action_mask"]` is an (n,) int8 array, which `action_space.sample(mask)` takes; `action_masks()` is the
    same as (n,) bool, which Stable-Baselines3's maskable PPO asks for.

    Args:
        env: a text environment that lists its actions.
        n: the most actions that are listed at once.
        features: length of the vector, even.
    """

    def __init__(self, env: gymnasium.Env[str, str], n: int = 64, features: int = 512) -> None:
        if n < 1 or features < 2 or features % 2:
            raise InvalidArgument(f"n must be positive and features positive and even, not {n} and {features}")
        RecordConstructorArgs.__init__(self, n=n, features=features)
        gymnasium.Wrapper.__init__(self, env)
        self.action_space = Discrete(n)
        self.observation_space = Box(0.0, 1.0, (features,), np.float32)
        self._listed: tuple[str, ...] = ()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode.

        Raises:
            InvalidArgument: the environment does not list its actions, or lists more than `n`.
        """
        observation, info = self._texts().reset(seed=seed, options=options)
        return self._convert(observation, info)

    def step(self, action: np.int64) -> tuple[np.ndarray, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take the action at this place of the list."""
        text = self._listed[int(action)] if 0 <= int(action) < len(self._listed) else ""
        observation, reward, terminated, truncated, info = self._texts().step(text)
        vector, info = self._convert(observation, info)
        return vector, reward, terminated, truncated, info

    def action_masks(self) -> np.ndarray:
        """(n,) bool: which indices can be chosen now."""
        return np.arange(self.action_space.n) < len(self._listed)  # type: ignore[attr-defined]

    def _texts(self) -> gymnasium.Env[str, str]:
        return cast("gymnasium.Env[str, str]", self.env)  # Gymnasium does not declare the type of its attribute

    def _convert(self, observation: str, info: dict[str, Any]) -> tuple[np.ndarray, dict[str, Any]]:
        listed = info["admissible"]
        most = int(self.action_space.n)  # type: ignore[attr-defined]
        if listed is None:
            raise InvalidArgument(f"{self.unwrapped} does not list its actions: AdmissibleChoice cannot be used")
        if len(listed) > most:
            raise InvalidArgument(f"{len(listed)} actions are listed, AdmissibleChoice has n={most}: pass a larger n")
        self._listed = listed
        half = self.observation_space.shape[0] // 2  # type: ignore[index]
        vector = np.zeros(2 * half, dtype=np.float32)
        vector[[_place(word, half) for word in _words(f"{info['instruction']} {observation}")]] = 1.0
        vector[[half + _place(f"{i} {word}", half) for i, action in enumerate(listed) for word in _words(action)]] = 1.0
        return vector, {**info, "action_mask": self.action_masks().astype(np.int8)}


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def _place(word: str, size: int) -> int:
    """A place in `0 .. size-1`, the same in every process."""
    return zlib.crc32(word.encode("utf-8", "surrogatepass")) % size
