"""Supervised warm start: imitate demonstrated episodes (an oracle's, an expert's, a better policy's).

    loss = - sum_t w_t log p(token_t | before) / sum_t w_t,   w = 1 on actions, `observation_weight` on what was seen.

The observations' share teaches a model from scratch to read its environment: copying a name from the task to an action
needs the same circuit as predicting the names in the next observation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..harness.policies.evaluation import evaluate_tokens
from ..harness.records import Call, Trajectory

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
    warmup: int = 20
    """Steps of linear rise; the rate then falls linearly to a tenth at the end."""
    max_grad_norm: float = 1.0
    seed: int = 0


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
                )
            )
        if calls:
            episodes.append(calls)
    return episodes


def sft(
    policy: HFPolicy,
    episodes: Sequence[Sequence[Call]],
    settings: SFT,
    *,
    on_step: Callable[[int, int, float], None] | None = None,
) -> list[float]:
    """Imitate `episodes` in place.

    Args:
        policy: a language-model policy.
        episodes: from `demonstrations`.
        settings: learning rate, batch and so on.
        on_step: called with (step, steps, loss).

    Returns:
        The loss of every step (nats per weighted token).
    """
    rng = np.random.Generator(np.random.PCG64(settings.seed))
    orders = [rng.permutation(len(episodes)) for _ in range(settings.epochs)]
    batches = [order[i : i + settings.batch] for order in orders for i in range(0, len(order), settings.batch)]
    parameters = policy.trainable_parameters()
    optimizer = torch.optim.AdamW(parameters, lr=settings.lr, betas=(0.9, 0.99), weight_decay=0.01)
    losses = []
    for step, batch in enumerate(batches):
        rise = (step + 1) / max(settings.warmup, 1)
        fall = 1.0 - 0.9 * max(0, step - settings.warmup) / max(1, len(batches) - settings.warmup)
        for group in optimizer.param_groups:
            group["lr"] = settings.lr * min(rise, fall)
        logprobs, spoken = evaluate_tokens(policy.model, [call for i in batch for call in episodes[i]])
        weights = torch.where(spoken, 1.0, settings.observation_weight)
        loss = -(weights * logprobs).sum() / weights.sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, settings.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
        if on_step:
            on_step(step, len(batches), losses[-1])
    policy.version += 1
    return losses
