"""Settings that work, by environment and model: what `sandlot train` uses for everything that is not asked for."""

from __future__ import annotations

from typing import Any

from ..envs.core.registry import find
from .job import Job

_TOYS: dict[str, Any] = {
    "model": "tabular",
    "steps": 40,
    "eval_tasks": 64,
    "recipe_kwargs": {"lr": 0.3, "groups": 8, "group_size": 8},
}


def preset(env: str, model: str | None = None) -> Job:
    """The settings for an environment and a model (None: the environment's own choice)."""
    entry = find(env)
    if entry.family == "toys":
        return Job(**{"env": entry.id, **_TOYS, **({"model": model} if model else {})})
    return Job(env=entry.id, model=model or "tiny")
