"""vLLM plays, GRPO learns, on one GPU: tokens per second and memory at several lengths. Run it by `gpu_smoke.sh`.

The model has Qwen2.5's architecture and random weights; texts are random words and rewards random numbers, so that
nothing is downloaded. What is measured is the machinery: episodes of four turns in vLLM, new weights handed over, vLLM
put to sleep, a GRPO step with recomputed activations. `--tiny` is the same code on a CPU.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from itertools import islice, product
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from transformers import Qwen2Config, Qwen2ForCausalLM

from sandlot.envs.core.errors import MissingExtra
from sandlot.envs.core.tasks import Task
from sandlot.harness.policies.hf import HFPolicy
from sandlot.harness.policies.tiny import build_word_tokenizer
from sandlot.harness.policy import Sampling
from sandlot.harness.records import Call, Context, Group, Message, StopReason, Trajectory, Turn
from sandlot.trainers.engines import Decoupled, VLLMSettings, vllm_engine
from sandlot.trainers.learner import Learner
from sandlot.trainers.methods import make_recipe

# hidden size, size inside the MLP, layers, heads, heads of keys, vocabulary (Qwen2.5's model cards)
SIZES = {
    "0.5b": (896, 4864, 24, 14, 2, 151_936),
    "1.5b": (1536, 8960, 28, 12, 2, 151_936),
    "tiny": (64, 128, 2, 2, 1, 1024),  # the CPU kernels want heads of 32, 64 ... numbers
}
TURNS = 4
SPECIAL = 160  # at least so many ids are left for characters and control tokens


def make_policy(size: str, device: str, length: int) -> tuple[HFPolicy, list[str]]:
    """The policy with random weights, and its words."""
    hidden, inner, layers, heads, kv_heads, vocabulary = SIZES[size]
    # a word with the space before it is another token than without
    words = ["".join(letters) for letters in islice(product(ascii_lowercase, repeat=4), (vocabulary - SPECIAL) // 2)]
    tokenizer = build_word_tokenizer([" ".join(["", *words]), "\n".join(words)])
    assert vocabulary - 2 * SPECIAL < len(tokenizer) <= vocabulary, len(tokenizer)
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=length,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
    )
    torch.manual_seed(0)
    with torch.device(device):
        model = Qwen2ForCausalLM(config)
    on_gpu = device == "cuda"
    policy = HFPolicy(
        model,
        tokenizer,
        device=device,
        precision="bfloat16" if on_gpu else "float32",
        checkpointing=True,
        max_tokens=max(length, 16_384 if on_gpu else 0),
        name=size,
    )
    return policy, words


def play(policy: Any, words: Sequence[str], length: int, episodes: int, group: int) -> list[Group]:
    """Episodes of `TURNS` turns that end at about `length` tokens; a word is a token."""
    rng = np.random.default_rng(length)
    new = max(4, length // 32)
    said = length // TURNS - new - 4  # words; four tokens stand between messages
    sampling = Sampling(max_tokens=new)

    def text() -> str:
        return " ".join(rng.choice(words, said))

    histories = [[Message("user", text())] for _ in range(episodes)]
    calls: list[list[Call]] = [[] for _ in histories]
    for turn in range(TURNS):
        contexts = [Context(tuple(history), session=f"s{i}") for i, history in enumerate(histories)]
        answers = policy.generate(contexts, sampling, range(turn * episodes, (turn + 1) * episodes))
        for row, history, call in zip(calls, histories, answers, strict=True):
            row.append(call)
            history += [Message("assistant", call.text, call.id), Message("user", text())]
    policy.forget([f"s{i}" for i in range(episodes)])
    task, info = Task("smoke", "train"), {"score": 0.0, "valid": True}
    members = []
    for row in calls:
        turns = [Turn(call, "", "", 0.0, info, "", "") for call in row if call.completion_ids]
        turns[-1].reward = float(rng.random())
        members.append(Trajectory("t", "smoke", task, "", info, turns, StopReason.TERMINATED))
    return [Group(task, members[i : i + group]) for i in range(0, episodes, group)]


def timed(work: Any, device: str) -> tuple[float, Any]:
    """Seconds and the result."""
    began = time.perf_counter()
    result = work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began, result


def measure(policy: Any, learner: Learner, words: Sequence[str], length: int, args: Any) -> dict[str, float]:
    """One length: play, learn, hand over, play again (with what is compiled), learn again."""
    device = args.device
    found: dict[str, float] = {"length": length}
    for _ in range(2):  # the first one warms up
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        seconds, groups = timed(lambda: play(policy, words, length, args.episodes, args.group), device)
        calls = [call for group in groups for member in group.members for call in member.calls]
        sampled = sum(len(call.completion_ids) for call in calls)
        ends = [list(member.calls)[-1] for group in groups for member in group.members]
        tokens = sum(len(call.prompt_ids) + len(call.completion_ids) for call in ends)
        found |= {"sampled tok/s": sampled / seconds, "played tok/s": tokens / seconds, "play s": seconds}
        advantages = learner.recipe.estimator(groups)
        nap, _ = timed(policy.engine.sleep, device)
        seconds, metrics = timed(lambda g=groups, a=advantages: learner.update(g, a), device)
        policy.version += 1
        found |= {"update s": seconds, "learned tok/s": tokens / seconds, "tokens": tokens}
        found |= {"gap": metrics["logprob_gap"], "gap mean": metrics["logprob_gap_mean"]}
        if device == "cuda":
            found["peak GB"] = torch.cuda.max_memory_allocated() / 2**30
        woken, _ = timed(policy.engine.wake, device)
        synced, _ = timed(lambda: policy.engine.sync(policy.policy), device)
        found |= {"sleep s": nap, "wake s": woken, "sync s": synced}
    return found


def main() -> None:
    """Measure and print; `--json` also writes the numbers."""
    parser = argparse.ArgumentParser(description="vLLM plays, GRPO learns, on one GPU.")
    parser.add_argument("--tiny", action="store_true", help="a tiny model on the CPU: the same code, seconds long")
    parser.add_argument("--size", choices=("0.5b", "1.5b"), default="0.5b")
    parser.add_argument("--lengths", type=int, nargs="+")
    parser.add_argument("--episodes", type=int, default=16)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    args.device = "cpu" if args.tiny else "cuda"
    args.lengths = args.lengths or ([128, 256] if args.tiny else [2048, 4096, 8192])
    began = time.perf_counter()
    longest = max(args.lengths) + 256
    policy, words = make_policy("tiny" if args.tiny else args.size, args.device, longest)
    settings = VLLMSettings(memory=0.35, sleep=not args.tiny, eager=args.tiny)
    with tempfile.TemporaryDirectory() as folder:
        policy.save(folder)
        try:
            engine = vllm_engine(policy, Path(folder), settings)
        except MissingExtra as error:
            raise SystemExit(f"not run: {error}") from None
    try:
        player: Any = Decoupled(policy, engine, nap=settings.sleep)
        learner = Learner(player, make_recipe("grpo", lr=1e-6, group_size=args.group))
        print(f"ready after {time.perf_counter() - began:.0f} s", flush=True)
        rows = [measure(player, learner, words, length, args) for length in args.lengths]
    finally:
        engine.close()
    parameters = sum(p.numel() for p in policy.model.parameters())
    shown = Table(title=f"{parameters / 1e6:.1f} M parameters, {args.episodes} episodes of {TURNS} turns", box=None)
    for column in rows[0]:
        shown.add_column(column, justify="right")
    for row in rows:
        shown.add_row(*(f"{v:.0f}" if v >= 100 or v == int(v) else f"{v:.3g}" for v in row.values()))
    Console(width=180).print(shown)
    if args.json:
        args.json.write_text(json.dumps({"parameters": parameters, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
