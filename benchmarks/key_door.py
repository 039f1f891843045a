"""PPO, GRPO and RLOO on KeyDoor: `python benchmarks/key_door.py`.

Two doors, a decoy key beside each right one, 20 steps: six right actions in a row. A table of logits per observation
learns from 16 tasks x 8 episodes a step; the held-out tasks are other combinations of rooms. Success is measured as the
policy plays, one episode per task, with the 95 % Wilson interval.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import torch

from sandlot.harness.loop import EnvMaker, Rollout, play
from sandlot.harness.policies.tabular import TabularPolicy
from sandlot.harness.summary import summarise
from sandlot.trainers.loop import Schedule, train
from sandlot.trainers.methods import make_recipe

OPTIONS = {"doors": 2, "decoys": 1}
ENV = EnvMaker("sandlot/KeyDoor-v0", OPTIONS)
UNSEEN = EnvMaker("sandlot/KeyDoor-v0", {**OPTIONS, "split": "valid_unseen"})
RECIPES: dict[str, dict[str, Any]] = {
    "ppo": {"value_lr": 0.2, "minibatches": 2, "gamma": 0.95},
    "grpo": {},
    "rloo": {},
}
STEPS = 100


@dataclass(frozen=True)
class Solved:
    """Summaries (`harness.summary.summarise`) of the held-out episodes."""

    before: dict[str, float]
    after: dict[str, float]


def solve(name: str, seed: int, steps: int = STEPS, tasks: int = 256) -> Solved:
    """Train one recipe with one seed; evaluate before and after."""
    recipe = make_recipe(name, **{"lr": 0.2, "groups": 16, "group_size": 8, "max_grad_norm": 100.0, **RECIPES[name]})
    policy = TabularPolicy(key="obs_key", critic=recipe.critic)
    unseen = UNSEEN.tasks().first(tasks)

    def evaluated() -> dict[str, float]:
        return summarise(play(policy, unseen, Rollout(UNSEEN), seed=seed))

    before = evaluated()
    train(recipe, policy, Rollout(ENV), ENV.tasks(), Schedule(steps=steps, seed=seed))
    return Solved(before, evaluated())


def main() -> None:
    parser = argparse.ArgumentParser(description="PPO, GRPO and RLOO on KeyDoor.")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=STEPS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("| recipe | seed | before | after | 95 % interval | turns | CPU-s |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in RECIPES:
        for seed in range(arguments.seeds):
            began = time.process_time()
            found = solve(name, seed, arguments.steps)
            after = found.after
            interval = f"{after['success_low']:.3f} - {after['success_high']:.3f}"
            print(
                f"| {name} | {seed} | {found.before['success']:.3f} | {after['success']:.3f} | {interval} "
                f"| {after['turns']:.1f} | {time.process_time() - began:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
