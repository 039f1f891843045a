"""The original engine: `textworld`'s PDDL environment under `alfworld`'s naming wrapper, behind a few methods.

Kept in check: the PDDL translator overwrites `sys.argv`, swaps `sys.stdout` and keeps its settings in modules (hence
the lock); every environment loads its own copy of a 33 MB library, and unloading one while others are loaded crashes
the process at its end (hence `close` keeps it for the next engine); importing `alfworld` sets `$ALFWORLD_DATA` for the
whole process (put back here).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..core.errors import EnvironmentFault, MissingExtra

_TRANSLATOR = threading.RLock()
_IDLE: list[Any] = []  # environments of closed engines, library loaded, no game


class TextWorldEngine:
    """Plays one game after another. Raises `MissingExtra` where the packages are not installed."""

    def __init__(self) -> None:
        with _contained():
            self._env: Any = _IDLE.pop() if _IDLE else _make()
        self._state: Any = None

    def start(self, data: Mapping[str, Any]) -> str:
        """Begin the game in the content of a `game.tw-pddl`; returns the first observation.

        Raises:
            EnvironmentFault: the original stack could not load it.
        """
        try:
            with _contained():
                self._env.load(dict(data))
                self._state = self._env.reset()
        except Exception as error:
            raise EnvironmentFault(f"textworld could not start the game: {error!r}") from error
        return self._state.feedback

    def step(self, command: str) -> str:
        """Carry out a command; returns the observation. Raises `EnvironmentFault` where the stack breaks."""
        try:
            self._state, *_ = self._env.step(command)
        except Exception as error:
            raise EnvironmentFault(f"textworld broke on {command!r}: {error!r}") from error
        return self._state.feedback

    def admissible(self) -> tuple[str, ...]:
        """The commands in alphabetical order, "help" included."""
        return tuple(self._state["admissible_commands"])

    @property
    def won(self) -> bool:
        """Whether the goal holds."""
        return bool(self._state["won"])

    @property
    def outcome(self) -> tuple[float, bool]:
        """(score, done) as the engine reports them; (0, False) before the first step."""
        return float(self._state["score"] or 0), bool(self._state["done"])

    def close(self) -> None:
        """Free the game and give the planner's library back for the next engine."""
        if self._env is None:
            return
        original = self._env.unwrapped
        with _contained():
            original.downward_lib.cleanup()
            original.state = original.prev_state = original._pddl_state = original._logic = None
            original._entity_infos = original._game_data = None
            _IDLE.append(self._env)
        self._env = self._state = None


def _make() -> Any:
    try:
        import textworld
        from textworld.envs import PddlEnv
    except ImportError:
        raise MissingExtra("textworld", "alfworld") from None
    try:
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    except ImportError:
        raise MissingExtra("alfworld", "alfworld") from None
    try:
        original = PddlEnv(textworld.EnvInfos(won=True, admissible_commands=True))
    except ImportError:
        raise MissingExtra("fast_downward_textworld", "alfworld") from None
    return AlfredDemangler(original, shuffle=False)


@contextmanager
def _contained() -> Iterator[None]:
    """Put back what the original stack changes in the process."""
    with _TRANSLATOR:
        arguments, output, folder = sys.argv, sys.stdout, os.environ.get("ALFWORLD_DATA")
        try:
            yield
        finally:
            sys.argv, sys.stdout = arguments, output
            if folder is None:
                os.environ.pop("ALFWORLD_DATA", None)
