"""Speed of the tiny language model's generation: `python benchmarks/generation.py`.

64 sessions whose prompts begin with about 250 tokens and grow by about 30 a turn, on one thread, once with keys and
values kept between the turns and once computed anew every turn. Times are CPU-seconds of this process.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from sandlot.harness.policies.hf import HFPolicy
from sandlot.harness.policies.tiny import build_word_tokenizer, tiny_llama
from sandlot.harness.policy import Sampling
from sandlot.harness.records import Context, Message

WORDS = tuple(f"w{a}{b}" for a in "abcdefghijk" for b in "abcdefghijklmnopqrstuvwxyz")  # 286
ACTIONS = (
    *(f"take {WORDS[i]} {i % 9} from {WORDS[i + 50]} {i % 7}" for i in range(15)),
    *(f"go to {WORDS[i]} {i % 10}" for i in range(20)),
)


def measure(decode: str, *, keep: bool, sessions: int, turns: int) -> tuple[float, int, int]:
    """CPU-seconds, sampled tokens, and new tokens altogether (prompts' growth and completions)."""
    rng = np.random.default_rng(0)
    tokenizer = build_word_tokenizer([" ".join(WORDS), *ACTIONS])
    policy = HFPolicy(tiny_llama(len(tokenizer)), tokenizer, device="cpu")
    sampling = Sampling(decode=decode, max_tokens=8)

    def said(words: int) -> Message:
        return Message("user", " ".join(rng.choice(WORDS, words)))

    histories = [[said(int(rng.integers(220, 280)))] for _ in range(sessions)]
    calls = []
    sampled = 0
    began = time.process_time()
    for turn in range(turns):
        if not keep:
            policy.reset_cache()
        contexts = [Context(tuple(history), ACTIONS, session=f"s{i}") for i, history in enumerate(histories)]
        calls = policy.generate(contexts, sampling, range(turn * sessions, (turn + 1) * sessions))
        for history, call in zip(histories, calls):
            sampled += len(call.completion_ids)
            history += [Message("assistant", call.text, call.id), said(22)]
    seconds = time.process_time() - began
    return seconds, sampled, sum(len(call.prompt_ids) + len(call.completion_ids) for call in calls)


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of the tiny language model's generation.")
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--turns", type=int, default=8)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    table = Table("decoding", "cache", "CPU-s", "turns/s", "sampled tokens/s", "new tokens/s")
    for decode in ("trie", "free", "choice"):
        for keep in (True, False):
            seconds, sampled, new = measure(decode, keep=keep, sessions=arguments.sessions, turns=arguments.turns)
            rates = [arguments.sessions * arguments.turns / seconds, sampled / seconds, new / seconds]
            table.add_row(decode, "kept" if keep else "none", f"{seconds:.1f}", *(f"{rate:,.0f}" for rate in rates))
    Console().print(table)


if __name__ == "__main__":
    main()
