"""A batch that is cut into micro-batches moves the weights as the whole one does."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sandlot.harness.loop import EnvMaker, Limits, Rollout, play_groups
from sandlot.harness.packing import batch_indices
from sandlot.harness.policies.hf import HFPolicy
from sandlot.harness.policies.tiny import build_word_tokenizer, tiny_llama
from sandlot.harness.policy import Sampling
from sandlot.trainers.learner import Learner
from sandlot.trainers.methods import make_recipe

ENV = EnvMaker("sandlot/Corridor-v0", {"rooms": 3})


def make_policy() -> HFPolicy:
    observation, info = ENV().reset(seed=0)
    tokenizer = build_word_tokenizer([observation, " ".join(info["admissible"])])
    return HFPolicy(tiny_llama(len(tokenizer), 32, 2, 2, seed=0), tokenizer, device="cpu", max_tokens=1 << 20)


@pytest.mark.parametrize(
    ("decode", "aggregation"),
    [("trie", "token"), ("choice", "trajectory"), ("trie", "turn"), ("choice", "constant")],
)
def test_micro_batches_move_the_weights_as_the_whole_batch_does(decode: str, aggregation: str) -> None:
    rollout = Rollout(ENV, Sampling(decode=decode), limits=Limits(concurrency=8))
    groups = play_groups(make_policy(), [(task, 4, "explore") for task in ENV().tasks.first(2)], rollout, seed=1)
    for number, member in enumerate(member for group in groups for member in group.members):
        member.turns[-1].reward += 0.1 * number  # every group teaches
    recipe = make_recipe("grpo", lr=1e-3, aggregation=aggregation, entropy_coef=0.01, group_size=4)
    calls = [call for group in groups for member in group.members for call in member.calls]
    found = []
    for limit in (1 << 20, 300):
        assert (len(batch_indices(calls, limit)) > 3) == (limit == 300)
        policy = make_policy()
        policy.max_tokens = limit
        metrics = Learner(policy, recipe).update(groups, recipe.estimator(groups))
        found.append((metrics["grad_norm"], policy.trainable_parameters()))
    (whole_norm, whole), (cut_norm, cut) = found
    assert whole_norm > 1e-3
    np.testing.assert_allclose(cut_norm, whole_norm, rtol=1e-5)
    for a, b in zip(whole, cut, strict=True):
        # Adam divides by the gradient's size: where that is nothing but rounding, its sign may differ (2 lr at most)
        assert float((a - b).abs().max()) <= 2e-3 and float((a - b).abs().mean()) < 1e-5
    assert not torch.equal(whole[0], make_policy().trainable_parameters()[0])
