"""GiGPO: adds to the episode's advantage a step's, from comparing actions taken in the same state of a group.

Equations. Group of members i with returns R_i; turn k of member i starts in the anchor state s_ik.

    A_E[i]    = (R_i - mean R) / F            over the group, as GRPO
    G[i, k]   = sum over j >= k of gamma^(j-k) r[i, j]
    A_S[i, k] = (G[i, k] - mean G) / F        over all (j, l) of the same group with s_jl = s_ik
    A[i, k]   = A_E[i] + omega A_S[i, k]      for every unit of the turn's call
    F         = standard deviation + eps, or 1

From the paper (arXiv 2505.10978; formulas checked against the authors' code):
    - the two levels, their sum, F as an option, anchors by exact match inside one group
    - omega 1, gamma 0.95, 16 groups of 8; F the standard deviation on ALFWorld and 1 on WebShop

Our reading:
    - A_E counts every trajectory once. The released code counts every step, so that long episodes weigh more:
      `count="turn"` does that (a 2-step win and a 3-step loss have mean 0.4 then, not 0.5).
    - An anchor visited once, or whose returns to go are all equal, gives exactly 0.
    - Standard deviations use ddof 1.
    - `anchor="obs_key"` compares observation texts, as published, and so takes states that differ in what is not
      shown (an inventory) for one. `anchor="state_key"` compares full states.
    - No KL term and no penalty for invalid actions by default: published are k3 with 0.01 (`kl_coef=0.01`) and 0.1.
      With a penalty prefer `std=False`: the division turns a tiny spread in an all-fail group into +-1.

Defaults.

    option      ours      published
    omega       1.0       1.0
    gamma       0.95      0.95
    std         True      True on ALFWorld, False on WebShop
    anchor      obs_key   the observation's text
    count       trajectory  turn
    groups      16        16
    group_size  8         8
    lr          1e-4 (LoRA or tiny models)   1e-6 (full, 1.5B and 7B)

Command: `sandlot train --recipe gigpo --env sandlot/ALFWorld-v0`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...harness.records import Advantages, Group
from ..estimators import GRPO, by_anchor, episode_and_steps, in_unit_interval, normalise, one_of, returns_to_go
from ..methods import assemble
from ..recipe import Objective, Recipe


@dataclass(frozen=True)
class GiGPO:
    """A = A_E + omega A_S; see the module's docstring."""

    omega: float = 1.0
    """Weight of the step's advantage; 0 is GRPO."""
    gamma: float = 0.95
    """Discount per turn of the returns to go. The episode's return is not discounted."""
    std: bool = True
    """Divide both levels by their standard deviations."""
    anchor: str = "obs_key"
    """"obs_key" or "state_key"."""
    count: str = "trajectory"
    """"trajectory" or "turn", see `GRPO.count`."""
    eps: float = 1e-6
    ddof: int = 1

    def __post_init__(self) -> None:
        in_unit_interval("gamma", self.gamma)
        one_of("anchor", self.anchor, ("obs_key", "state_key"))

    def steps(self, group: Group) -> list[np.ndarray]:
        """A_S: `[member] -> (turns,)`."""
        to_go = [returns_to_go(member, self.gamma) for member in group.members]
        result = [np.zeros_like(row) for row in to_go]
        for places in by_anchor(group, self.anchor).values():
            values = np.array([to_go[i][k] for i, k in places])
            for (i, k), value in zip(places, normalise(values, std=self.std, eps=self.eps, ddof=self.ddof)):
                result[i][k] = value
        return result

    def __call__(self, groups: Sequence[Group]) -> Advantages:
        """Advantages of the groups."""
        episode = GRPO(std=self.std, eps=self.eps, ddof=self.ddof, count=self.count)
        return episode_and_steps(groups, episode, self.steps, self.omega)


def recipe(**options: Any) -> Recipe:
    """GiGPO; `options` are fields of `GiGPO`, `Objective` or `Recipe`."""
    return assemble("gigpo", GiGPO, options, objective=Objective(aggregation="trajectory"), group_size=8)
