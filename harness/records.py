"""What is recorded: calls, turns, trajectories, groups. Everything that trains, scores or shows episodes reads these.

The unit is the `Call`: one request to a model, with the exact token ids in and out and the log-probabilities under
which they were sampled. Planners, memory writers and judges are calls with another role. Token ids are recorded and
never made again from text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from ..envs.core.tasks import Task

__all__ = ["Call", "Context", "Group", "Message", "StopReason", "Task", "Trajectory", "Turn"]

Span = tuple[int, int]  # [start, stop) in completion tokens


class StopReason(StrEnum):
    """Why an episode ended."""

    TERMINATED = "terminated"
    """The environment ended the task."""
    STEP_LIMIT = "step_limit"
    """The registered (or asked-for) number of steps is used up."""
    DEADLINE = "deadline"
    """The episode's wall-clock budget is used up."""
    CONTEXT = "context"
    """The prompt no longer fits the policy's context window."""
    FAULT = "fault"
    """The infrastructure failed on every try; the trajectory is void and never scored."""


@dataclass(frozen=True, slots=True)
class Message:
    """One piece of a prompt."""

    role: str
    """"system", "user" (the environment speaks) or "assistant" (a policy's own earlier completion)."""
    text: str
    call: str | None = None
    """For an assistant message, the id of the call that produced it: its recorded tokens are used verbatim."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a policy is asked with: messages, and what it may choose from.

    A context that extends an earlier one of the same session message by message shares its token prefix (and its
    cache); one that rewrites history starts a new branch.
    """

    messages: tuple[Message, ...]
    admissible: tuple[str, ...] | None = None
    session: str = ""
    """Calls of one session grow one history; usually the episode's id."""
    role: str = "actor"
    state_key: str = ""
    obs_key: str = ""


@dataclass(slots=True)
class Call:
    """One request to a model.

    The *units* of a call are its sampled decisions: the completion's tokens, or the one choice among `choices`.
    `logprobs`, advantages and loss weights have one entry per unit.
    """

    id: str
    context: Context
    text: str
    """The completion as text, reasoning included."""
    logprobs: np.ndarray
    """(units,) float32: log-probabilities under the distribution that was sampled from (temperature included)."""
    prompt_ids: tuple[int, ...] = ()
    completion_ids: tuple[int, ...] = ()
    """Sampled ids, verbatim, the stop token included. Empty for policies without tokens."""
    allowed: tuple[tuple[int, ...], ...] | None = None
    """Constrained decoding and `top_p` < 1: per completion token, the ids that the sampler could choose from. None: all
    of them."""
    choices: tuple[Any, ...] | None = None
    """Choice decoding: the candidates (token-id tuples, or action texts for policies without tokens)."""
    choice: int = -1
    """Index into `choices`, or -1."""
    spans: dict[str, tuple[Span, ...]] = field(default_factory=dict)
    """Named token spans of the completion: "action", "think", "args" …"""
    temperature: float = 1.0
    value: float | None = None
    """The critic's value of the state before the call, if the policy has a critic."""
    version: int = 0
    """The policy's weight version when this was sampled."""
    finish: str = "stop"
    """"stop", "length" (cut at the token limit, or at `harness.policy.MAX_TEXT` characters), "choice", or "context"
    (the prompt did not fit: no completion)."""
    parent: str | None = None
    """The call that asked for this one (sub-agents), or None."""

    @property
    def role(self) -> str:
        """The context's role."""
        return self.context.role

    @property
    def session(self) -> str:
        """The context's session."""
        return self.context.session


@dataclass(slots=True)
class Turn:
    """A call, the action it led to, and what the environment answered."""

    call: Call
    action: str
    """What was sent to the environment (canonical form)."""
    observation: str
    """The observation after the action."""
    reward: float
    info: dict[str, Any]
    """The environment's info after the action."""
    state_key: str
    """Key of the state *before* the action: the anchor of step-level credit."""
    obs_key: str
    """Key of the observation before the action."""
    seconds: float = 0.0
    """Time in the environment's step."""

    @property
    def valid(self) -> bool:
        """Whether the environment accepted the action."""
        return bool(self.info["valid"])


@dataclass(slots=True)
class Trajectory:
    """One episode."""

    id: str
    env_id: str
    task: Task
    first_observation: str
    first_info: dict[str, Any]
    turns: list[Turn]
    stop: StopReason
    seed: int = 0
    mode: str = "explore"
    """Which arm of a group this is: "explore", "hint", "skill", "anchor" …"""
    metrics: dict[str, float] = field(default_factory=dict)
    error: str | None = None
    tries: int = 1

    @property
    def reward(self) -> float:
        """The undiscounted return: the sum of the turns' rewards."""
        return float(sum(turn.reward for turn in self.turns))

    @property
    def rewards(self) -> np.ndarray:
        """(turns,) float64."""
        return np.array([turn.reward for turn in self.turns], dtype=np.float64)

    @property
    def last_info(self) -> dict[str, Any]:
        """The environment's last info."""
        return self.turns[-1].info if self.turns else self.first_info

    @property
    def success(self) -> bool:
        """Whether the task was solved."""
        return bool(self.last_info.get("success", False))

    @property
    def calls(self) -> Iterator[Call]:
        """The calls behind the turns, in order."""
        return (turn.call for turn in self.turns)

    @property
    def void(self) -> bool:
        """True where the infrastructure failed: nothing may be learned or concluded from it."""
        return self.stop is StopReason.FAULT


@dataclass(slots=True)
class Group:
    """The trajectories of one task under one policy version: what group-relative methods compare."""

    task: Task
    members: list[Trajectory]
    version: int = 0
    mode: str = "explore"

    @property
    def rewards(self) -> np.ndarray:
        """(members,) float64 returns."""
        return np.array([member.reward for member in self.members], dtype=np.float64)


# [group][member][turn] -> (units,) float: one array per call, as estimators return them.
Advantages = Sequence[Sequence[Sequence[np.ndarray]]]
