"""Shapers and filters that any recipe can use: what too long an answer costs, and whether a cut episode teaches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..envs.core.errors import InvalidArgument
from ..harness.records import Advantages, Group, StopReason


@dataclass(frozen=True)
class Overlong:
    """DAPO's soft punishment of long answers, per call, taken from its turn's reward.

    With n the completion's tokens, L = `limit` and c = `buffer`:

        0                  n <= L - c
        ((L - c) - n) / c  L - c < n <= L        (falls from 0 to -1)
        -1                 n > L

    Calls without tokens cost nothing. Source: arXiv 2503.14476, section 3.4.
    """

    limit: int
    """L_max, tokens per call: normally the sampler's `max_tokens`."""
    buffer: int
    """L_cache, tokens over which the punishment rises."""
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.buffer <= self.limit:
            raise InvalidArgument(f"0 < buffer <= limit is needed, not buffer={self.buffer}, limit={self.limit}")

    def penalty(self, tokens: int) -> float:
        """The punishment of one completion, in [-1, 0]."""
        return -float(np.clip((tokens - (self.limit - self.buffer)) / self.buffer, 0.0, 1.0))

    def __call__(self, groups: Sequence[Group]) -> None:
        """Shape the groups' rewards."""
        for turn in (turn for group in groups for member in group.members for turn in member.turns):
            turn.reward += self.scale * self.penalty(len(turn.call.completion_ids))


@dataclass(frozen=True)
class SkipCut:
    """A modulator: zeros for episodes that were cut off (step limit, deadline, context, an answer at the token limit).

    DAPO's overlong filtering: whether such an episode was good is not known. Source: arXiv 2503.14476, section 3.4.
    """

    def __call__(self, advantages: Advantages, groups: Sequence[Group], scorer: Any) -> Advantages:
        """The changed advantages."""
        return [
            [
                [np.zeros_like(units) for units in turns] if self._cut(member) else turns
                for member, turns in zip(group.members, members, strict=True)
            ]
            for group, members in zip(groups, advantages, strict=True)
        ]

    @staticmethod
    def _cut(member: Any) -> bool:
        return member.stop is not StopReason.TERMINATED or any(call.finish == "length" for call in member.calls)
