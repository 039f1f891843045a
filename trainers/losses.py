"""The unit-wise losses: surrogates, ratios, KL estimators, importance corrections, the critic. Flat tensors, no state.

A *unit* is one sampled decision (a token, or a whole choice); U units of C whole calls lie one after the other.

    ratio        r = exp(logp - logp_old)         GSPO: the mean log-ratio of the call, with the unit's own gradient
    clip         -min(r A, clip(r, 1 - low, 1 + high) A), and with a dual clip c > 1, for A < 0: at most -c A
    cispo        -sg(min(r, 1 + high)) A logp     every unit keeps a gradient, the weight is bounded
    KL           x = logp_ref - logp:  k1 = -x,  k2 = x^2 / 2,  k3 = e^x - x - 1
    correction   w = exp(logp_trainer_old - logp_sampler), cut off at a cap (TIS) or zero beyond it (masked)
    value        0.5 (v - R)^2, or with a clip the larger of it and 0.5 (clip(v, v_old +- c) - R)^2

Sources: arXiv 1707.06347 (PPO), 1912.09729 (dual clip), 2402.03300 (GRPO), 2506.13585 (CISPO), 2507.18071 (GSPO);
k1-k3: Schulman, "Approximating KL Divergence" (2020); truncated correction: Yao et al., "Your efficient RL framework
secretly brings you off-policy RL training" (2025).
"""

from __future__ import annotations

from ..envs.core.errors import InvalidArgument, MissingExtra

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtra("torch", "train") from error

MAX_LOG_RATIO = 20.0  # e^20 is finite in float32 and its square too; beyond it the estimate says nothing


def call_means(values: Tensor, call: Tensor) -> Tensor:
    """(U,) every unit's call's mean of `values`; `call` is (U,) int64 numbers of calls."""
    calls = int(call.max()) + 1 if len(call) else 0
    sums = values.new_zeros(calls).index_add_(0, call, values)
    return (sums / torch.bincount(call, minlength=calls).clamp(min=1))[call]


def log_ratio(logprobs: Tensor, old: Tensor, call: Tensor, kind: str) -> Tensor:
    """(U,) log of the importance ratio, clamped to +-20.

    "sequence" is GSPO's in its token form: the value is the call's mean log-ratio, the gradient is the unit's own, so
    that units of one call may have different advantages. Where they are equal and `weights` are too, the summed
    gradient is that of GSPO's sequence loss. Source: arXiv 2507.18071.

    Raises:
        InvalidArgument: another kind.
    """
    ratio = logprobs - old
    if kind == "sequence":
        ratio = call_means(ratio.detach(), call) + logprobs - logprobs.detach()
    elif kind != "unit":
        raise InvalidArgument(f"ratio must be one of unit, sequence, not {kind!r}")
    return ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def clipped(ratio: Tensor, advantages: Tensor, low: float, high: float, dual: float | None = None) -> Tensor:
    """(U,) losses -min(r A, clip(r, 1 - low, 1 + high) A); with `dual` = c, no unit loses more than c |A|.

    Sources: arXiv 1707.06347 (PPO), 2503.14476 (high > low: DAPO's clip-higher), 1912.09729 (dual clip).
    """
    loss = -torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)
    if dual is None:
        return loss
    if dual <= 1:
        raise InvalidArgument(f"dual_clip must be above 1, not {dual!r}")
    return torch.where(advantages < 0, torch.minimum(loss, -dual * advantages), loss)


def cispo(ratio: Tensor, advantages: Tensor, logprobs: Tensor, high: float) -> Tensor:
    """(U,) losses -sg(min(r, 1 + high)) A logp: REINFORCE with a bounded weight. Source: arXiv 2506.13585."""
    return -ratio.detach().clamp(max=1 + high) * advantages * logprobs


def importance(trainer: Tensor, sampler: Tensor, call: Tensor, mode: str, cap: float, level: str = "unit") -> Tensor:
    """(U,) weights that correct for a sampler whose probabilities differ from the trainer's for the same weights.

    w = exp(logp_trainer - logp_sampler). Source: Yao et al., "Your efficient RL framework secretly brings you
    off-policy RL training" (2025).

    Args:
        trainer: (U,) log-probabilities that the trainer gives under the weights that sampled.
        sampler: (U,) log-probabilities that the sampler recorded.
        call: (U,) the call of each unit.
        mode: "truncate" gives min(w, cap), "mask" gives w where 1/cap <= w <= cap and 0 elsewhere.
        cap: C, at least 1.
        level: "unit", or "sequence": w is the product over the call's units.

    Raises:
        InvalidArgument: an unknown mode or level, or a cap below 1.
    """
    if level not in ("unit", "sequence"):
        raise InvalidArgument(f"correction_level must be one of unit, sequence, not {level!r}")
    if cap < 1:
        raise InvalidArgument(f"correction_cap must be at least 1, not {cap!r}")
    gap = (trainer - sampler).detach()
    if level == "sequence":
        gap = call_means(gap, call) * torch.bincount(call)[call] if len(call) else gap
    weights = gap.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    if mode == "truncate":
        return weights.clamp(max=cap)
    if mode == "mask":
        return torch.where((weights <= cap) & (weights >= 1 / cap), weights, 0.0)
    raise InvalidArgument(f"correction must be one of none, truncate, mask, not {mode!r}")


def kl(logprobs: Tensor, reference: Tensor, estimator: str) -> Tensor:
    """(U,) estimates of KL(policy || reference) on units that the policy sampled.

    With x = logp_ref - logp, clamped to +-20: k1 = -x, k2 = x^2 / 2, k3 = e^x - x - 1. k1 is unbiased as a value but
    its gradient is zero on average: use it in the reward (`kl_in_reward`). k2 has the divergence's gradient on-policy.
    k3 is unbiased as a value and never negative; its gradient is biased.
    Source: Schulman, "Approximating KL Divergence" (2020).

    Raises:
        InvalidArgument: another estimator.
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
    """Losses of the critic, one per value: 0.5 (v - R)^2.

    With `clip` = c the larger of that and 0.5 (clip(v, v_old - c, v_old + c) - R)^2, so that moving away from `old` by
    more than c earns nothing. The clip is that of OpenAI's baselines (ppo2), not of the paper (arXiv 1707.06347).

    Args:
        values: of the critic now.
        returns: its targets, like `values`.
        old: its values when the calls were made, like `values`; needed with `clip`.
        clip: c, in reward.

    Raises:
        InvalidArgument: a clip without old values.
    """
    loss = (values - returns) ** 2
    if clip is not None:
        if old is None:
            raise InvalidArgument("value_clip needs the old values")
        loss = torch.maximum(loss, (old + (values - old).clamp(-clip, clip) - returns) ** 2)
    return loss / 2
