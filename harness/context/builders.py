"""Context builders that keep messages: the whole history, or a window of it with the task always in view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ...envs.core.errors import InvalidArgument
from ..records import Call, Message


class ContextBuilder(Protocol):
    """Turns one episode's history into the messages of the next call. One instance serves one episode."""

    def start(self, observation: str, info: Mapping[str, Any]) -> None:
        """The episode begins."""
        ...

    def record(self, call: Call, action: str, observation: str, info: Mapping[str, Any]) -> None:
        """A turn was played."""
        ...

    def render(self) -> tuple[Message, ...]:
        """The messages of the next call."""
        ...


MakeContext = Callable[[], ContextBuilder]


class FullHistory:
    """Everything that was said, in order. The prompt only grows, so caches and training sequences share it.

    Args:
        system: a system message put first, or None.
        list_actions: add the admissible actions to every observation (longer prompts; for policies that write text).
        remind: repeat the instruction after every observation, so that a small model finds it at a fixed distance.
    """

    def __init__(self, system: str | None = None, *, list_actions: bool = False, remind: bool = False) -> None:
        self.system = system
        self.list_actions = list_actions
        self.remind = remind
        self.instruction = ""
        self.head: tuple[Message, ...] = ()
        self.pairs: list[tuple[Message, Message]] = []

    def start(self, observation: str, info: Mapping[str, Any]) -> None:
        """Keep the task: the first observation, with the instruction in front unless it is already part of it."""
        instruction = info.get("instruction") or ""
        if instruction and instruction not in observation:
            observation = f"{instruction}\n\n{observation}"
        self.instruction = instruction
        head = [Message("system", self.system)] if self.system else []
        self.head = (*head, Message("user", self._show(observation, info)))
        self.pairs = []

    def record(self, call: Call, action: str, observation: str, info: Mapping[str, Any]) -> None:
        """Keep the completion (by its call, so that its tokens are used verbatim) and what followed."""
        self.pairs.append((Message("assistant", call.text, call.id), Message("user", self._show(observation, info))))

    def render(self) -> tuple[Message, ...]:
        """Task, then all turns."""
        return (*self.head, *(message for pair in self.pairs for message in pair))

    def _show(self, observation: str, info: Mapping[str, Any]) -> str:
        admissible = info.get("admissible")
        if self.list_actions and admissible:
            observation = f"{observation}\n\nActions: {'; '.join(admissible)}"
        return f"{observation}\nTask: {self.instruction}" if self.remind and self.instruction else observation


class Window(FullHistory):
    """The task and the last `turns` turns. Older turns are dropped, so each call starts a new branch once it slides.

    Args:
        turns: how many past turns are shown; 0 shows the task and the newest observation only.
        system: as in `FullHistory`.
        list_actions: as in `FullHistory`.
        remind: as in `FullHistory`.
        brief: of the task keep the instruction only, in front of the oldest observation shown; the first observation
            slides out like the others.
    """

    def __init__(
        self,
        turns: int,
        system: str | None = None,
        *,
        list_actions: bool = False,
        remind: bool = False,
        brief: bool = False,
    ) -> None:
        super().__init__(system, list_actions=list_actions, remind=remind)
        self.turns = turns
        self.brief = brief

    def render(self) -> tuple[Message, ...]:
        """Task, then the window. With 0 turns the newest observation follows the task directly."""
        kept = self.pairs[-self.turns :] if self.turns else []
        dropped = self.pairs[: len(self.pairs) - len(kept)]
        said = [message for pair in kept for message in pair]
        if not self.brief:
            newest = [self.pairs[-1][1]] if dropped and not kept else []
            return (*self.head, *newest, *said)
        oldest = dropped[-1][1].text if dropped else self.head[-1].text
        if self.instruction and self.instruction not in oldest:
            oldest = f"{self.instruction}\n\n{oldest}"
        return (*self.head[:-1], Message("user", oldest), *said)


@dataclass(frozen=True)
class History:
    """Settings of the builders above as one value: calling it makes a builder for one episode."""

    window: int | None = None
    """Past turns in the prompt; None keeps the whole history."""
    brief: bool = False
    """With a window: of the task keep the instruction only."""
    remind: bool = False
    """Repeat the instruction after every observation."""
    list_actions: bool = False
    """Add the admissible actions to every observation."""
    system: str | None = None
    """A system message put first."""

    def __post_init__(self) -> None:
        if self.window is not None and (not isinstance(self.window, int) or self.window < 0):
            raise InvalidArgument(f"window must be a number of turns, 0 or more, not {self.window!r}")

    def __call__(self) -> ContextBuilder:
        """A builder for one episode."""
        options = {"system": self.system, "list_actions": self.list_actions, "remind": self.remind}
        return FullHistory(**options) if self.window is None else Window(self.window, brief=self.brief, **options)
