"""The unit-wise losses: clipped ratios, KL estimators, entropy, the critic. Flat tensors in, one scalar out.

Every loss is `sum(w * l)` with weights that are fixed before the batch is cut up (`unit_weights`), so the gradients
of the micro-batches add up to exactly the gradient of the whole batch.

    ratio     r = exp(logp - logp_old)            GSPO: the mean log-ratio of the call, with the unit's own gradient
    policy    -min(r A, clip(r, 1 - low, 1 + high) A)
    KL        x = logp_ref - logp:  k1 = -x,  k2 = x^2 / 2,  k3 = e^x - x - 1
    value     0.5 (v - R)^2, or with a clip the larger of it and 0.5 (clip(v, v_old +- c) - R)^2

Sources: arXiv 1707.06347 (PPO), 2402.03300 (GRPO), 2503.14476 (DAPO), 2503.20783 (Dr.GRPO), 2507.18071 (GSPO).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..envs.core.errors import InvalidArgument, MissingExtra
from .recipe import Objective

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtra("torch", "train") from error

MAX_LOG_RATIO = 20.0  # e^20 is finite in float32 and its square too; beyond it the estimate says nothing


@dataclass(frozen=True, slots=True)
class Batch:
    """What the loss of one micro-batch needs besides the model's outputs: U units of C whole calls."""

    old_logprobs: Tensor
    """(U,) log-probabilities under the policy that sampled."""
    advantages: Tensor
    """(U,)"""
    weights: Tensor
    """(U,) from `unit_weights`."""
    call: Tensor
    """(U,) int64: the call, 0 .. C-1, that each unit belongs to."""
    ref_logprobs: Tensor | None = None
    """(U,) log-probabilities under the reference policy; needed where `kl_coef` > 0 and the KL is a loss."""
    returns: Tensor | None = None
    """(C,) the critic's targets, or None without a critic."""
    old_values: Tensor | None = None
    """(C,) the critic's values when the calls were made; needed for `value_clip`."""
    value_weights: Tensor | None = None
    """(C,) usually 1 / calls of the whole batch. Needed with `returns`."""


def unit_weights(units: Sequence[Sequence[int]], aggregation: str, length: int = 512) -> list[list[np.ndarray]]:
    """The weight of every unit in the loss, for the *whole* batch of one optimiser step.

    Args:
        units: `[trajectory][call]` -> number of units. Leave void trajectories out.
        aggregation: "token" (mean over all units), "trajectory" (mean over a trajectory's units, then over
            trajectories) or "constant" (sum over units / (trajectories * length)).
        length: L_max of "constant".

    Returns:
        `[trajectory][call] -> (units,)` float64. Their sum is 1 for "token" and, where every trajectory has units,
        for "trajectory".

    Raises:
        InvalidArgument: an unknown aggregation, or a length below 1.
    """
    sizes = [sum(row) for row in units]
    if aggregation == "token":
        each = [1 / max(sum(sizes), 1)] * len(units)
    elif aggregation == "trajectory":
        each = [1 / (len(units) * max(size, 1)) for size in sizes]
    elif aggregation == "constant":
        if length < 1:
            raise InvalidArgument(f"length must be at least 1, not {length!r}")
        each = [1 / (len(units) * length) for _ in units]
    else:
        raise InvalidArgument(f"aggregation must be one of token, trajectory, constant, not {aggregation!r}")
    return [[np.full(n, weight) for n in row] for row, weight in zip(units, each, strict=True)]


def log_ratio(logprobs: Tensor, old: Tensor, call: Tensor, kind: str) -> Tensor:
    """(U,) log of the importance ratio, clamped to +-20.

    "sequence" is GSPO's in its token form: the value is the call's mean log-ratio, the gradient is the unit's own, so
    that units of one call may have different advantages. Where they are equal and `weights` are too, the summed
    gradient is that of GSPO's sequence loss.
    """
    ratio = logprobs - old
    if kind == "sequence":
        with torch.no_grad():
            calls = int(call.max()) + 1 if len(call) else 0
            sums = ratio.new_zeros(calls).index_add_(0, call, ratio)
            mean = sums / torch.bincount(call, minlength=calls).clamp(min=1)
        ratio = mean[call] + logprobs - logprobs.detach()
    elif kind != "unit":
        raise InvalidArgument(f"ratio must be one of unit, sequence, not {kind!r}")
    return ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def clipped(ratio: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """(U,) losses -min(r A, clip(r, 1 - low, 1 + high) A)."""
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)


def kl(logprobs: Tensor, reference: Tensor, estimator: str) -> Tensor:
    """(U,) estimates of KL(policy || reference) on units that the policy sampled.

    k1 is unbiased as a value but its gradient is zero on average: use it in the reward (`kl_in_reward`). k2 has the
    divergence's gradient on-policy. k3 is unbiased as a value and never negative; its gradient is biased.
    """
    x = (reference - logprobs).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    if estimator == "k1":
        return -x
    if estimator == "k2":
        return x**2 / 2
    if estimator == "k3":
        return torch.expm1(x) - x
    raise InvalidArgument(f"kl must be one of k1, k2, k3, not {estimator!r}")


def value_loss(values: Tensor, returns: Tensor, old: Tensor | None = None, clip: float | None = None) -> Tensor:
    """(C,) losses of the critic; with `clip`, moving away from `old` by more than `clip` earns nothing."""
    loss = (values - returns) ** 2
    if clip is not None:
        if old is None:
            raise InvalidArgument("value_clip needs the old values")
        loss = torch.maximum(loss, (old + (values - old).clamp(-clip, clip) - returns) ** 2)
    return loss / 2


def policy_loss(
    objective: Objective, batch: Batch, logprobs: Tensor, entropy: Tensor, values: Tensor | None = None
) -> tuple[Tensor, dict[str, float]]:
    """The loss of one micro-batch, and what to log about it.

    Args:
        objective: the coefficients.
        batch: old log-probabilities, advantages, weights and targets.
        logprobs: (U,) under the current weights, with gradient.
        entropy: (U,) of the distributions that the units were sampled from, with gradient.
        values: (C,) of the critic, with gradient; needed where `batch.returns` is given.

    Returns:
        A scalar to call `backward` on, and metrics. `merge` joins the metrics of several micro-batches.

    Raises:
        InvalidArgument: an unknown name in the objective, or a part that it needs is missing.
    """
    if not logprobs.shape == entropy.shape == batch.old_logprobs.shape == batch.advantages.shape == batch.weights.shape:
        raise InvalidArgument(f"the units' tensors differ in shape from the log-probabilities' {tuple(logprobs.shape)}")
    ratio = log_ratio(logprobs, batch.old_logprobs, batch.call, objective.ratio).exp()
    losses = {
        "policy": batch.weights * clipped(ratio, batch.advantages, objective.clip_low, objective.clip_high),
        "entropy": -objective.entropy_coef * batch.weights * entropy,
    }
    if objective.kl_coef and not objective.kl_in_reward:
        if batch.ref_logprobs is None:
            raise InvalidArgument("kl_coef > 0 needs the reference policy's log-probabilities")
        losses["kl"] = objective.kl_coef * batch.weights * kl(logprobs, batch.ref_logprobs, objective.kl)
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
