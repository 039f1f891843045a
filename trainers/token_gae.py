"""Generalised advantage estimation over tokens: every sampled unit of an episode is a step, across its turns.

    delta_u = r_u + gamma v_{u+1} - v_u,   A_u = delta_u + gamma lam A_{u+1},   return_u = A_u + v_u

u runs over the policy's own units of the whole episode: what the environment said in between is skipped, so that the
value after a turn's last token is that of the next turn's first. A turn's reward falls on its last unit. What follows
the last unit is `estimators.value_after`. v_u is read where unit u was decided.
Source: arXiv 1506.02438; on skipping masked tokens: the multi-turn trainers' own notes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..envs.core.errors import InvalidArgument
from ..harness.packing import batch_indices
from ..harness.records import Advantages, Call, Group, Trajectory
from .estimators import check_gae, normalise, value_after

PerUnit = list[list[list[np.ndarray]]]  # [group][member][turn] -> (units,)


@dataclass
class TokenGAE:
    """GAE over units; the loop calls `prepare` first, which reads the critic."""

    gamma: float = 1.0
    """Discount per unit."""
    lam: float = 0.95
    whiten: bool = True
    """Whiten the advantages (not the returns) over all units of the batch."""
    eps: float = 1e-6
    ddof: int = 1
    bootstrap: bool = False
    """Let episodes that were cut go on in value (`estimators.value_after`). Only with `gamma` < 1."""
    returns: PerUnit = field(default_factory=list, init=False)
    """The critic's targets of the last call of the estimator."""
    values: PerUnit = field(default_factory=list, init=False)
    """What the critic said before the update, read by `prepare`."""

    def __post_init__(self) -> None:
        check_gae(self.gamma, self.lam, self.bootstrap)

    def prepare(self, policy: Any, groups: Sequence[Group]) -> None:
        """Read the critic's value of every unit.

        Raises:
            InvalidArgument: the policy has no critic.
        """
        calls = [call for group in groups for member in group.members for call in member.calls]
        read = iter(unit_values(policy, calls))
        self.values = [[[next(read) for _ in member.turns] for member in group.members] for group in groups]

    def __call__(self, groups: Sequence[Group]) -> Advantages:
        """Advantages of the groups; leaves the critic's targets in `returns`."""
        advantages: PerUnit = []
        self.returns = []
        for group, values in zip(groups, self.values, strict=True):
            pairs = [self.raw(member, turns) for member, turns in zip(group.members, values, strict=True)]
            advantages.append([advantage for advantage, _ in pairs])
            self.returns.append([target for _, target in pairs])
        if self.whiten:
            live = [
                turn
                for group, members in zip(groups, advantages)
                for member, turns in zip(group.members, members)
                for turn in ([] if member.void else turns)
            ]
            flat = normalise(np.concatenate([np.zeros(0), *live]), std=True, eps=self.eps, ddof=self.ddof)
            for turn, piece in zip(live, np.split(flat, np.cumsum([len(turn) for turn in live])[:-1])):
                turn[:] = piece
        return advantages

    def raw(self, member: Trajectory, values: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Per turn, (units,) advantages before whitening and (units,) returns; zeros for a void trajectory."""
        if not member.turns:
            return [], []
        sizes = [len(turn.call.logprobs) for turn in member.turns]
        v = np.concatenate([np.zeros(0), *values])
        rewards = np.zeros(len(v))
        ends = np.cumsum(sizes) - 1
        for turn, end in zip(member.turns, ends):
            if end >= 0:  # a turn without units pays into the unit before it
                rewards[end] += turn.reward
        advantages, ahead, following = np.zeros(len(v)), 0.0, value_after(member, self.bootstrap)
        for u in range(len(v) - 1, -1, -1):
            delta = rewards[u] + self.gamma * following - v[u]
            advantages[u] = ahead = delta + self.gamma * self.lam * ahead
            following = v[u]
        if member.void:
            advantages, v = np.zeros(len(v)), np.zeros(len(v))
        cuts = ends[:-1] + 1
        return [part.copy() for part in np.split(advantages, cuts)], list(np.split(advantages + v, cuts))


def unit_values(policy: Any, calls: Sequence[Call]) -> list[np.ndarray]:
    """Per call, the critic's (units,) float64 values of the states in which its units were decided; no gradient.

    Raises:
        InvalidArgument: the policy has no critic.
    """
    import torch

    result: list[np.ndarray] = [np.zeros(0)] * len(calls)
    limit = getattr(policy, "max_tokens", None)
    batches = [list(range(len(calls)))] if limit is None else batch_indices(calls, limit, share=True)
    for batch in batches:
        if not batch:
            continue
        with torch.no_grad():
            values = policy.evaluate([calls[i] for i in batch]).unit_values
        if values is None:
            raise InvalidArgument("advantages over tokens need a critic: set Recipe(critic=True)")
        sizes = np.cumsum([len(calls[i].logprobs) for i in batch])[:-1]
        for i, part in zip(batch, np.split(values.cpu().double().numpy(), sizes)):
            result[i] = part
    return result
