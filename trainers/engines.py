"""A language model that learns here and plays in another engine (`harness/policies/engine.py`).

    play    wake the engine; if the weights have moved since it last took them: `engine.sync`; generate
    learn   put the engine to sleep (if it is to); evaluate, score and update with the model here

Weights are handed over when somebody plays, not when they move. So evaluations between updates cost nothing, a resumed
run needs nothing special, and copies that play in another thread share the engine: whoever plays has it to himself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..envs.core.errors import InvalidArgument
from ..harness.packing import batch_indices
from ..harness.policies.engine import Engine, EnginePolicy
from ..harness.policies.hf import HFPolicy
from ..harness.policy import Sampling
from ..harness.records import Call, Context


@dataclass(frozen=True)
class VLLMSettings:
    """How vLLM plays; see `harness.policies.vllm.VLLM` and `harness.policies.vllm_server.VLLMServer`."""

    url: str = ""
    """Address of a running `vllm serve`, up to and including "/v1"; "" runs vLLM in this process."""
    folder: str = ""
    """With `url`: where weights are handed over, by a path that means the same to both sides; "" makes one."""
    memory: float = 0.4
    """In this process: share of the GPU's memory for vLLM."""
    sleep: bool = False
    """Give vLLM's GPU memory back while the model learns."""
    eager: bool = False
    """In this process: no compilation, no CUDA graphs."""
    adapters: bool = False
    """With LoRA: hand over the adapters instead of whole weights."""
    max_context: int = 0
    """Tokens of prompt and completion together; 0 takes the model's own limit."""


def vllm_engine(policy: HFPolicy, folder: Path, settings: VLLMSettings, *, lora: int = 0) -> Engine:
    """The engine that the settings describe, for the model of `policy`.

    Args:
        policy: what will be played with.
        folder: holds the same model (any weights).
        settings: where and how.
        lora: rank of the policy's adapters, 0 where it has none.

    Raises:
        MissingExtra: vLLM (or httpx, for a server) is not installed.
        UserError: the model, the server or the settings do not fit.
    """
    if settings.url:
        from ..harness.policies.vllm_server import VLLMServer

        return VLLMServer(
            settings.url,
            policy.format,
            folder=settings.folder or None,
            lora=bool(lora) and settings.adapters,
            sleep=settings.sleep,
        )
    from ..harness.policies.vllm import VLLM

    return VLLM(
        folder,
        policy.format,
        dtype=str(policy.compute_dtype).removeprefix("torch."),
        max_context=settings.max_context or policy.max_context,
        memory=settings.memory,
        sleep=settings.sleep,
        eager=settings.eager,
        lora=lora if settings.adapters else 0,
    )


class Decoupled:
    """A `Trainable` whose calls come from an engine.

    Args:
        policy: learns and scores.
        engine: plays; closed by `close`.
        nap: put the engine to sleep whenever the model here computes gradients.

    Values of a critic are computed here, one forward pass per turn.
    """

    def __init__(self, policy: HFPolicy, engine: Engine, *, nap: bool = False) -> None:
        self.policy, self.engine, self.nap = policy, engine, nap
        self.player = EnginePolicy(engine, policy.format, name=policy.name)
        self.format, self.max_tokens, self.name = policy.format, policy.max_tokens, policy.name
        self.optimizer_device = policy.optimizer_device
        self._weights = object()  # together with the version: which weights these are

    @property
    def version(self) -> int:
        """Of the weights."""
        return self.policy.version

    @version.setter
    def version(self, value: int) -> None:
        self.policy.version = value

    def generate(self, contexts: Sequence[Context], sampling: Sampling, seeds: Sequence[int]) -> list[Call]:
        """One call per context, in order, with the weights of now."""
        with self.engine.lock:
            self.engine.wake()
            if self.engine.loaded != (self._weights, self.version):
                self.engine.sync(self.policy)
                self.engine.loaded = (self._weights, self.version)
            self.player.version = self.version
            calls = self.player.generate(contexts, sampling, seeds)
        if self.policy.value_head is not None:
            self._read_values(calls)
        return calls

    def forget(self, sessions: Sequence[str]) -> None:
        """These sessions ended."""
        self.player.forget(sessions)

    def evaluate(self, calls: Sequence[Call]) -> Any:
        """As `HFPolicy.evaluate`."""
        if self.nap and torch.is_grad_enabled():
            with self.engine.lock:
                self.engine.sleep()
        return self.policy.evaluate(calls)

    def score(self, calls: Sequence[Call], contexts: Sequence[Context] | None = None) -> list[np.ndarray]:
        """As `HFPolicy.score`: exact, by the model that learns."""
        return self.policy.score(calls, contexts)

    def reference(self) -> Any:
        """As `HFPolicy.reference`."""
        return self.policy.reference()

    def copy(self) -> Decoupled:
        """Weights of its own on the same engine: it may play while this one learns."""
        return Decoupled(self.policy.copy(), self.engine)

    def trainable_parameters(self) -> list[torch.nn.Parameter]:
        """The weights that a learner may move."""
        return self.policy.trainable_parameters()

    def value_parameters(self) -> list[torch.nn.Parameter]:
        """The value head's weights."""
        return self.policy.value_parameters()

    def state_dict(self) -> dict[str, Any]:
        """As `HFPolicy.state_dict`."""
        return self.policy.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """As `HFPolicy.load_state_dict`; the engine takes the weights over when somebody plays."""
        self.policy.load_state_dict(state)
        self._weights = object()

    def save(self, directory: str | Path) -> None:
        """As `HFPolicy.save`."""
        self.policy.save(directory)

    def close(self) -> None:
        """Free the engine."""
        self.engine.close()

    def _read_values(self, calls: Sequence[Call]) -> None:
        asked = [call for call in calls if call.completion_ids]
        for batch in batch_indices(asked, self.max_tokens):
            with torch.no_grad():
                values = self.policy.evaluate([asked[i] for i in batch]).values
            assert values is not None
            for i, value in zip(batch, values.tolist(), strict=True):
                asked[i].value = value


def check(engine: str, mode: str, settings: VLLMSettings, world: int) -> None:
    """Raises `InvalidArgument` where the settings do not go together."""
    if engine not in ("hf", "vllm"):
        raise InvalidArgument(f"engine must be 'hf' or 'vllm', not {engine!r}")
    if engine == "vllm" and world > 1:
        raise InvalidArgument("engine 'vllm' is for one learning process; several play with copies of their own")
    if engine == "vllm" and settings.sleep and mode != "sync":
        raise InvalidArgument(f"vLLM cannot sleep while episodes are played (mode {mode!r}): leave sleep out")
