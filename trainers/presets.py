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

# Questions on one small table: the model chooses among statements that grow by one part a turn. Held out are new
# databases of the domains it knows, because a vocabulary of whole words has no names of other domains.
_SQL: dict[str, Any] = {
    **_LANGUAGE,
    "env_kwargs": {
        **{"levels": ["easy"], "domains": ["library", "shop", "cinema"], "small": True},
        **{"candidates": True, "rows": 3, "copies": 2, "max_steps": 8},
    },
    "demonstrations": 1000,
    "sft": {"observation_weight": 0.1},
    "steps": 20,
    "eval_split": "valid_seen",
    "eval_tasks": 128,
    "recipe_kwargs": {**_ALFWORLD["recipe_kwargs"], "groups": 8, "minibatches": 2, "warmup": 5},
}

# Without a memory, choices must be marked on the page (text_rich). Four kinds of products, two on a page of results: a
# model of this size learns to find in a page what the instruction names, and short pages leave time for it. Held out
# are new products of the kinds it knows: a vocabulary of whole words has no words for others.
_WEBSHOP: dict[str, Any] = {
    **_LANGUAGE,
    "env_kwargs": {
        **{"source": "generated", "language": "template", "mode": "text_rich", "suggestions": 1},
        **{"departments": ["beauty"], "per_page": 2},
    },
    "demonstrator": "hasty",  # unprivileged, and needs no memory
    "demonstrations": 4000,  # 2400 leave it at a quarter of the success
    "sft": {"observation_weight": 0.02, "lr": 2e-3},
    "tiny": {"layers": 2, "kinship": 0.1},
    "steps": 20,
    "eval_split": "valid_seen",
    "eval_tasks": 256,
    # After imitation few groups are mixed, so many are played.
    "recipe_kwargs": {**_ALFWORLD["recipe_kwargs"], "minibatches": 2, "lr": 4e-4, "warmup": 2, "std": True},
}

_TERMINAL: dict[str, Any] = {
    **_LANGUAGE,
    # Two files are to be changed: the prompt must show which one has been.
    "history": {},
    "env_kwargs": {"family": "permissions", "level": 2, "commands": "menu", "max_steps": 6},
    "demonstrations": 200,
    "sft": {"observation_weight": 0.1},
    "tiny": {"layers": 2},
    "steps": 16,
    "eval_split": "valid_seen",  # other splits name files with words that the model has never seen
    "eval_tasks": 64,
    "concurrency": 16,
    "recipe_kwargs": {
        **_ALFWORLD["recipe_kwargs"],
        "groups": 8,
        "group_size": 8,
        "warmup": 4,
        "minibatches": 2,
        "lr": 3e-4,
    },
}

# Orders and ambiguous requests in small homes. Imitated is what a tree search found for a few tasks, each step weighted
# by its value; then the rewards of the single steps, compared between episodes that came through the same state.
_SMARTHOME: dict[str, Any] = {
    **_LANGUAGE,
    "history": {},  # what has been done must be in sight
    "env_kwargs": {"size": "small", "families": ["explicit", "ambiguous"], "candidates": True, "max_steps": 6},
    "ways": 3,
    "demonstrations": 250,
    "sft": {"observation_weight": 0.1, "by_value": True, "lr": 2e-3, "epochs": 12},
    "tiny": {"d_model": 128, "layers": 2, "kinship": 0.1},
    "recipe": "gigpo",
    "steps": 80,
    "eval_split": "valid_seen",  # new homes; whole words know no names that were never seen
    "eval_tasks": 256,
    "recipe_kwargs": {
        **_ALFWORLD["recipe_kwargs"],
        "anchor": "state_key",
        "groups": 8,
        "minibatches": 1,
        "lr": 6e-4,
        "warmup": 4,
    },
}

# From nothing, on short matches: what was won is then due to few moves. The newest observation holds all there is to
# know of a match.
_GAMES: dict[str, Any] = {
    **_LANGUAGE,
    "tiny": {"d_model": 64, "layers": 2},
    "steps": 30,
    "eval_tasks": 128,
    "recipe_kwargs": {
        **{"groups": 8, "group_size": 8, "minibatches": 2, "lr": 1e-3, "warmup": 3},
        **{"std": False, "aggregation": "token"},
    },
}
_LEDUC: dict[str, Any] = {**_GAMES, "env_kwargs": {"hands": 1}}

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


# What another recipe than the preset's own wants otherwise, by family, model and recipe: docs/results/ppo_grpo_rloo.md.
_OTHERWISE: dict[tuple[str, str, str], dict[str, Any]] = {("alfworld", "tiny", "ppo"): {"lr": 3e-4}}


def otherwise(job: Job, recipe: str) -> dict[str, Any]:
    """Options that `recipe` wants otherwise than the preset `job` has them for its own recipe."""
    return _OTHERWISE.get((find(job.env).family, job.model, recipe), {})


def preset(env: str, model: str | None = None) -> Job:
    """The settings for an environment and a model (None: the environment's own choice).

    A model other than the preset's own starts without a warm start unless it is a language model that can have one.
    """
    entry = find(env)
    families = {"toys": _TOYS, "alfworld": _ALFWORLD, "webshop": _WEBSHOP, "terminal": _TERMINAL}
    settings = {**families, "smarthome": _SMARTHOME}.get(entry.family, _LANGUAGE)
    if entry.id == "sandlot/SQL-v0":  # the others list no actions
        settings = _SQL
    if entry.family == "games":
        settings = _LEDUC if entry.id == "sandlot/Leduc-v0" else _GAMES
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
