"""Policies by name: baselines, model folders, and servers that speak the OpenAI protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sandlot.envs.core.errors import InvalidArgument
from sandlot.harness.policies.scripted import BASELINES


def load_policy(spec: str) -> Any:
    """The policy that `spec` names.

    Args:
        spec: a baseline (`oracle`, `random`, `noop` …), a folder with a saved policy or Hugging Face model, or
            `openai:MODEL@URL`.

    Raises:
        InvalidArgument: it is none of these.
        MissingData: the folder holds no model.
        MissingExtra: torch or httpx is not installed.
    """
    if spec in BASELINES:
        return BASELINES[spec]()
    if Path(spec).is_dir():
        from sandlot.harness.policies.hf import HFPolicy

        return HFPolicy.load(spec)
    raise InvalidArgument(f"no policy {spec!r}; use {', '.join(BASELINES)}, a model folder, or openai:MODEL@URL")
