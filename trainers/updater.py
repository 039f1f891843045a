"""How gradients become steps. The default sums the losses' gradients and steps AdamW with a linear warm-up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from .optimizer import AdamW
from .sharded import ranks

if TYPE_CHECKING:
    from .recipe import Recipe, Trainable


class SumUpdater:
    """Adds up the gradients of all losses and micro-batches; `step` clips their norm and moves the weights.

    Args:
        policy: its `trainable_parameters` move; those also in `value_parameters`, if it has that, with
            `recipe.value_lr`.
        recipe: learning rates, warm-up, clipping and weight decay.

    The optimiser's state lies on the policy's `optimizer_device`, if it has one.
    """

    def __init__(self, policy: Trainable, recipe: Recipe) -> None:
        value = list(getattr(policy, "value_parameters", list)())
        special = {id(parameter) for parameter in value}
        actor = [parameter for parameter in policy.trainable_parameters() if id(parameter) not in special]
        groups = [{"params": actor, "lr": recipe.lr, "peak": recipe.lr}]
        if value:
            peak = recipe.value_lr or recipe.lr
            groups.append({"params": value, "lr": peak, "peak": peak})
        self.parameters = actor + value
        device = getattr(policy, "optimizer_device", None)
        self.optimizer = AdamW(groups, weight_decay=recipe.weight_decay, device=device)
        self.recipe, self.ranks = recipe, ranks()
        self.steps = 0

    def accumulate(self, losses: Mapping[str, torch.Tensor]) -> None:
        """Add the gradients of one micro-batch's losses."""
        total = sum(losses.values(), torch.zeros(()))
        if total.requires_grad:
            (self.ranks.world * total).backward()  # FSDP averages over the ranks; the losses are parts of one sum
            self.optimizer.collect()

    def step(self) -> dict[str, float]:
        """One optimiser step on what was accumulated. A gradient that is not finite is dropped and counted."""
        norm = self.optimizer.clip(self.recipe.max_grad_norm)
        self.steps += 1
        scale = min(1.0, self.steps / self.recipe.warmup) if self.recipe.warmup else 1.0
        for group in self.optimizer.param_groups:
            group["lr"] = group["peak"] * scale
        finite = norm == norm and norm != float("inf")
        if finite:
            self.optimizer.step()
        self.optimizer.zero_grad()
        return {"grad_norm": norm, "lr": self.recipe.lr * scale, "skipped": float(not finite)}

    def state_dict(self) -> dict[str, Any]:
        """Optimiser moments (whole ones where they are sharded: all ranks must ask) and the number of steps."""
        return {"optimizer": self.optimizer.state_dict(), "steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them."""
        self.optimizer.load_state_dict(state["optimizer"])
        self.steps = state["steps"]
