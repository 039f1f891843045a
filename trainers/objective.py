"""The loss of a micro-batch: which unit counts how much, and the surrogate, KL, entropy and critic terms put together.

Every loss is `sum(w * l)` with weights that are fixed before the batch is cut up (`unit_weights`), so the gradients
of the micro-batches add up to exactly the gradient of the whole batch. The terms themselves are in `losses.py`.

Sources of the aggregations: arXiv 2402.03300 (GRPO), 2503.14476 (DAPO), 2503.20783 (Dr.GRPO).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..envs.core.errors import InvalidArgument, MissingExtra
from .losses import cispo, clipped, kl, log_ratio, value_loss
from .recipe import Objective

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtra("torch", "train") from error


@dataclass(frozen=True, slots=True)
class Batch:
    """What the loss of one micro-batch needs besides the model's outputs: U units of C whole calls."""

    old_logprobs: Tensor
    """(U,) log-probabilities that the ratio compares with: the sampler's own, or with a correction the trainer's under
    the weights that sampled."""
    advantages: Tensor
    """(U,)"""
    weights: Tensor
    """(U,) from `unit_weights`."""
    call: Tensor
    """(U,) int64: the call, 0 .. C-1, that each unit belongs to."""
    ref_logprobs: Tensor | None = None
    """(U,) log-probabilities under the reference policy; needed where `kl_coef` > 0 and the KL is a loss."""
    importance: Tensor | None = None
    """(U,) factors of the surrogate (`losses.importance`), or None for ones."""
    returns: Tensor | None = None
    """(C,) the critic's targets, or (U,) with values per unit; None without a critic."""
    old_values: Tensor | None = None
    """Like `returns`: the critic's values when the calls were made; needed for `value_clip`."""
    value_weights: Tensor | None = None
    """Like `returns`: usually 1 / their number in the whole batch. Needed with `returns`."""


AGGREGATIONS = ("token", "trajectory", "turn", "call", "constant")


def unit_weights(units: Sequence[Sequence[int]], aggregation: str, length: int = 512) -> list[list[np.ndarray]]:
    """The weight of every unit in the loss, for the *whole* batch of one optimiser step.

    Args:
        units: `[trajectory][call]` -> number of units. Leave void trajectories out.
        aggregation: "token" is the mean over all units (DAPO); "trajectory" the mean over a trajectory's units, then
            over trajectories (GRPO's paper); "turn" the mean over a call's units, then over a trajectory's calls, then
            over trajectories; "call" the mean over a call's units, then over all calls, however long their episode
            (verl-agent's step rows); "constant" the sum over units / (trajectories * length) (Dr.GRPO).
        length: L_max of "constant".

    Returns:
        `[trajectory][call] -> (units,)` float64. Their sum is 1 for "token" and, where every trajectory (and call) has
        units, for "trajectory", "turn" and "call".

    Raises:
        InvalidArgument: an unknown aggregation, or a length below 1.
    """
    if aggregation not in AGGREGATIONS:
        raise InvalidArgument(f"aggregation must be one of {', '.join(AGGREGATIONS)}, not {aggregation!r}")
    if length < 1:
        raise InvalidArgument(f"length must be at least 1, not {length!r}")
    total, calls = sum(map(sum, units)), sum(map(len, units))
    weights = []
    for row in units:
        each = {
            "token": [1 / max(total, 1)] * len(row),
            "trajectory": [1 / (len(units) * max(sum(row), 1))] * len(row),
            "turn": [1 / (len(units) * len(row) * max(n, 1)) for n in row],
            "call": [1 / (calls * max(n, 1)) for n in row],
            "constant": [1 / (len(units) * length)] * len(row),
        }[aggregation]
        weights.append([np.full(n, weight) for n, weight in zip(row, each)])
    return weights


def policy_loss(
    objective: Objective, batch: Batch, logprobs: Tensor, entropy: Tensor, values: Tensor | None = None
) -> tuple[Tensor, dict[str, float]]:
    """The loss of one micro-batch, and what to log about it.

    sum w [surrogate + kl_coef * KL - entropy_coef * H] + value_coef * sum w_v * value loss, over units and values, with
    H the entropy of the distribution that a unit was drawn from. Sources of the terms: `losses.py`; arXiv 1602.01783
    (entropy bonus).

    Args:
        objective: the coefficients.
        batch: old log-probabilities, advantages, weights and targets.
        logprobs: (U,) under the current weights, with gradient.
        entropy: (U,) of the distributions that the units were sampled from, with gradient.
        values: of the critic, shaped like `batch.returns`, with gradient; needed where those are given.

    Returns:
        A scalar to call `backward` on, and metrics. `merge` joins the metrics of several micro-batches.

    Raises:
        InvalidArgument: an unknown name in the objective, or a part that it needs is missing.
    """
    if not logprobs.shape == entropy.shape == batch.old_logprobs.shape == batch.advantages.shape == batch.weights.shape:
        raise InvalidArgument(f"the units' tensors differ in shape from the log-probabilities' {tuple(logprobs.shape)}")
    ratio = log_ratio(logprobs, batch.old_logprobs, batch.call, objective.ratio).exp()
    if objective.surrogate == "clip":
        o = objective
        surrogate = clipped(ratio, batch.advantages, o.clip_low, o.clip_high, o.dual_clip)
    elif objective.surrogate == "cispo":
        surrogate = cispo(ratio, batch.advantages, logprobs, objective.clip_high)
    else:
        raise InvalidArgument(f"surrogate must be one of clip, cispo, not {objective.surrogate!r}")
    if batch.importance is not None:
        surrogate = batch.importance * surrogate
    losses = {
        "policy": batch.weights * surrogate,
        "entropy": -objective.entropy_coef * batch.weights * entropy,
    }
    if objective.kl_coef and not objective.kl_in_reward:
        if batch.ref_logprobs is None:
            raise InvalidArgument("kl_coef > 0 needs the reference policy's log-probabilities")
        divergence = kl(logprobs, batch.ref_logprobs, objective.kl)
        divergence = ratio * divergence if objective.kl_weighted else divergence
        losses["kl"] = objective.kl_coef * batch.weights * divergence
    if batch.returns is not None:
        if values is None or batch.value_weights is None:
            raise InvalidArgument("returns need values and value_weights: set Recipe(critic=True)")
        errors = value_loss(values, batch.returns, batch.old_values, objective.value_clip)
        losses["value"] = objective.value_coef * batch.value_weights * errors
    sums = {name: loss.sum() for name, loss in losses.items()}
    total = torch.stack(list(sums.values())).sum()
    metrics = {f"loss/{name}": value.item() for name, value in sums.items()}
    metrics["loss/total"] = total.item()
    return total, metrics | _diagnose(objective, batch, logprobs.detach(), entropy.detach(), ratio.detach())


def _diagnose(objective: Objective, batch: Batch, logprobs: Tensor, entropy: Tensor, ratio: Tensor) -> dict[str, float]:
    n = len(logprobs)
    if n == 0:
        return {"units": 0.0}
    low = (ratio < 1 - objective.clip_low) & (batch.advantages < 0)
    high = (ratio > 1 + objective.clip_high) & (batch.advantages > 0)
    means = {
        "clip/low": low.float(),
        "clip/high": high.float(),
        "ratio/mean": ratio,
        "entropy": entropy,
        # Sampled from the old policy, so these estimate KL(old || current).
        "kl/behaviour_k1": kl(batch.old_logprobs, logprobs, "k1"),
        "kl/behaviour_k3": kl(batch.old_logprobs, logprobs, "k3"),
    }
    if batch.ref_logprobs is not None:
        means["kl/ref_k1"] = kl(logprobs, batch.ref_logprobs, "k1")
        means["kl/ref_k3"] = kl(logprobs, batch.ref_logprobs, "k3")
    stacked = torch.stack([value.to(ratio.dtype) for value in means.values()]).mean(1).tolist()
    return {**dict(zip(means, stacked, strict=True)), "ratio/max": ratio.max().item(), "units": float(n)}


def merge(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    """The metrics of a batch from those of its micro-batches.

    Losses and units add up (their weights already know the whole batch), names that end in "/max" take the maximum,
    the rest are means over the units of the micro-batches that have them.
    """
    merged: dict[str, float] = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        having = [(part[name], part["units"]) for part in parts if name in part]
        if name == "units" or name.startswith("loss/"):
            merged[name] = sum(value for value, _ in having)
        elif name.endswith("/max"):
            merged[name] = max(value for value, _ in having)
        else:
            merged[name] = sum(value * units for value, units in having) / max(sum(units for _, units in having), 1)
    return merged
