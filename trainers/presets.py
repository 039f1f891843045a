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

# The agent sees the instruction and the newest observation. That keeps prompts short and hides what would confuse a
# model of this size: the goal's name then occurs twice in a prompt exactly when the object is in sight.
_MARKOV: dict[str, Any] = {"window": 0, "brief": True}

_LANGUAGE: dict[str, Any] = {"model": "tiny", "history": _MARKOV, "decode": "choice"}

_ALFWORLD: dict[str, Any] = {
    **_LANGUAGE,
    "env_kwargs": {"source": "generated", "task_types": [1], "max_receptacles": 8, "max_steps": 20},
    "demonstrator": "expert",  # unprivileged: it searches, and sees only what the agent sees
    "demonstrations": 1600,
    "sft": {"observation_weight": 0.1},
    "steps": 32,
    "eval_tasks": 256,
    "recipe_kwargs": {
        "groups": 16,
        "group_size": 8,
        "minibatches": 4,
        "lr": 6e-4,
        "warmup": 12,
        "std": False,
        "aggregation": "token",
        "clip_high": 0.28,
    },
}

_SMOLLM2: dict[str, Any] = {
    "decode": "trie",  # "choice" scores every action's tokens and costs about three times as much
    "lora": 16,
    "demonstrations": 80,
    "sft": {"lr": 1e-3, "batch": 4, "observation_weight": 0.0, "warmup": 5},
    "steps": 2,
    "eval_tasks": 16,
    "concurrency": 16,
    "recipe_kwargs": {**_ALFWORLD["recipe_kwargs"], "groups": 2, "minibatches": 1, "lr": 2e-4, "warmup": 0},
}


def preset(env: str, model: str | None = None) -> Job:
    """The settings for an environment and a model (None: the environment's own choice).

    A model other than the preset's own starts without a warm start unless it is a language model that can have one.
    """
    entry = find(env)
    settings = {"toys": _TOYS, "alfworld": _ALFWORLD}.get(entry.family, _LANGUAGE)
    if model is not None and model != settings["model"]:
        tokenless = model in ("tabular", "bag")
        if tokenless:
            settings = {**settings, "demonstrations": 0, "recipe_kwargs": _TOYS["recipe_kwargs"]}
        elif settings is _TOYS:
            settings = {**_LANGUAGE, "demonstrations": 400, "steps": 10, "eval_tasks": 64}
        if not tokenless and model != "tiny":
            settings = {**settings, **_SMOLLM2}
        settings = {**settings, "model": model}
    return Job(**{"env": entry.id, **settings})
