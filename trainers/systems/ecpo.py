"""ECPO: step credit that shrinks for rarely tried actions and fades where returns vary inside an action.

Equations. All visits of one anchor state inside one group: N visits with returns to go G_v and actions a_v; action a
was taken n_a times with mean return G_a; mu is the mean over all visits.

    shrunk mean    m_a    = (n_a G_a + kappa mu) / (n_a + kappa)
    action credit  C_a    = m_a - mu = n_a / (n_a + kappa) (G_a - mu)
    between        V_b    = sum over a of n_a (G_a - mu)^2 / N
    within         V_w    = sum over v of (G_v - G_{a_v})^2 / N
    reliability    rho    = V_b / (V_b + V_w + eps)
    A[i, k]               = A_GRPO[i] + omega rho C_{a_ik}      for every unit of the turn's call

From the paper (arXiv 2606.05885, known to us through its abstract and a third-party note that confirms formulas):
    - the shrunk mean, kappa 2, and the combination A_GRPO + omega rho C; omega 1
    - PPO's clipped loss

Our reading:
    - rho: the paper mutes anchors where returns vary inside an action; this share of explained variance is ours
    - gamma 0.95, groups of 8 and anchors by observation, all as GiGPO
    - an anchor visited once, with a single action, or with equal returns gives exactly 0
    - A_GRPO with the standard deviation (ddof 1); the step term is never divided by one

Where the action alone decides, the shrinkage makes ECPO's credit smaller than the true advantage: the gain is that
anchors that are noise weigh less.

Defaults.

    option      ours      published
    omega       1.0       1.0
    kappa       2.0       2.0
    gamma       0.95      not seen
    std         True      not seen
    anchor      obs_key   not seen
    groups      16        not seen
    group_size  8         not seen

Command: `sandlot train --recipe ecpo --env sandlot/ALFWorld-v0`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...envs.core.errors import InvalidArgument
from ...harness.records import Advantages, Group
from ..estimators import GRPO, by_anchor, episode_and_steps, in_unit_interval, one_of, returns_to_go
from ..methods import assemble
from ..recipe import Objective, Recipe


def action_credit(actions: Sequence[str], returns: np.ndarray, kappa: float, eps: float = 1e-8) -> np.ndarray:
    """(visits,) rho C_a for the visits of one anchor.

    Args:
        actions: the canonical action of each visit.
        returns: (visits,) returns to go.
        kappa: pseudo-visits that pull an action's mean towards the anchor's.
        eps: added to the variances' sum.
    """
    number = {action: i for i, action in enumerate(dict.fromkeys(actions))}
    which = np.array([number[action] for action in actions])
    counts = np.bincount(which)
    if len(counts) < 2 or np.ptp(returns) == 0:
        return np.zeros(len(returns))
    mean = returns.mean()
    gaps = np.bincount(which, weights=returns - mean) / counts  # G_a - mu
    between = (gaps[which] ** 2).mean()
    within = ((returns - mean - gaps[which]) ** 2).mean()
    credit = between / (between + within + eps) * counts / (counts + kappa) * gaps
    return credit[which]


@dataclass(frozen=True)
class ECPO:
    """A = A_GRPO + omega rho C; see the module's docstring."""

    omega: float = 1.0
    """Weight of the action's credit; 0 is GRPO."""
    kappa: float = 2.0
    """Pseudo-visits of the shrinkage; 0 takes action means as they are."""
    gamma: float = 0.95
    """Discount per turn of the returns to go. The episode's return is not discounted."""
    std: bool = True
    """Divide the episode's advantage by the group's standard deviation."""
    anchor: str = "obs_key"
    """"obs_key" or "state_key"."""
    count: str = "trajectory"
    """"trajectory" or "turn", see `GRPO.count`."""
    eps: float = 1e-6
    ddof: int = 1

    def __post_init__(self) -> None:
        in_unit_interval("gamma", self.gamma)
        one_of("anchor", self.anchor, ("obs_key", "state_key"))
        if self.kappa < 0:
            raise InvalidArgument(f"kappa must not be negative, not {self.kappa!r}")

    def steps(self, group: Group) -> list[np.ndarray]:
        """Rho C_a: `[member] -> (turns,)`."""
        to_go = [returns_to_go(member, self.gamma) for member in group.members]
        result = [np.zeros_like(row) for row in to_go]
        for places in by_anchor(group, self.anchor).values():
            actions = [group.members[i].turns[k].action for i, k in places]
            credit = action_credit(actions, np.array([to_go[i][k] for i, k in places]), self.kappa)
            for (i, k), value in zip(places, credit, strict=True):
                result[i][k] = value
        return result

    def __call__(self, groups: Sequence[Group]) -> Advantages:
        """Advantages of the groups."""
        episode = GRPO(std=self.std, eps=self.eps, ddof=self.ddof, count=self.count)
        return episode_and_steps(groups, episode, self.steps, self.omega)


def recipe(**options: Any) -> Recipe:
    """ECPO; `options` are fields of `ECPO`, `Objective` or `Recipe`."""
    return assemble("ecpo", ECPO, options, objective=Objective(aggregation="trajectory"), group_size=8)
