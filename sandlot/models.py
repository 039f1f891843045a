"""Policies by name: baselines, model folders, and servers that speak the OpenAI protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sandlot.envs.core.errors import InvalidArgument, MissingData
from sandlot.harness.policies.scripted import BASELINES
from sandlot.harness.runs import RunFolder

NAMED = ("smollm2-135m",)  # models with weights in a package


def load_policy(spec: str) -> Any:
    """The policy that `spec` names.

    Args:
        spec: a baseline (`oracle`, `random`, `noop` …), a folder with a saved policy or Hugging Face model, a run
            folder of `sandlot train`, a model's name, `vllm:FOLDER` or `openai:MODEL@URL`.

    Raises:
        InvalidArgument: it is none of these.
        MissingData: the folder holds no model; the message says why.
        MissingExtra: torch, vLLM or httpx is not installed.
    """
    if spec in BASELINES:
        return BASELINES[spec]()
    if spec.startswith("openai:"):
        return _served(spec)
    if spec.startswith("vllm:"):
        return _with_vllm(Path(spec.removeprefix("vllm:")))
    trained = Path(spec) / "model"  # in a run folder of `sandlot train`
    folder = trained if trained.is_dir() else Path(spec)
    if folder != trained and (folder / "config.toml").is_file():
        raise MissingData(_no_model(folder))
    if spec not in NAMED and folder.is_dir() and not (folder / "config.json").is_file():
        raise MissingData(f"{folder} holds no model (config.json is missing)")
    if spec in NAMED or folder.is_dir():
        from sandlot.harness.policies.smollm import load

        return load(spec if spec in NAMED else folder)
    known = ", ".join([*BASELINES, *NAMED])
    raise InvalidArgument(
        f"no policy {spec!r}; use {known}, a model folder, a run folder, vllm:FOLDER, or openai:MODEL@URL"
    )


def _no_model(folder: Path) -> str:
    model = RunFolder(folder).config().get("model")
    if model is None:
        return f"{folder} is not a run of `sandlot train`: there is no model in it"
    if model in ("tabular", "bag"):
        return f"{folder} trained a {model} policy, which is not kept as a model: train a language model to evaluate it"
    return f"{folder} holds no trained model yet: finish the run with `sandlot train --resume {folder}`"


def _with_vllm(folder: Path) -> Any:
    folder = folder / "model" if (folder / "model").is_dir() else folder
    if not (folder / "config.json").is_file():
        raise MissingData(f"{folder} holds no model (config.json is missing)")
    import torch
    from transformers import AutoTokenizer

    from sandlot.harness.policies.chat import ChatFormat
    from sandlot.harness.policies.engine import EnginePolicy
    from sandlot.harness.policies.vllm import VLLM

    format_ = ChatFormat.of(AutoTokenizer.from_pretrained(folder, local_files_only=True))
    on_gpu = torch.cuda.is_available()
    engine = VLLM(folder, format_, dtype="bfloat16" if on_gpu else "float32", memory=0.85, eager=not on_gpu)
    return EnginePolicy(engine, format_, name=folder.name)


def _served(spec: str) -> Any:
    model, at, url = spec.removeprefix("openai:").rpartition("@")
    if not at or not model or not url.startswith(("http://", "https://")):
        raise InvalidArgument(f"{spec!r} is not of the form openai:MODEL@http://HOST:PORT/v1")
    from sandlot.harness.policies.openai import OpenAIPolicy

    return OpenAIPolicy(model, url)
