"""Checkpoints: everything stateful in one file, written whole or not at all; a resumed run repeats its numbers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from ..envs.core.errors import MissingData

LAST = "last.pt"


def save(folder: Path, state: dict[str, Any]) -> Path:
    """Write `state` as the folder's newest checkpoint. A crash in between leaves the previous one."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LAST
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    os.replace(partial, path)  # noqa: PTH105 (atomic on one file system)
    return path


def load(folder: Path) -> dict[str, Any]:
    """The folder's newest checkpoint.

    Raises:
        MissingData: there is none, or it cannot be read.
    """
    path = folder / LAST
    if not path.exists():
        raise MissingData(f"no checkpoint at {path}: nothing to resume from")
    try:
        return torch.load(path, weights_only=True)
    except Exception as error:
        raise MissingData(
            f"{path} cannot be read ({type(error).__name__}): delete it or point to another run"
        ) from error


def parts_state(parts: dict[str, Any]) -> dict[str, Any]:
    """The states of the parts that have one."""
    return {name: part.state_dict() for name, part in parts.items() if hasattr(part, "state_dict")}


def load_parts(parts: dict[str, Any], states: dict[str, Any]) -> None:
    """Bring the parts back to their states."""
    for name, part in parts.items():
        if hasattr(part, "load_state_dict") and name in states:
            part.load_state_dict(states[name])
