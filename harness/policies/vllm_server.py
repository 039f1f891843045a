"""A running `vllm serve` as an `Engine`, over the completions route of the OpenAI protocol.

    VLLM_SERVER_DEV_MODE=1 vllm serve FOLDER --logprobs-mode processed_logprobs --max-logprobs 128

The developer routes reload weights, drop kept prefixes and put the server to sleep: keep such a server to yourself.
Weights are handed over in a folder that both sides see.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from ...envs.core.errors import InvalidArgument, MissingExtra
from ..policy import PolicyFault
from .chat import ChatFormat
from .engine import Answer, Ask
from .handover import write_adapter, write_weights
from .openai import Completion, OpenAIPolicy
from .vllm import MOST, NEVER, chunks

ADAPTER = "policy"  # what the server calls our LoRA adapter


class VLLMServer:
    """An engine on a vLLM server.

    Args:
        url: the server's address up to and including "/v1".
        format: the model's chat format.
        model: the model's name at the server; "" asks the server.
        folder: where weights are handed over, by a path that means the same to both; None makes a temporary one.
        lora: hand LoRA adapters over as such (the server needs `--enable-lora`, `--max-lora-rank` and
            `VLLM_ALLOW_RUNTIME_LORA_UPDATING=1`); otherwise they are added to the weights.
        sleep: let `sleep` give the server's memory back (it needs `--enable-sleep-mode`).
        concurrency: requests under way at once.
        timeout: seconds that one answer, or a change of weights, may take.

    Raises:
        MissingExtra: httpx is not installed.
        PolicyFault: there is no server.
        InvalidArgument: the server does not have the model.
    """

    def __init__(
        self,
        url: str,
        format: ChatFormat,
        *,
        model: str = "",
        folder: str | Path | None = None,
        lora: bool = False,
        sleep: bool = False,
        concurrency: int = 64,
        timeout: float = 600.0,
    ) -> None:
        try:
            import httpx
        except ImportError:
            raise MissingExtra("httpx", "openai") from None
        self._errors = httpx.HTTPError
        self._http = httpx.Client(base_url=url.rstrip("/").removesuffix("/v1"), timeout=timeout)
        known = {entry["id"]: entry for entry in self._call("GET", "/v1/models").json()["data"]}
        model = model or next(iter(known))
        if model not in known:
            raise InvalidArgument(f"the server at {url} has {', '.join(known)}, not {model!r}")
        self.max_context = int(known[model].get("max_model_len") or 1 << 20)
        self.model, self.base, self.lora = model, model, lora
        self.stop, size = format.stop, format.size
        self.bias = {str(token): NEVER for token in sorted(format.control)}
        self.size = size
        self._client = OpenAIPolicy(model, url, route="completions", concurrency=concurrency, timeout=timeout)
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="vllm-server")
        self._temporary = tempfile.TemporaryDirectory(prefix="sandlot-vllm-")  # goes with the process at the latest
        self.folder = Path(folder or self._temporary.name).resolve()
        self.sleeps, self.asleep = sleep, False
        self.lock = threading.RLock()
        self.loaded: Any = None
        self.syncs = 0

    def complete(self, asks: Sequence[Ask]) -> list[Answer]:
        """One answer per ask, in order; `concurrency` of them are under way at once."""
        return list(self._pool.map(self._complete, asks))

    def sync(self, policy: Any) -> None:
        """Write the weights (or adapters) of an `HFPolicy` and have the server read them.

        Raises:
            PolicyFault: the server failed.
            InvalidArgument: it was started without its developer routes (or without `--enable-lora`).
        """
        self.syncs += 1
        self._exclude(policy)
        if self.lora and hasattr(policy.model, "peft_config"):
            write_adapter(policy.model, self.folder)
            body = {"lora_name": ADAPTER, "lora_path": str(self.folder), "load_inplace": self.model == ADAPTER}
            self._call("POST", "/v1/load_lora_adapter", body)
            self.model = ADAPTER
        else:
            write_weights(policy.model, self.folder)
            body = {"method": "reload_weights", "kwargs": {"weights_path": str(self.folder)}}
            self._call("POST", "/collective_rpc", body)
        if not self._call("POST", "/reset_prefix_cache").json()["success"]:
            raise InvalidArgument("the server was asked for new weights while requests are under way")

    def sleep(self) -> None:
        """Have the server give back its memory; the weights move to the CPU's."""
        if self.sleeps and not self.asleep:
            self._call("POST", "/sleep?level=1")
            self.asleep = True

    def wake(self) -> None:
        """Have it take the memory again."""
        if self.asleep:
            self._call("POST", "/wake_up")
            self.asleep, self.loaded = False, None

    def close(self) -> None:
        """Leave the server; it goes on."""
        self._pool.shutdown(cancel_futures=True)
        self._client.close()
        self._http.close()
        self._temporary.cleanup()

    def _exclude(self, policy: Any) -> None:
        """Never sample ids beyond the tokenizer's, which only the model's own size tells."""
        size = policy.model.config.vocab_size
        self.bias |= {str(token): NEVER for token in range(self.size, size)}
        self.size = max(size, self.size)

    def _complete(self, ask: Ask) -> Answer:
        if len(ask.prompt) >= self.max_context:
            return Answer((), np.zeros(0, np.float32), "context")
        parts = [self._client.ask(self._request(ask, among), ask.seed) for among in chunks(ask.among)]
        if parts[0].finish == "context":
            return Answer((), np.zeros(0, np.float32), "context")
        if ask.among:
            first = {token: value for part in parts for token, value in part.first.items()}
            if any(token not in first for token in ask.among):
                raise InvalidArgument(f"{self._client!r} gives no log-probabilities by id: vLLM 0.32 or later does")
            return Answer((), np.array([first[token] for token in ask.among], np.float32), "stop")
        return _sampled(parts[0], self._client)

    def _request(self, ask: Ask, among: tuple[int, ...]) -> Mapping[str, Any]:
        request: dict[str, Any] = {
            "model": self.model,
            "prompt": list(ask.prompt),
            "max_tokens": min(ask.max_tokens, self.max_context - len(ask.prompt)),
            "temperature": ask.temperature,
            "top_p": ask.top_p,
            "seed": None if among else ask.seed % (1 << 63),  # what is sampled beside `among` is not looked at
            "stop_token_ids": [self.stop],
            "ignore_eos": True,
            "logit_bias": self.bias,
            "skip_special_tokens": False,
        }
        if among:
            assert len(among) <= MOST
            request |= {
                "logprobs": len(among),
                "logprob_token_ids": list(among),
                "return_tokens_as_token_ids": True,
            }
        return request

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        try:
            response = self._http.request(method, path, json=body)
        except self._errors as error:
            raise PolicyFault(f"no answer from {self._http.base_url}{path}: {error}") from None
        if response.status_code == 404:
            raise InvalidArgument(
                f"{self._http.base_url} has no route {path}: start vLLM with VLLM_SERVER_DEV_MODE=1 (and, for LoRA "
                "adapters, --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1)"
            )
        if response.status_code != 200:
            raise PolicyFault(f"{path} failed with status {response.status_code}: {response.text[:300]}")
        return response


def _sampled(found: Completion, client: OpenAIPolicy) -> Answer:
    if not found.completion_ids:
        raise InvalidArgument(f"{client!r} gives no token ids with log-probabilities; vLLM 0.11 or later does")
    return Answer(found.completion_ids, found.logprobs, found.finish)
