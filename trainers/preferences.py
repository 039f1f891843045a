"""DPO on pairs of trajectories of one task: what was better becomes likelier than what was worse, without a critic.

    m = beta * [(log pi(y_w) - log ref(y_w)) - (log pi(y_l) - log ref(y_l))],   log pi(y) = sum over the episode's units
    loss = -(1 - s) log sigmoid(m) - s log sigmoid(-m)     s: label smoothing (conservative DPO)
         + nll * (-log pi(y_w) / |y_w|)                    keeps the winner itself likely

What the environment said is never a unit: only the policy's own decisions count.
Sources: arXiv 2305.18290 (DPO), 2403.02502 (ETO: pairs of agent trajectories), 2404.19733 (the NLL term).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ..envs.core.errors import InvalidArgument
from ..harness.records import Group, Trajectory
from .learner import make_reference
from .optimizer import AdamW

Pair = tuple[Trajectory, Trajectory]  # (chosen, rejected)


@dataclass(frozen=True)
class DPO:
    """How to learn from pairs."""

    beta: float = 0.1
    """Strength of the pull towards the reference policy."""
    smoothing: float = 0.0
    """s in [0, 0.5): how often a pair is the wrong way round."""
    nll: float = 0.0
    """Weight of the winner's own mean negative log-likelihood."""
    lr: float = 1e-5
    batch: int = 8
    """Pairs per optimiser step."""
    micro_batch: int = 4
    """Pairs per forward pass."""
    epochs: int = 1
    max_grad_norm: float = 1.0
    seed: int = 0


def pairs_of(groups: Sequence[Group], *, margin: float = 0.0, every: bool = False) -> list[Pair]:
    """Pairs of members whose returns differ by more than `margin`; void members and empty episodes are left out.

    Args:
        groups: only members of one group (one task) are compared.
        margin: least difference of the returns.
        every: all such pairs of a group; False takes the best and the worst only.
    """
    found: list[Pair] = []
    for group in groups:
        members = sorted((m for m in group.members if not m.void and m.turns), key=lambda m: -m.reward)
        chosen = [(a, b) for i, a in enumerate(members) for b in members[i + 1 :]]
        if not every:
            chosen = [(members[0], members[-1])] if len(members) > 1 else []
        found += [(a, b) for a, b in chosen if a.reward - b.reward > margin]
    return found


def dpo_loss(chosen: Tensor, rejected: Tensor, settings: DPO) -> Tensor:
    """(P,) losses from the (P,) log-ratios log pi(y) - log ref(y) of winners and losers (without the NLL term).

    Raises:
        InvalidArgument: a smoothing outside [0, 0.5).
    """
    if not 0 <= settings.smoothing < 0.5:
        raise InvalidArgument(f"smoothing must be in [0, 0.5), not {settings.smoothing!r}")
    margin = settings.beta * (chosen - rejected)
    return -(1 - settings.smoothing) * logsigmoid(margin) - settings.smoothing * logsigmoid(-margin)


def dpo(
    policy: Any,
    pairs: Sequence[Pair],
    settings: DPO,
    *,
    on_step: Callable[[int, int, dict[str, float]], None] | None = None,
) -> list[dict[str, float]]:
    """Learn from `pairs` in place; the reference is the policy as it is now.

    Args:
        policy: any trainable policy that recorded the trajectories' calls (or has them encoded).
        pairs: from `pairs_of`.
        settings: strength, learning rate and so on.
        on_step: called with (step, steps, metrics).

    Returns:
        Per optimiser step: "loss", "accuracy" (share of pairs with m > 0), "margin" (mean m) and "grad_norm".
    """
    reference = make_reference(policy)
    episodes = [list(member.calls) for pair in pairs for member in pair]
    scores = iter(reference.score([call for calls in episodes for call in calls]))
    base = [sum(float(np.sum(next(scores), dtype=np.float64)) for _ in calls) for calls in episodes]
    parameters = policy.trainable_parameters()
    optimizer = AdamW([{"params": parameters, "lr": settings.lr}], device=getattr(policy, "optimizer_device", None))
    rng = np.random.Generator(np.random.PCG64(settings.seed))
    orders = [rng.permutation(len(pairs)) for _ in range(settings.epochs)]
    batches = [order[i : i + settings.batch] for order in orders for i in range(0, len(order), settings.batch)]
    history = []
    for step, batch in enumerate(batches):
        margins, total = [], 0.0
        for at in range(0, len(batch), settings.micro_batch):
            part = batch[at : at + settings.micro_batch]
            losses, margin = _losses(
                policy, [episodes[2 * i + side] for i in part for side in (0, 1)], part, base, settings
            )
            (losses.sum() / len(batch)).backward()
            optimizer.collect()
            total += float(losses.detach().sum()) / len(batch)
            margins += margin.tolist()
        norm = optimizer.clip(settings.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad()
        accuracy = float(np.mean([m > 0 for m in margins]))
        history.append({"loss": total, "accuracy": accuracy, "margin": float(np.mean(margins)), "grad_norm": norm})
        if on_step:
            on_step(step, len(batches), history[-1])
    policy.version += 1
    return history


def _losses(
    policy: Any, episodes: Sequence[Sequence[Any]], part: np.ndarray, base: Sequence[float], settings: DPO
) -> tuple[Tensor, Tensor]:
    """(P,) losses and margins of one micro-batch; `episodes` alternate winner, loser."""
    logprobs = policy.evaluate([call for calls in episodes for call in calls]).logprobs
    sizes = [sum(len(call.logprobs) for call in calls) for calls in episodes]
    sums = torch.stack([piece.sum() for piece in logprobs.split(sizes)]).reshape(-1, 2)
    ratios = sums - torch.tensor([[base[2 * i], base[2 * i + 1]] for i in part], dtype=sums.dtype, device=sums.device)
    losses = dpo_loss(ratios[:, 0], ratios[:, 1], settings)
    if settings.nll:
        lengths = torch.tensor(sizes[::2], dtype=sums.dtype, device=sums.device)
        losses = losses - settings.nll * sums[:, 0] / lengths
    return losses, (settings.beta * (ratios[:, 0] - ratios[:, 1])).detach()
