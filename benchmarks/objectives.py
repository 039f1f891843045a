"""Every objective on a toy whose optimum is known: `python benchmarks/objectives.py`.

The toy is a Corridor of three rooms with three verbs and four steps, four tasks of it; the best policy is certain to
arrive, so that its value is 1. Each objective trains a table of logits per observation from zero, with every seed. What
the table is worth is computed exactly, over the tasks' unrolled decision processes: of the policy as it samples, and of
its most likely actions. `--markdown` prints the table that docs/results/objectives.md holds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from sandlot.envs.core.tasks import ListTasks
from sandlot.envs.toys.exact import Mdp, unroll
from sandlot.harness.loop import EnvMaker, Rollout, play_groups
from sandlot.harness.policies.tabular import TabularPolicy
from sandlot.trainers.loop import Schedule, train
from sandlot.trainers.methods import make_recipe
from sandlot.trainers.preferences import DPO, dpo, pairs_of

HORIZON = 4
ENV = EnvMaker("sandlot/Corridor-v0", {"rooms": 3, "verbs": 3, "max_steps": HORIZON})
TASKS = ListTasks(ENV.tasks().first(4))
STEPS, GROUPS, SIZE, RATE = 7, 4, 8, 0.6
PAIRS = DPO(lr=RATE, batch=16, micro_batch=16, max_grad_norm=100.0)
NO_GROUPS: dict[str, Any] = {"groups": GROUPS * SIZE, "group_size": 1}  # as many episodes, each of a task of its own
CRITIC: dict[str, Any] = {**NO_GROUPS, "value_lr": RATE, "minibatches": 1, "epochs": 2, "gamma": 0.9}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "grpo": ("grpo", {}),
    "grpo, verl-agent's rows": ("grpo", {"step_rows": True}),
    "grpo, mean over turns": ("grpo", {"aggregation": "turn"}),
    "dr_grpo": ("dr_grpo", {"length": HORIZON}),
    "dapo": ("dapo", {"resample": 1, "overlong": 4, "limit": 8}),
    "gspo": ("gspo", {"minibatches": 1}),
    "cispo": ("cispo", {}),
    "rloo": ("rloo", {}),
    "rloo, entropy bonus": ("rloo", {"entropy_coef": 0.01}),
    "rloo, truncated correction": ("rloo", {"correction": "truncate"}),
    "rloo, masked correction": ("rloo", {"correction": "mask"}),
    "rloo, KL k1 in the reward": ("rloo", {"kl_coef": 0.01, "kl_in_reward": True}),
    "rloo, KL k2 in the loss": ("rloo", {"kl_coef": 0.01, "kl": "k2"}),
    "rloo, KL k3 in the loss": ("rloo", {"kl_coef": 0.01, "kl": "k3", "kl_weighted": True}),
    "reinforcepp": ("reinforcepp", NO_GROUPS),
    # Whitening moves the advantages of short, good episodes together: smaller steps.
    "reinforcepp, baseline": ("reinforcepp", {"baseline": True, "lr": RATE / 2}),
    "ppo over turns": ("ppo", CRITIC),
    "ppo over tokens": ("ppo", {**CRITIC, "level": "token"}),
    "gigpo": ("gigpo", {}),
    "ecpo": ("ecpo", {}),
    "dpo on pairs": ("dpo", {}),
}


@dataclass(frozen=True)
class Reached:
    """What one seed came to."""

    value: float
    """Expected return of the policy as it samples, averaged over the tasks."""
    greedy: float
    """The same of its most likely actions."""


def problems() -> list[Mdp]:
    """The decision processes of the tasks."""
    env = ENV()
    found = []
    for task in TASKS:
        env.reset(options={"task": task.id})
        found.append(unroll(env))
    env.close()
    return found


def chances(policy: TabularPolicy, greedy: bool) -> Callable[[str, dict[str, Any]], Sequence[float]]:
    """The policy's probabilities; greedy: shared among its most likely actions."""

    def of(_: str, info: dict[str, Any]) -> Sequence[float]:
        entries = [policy.index.get(f"{info['obs_key']}\n{action}") for action in info["admissible"]]
        logits = np.array([0.0 if at is None else policy.weights.data[at].item() for at in entries])
        weights = (logits == logits.max()).astype(float) if greedy else np.exp(logits - logits.max())
        return (weights / weights.sum()).tolist()

    return of


def reach(case: str, seed: int, processes: list[Mdp]) -> Reached:
    """Train one case with one seed and value what came of it."""
    name, options = CASES[case]
    recipe = None if name == "dpo" else make_recipe(name, **work(name, options))
    policy = TabularPolicy(512, key="obs_key", critic=recipe is not None and recipe.critic)
    if recipe is not None:
        train(recipe, policy, Rollout(ENV), TASKS, Schedule(steps=STEPS, seed=seed))
    else:
        requests = [(task, SIZE, "explore") for task in TASKS]
        for step in range(STEPS):
            groups = play_groups(policy, requests, Rollout(ENV), seed=99 * seed + step)
            dpo(policy, pairs_of(groups, every=True), PAIRS)
    sampled, likely = (
        float(np.mean([mdp.value(chances(policy, greedy), HORIZON) for mdp in processes])) for greedy in (False, True)
    )
    return Reached(sampled, likely)


def work(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a recipe, with the work that all do."""
    return {"groups": GROUPS, "group_size": SIZE, "lr": RATE, "max_grad_norm": 100.0, **options}


def main() -> None:
    parser = argparse.ArgumentParser(description="Every objective on a toy whose optimum is known.")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES), metavar="CASE")
    parser.add_argument("--markdown", action="store_true", help="print the rows of a Markdown table")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    processes = problems()
    columns = ("objective", "seeds at the optimum", "value, least", "value, mean")
    table = Table(*columns, box=None)
    best = float(np.mean([mdp.optimal(HORIZON) for mdp in processes]))
    rows = []
    for case in arguments.cases:
        found = [reach(case, seed, processes) for seed in range(arguments.seeds)]
        solved = sum(one.greedy >= best - 1e-9 for one in found)
        values = [one.value for one in found]
        rows.append((case, f"{solved} of {len(found)}", f"{min(values):.3f}", f"{np.mean(values):.3f}"))
        table.add_row(*rows[-1])
    random = float(np.mean([mdp.random(HORIZON) for mdp in processes]))
    if arguments.markdown:
        print(f"| {' | '.join(columns)} |\n| --- | --- | --- | --- |")
        print("\n".join(f"| {' | '.join(row)} |" for row in rows))
    else:
        Console().print(table)
    print(f"random {random:.3f}, best {best:.3f}")


if __name__ == "__main__":
    main()
