"""What the tests against vLLM share: a small model, conversations, a server."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sandlot.harness.policies.hf import HFPolicy
from sandlot.harness.policies.tiny import build_word_tokenizer, tiny_llama
from sandlot.harness.policy import Sampling
from sandlot.harness.records import Call, Context, Message

ROOM = "You see a desk 1, a shelf 2 and a mug 3. Corridor rooms: a b c d e"
ACTIONS = ("go to desk 1", "go to shelf 2", "look", "take mug 3", "take mug 3 from desk 1")


def make_policy(seed: int = 0, **options: Any) -> HFPolicy:
    """A small Llama with wild weights, so that its distributions are far from uniform."""
    tokenizer = build_word_tokenizer([ROOM, *ACTIONS])
    model = tiny_llama(len(tokenizer), d_model=64, layers=2, heads=2, init_std=0.3, max_context=512, seed=seed)
    return HFPolicy(model, tokenizer, device="cpu", **options)


def play(policy: Any, decode: str = "free", turns: int = 3, sessions: int = 3, temperature: float = 0.8) -> list[Call]:
    """A few conversations of several turns, together."""
    histories = [[Message("user", ROOM)] for _ in range(sessions)]
    calls = []
    for turn in range(turns):
        contexts = [Context(tuple(h), ACTIONS, session=f"{decode}{i}") for i, h in enumerate(histories)]
        seeds = [turn * sessions + i for i in range(sessions)]
        for history, call in zip(
            histories, policy.generate(contexts, Sampling(temperature, max_tokens=12, decode=decode), seeds)
        ):
            calls.append(call)
            history += [Message("assistant", call.text, call.id), Message("user", "You see a mug 3.")]
    return calls


def same_as(policy: HFPolicy, calls: list[Call], atol: float = 1e-3) -> None:
    """The recorded log-probabilities are those that `policy` computes."""
    for call, logprobs in zip(calls, policy.score(calls), strict=True):
        np.testing.assert_allclose(call.logprobs, logprobs, atol=atol)


def shake(policy: HFPolicy, seed: int = 1, size: float = 0.05) -> None:
    """Move all trainable weights, as an update would."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.trainable_parameters():
            parameter += size * torch.randn(parameter.shape, generator=generator)
    policy.version += 1
    policy.reset_cache()


@contextmanager
def serve(folder: Path, *arguments: str) -> Iterator[str]:
    """`vllm serve` on a free port with its developer routes; gives the address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(Path(sys.executable).parent / "vllm"), "serve", str(folder), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--dtype", "float32", "--enforce-eager", "--max-num-seqs", "16"]
    command += ["--logprobs-mode", "processed_logprobs", "--max-logprobs", "128"]
    command += ["--no-enable-chunked-prefill", *arguments]  # with seeds, it fails on a CPU
    environment = {**os.environ, "VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}
    log = (folder.parent / "serve.log").open("wb")
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(280):
            assert process.poll() is None, (folder.parent / "serve.log").read_text()[-3000:]
            try:
                urllib.request.urlopen(f"{url}/health", timeout=1)
                break
            except (urllib.error.URLError, OSError):
                time.sleep(1)
        else:
            raise AssertionError("vLLM did not start: " + (folder.parent / "serve.log").read_text()[-3000:])
        yield f"{url}/v1"
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
        log.close()
