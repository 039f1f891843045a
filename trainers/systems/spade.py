"""SPADE: a designer writes environments and is paid by what a hint is worth in them; the solver learns there by GRPO.

Equations. Program e is played n times with its hint shown and n times without; R_hint and R_plain are mean scores.

    regret(e)    = clip(R_hint - R_plain, 0, 1)
    R_design(e)  = -penalty                      where the gates refuse e
                 = 0                             where R_hint < feasible (nobody could solve it)
                 = regret(e) + beta (1 - largest likeness to a known program)     else
    solver       A_i = (R_i - mean R) / (std + eps) over the plain episodes of one task
    designer     the same over the designs of one step

Both roles learn in every step: the solver from this step's plain episodes, the designer from what its last designs
were worth in them. Designs enter a pool through the gates; a step plays the new ones and draws the rest of its programs
in proportion to 4 p (1 - p), p being the recent mean score without the hint. Solved programs are retired.

From the paper (arXiv 2608.19197, known to us through its abstract and one code file):
    - a designer that writes reset/step code, a solver, regret from privileged hints, documents as grounding,
      accumulated environment memory, and that designs must stay feasible

Our reading:
    - penalty .5, feasible .5, beta .1 and likeness by the structure of the code; GRPO for both roles
    - the gates (`envs/selfplay/gates.py`) as what makes a design valid; the pool draws what is half known, because
      groups teach only where their members differ
    - episodes with the hint are for measuring: the solver learns nothing from them
    - hint=False (an ablation): R_hint is 1, as if the reference solution stood for it, so that the hardest pays most

The sampler owns the pool and the designer, and is the recipe's replay too (`trainers/codesign.py`).

Defaults.

    option      ours     published
    designer    grammar  the model that is trained ("model")
    designs     4        not seen
    instances   1        not seen
    hinted      8        not seen
    hint        True     True; False: no hint
    memory      True     True; False: no memory
    fixed_pool  False    False; True: only the programs that are there at the start
    groups      8        not seen
    group_size  8        not seen

Command: `sandlot train --recipe spade --env SelfPlay -k pool=POOL` (make POOL with `sandlot pool import starter POOL`)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np

from ...envs.selfplay.statistics import FEASIBLE, regret
from ...harness.records import Advantages, Group
from ..codesign import HINT, Codesign, CodesignSettings
from ..estimators import GRPO
from ..methods import assemble
from ..recipe import Objective, Recipe

T = TypeVar("T")


@dataclass(frozen=True)
class SPADE(GRPO):
    """GRPO for both roles; see the module's docstring."""

    def __call__(self, groups: Sequence[Group]) -> Advantages:
        """Advantages of the groups; zeros for those that showed the hint."""
        found = super().__call__(groups)
        return [
            rows if group.mode != HINT else [[np.zeros_like(turn) for turn in member] for member in rows]
            for rows, group in zip(found, groups, strict=True)
        ]


@dataclass(frozen=True)
class DesignReward:
    """R_design of a design that passed the gates."""

    feasible: float = FEASIBLE
    """A design whose hinted episodes reach less on average earns nothing."""
    beta: float = 0.1
    """Weight of novelty."""

    def __call__(self, hinted: float, plain: float, novelty: float) -> float:
        """The reward, from mean scores with the hint and without, and novelty in [0, 1]."""
        return regret(hinted, plain) + self.beta * novelty if hinted >= self.feasible else 0.0


def recipe(**options: Any) -> Recipe:
    """SPADE; `options` are fields of `SPADE`, `CodesignSettings`, `DesignReward`, `Objective` or `Recipe`."""
    also = [part.name for kind in (CodesignSettings, DesignReward) for part in fields(kind)]
    codesign = Codesign(_part(CodesignSettings, options), _part(DesignReward, options))
    parts: dict[str, Any] = {"make_sampler": codesign.start, "replay": codesign, "groups": 8, "group_size": 8}
    return assemble("spade", SPADE, options, objective=Objective(aggregation="trajectory"), also=also, **parts)


def _part(kind: Callable[..., T], options: dict[str, Any]) -> T:
    """A dataclass from those options that are its fields; they are taken out."""
    names = [part.name for part in fields(kind) if part.name in options]  # type: ignore[arg-type]
    return kind(**{name: options.pop(name) for name in names})
