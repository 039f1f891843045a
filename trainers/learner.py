"""`Learner`: groups and advantages in, moved weights out. Any policy that evaluates recorded calls can learn here."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..harness.packing import batch_indices
from ..harness.records import Advantages, Call, Group
from .objective import Batch, merge, policy_loss, unit_weights
from .recipe import Recipe, Trainable
from .updater import SumUpdater


@dataclass(slots=True)
class _Row:
    """One call with everything the loss needs; arrays have one entry per unit."""

    call: Call
    advantages: np.ndarray
    target: float | None = None
    weights: np.ndarray | None = None
    reference: np.ndarray | None = None


class Learner:
    """Cuts a batch into minibatches (one optimiser step each) and micro-batches (what fits at once).

    Args:
        policy: what learns.
        recipe: objective, epochs, minibatches, learning rates, auxiliary losses.
        seed: orders the minibatches.
    """

    def __init__(self, policy: Trainable, recipe: Recipe, *, seed: int = 0) -> None:
        self.policy, self.recipe = policy, recipe
        self.updater = (recipe.make_updater or SumUpdater)(policy, recipe)
        self.rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, 0x1EA4))))
        self.reference = make_reference(policy) if recipe.objective.kl_coef else None

    def update(self, groups: Sequence[Group], advantages: Advantages) -> dict[str, float]:
        """Learn from the groups. Void trajectories are left out.

        Returns:
            Metrics: those of `objective.policy_loss`, of the updater, and `logprob_gap`, the largest difference between
            recorded and recomputed log-probabilities before the first step (above 0.05 something is wrong).
        """
        rows = self._rows(groups, advantages)
        if not rows:
            return {}
        parts: list[dict[str, float]] = []
        steps: list[dict[str, float]] = []
        gap = 0.0
        for _ in range(self.recipe.epochs):
            order = self.rng.permutation(len(rows))
            for chosen in np.array_split(order, min(self.recipe.minibatches, len(rows))):
                first = not steps
                for metrics, worst in self._minibatch([rows[i] for i in sorted(chosen)]):
                    parts.append(metrics)
                    gap = max(gap, worst) if first else gap
                steps.append(self.updater.step())
        merged = merge(parts) if parts else {}
        for name in merged:
            if name.startswith("loss/"):  # each minibatch's losses are means already
                merged[name] /= len(steps)
        means = {name: float(np.mean([step[name] for step in steps])) for name in steps[0]}
        return merged | means | {"logprob_gap": gap}

    def _rows(self, groups: Sequence[Group], advantages: Advantages) -> list[list[_Row]]:
        """Per trajectory, its calls with advantages, critic targets and reference log-probabilities."""
        returns = getattr(self.recipe.estimator, "returns", None) if self.recipe.critic else None
        rows = []
        for g, group in enumerate(groups):
            for m, member in enumerate(group.members):
                if member.void or not member.turns:
                    continue
                targets = returns[g][m] if returns else [None] * len(member.turns)
                rows.append(
                    [_Row(turn.call, a, t) for turn, a, t in zip(member.turns, advantages[g][m], targets, strict=True)]
                )
        if self.reference is not None and not self.recipe.objective.kl_in_reward:
            flat = [row for trajectory in rows for row in trajectory]
            for row, logprobs in zip(flat, self.reference.score([row.call for row in flat]), strict=True):
                row.reference = logprobs
        return rows

    def _minibatch(self, trajectories: Sequence[list[_Row]]) -> list[tuple[dict[str, float], float]]:
        objective = self.recipe.objective
        weights = unit_weights(
            [[len(row.advantages) for row in rows] for rows in trajectories], objective.aggregation, objective.length
        )
        for rows, row_weights in zip(trajectories, weights):
            for row, weight in zip(rows, row_weights):
                row.weights = weight
        calls = sum(len(rows) for rows in trajectories)
        kept = [row for rows in trajectories if self._matters(rows) for row in rows]
        results = []
        for batch in self._micro_batches(kept):
            evaluation = self.policy.evaluate([row.call for row in batch])
            loss, metrics = policy_loss(
                objective,
                self._batch(batch, calls, evaluation.logprobs),
                evaluation.logprobs,
                evaluation.entropy,
                evaluation.values,
            )
            losses = {"objective": loss}
            for aux in self.recipe.aux:
                losses |= aux(self.policy, [row.call for row in batch])
            self.updater.accumulate(losses)
            metrics |= {f"loss/{name}": float(value.detach()) for name, value in losses.items() if name != "objective"}
            old = torch.from_numpy(np.concatenate([row.call.logprobs for row in batch]))
            results.append((metrics, float((evaluation.logprobs.detach().cpu() - old).abs().max())))
        return results

    def _matters(self, rows: Sequence[_Row]) -> bool:
        """Whether a trajectory can move the weights at all; the others need no forward pass."""
        o = self.recipe.objective
        always = o.entropy_coef or (o.kl_coef and not o.kl_in_reward) or self.recipe.critic or self.recipe.aux
        return bool(always) or any(np.any(row.advantages) for row in rows)

    def _micro_batches(self, rows: list[_Row]) -> list[list[_Row]]:
        limit = getattr(self.policy, "max_tokens", None)
        if limit is None:
            return [rows] if rows else []
        return [[rows[i] for i in indices] for indices in batch_indices([row.call for row in rows], limit)]

    def _batch(self, rows: Sequence[_Row], calls: int, like: torch.Tensor) -> Batch:
        def tensor(values: Any) -> torch.Tensor:
            return torch.as_tensor(np.asarray(values), dtype=like.dtype, device=like.device)

        def flat(arrays: Sequence[Any]) -> torch.Tensor:
            return tensor(np.concatenate(arrays))

        sizes = torch.tensor([len(row.advantages) for row in rows], device=like.device)
        critic = rows[0].target is not None
        return Batch(
            old_logprobs=flat([row.call.logprobs for row in rows]),
            advantages=flat([row.advantages for row in rows]),
            weights=flat([row.weights for row in rows]),
            call=torch.repeat_interleave(torch.arange(len(rows), device=like.device), sizes),
            ref_logprobs=flat([row.reference for row in rows]) if rows[0].reference is not None else None,
            returns=tensor([row.target for row in rows]) if critic else None,
            old_values=tensor([row.call.value for row in rows]) if critic else None,
            value_weights=tensor([1 / calls] * len(rows)) if critic else None,
        )

    def state_dict(self) -> dict[str, Any]:
        """Optimiser, random state and, where it is a copy, the reference policy."""
        state = {"updater": self.updater.state_dict(), "rng": self.rng.bit_generator.state}
        if self.reference is not None and hasattr(self.reference, "state_dict"):
            state["reference"] = self.reference.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them."""
        self.updater.load_state_dict(state["updater"])
        self.rng.bit_generator.state = state["rng"]
        if "reference" in state and self.reference is not None:
            self.reference.load_state_dict(state["reference"])


def make_reference(policy: Any) -> Any:
    """A frozen scorer of the policy as it is now: its own idea of one (`reference()`), else a copy."""
    return policy.reference() if hasattr(policy, "reference") else copy.deepcopy(policy)


def reference_logprobs(reference: Any, groups: Sequence[Group]) -> list[list[list[np.ndarray]]]:
    """`[group][member][turn] -> (units,)` log-probabilities of the recorded units under `reference`."""
    calls = [call for group in groups for member in group.members for call in member.calls]
    scores = iter(reference.score(calls))
    return [[[next(scores) for _ in member.turns] for member in group.members] for group in groups]
