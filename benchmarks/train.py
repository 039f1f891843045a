"""Rollout and update against TRL's `GRPOTrainer`, on one thread: `python benchmarks/train.py`.

The same tiny model, the same prompts and observations, in one process and one run, alternating. Two tasks, each
played by a group, in conversations of one turn and of several: as in GRPO, a group's episodes have one prompt. TRL
generates every turn as its tool loop does (`_generate_single_turn`, whole history), ours with `HFPolicy`. For the
update both get the same recorded episodes, one optimiser step each. Times are CPU-seconds of this process, medians
over rounds; a ratio is the median of the rounds' ratios, so that other work on the machine touches both sides. Memory
is what the resident set grows by at most during the first update of a fresh process, one for each side. Both flush
subnormal numbers, as `sandlot train` does.
"""

from __future__ import annotations

import argparse
import ctypes
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from sandlot.envs.core.tasks import Task
from sandlot.harness.policies.hf import HFPolicy
from sandlot.harness.policies.tiny import build_word_tokenizer, tiny_llama
from sandlot.harness.policy import Sampling
from sandlot.harness.records import Call, Context, Group, Message, StopReason, Trajectory, Turn
from sandlot.trainers.estimators import GRPO
from sandlot.trainers.learner import Learner
from sandlot.trainers.methods import make_recipe

WORDS = tuple(f"w{a}{b}" for a in "abcdefghijk" for b in "abcdefghijklmnopqrstuvwxyz")
TOKENS = 8  # per completion at most
PROMPT, OBSERVATION = 250, 22  # words


class Bench:
    """One model twice (ours and TRL's), and the texts that both see."""

    def __init__(self, episodes: int, turns: int, group: int, folder: str, *, apart: bool = False) -> None:
        from importlib import import_module

        from datasets import Dataset

        trl: Any = import_module("trl")

        self.episodes, self.turns, self.group = episodes, turns, group
        tokenizer = build_word_tokenizer([" ".join(WORDS)])
        self.policy = HFPolicy(tiny_llama(len(tokenizer), seed=0), tokenizer, device="cpu")
        # `trajectory` is TRL's "grpo" mean; nothing is clipped or regularised beyond it in either
        self.learner = Learner(self.policy, make_recipe("grpo", lr=1e-4, group_size=group))
        self.trainer: Any = trl.GRPOTrainer(
            model=tiny_llama(len(tokenizer), seed=0),
            processing_class=tokenizer,
            args=trl.GRPOConfig(
                folder,
                use_cpu=True,
                bf16=False,
                report_to="none",
                per_device_train_batch_size=episodes,
                num_generations=group,
                max_completion_length=TOKENS,
                learning_rate=1e-4,
            ),
            train_dataset=Dataset.from_list([{"prompt": "x"}] * episodes),
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
        )
        self.optimizer = torch.optim.AdamW(self.trainer.model.parameters(), lr=1e-4, betas=(0.9, 0.99))
        rng = np.random.default_rng(0)
        tasks = [" ".join(rng.choice(WORDS, PROMPT)) for _ in range(episodes if apart else episodes // group)]
        self.prompts = tasks if apart else [task for task in tasks for _ in range(group)]
        self.said = [[" ".join(rng.choice(WORDS, OBSERVATION)) for _ in range(turns)] for _ in range(episodes)]
        self.rewards = rng.random(episodes)

    def our_rollout(self) -> tuple[int, list[Group]]:
        """Sampled tokens, and the episodes."""
        histories = [[Message("user", prompt)] for prompt in self.prompts]
        calls: list[list[Call]] = [[] for _ in self.prompts]
        for turn in range(self.turns):
            contexts = [Context(tuple(history), session=f"s{i}") for i, history in enumerate(histories)]
            seeds = range(turn * self.episodes, (turn + 1) * self.episodes)
            for i, call in enumerate(self.policy.generate(contexts, Sampling(max_tokens=TOKENS), seeds)):
                calls[i].append(call)
                histories[i] += [Message("assistant", call.text, call.id), Message("user", self.said[i][turn])]
        self.policy.forget([f"s{i}" for i in range(self.episodes)])
        task, info = Task("bench", "train"), {"score": 0.0, "valid": True}
        members = []
        for row, reward in zip(calls, self.rewards):
            turns = [Turn(call, "", "", 0.0, info, "", "") for call in row]
            turns[-1].reward = float(reward)
            members.append(Trajectory("t", "bench", task, "", info, turns, StopReason.TERMINATED))
        groups = [Group(task, members[i : i + self.group]) for i in range(0, self.episodes, self.group)]
        return sum(len(call.completion_ids) for row in calls for call in row), groups

    def their_rollout(self) -> int:
        """Sampled tokens."""
        format_ = self.policy.format
        ids = [format_.prompt([Message("user", prompt)], {}) for prompt in self.prompts]
        sampled = 0
        for turn in range(self.turns):
            completions, _ = self.trainer._generate_single_turn(ids, None, {}, self.group)
            for i, completion in enumerate(completions):
                sampled += len(completion)
                between = format_.prompt([Message("user", self.said[i][turn])], {})
                ids[i] = [*ids[i], *completion, *between]
        return sampled

    def our_update(self, groups: list[Group]) -> None:
        """One optimiser step."""
        self.learner.update(groups, GRPO(eps=1e-4)(groups))

    def their_update(self, groups: list[Group]) -> None:
        """The same on TRL's rows: one per episode, observations masked."""
        rows = []
        for group in groups:
            for member, turns in zip(group.members, GRPO(eps=1e-4)([group])[0]):
                calls = list(member.calls)
                start, whole = len(calls[0].prompt_ids), calls[-1].prompt_ids + calls[-1].completion_ids
                mask, old = np.zeros(len(whole)), np.zeros(len(whole))
                for call in calls:
                    at = slice(len(call.prompt_ids), len(call.prompt_ids) + len(call.completion_ids))
                    mask[at], old[at] = 1, call.logprobs
                rows.append((whole[:start], whole[start:], mask[start:], old[start:], float(turns[0][0])))

        def padded(column: int, dtype: torch.dtype, *, left: bool = False) -> torch.Tensor:
            width = max(len(row[column]) for row in rows)
            parts = [np.zeros(width - len(row[column])) for row in rows]
            pairs = [(part, np.asarray(row[column])) for part, row in zip(parts, rows)]
            return torch.tensor(np.array([np.concatenate(p if left else p[::-1]) for p in pairs]), dtype=dtype)

        def real(column: int, *, left: bool = False) -> torch.Tensor:
            width = max(len(row[column]) for row in rows)
            sizes = np.array([len(row[column]) for row in rows])[:, None]
            at = np.arange(width)
            return torch.tensor((at >= width - sizes) if left else (at < sizes), dtype=torch.long)

        model = self.trainer.model
        self.trainer.current_gradient_accumulation_steps = 1
        loss = self.trainer._compute_loss(
            model,
            {
                "prompt_ids": padded(0, torch.long, left=True),
                "prompt_mask": real(0, left=True),
                "completion_ids": padded(1, torch.long),
                "completion_mask": real(1),
                "tool_mask": padded(2, torch.long),
                "old_per_token_logps": padded(3, torch.float32),
                "advantages": torch.tensor([row[4] for row in rows]),
                "num_items_in_batch": torch.tensor(sum(row[2].sum() for row in rows)),
            },
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU-seconds and the result."""
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def grown(work: Callable[[], Any]) -> float:
    """By how many MB the resident set grows at most while working (Linux; elsewhere nan)."""
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    ctypes.CDLL(None).malloc_trim(0)  # what was freed before is not to be had for nothing
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from now
    before = _kilobytes(status, "VmRSS")
    work()
    return (_kilobytes(status, "VmHWM") - before) / 1024


def _kilobytes(status: Path, name: str) -> int:
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith(name))


def peak(side: str, groups: list[Group], turns: int) -> float:
    """Megabytes of the first update of a fresh process, which reads the recorded episodes from a file."""
    with tempfile.TemporaryDirectory() as folder:
        recorded = Path(folder) / "groups.pickle"
        recorded.write_bytes(pickle.dumps((groups, turns)))
        command = [sys.executable, __file__, "--peak", side, "--recorded", str(recorded)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def _peak_here(side: str, recorded: Path) -> float:
    groups, turns = pickle.loads(recorded.read_bytes())
    size = len(groups[0].members)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(size * len(groups), turns, size, folder)
        update = bench.our_update if side == "ours" else bench.their_update
        return grown(lambda: update(groups))


def measure(bench: Bench, rounds: int) -> dict[str, float]:
    """Tokens per CPU-second of the rollouts, CPU-seconds and megabytes per update, and the rounds' ratios."""
    found: dict[str, list[float]] = {}
    memory: dict[str, float] = {}
    for number in range(rounds + 1):  # the first round warms up
        seconds, (tokens, groups) = cpu(bench.our_rollout)
        theirs, sampled = cpu(bench.their_rollout)
        if not number:
            memory = {f"{side}_memory": peak(side, groups, bench.turns) for side in ("ours", "theirs")}
            bench.our_update(groups)
            bench.their_update(groups)
            continue
        update, _ = cpu(lambda groups=groups: bench.our_update(groups))
        their_update, _ = cpu(lambda groups=groups: bench.their_update(groups))
        values = {
            "ours": tokens / seconds,
            "theirs": sampled / theirs,
            "rollout": (tokens / seconds) / (sampled / theirs),
            "our_update": update,
            "their_update": their_update,
            "update": their_update / update,
            "both": (tokens / (seconds + update)) / (sampled / (theirs + their_update)),
        }
        for name, value in values.items():
            found.setdefault(name, []).append(value)
    return {name: median(values) for name, values in found.items()} | memory


def main() -> None:
    parser = argparse.ArgumentParser(description="Rollout and update against TRL's GRPOTrainer on one CPU thread.")
    parser.add_argument("--tasks", type=int, default=2)
    parser.add_argument("--group", type=int, nargs="+", default=[4, 8, 16], help="episodes per task")
    parser.add_argument("--turns", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--apart", action="store_true", help="give every episode a prompt of its own")
    parser.add_argument("--peak", choices=("ours", "theirs"), help=argparse.SUPPRESS)
    parser.add_argument("--recorded", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    if arguments.peak:
        print(_peak_here(arguments.peak, arguments.recorded))
        return
    columns = ("group", "turns", "rollout tok/s", "TRL", "ratio", "update s", "TRL", "ratio", "both", "MB", "TRL")
    print("| " + " | ".join(columns) + " |\n|" + " ---: |" * len(columns))
    for group in arguments.group:
        for turns in arguments.turns:
            with tempfile.TemporaryDirectory() as folder:
                bench = Bench(arguments.tasks * group, turns, group, folder, apart=arguments.apart)
                found = measure(bench, arguments.rounds)
            rollout = f"{found['ours']:.0f} | {found['theirs']:.0f} | {found['rollout']:.2f}"
            update = (
                f"{found['our_update']:.3f} | {found['their_update']:.3f} | {found['update']:.2f} | {found['both']:.2f}"
            )
            memory = f"{found['ours_memory']:.0f} | {found['theirs_memory']:.0f}"
            print(f"| {group} | {turns} | {rollout} | {update} | {memory} |", flush=True)


if __name__ == "__main__":
    main()
