"""vLLM in this process as an `Engine`: token ids in and out, new weights after each update, memory given back.

`VLLM(folder, format)` loads a model folder; `EnginePolicy(VLLM(…), format)` plays with it. Where one process runs the
whole model (no tensor parallelism), `sync` hands the tensors themselves to vLLM; else they go through a file.
"""

from __future__ import annotations

import os
import random
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...envs.core.errors import InvalidArgument, MissingData, MissingExtra
from .chat import ChatFormat
from .engine import Answer, Ask
from .handover import weights, write_adapter, write_weights

NEVER = -100.0  # added to the logits of control tokens; vLLM's own limit
MOST = 128  # ids whose log-probabilities one request may ask for; vLLM's own limit


class VLLM:
    """An engine on `vllm.LLM`.

    Args:
        folder: a model folder (`HFPolicy.save` writes one); its weights are played with until the first `sync`.
        format: the model's chat format; gives the stop token and those that are never sampled.
        dtype: of weights and computation: "bfloat16", "float16" or "float32".
        max_context: tokens of prompt and completion together; None takes the model's own limit.
        memory: share of the accelerator's memory for weights and keys and values.
        sleep: let `sleep` give the memory back (not on a CPU).
        eager: no compilation and no CUDA graphs: ready sooner, slower later.
        lora: rank of LoRA adapters that `sync` hands over as such; 0 adds them to the weights, which always works.
        options: more arguments for `vllm.LLM`, for example `{"tensor_parallel_size": 2}`.

    Raises:
        MissingExtra: vLLM is not installed.
        MissingData: there is no model in the folder.
        InvalidArgument: vLLM refuses the arguments.
    """

    def __init__(
        self,
        folder: str | Path,
        format: ChatFormat,
        *,
        dtype: str = "bfloat16",
        max_context: int | None = None,
        memory: float = 0.4,
        sleep: bool = False,
        eager: bool = False,
        lora: int = 0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if not (Path(folder) / "config.json").is_file():
            raise MissingData(f"{folder} holds no model (config.json is missing)")
        with _quiet_and_here(), _own_randomness():
            vllm = _vllm()
            arguments: dict[str, Any] = {
                "model": str(folder),
                "dtype": dtype,
                "max_model_len": max_context,
                "gpu_memory_utilization": memory,
                "enable_sleep_mode": sleep,
                "enforce_eager": eager,
                "enable_prefix_caching": True,
                "logprobs_mode": "processed_logprobs",
                "seed": 0,  # every request has a seed of its own
                "disable_log_stats": True,
            }
            if not torch.cuda.is_available():
                # vLLM 0.32's CPU build fails where a request with a seed is read in several parts
                longest = max(8192, max_context or 0)
                arguments |= {"enable_chunked_prefill": False, "max_num_batched_tokens": longest}
            if lora:
                arguments |= {"enable_lora": True, "max_lora_rank": max(lora, 8)}
            try:
                self.llm: Any = vllm.LLM(**{**arguments, **(options or {})})
            except ValueError as error:
                reason = "; ".join(line.strip() for line in str(error).splitlines()[:2])
                raise InvalidArgument(f"vLLM refuses the model or its arguments: {reason}") from None
        settings = self.llm.llm_engine.vllm_config
        self.max_context = int(settings.model_config.max_model_len)
        self.direct = settings.parallel_config.world_size == 1
        self.lora, self.adapter = lora, None
        self.sleeps, self.asleep = sleep, False
        self.stop = format.stop
        vocabulary = settings.model_config.get_vocab_size()
        self.bias = dict.fromkeys([*sorted(format.control), *range(format.size, vocabulary)], NEVER)
        self.lock = threading.RLock()
        self.loaded: Any = None
        self._temporary = tempfile.TemporaryDirectory(prefix="sandlot-vllm-")  # goes with the process at the latest
        self.folder = Path(self._temporary.name)
        self.syncs = 0

    def complete(self, asks: Sequence[Ask]) -> list[Answer]:
        """One answer per ask, in order; vLLM batches them as it sees fit."""
        prompt_of = _vllm().TokensPrompt
        fitting = [ask for ask in asks if len(ask.prompt) < self.max_context]
        prompts, parameters = [], []
        for ask in fitting:
            for among in chunks(ask.among):
                prompts.append(prompt_of(prompt_token_ids=list(ask.prompt)))
                parameters.append(self._parameters(ask, among))
        outputs = iter(
            self.llm.generate(prompts, parameters, use_tqdm=False, lora_request=self.adapter) if prompts else ()
        )
        return [
            self._answer(ask, [next(outputs).outputs[0] for _ in chunks(ask.among)])
            if len(ask.prompt) < self.max_context
            else Answer((), np.zeros(0, np.float32), "context")
            for ask in asks
        ]

    def sync(self, policy: Any) -> None:
        """Take over the weights of an `HFPolicy` (or its LoRA adapters alone) and drop all kept keys and values."""
        self.syncs += 1
        adapters = hasattr(policy.model, "peft_config")
        if adapters and self.lora:
            request = import_module("vllm.lora.request").LoRARequest
            write_adapter(policy.model, self.folder)
            self.adapter = request("policy", 1, str(self.folder))
            self.llm.llm_engine.add_lora(request("policy", 1, str(self.folder), load_inplace=True))
        elif self.direct:
            self.llm.collective_rpc("reload_weights", kwargs={"weights_iterator": weights(policy.model)})
        else:
            write_weights(policy.model, self.folder)
            self.llm.collective_rpc("reload_weights", kwargs={"weights_path": str(self.folder)})
        if not self.llm.reset_prefix_cache():
            raise InvalidArgument("vLLM was asked for new weights while requests are under way")

    def sleep(self) -> None:
        """Give back the memory: weights are dropped if `sync` brings all of them, else moved to the CPU's memory."""
        if self.sleeps and not self.asleep:
            self.llm.sleep(level=1 if self.lora else 2)
            self.asleep = True

    def wake(self) -> None:
        """Take it again."""
        if self.asleep:
            self.llm.wake_up()
            self.asleep, self.loaded = False, None

    def close(self) -> None:
        """Free the model and the files."""
        if self.llm is not None:
            self.llm.llm_engine.engine_core.shutdown()
            self.llm = None
            self._temporary.cleanup()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def _parameters(self, ask: Ask, among: tuple[int, ...]) -> Any:
        return _vllm().SamplingParams(
            max_tokens=min(ask.max_tokens, self.max_context - len(ask.prompt)),
            temperature=ask.temperature,
            top_p=ask.top_p,
            seed=None if among else ask.seed % (1 << 63),  # what is sampled beside `among` is not looked at
            stop_token_ids=[self.stop],
            ignore_eos=True,
            logit_bias=self.bias,
            detokenize=False,
            **({"logprob_token_ids": list(among)} if among else {"logprobs": 0}),
        )

    @staticmethod
    def _answer(ask: Ask, outputs: Sequence[Any]) -> Answer:
        if ask.among:
            first = {token: entry.logprob for output in outputs for token, entry in output.logprobs[0].items()}
            return Answer((), np.array([first[token] for token in ask.among], np.float32), "stop")
        (output,) = outputs
        ids = tuple(output.token_ids)
        logprobs = [entry[token].logprob for entry, token in zip(output.logprobs, ids, strict=True)]
        return Answer(ids, np.array(logprobs, np.float32), "length" if output.finish_reason == "length" else "stop")


def chunks(among: tuple[int, ...]) -> list[tuple[int, ...]]:
    """`among` in parts that one request may ask for; one empty part where there is nothing."""
    return [among[i : i + MOST] for i in range(0, len(among), MOST)] or [()]


def _vllm() -> Any:
    try:
        return import_module("vllm")
    except ImportError:
        raise MissingExtra("vllm", "vllm") from None


@contextmanager
def _quiet_and_here() -> Iterator[None]:
    """What vLLM reads from the environment while it is made: the engine runs in this process and is quiet.

    What the user has set stays, but for the first.
    """
    wanted = {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_LOGGING_LEVEL": os.environ.get("VLLM_LOGGING_LEVEL", "ERROR"),
        # on a CPU it would pin this process's threads
        "VLLM_CPU_OMP_THREADS_BIND": os.environ.get("VLLM_CPU_OMP_THREADS_BIND", "nobind"),
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _own_randomness() -> Iterator[None]:
    """Restores the global generators, which vLLM seeds in the process it starts in."""
    kept, array = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(kept)
        np.random.set_state(array)  # noqa: NPY002
