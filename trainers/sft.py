"""Supervised warm start: imitate demonstrated episodes (an oracle's, an expert's, a better policy's).

    loss = - sum_t w_t log p(token_t | before) / sum_t w_t,   w = 1 on actions (or the action's value, `by_value`),
                                                              `observation_weight` on what was seen, times the
                                                              episode's own weight, if it has one.

The observations' share teaches a model from scratch to read its environment: copying a name from the task to an action
needs the same circuit as predicting the names in the next observation.
Sources of episode weights: 0 and 1 (filtered imitation, STaR, arXiv 2203.14465); exp(return / temperature) (AWR, arXiv
1910.00177, without its baseline).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..envs.core.errors import InvalidArgument
from ..harness.records import Call, Trajectory
from .optimizer import AdamW

if TYPE_CHECKING:
    from ..harness.policies.chat import ChatFormat
    from ..harness.policies.hf import HFPolicy


@dataclass(frozen=True)
class SFT:
    """How to imitate."""

    lr: float = 1.5e-3
    batch: int = 4
    """Episodes per optimiser step. Many small steps over unique episodes beat few large ones over repeated ones."""
    epochs: int = 1
    observation_weight: float = 0.4
    by_value: bool = False
    """Weigh each action by the value that its call recorded (of a search, say), at least 0."""
    warmup: int = 20
    """Steps of linear rise; the rate then falls linearly to a tenth at the end."""
    max_grad_norm: float = 1.0
    seed: int | None = None
    """Of the order of episodes; None: the run's, and 0 outside a run."""


def demonstrations(format: ChatFormat, trajectories: Sequence[Trajectory]) -> list[list[Call]]:
    """Per episode, its calls with token ids: what the policy would have seen and sampled, had it acted so.

    The demonstrator had no tokens, so its texts are encoded here, once; each prompt begins with the one before.
    """
    episodes = []
    for trajectory in trajectories:
        recorded: dict[str, tuple[int, ...]] = {}
        calls = []
        for turn in trajectory.turns:
            prompt = tuple(format.prompt(turn.call.context.messages, recorded))
            completion = (*format.encode(turn.call.text), format.stop)
            recorded[turn.call.id] = completion
            calls.append(
                Call(
                    id=turn.call.id,
                    context=turn.call.context,
                    text=turn.call.text,
                    logprobs=np.zeros(len(completion), dtype=np.float32),
                    prompt_ids=prompt,
                    completion_ids=completion,
                    value=turn.call.value,
                )
            )
        if calls:
            episodes.append(calls)
    return episodes


def sft_loss(
    logprobs: torch.Tensor,
    spoken: torch.Tensor,
    actions: torch.Tensor,
    episodes: torch.Tensor,
    observation_weight: float,
) -> torch.Tensor:
    """The weighted mean negative log-likelihood of T tokens: - sum w log p / sum w.

    Args:
        logprobs: (T,) of the tokens.
        spoken: (T,) bool: the token is part of an action.
        actions: (T,) the weight of the token's action; only that of spoken tokens counts.
        episodes: (T,) the weight of the token's episode.
        observation_weight: of tokens that were not spoken.
    """
    weights = torch.where(spoken, actions, observation_weight) * episodes
    return -(weights * logprobs).sum() / weights.sum().clamp(min=1e-8)


def sft(
    policy: HFPolicy,
    episodes: Sequence[Sequence[Call]],
    settings: SFT,
    *,
    weights: Sequence[float] | None = None,
    on_step: Callable[[int, int, float], None] | None = None,
) -> list[float]:
    """Imitate `episodes` in place.

    Args:
        policy: a language-model policy.
        episodes: from `demonstrations`.
        settings: learning rate, batch and so on.
        weights: one number >= 0 per episode (its return, exp(return / temperature), a filter's 0 or 1 ...).
        on_step: called with (step, steps, loss).

    Returns:
        The loss of every step (nats per weighted token).

    Raises:
        InvalidArgument: weights that are negative, not finite, or not one per episode; `by_value`, and a call without
            a value.
    """
    own = np.ones(len(episodes)) if weights is None else np.asarray(weights, dtype=np.float64)
    if own.shape != (len(episodes),) or not (np.isfinite(own) & (own >= 0)).all():
        raise InvalidArgument(f"{len(episodes)} finite weights >= 0 are needed, one per episode")
    if weights is not None and len({calls[0].session for calls in episodes}) < len(episodes):
        raise InvalidArgument("weighted episodes need sessions of their own")
    if settings.by_value and any(call.value is None for calls in episodes for call in calls):
        raise InvalidArgument("sft by_value needs demonstrations with values: set ways")
    rng = np.random.Generator(np.random.PCG64(settings.seed or 0))
    orders = [rng.permutation(len(episodes)) for _ in range(settings.epochs)]
    batches = [order[i : i + settings.batch] for order in orders for i in range(0, len(order), settings.batch)]
    parameters = policy.trainable_parameters()
    groups = [{"params": parameters, "lr": settings.lr}]
    optimizer = AdamW(groups, weight_decay=0.01, device=policy.optimizer_device)
    losses = []
    for step, batch in enumerate(batches):
        rise = (step + 1) / max(settings.warmup, 1)
        fall = 1.0 - 0.9 * max(0, step - settings.warmup) / max(1, len(batches) - settings.warmup)
        for group in optimizer.param_groups:
            group["lr"] = settings.lr * min(rise, fall)
        calls = [call for i in batch for call in episodes[i]]
        logprobs, spoken, number = policy.evaluate_tokens(calls)
        on_actions = [max(call.value or 0.0, 0.0) if settings.by_value else 1.0 for call in calls]
        actions = torch.as_tensor(on_actions, dtype=logprobs.dtype, device=logprobs.device)
        episode = torch.as_tensor([own[i] for i in batch for _ in episodes[i]]).to(actions)
        loss = sft_loss(logprobs, spoken, actions[number], episode[number], settings.observation_weight)
        loss.backward()
        optimizer.clip(settings.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
        if on_step:
            on_step(step, len(batches), losses[-1])
    policy.version += 1
    return losses
