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
from .losses import importance
from .objective import Batch, merge, policy_loss, unit_weights
from .recipe import Recipe, Trainable
from .sharded import ranks
from .updater import SumUpdater


@dataclass(slots=True)
class _Row:
    """One call with everything the loss needs; arrays have one entry per unit."""

    call: Call
    advantages: np.ndarray
    target: float | np.ndarray | None = None
    """The critic's target of the call, or (units,) of its units."""
    value: float | np.ndarray | None = None
    """What the critic said when the call was made, like `target`."""
    weights: np.ndarray | None = None
    reference: np.ndarray | None = None
    recomputed: np.ndarray | None = None


class Learner:
    """Cuts a batch into minibatches (one optimiser step each) and micro-batches (what fits at once).

    Args:
        policy: what learns.
        recipe: objective, epochs, minibatches, learning rates, auxiliary losses.
        seed: orders the minibatches.
    """

    def __init__(self, policy: Trainable, recipe: Recipe, *, seed: int = 0) -> None:
        self.policy, self.recipe, self.ranks = policy, recipe, ranks()
        self.updater = (recipe.make_updater or SumUpdater)(policy, recipe)
        self.rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, 0x1EA4))))
        self.reference = make_reference(policy) if recipe.objective.kl_coef else None

    def update(self, groups: Sequence[Group], advantages: Advantages) -> dict[str, float]:
        """Learn from the groups. Void trajectories are left out.

        Returns:
            Metrics: those of `objective.policy_loss`, of the updater, and, from the log-probabilities before the first
            step, how far the sampler was from the weights that learn: `logprob_gap` (the largest difference),
            `logprob_gap_mean` and `ess` (the effective sample size as a share of the units). With a critic, what it
            said before the update beside what it is to learn: `critic/start`, `critic/value`, `critic/target` and
            `critic/explained`.
        """
        rows = self._rows(groups, advantages)
        if not rows:
            return {}
        parts: list[dict[str, float]] = []
        steps: list[dict[str, float]] = []
        gaps: list[np.ndarray] = []
        for _ in range(self.recipe.epochs):
            order = self.rng.permutation(len(rows))
            for chosen in np.array_split(order, min(self.recipe.minibatches, len(rows))):
                first = not steps
                for metrics, gap in self._minibatch([rows[i] for i in sorted(chosen)]):
                    parts.append(metrics)
                    gaps += [gap] if first else []
                steps.append(self.updater.step())
        merged = merge(parts) if parts else {}
        for name in merged:
            if name.startswith("loss/"):  # each minibatch's losses are means already
                merged[name] /= len(steps)
        means = {name: float(np.mean([step[name] for step in steps])) for name in steps[0]}
        return merged | means | _distance(np.concatenate(gaps) if gaps else np.zeros(0)) | _critic(rows)

    def _rows(self, groups: Sequence[Group], advantages: Advantages) -> list[list[_Row]]:
        """Per trajectory, its calls with advantages, critic targets and reference log-probabilities."""
        returns = getattr(self.recipe.estimator, "returns", None) if self.recipe.critic else None
        read = getattr(self.recipe.estimator, "values", None)  # values per unit, read before the update
        rows = []
        for g, group in enumerate(groups):
            for m, member in enumerate(group.members):
                if member.void or not member.turns:
                    continue
                targets = returns[g][m] if returns else [None] * len(member.turns)
                values = read[g][m] if read else [turn.call.value for turn in member.turns]
                parts = zip(member.turns, advantages[g][m], targets, values, strict=True)
                rows.append([_Row(turn.call, a, target, value) for turn, a, target, value in parts])
        flat = [row for trajectory in rows for row in trajectory]
        if self.recipe.objective.correction != "none":
            for row, logprobs in zip(flat, self.policy.score([row.call for row in flat]), strict=True):
                row.recomputed = logprobs
        if self.reference is not None and not self.recipe.objective.kl_in_reward:
            for row, logprobs in zip(flat, self.reference.score([row.call for row in flat]), strict=True):
                row.reference = logprobs
        return rows

    def _minibatch(self, trajectories: Sequence[list[_Row]]) -> list[tuple[dict[str, float], np.ndarray]]:
        objective = self.recipe.objective
        weights = unit_weights(
            [[len(row.advantages) for row in rows] for rows in trajectories], objective.aggregation, objective.length
        )
        for rows, row_weights in zip(trajectories, weights):
            for row, weight in zip(rows, row_weights):
                row.weights = weight
        per_unit = isinstance(trajectories[0][0].target, np.ndarray)
        targets = sum(len(row.advantages) if per_unit else 1 for rows in trajectories for row in rows)
        kept = [row for rows in self.ranks.mine([r for r in trajectories if self._matters(r)]) for row in rows]
        results = []
        batches = self._micro_batches(kept)
        # All ranks must pass through the model equally often.
        idle = max(self.ranks.gather(len(batches))) - len(batches)
        for batch in batches:
            evaluation = self.policy.evaluate([row.call for row in batch])
            loss, metrics = policy_loss(
                objective,
                self._batch(batch, targets, evaluation.logprobs),
                evaluation.logprobs,
                evaluation.entropy,
                evaluation.unit_values if per_unit else evaluation.values,
            )
            losses = {"objective": loss}
            for aux in self.recipe.aux:
                losses |= aux(self.policy, [row.call for row in batch])
            self.updater.accumulate(losses)
            metrics |= {f"loss/{name}": float(value.detach()) for name, value in losses.items() if name != "objective"}
            old = np.concatenate([row.call.logprobs for row in batch])
            results.append((metrics, evaluation.logprobs.detach().cpu().numpy() - old))
        for _ in range(idle):
            evaluation = self.policy.evaluate([trajectories[0][0].call])
            outputs = [evaluation.logprobs, evaluation.values, evaluation.unit_values]
            nothing = torch.stack([output.sum() for output in outputs if output is not None]).sum()
            self.updater.accumulate({"idle": 0.0 * nothing})
        return [result for part in self.ranks.gather(results) for result in part]

    def _matters(self, rows: Sequence[_Row]) -> bool:
        """Whether a trajectory can move the weights at all; the others need no forward pass."""
        o = self.recipe.objective
        always = o.entropy_coef or (o.kl_coef and not o.kl_in_reward) or self.recipe.critic or self.recipe.aux
        return bool(always) or any(np.any(row.advantages) for row in rows)

    def _micro_batches(self, rows: list[_Row]) -> list[list[_Row]]:
        limit = getattr(self.policy, "max_tokens", None)
        if limit is None:
            return [rows] if rows else []
        batches = batch_indices([row.call for row in rows], limit, share=True)
        return [[rows[i] for i in indices] for indices in batches]

    def _batch(self, rows: Sequence[_Row], targets: int, like: torch.Tensor) -> Batch:
        def tensor(values: Any) -> torch.Tensor:
            return torch.as_tensor(np.asarray(values), dtype=like.dtype, device=like.device)

        def flat(arrays: Sequence[Any]) -> torch.Tensor:
            return tensor(np.concatenate(arrays))

        sizes = torch.tensor([len(row.advantages) for row in rows], device=like.device)
        critic = rows[0].target is not None
        o = self.recipe.objective
        call = torch.repeat_interleave(torch.arange(len(rows), device=like.device), sizes)
        old, correction = flat([row.call.logprobs for row in rows]), None
        if rows[0].recomputed is not None:
            trainer = flat([row.recomputed for row in rows])
            correction = importance(trainer, old, call, o.correction, o.correction_cap, o.correction_level)
            old = trainer
        return Batch(
            old_logprobs=old,
            importance=correction,
            advantages=flat([row.advantages for row in rows]),
            weights=flat([row.weights for row in rows]),
            call=call,
            ref_logprobs=flat([row.reference for row in rows]) if rows[0].reference is not None else None,
            returns=flat([_array(row.target) for row in rows]) if critic else None,
            old_values=flat([_array(row.value) for row in rows]) if critic else None,
            value_weights=flat([np.full(len(_array(row.target)), 1 / targets) for row in rows]) if critic else None,
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


def _array(value: float | np.ndarray | None) -> np.ndarray:
    return np.atleast_1d(np.asarray(value, dtype=np.float64))


def _distance(gap: np.ndarray) -> dict[str, float]:
    """How far (units,) log-probabilities moved: ESS = (sum w)^2 / (n sum w^2) with w = exp(gap)."""
    if not len(gap):
        return {"logprob_gap": 0.0, "logprob_gap_mean": 0.0, "ess": 1.0}
    w = np.exp(np.clip(gap.astype(np.float64), -20, 20))
    ess = w.sum() ** 2 / (len(w) * (w**2).sum())
    return {"logprob_gap": float(np.abs(gap).max()), "logprob_gap_mean": float(np.abs(gap).mean()), "ess": float(ess)}


def _critic(rows: Sequence[Sequence[_Row]]) -> dict[str, float]:
    """How well the critic's values foresaw its targets; nothing without a critic."""
    if rows[0][0].target is None:
        return {}
    values = np.concatenate([_array(row.value) for trajectory in rows for row in trajectory])
    targets = np.concatenate([_array(row.target) for trajectory in rows for row in trajectory])
    starts = [_array(trajectory[0].value)[:1] for trajectory in rows]
    spread = float(np.var(targets))
    return {
        "critic/start": float(np.mean(np.concatenate(starts))),
        "critic/value": float(np.mean(values)),
        "critic/target": float(np.mean(targets)),
        "critic/explained": 1.0 - float(np.var(targets - values)) / spread if spread > 1e-12 else 0.0,
    }


def make_reference(policy: Any) -> Any:
    """A frozen scorer of the policy as it is now: its own idea of one (`reference()`), else a copy."""
    return policy.reference() if hasattr(policy, "reference") else copy.deepcopy(policy)


def reference_logprobs(reference: Any, groups: Sequence[Group]) -> list[list[list[np.ndarray]]]:
    """`[group][member][turn] -> (units,)` log-probabilities of the recorded units under `reference`."""
    calls = [call for group in groups for member in group.members for call in member.calls]
    scores = iter(reference.score(calls))
    return [[[next(scores) for _ in member.turns] for member in group.members] for group in groups]
