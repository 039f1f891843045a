"""AdamW in float32, whatever the weights' precision is and wherever they are.

Weights in bfloat16 are too coarse to be moved by small steps, so the optimiser moves float32 copies of them (masters)
and rounds. With a device of its own, masters and moments lie there (on the CPU, usually): of the weights' device only
the gradients' memory is needed, at the price of moving gradients out and weights in once per step. Where neither is
the case, the weights are their own masters and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.distributed.tensor import DTensor, distribute_tensor


class AdamW:
    """AdamW over parameter groups.

    Args:
        groups: dicts with "params", "lr" and whatever else is to be found in `param_groups`.
        betas: of the moments.
        weight_decay: decoupled.
        device: where masters and moments are kept; None: with the weights.
    """

    def __init__(
        self,
        groups: Sequence[dict[str, Any]],
        *,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        device: str | torch.device | None = None,
    ) -> None:
        self.weights: list[torch.nn.Parameter] = [weight for group in groups for weight in group["params"]]
        self.device = None if device is None else torch.device(device)
        self.masters = [self._master(weight) for weight in self.weights]
        master = {id(weight): copy for weight, copy in zip(self.weights, self.masters, strict=True)}
        own = [{**group, "params": [master[id(weight)] for weight in group["params"]]} for group in groups]
        self.inner = torch.optim.AdamW(own, betas=betas, weight_decay=weight_decay)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups; learning rates may be set in them."""
        return self.inner.param_groups

    def collect(self) -> None:
        """Add the gradients of coarse weights to the masters', in float32: call it after every backward pass."""
        self._collect(coarse_only=True)

    def clip(self, largest: float) -> float:
        """Scale the gradients so that their norm is at most `largest`; returns the norm before."""
        self._collect(coarse_only=False)
        used = [master for master in self.masters if master.grad is not None]
        return _whole(torch.nn.utils.clip_grad_norm_(used, largest)).item() if used else 0.0

    def step(self) -> None:
        """Move the masters, then the weights."""
        self._collect(coarse_only=False)
        self.inner.step()
        with torch.no_grad():
            for weight, master in zip(self.weights, self.masters, strict=True):
                if master is not weight:
                    _local(weight).copy_(_local(master))

    def zero_grad(self) -> None:
        """Drop all gradients."""
        for tensor in (*self.weights, *self.masters):
            tensor.grad = None

    def state_dict(self) -> dict[str, Any]:
        """Moments (whole ones where they are sharded: all ranks must ask), and masters of weights that are coarser."""
        state = self.inner.state_dict()
        state["state"] = {
            index: {name: _whole(value) for name, value in moments.items()} for index, moments in state["state"].items()
        }
        state["masters"] = {
            index: _whole(master.detach())
            for index, (weight, master) in enumerate(zip(self.weights, self.masters, strict=True))
            if weight.dtype != torch.float32 and master is not weight
        }
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them; the weights must have been restored before."""
        kept = state.get("masters", {})
        self.inner.load_state_dict({name: value for name, value in state.items() if name != "masters"})
        for parameter, moments in self.inner.state.items():
            for name, value in moments.items():
                if isinstance(parameter, DTensor) and value.shape == parameter.shape and value.dim():
                    moments[name] = distribute_tensor(value, parameter.device_mesh, parameter.placements)
        with torch.no_grad():
            for index, (weight, master) in enumerate(zip(self.weights, self.masters, strict=True)):
                if master is not weight:
                    value = kept.get(index, weight.detach())
                    if isinstance(master, DTensor) and not isinstance(value, DTensor):
                        value = distribute_tensor(value.to(master.device), master.device_mesh, master.placements)
                    _local(master).copy_(_local(value))

    def _master(self, weight: torch.nn.Parameter) -> torch.nn.Parameter:
        if weight.dtype in (torch.float32, torch.float64) and self.device in (None, weight.device):
            return weight
        dtype = weight.dtype if weight.dtype == torch.float64 else torch.float32
        return torch.nn.Parameter(weight.detach().to(self.device or weight.device, dtype, copy=True))

    def _collect(self, *, coarse_only: bool) -> None:
        for weight, master in zip(self.weights, self.masters, strict=True):
            if master is weight or weight.grad is None or (coarse_only and weight.dtype == master.dtype):
                continue
            gradient = weight.grad.to(master.device, master.dtype)
            master.grad = gradient if master.grad is None else master.grad + gradient
            weight.grad = None


def _whole(value: Any) -> Any:
    return value.full_tensor() if isinstance(value, DTensor) else value


def _local(value: Any) -> Any:
    return value.to_local() if isinstance(value, DTensor) else value
