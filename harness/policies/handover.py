"""Weights on their way from the model that learns to the engine that plays: under the names of the base model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

ADAPTER = "default"  # the one that `HFPolicy.with_lora` makes


def weights(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Every weight, with LoRA adapters added to what they adapt; nothing in the model changes.

    Args:
        model: a model of transformers, or a peft model with LoRA adapters around one.

    Yields:
        (name in the base model's checkpoint, tensor on the model's device without gradient). Weights that are tied
        come under all their names: an engine may keep a copy for each.
    """
    base = model.get_base_model() if hasattr(model, "peft_config") else model
    adapted = {f"{name}.base_layer": module for name, module in base.named_modules() if hasattr(module, "lora_A")}
    for name, parameter in base.named_parameters(remove_duplicate=False):
        if ".lora_" in name:
            continue
        module, _, leaf = name.rpartition(".")
        tensor = parameter.detach()
        if module in adapted and leaf == "weight":
            with torch.no_grad():
                tensor = tensor + adapted[module].get_delta_weight(ADAPTER).to(tensor.dtype)
        yield name.replace(".base_layer.", "."), tensor


def write_weights(model: Any, folder: Path) -> None:
    """Put `weights` into the folder as one safetensors file, replaced as a whole."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    made = folder / "model.safetensors.new"
    # a file cannot hold one tensor twice: copies
    save_file({name: tensor.cpu().clone().contiguous() for name, tensor in weights(model)}, made, {"format": "pt"})
    made.rename(folder / "model.safetensors")


def write_adapter(model: Any, folder: Path) -> None:
    """Put the LoRA adapters of a peft model into the folder, in peft's format."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
