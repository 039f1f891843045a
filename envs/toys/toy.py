"""`Toy`: what the small exact MDPs have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from ..core.errors import InvalidArgument
from ..core.tasks import Task
from ..core.text_env import Outcome, TextEnv


class Toy(TextEnv):
    """An environment whose whole state is one immutable value, and whose optimum is known.

    `state` is a tuple of numbers, strings, booleans and such tuples, so that its `repr` is its canonical form.
    """

    waits: ClassVar[bool] = False
    state: tuple[Any, ...] = ()

    @abstractmethod
    def start(self, task: Task) -> tuple[Any, ...]:
        """The first state of `task`."""

    @abstractmethod
    def describe(self) -> str:
        """The observation of the current state."""

    @abstractmethod
    def actions(self) -> tuple[str, ...]:
        """The valid actions of the current state, which has not ended."""

    @abstractmethod
    def apply(self, action: str) -> Outcome:
        """Carry out one of `actions()`."""

    @abstractmethod
    def optimal_value(self) -> float:
        """Undiscounted expected return from the start of the best policy: it knows the task, but no future chance.

        The step limit is taken to be long enough for it; each class says what its registered limit allows.
        """

    def canonical(self, action: str) -> str:
        """The action in lower case with single spaces."""
        return " ".join(action.lower().split())

    def _reset(self, task: Task) -> str:
        self.state = self.start(task)
        return self.describe()

    def _step(self, action: str) -> Outcome:
        chosen = self.canonical(action)
        if chosen not in self.actions():
            return self.refuse(f"That is not possible here. Choose from: {', '.join(self.actions())}.")
        return self.apply(chosen)

    def refuse(self, reason: str) -> Outcome:
        """The answer to an invalid action: the reason, then the unchanged state."""
        return Outcome(f"{reason}\n{self.describe()}", valid=False)

    def _admissible(self) -> tuple[str, ...]:
        return () if self._ended else self.actions()

    def _state(self) -> str:
        return repr(self.state)

    def _save(self) -> tuple[Any, ...]:
        return self.state

    def _load(self, state: tuple[Any, ...]) -> None:
        self.state = state


def check_size(name: str, value: int, low: int, high: int) -> int:
    """`value` itself. Raises `InvalidArgument` where it is not an integer in `low .. high`."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidArgument(f"{name} must be an integer from {low} to {high}, not {value!r}")
    return value
