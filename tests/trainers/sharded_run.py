"""What `test_sharded.py` runs in one and in two processes: a few steps, a stop, a resume; rank 0 writes the numbers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from sandlot.harness.context import FullHistory
from sandlot.harness.loop import EnvMaker, Limits, Rollout
from sandlot.harness.policies.hf import HFPolicy
from sandlot.harness.policies.tiny import build_word_tokenizer, tiny_llama
from sandlot.harness.policy import Sampling
from sandlot.trainers import checkpoint, sharded
from sandlot.trainers.loop import Schedule, train
from sandlot.trainers.methods import make_recipe

ENV = EnvMaker("sandlot/Corridor-v0", {"rooms": 3})


class Log:
    """Checkpoints only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def log(self, step: int, metrics: dict[str, float]) -> None: ...

    def trajectory(self, trajectory: Any) -> None: ...

    def rewind(self, step: int) -> None: ...


RUNS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {  # recipe, its options, the policy's
    "grpo": ("grpo", {"kl_coef": 0.05}, {}),
    "ppo": ("ppo", {"level": "token"}, {"checkpointing": True, "offload": True}),
    "coarse": ("rloo", {}, {"precision": "bfloat16", "checkpointing": True, "offload": True}),
}
LORA = {"coarse": 4}  # rank


def run(label: str, folder: Path) -> list[dict[str, float]]:
    name, options, settings = RUNS[label]
    observation, info = ENV().reset(seed=0)
    tokenizer = build_word_tokenizer([observation, " ".join(info["admissible"])])
    recipe = make_recipe(name, **{"groups": 3, "group_size": 4, "lr": 1e-3, "minibatches": 1, **options})
    rollout = Rollout(ENV, Sampling(decode="trie"), FullHistory, limits=Limits(concurrency=8))
    history: list[dict[str, float]] = []
    for steps, resume in ((2, False), (3, True)):
        policy: Any = HFPolicy(
            tiny_llama(len(tokenizer), 32, 2, 2, seed=0), tokenizer, critic=recipe.critic, **settings
        )
        policy.max_tokens = 256
        policy = policy.with_lora(LORA[label]) if label in LORA else policy
        sharded.ranks().gather(None)  # the checkpoint is there
        if sharded.ranks().world > 1:
            policy = sharded.ShardedPolicy(policy)
        history = train(recipe, policy, rollout, ENV().tasks, Schedule(steps), run=Log(folder), resume=resume)
    sharded.ranks().gather(None)
    assert checkpoint.load(folder)["step"] == 2
    return history


def main() -> None:
    torch.set_num_threads(1)
    here = sharded.start()
    out = Path(sys.argv[1])
    results = {label: run(label, out / label) for label in RUNS}
    if here.rank == 0:
        (out / "history.json").write_text(json.dumps(results))
    sharded.stop()


if __name__ == "__main__":
    main()
