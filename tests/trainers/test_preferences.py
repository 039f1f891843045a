"""DPO on pairs of episodes, and supervised learning with weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs.core.errors import InvalidArgument
from sandlot.harness.context import FullHistory
from sandlot.harness.loop import EnvMaker, Rollout, play, play_groups
from sandlot.harness.policies.hf import HFPolicy
from sandlot.harness.policies.scripted import OraclePolicy, RandomPolicy
from sandlot.harness.policies.tabular import TabularPolicy
from sandlot.harness.policies.tiny import build_word_tokenizer, tiny_llama
from sandlot.harness.policy import Sampling
from sandlot.harness.records import Group, StopReason
from sandlot.trainers.preferences import DPO, dpo, dpo_loss, pairs_of
from sandlot.trainers.sft import SFT, demonstrations, sft, sft_loss

ENV = EnvMaker("sandlot/Corridor-v0", {"rooms": 4})
D = torch.float64


def test_the_loss_by_hand() -> None:
    chosen, rejected = torch.tensor([1.0, -2.0], dtype=D), torch.tensor([-1.0, 0.0], dtype=D)
    # beta .5: m = .5 * 2 = 1 and .5 * -2 = -1;  -log sigmoid(1) = .31326, -log sigmoid(-1) = 1.31326
    assert dpo_loss(chosen, rejected, DPO(beta=0.5)).tolist() == pytest.approx([0.31326, 1.31326], abs=1e-5)
    # smoothing .1: .9 * .31326 + .1 * 1.31326 = .41326
    smoothed = dpo_loss(chosen, rejected, DPO(beta=0.5, smoothing=0.1))
    assert smoothed.tolist() == pytest.approx([0.41326, 1.21326], abs=1e-5)
    with pytest.raises(InvalidArgument, match="smoothing"):
        dpo_loss(chosen, rejected, DPO(smoothing=0.5))


@settings(max_examples=40, deadline=None)
@given(a=st.floats(-20, 20), b=st.floats(-20, 20), beta=st.floats(0.01, 2))
def test_the_gradient_pulls_apart_and_fades(a: float, b: float, beta: float) -> None:
    chosen, rejected = torch.tensor([a], dtype=D, requires_grad=True), torch.tensor([b], dtype=D, requires_grad=True)
    dpo_loss(chosen, rejected, DPO(beta=beta)).sum().backward()
    expected = beta / (1 + np.exp(beta * (a - b)))  # beta * sigmoid(-m)
    assert chosen.grad is not None and rejected.grad is not None
    assert float(chosen.grad) == pytest.approx(-expected, abs=1e-12)
    assert float(rejected.grad) == pytest.approx(expected, abs=1e-12)


def test_pairs_are_of_one_task_and_differ(returns: Callable[..., Group]) -> None:
    group, flat = returns(0.0, 1.0, 0.5, 1.0), returns(1.0, 1.0)
    group.members[3].stop = StopReason.FAULT
    best = pairs_of([group, flat])
    assert [(a.reward, b.reward) for a, b in best] == [(1.0, 0.0)]
    every = pairs_of([group, flat], every=True, margin=0.4)
    assert sorted((a.reward, b.reward) for a, b in every) == [(0.5, 0.0), (1.0, 0.0), (1.0, 0.5)]
    assert pairs_of([group], every=True, margin=0.6) == pairs_of([group])


@pytest.mark.behaviour
def test_a_table_learns_the_corridor_from_pairs() -> None:
    """Measured on 4 seeds: from .28-.39 to .93-1.0 on its tasks after three rounds."""
    tasks = ENV().tasks
    for seed in range(3):
        policy = TabularPolicy(key="obs_key")
        success = []
        for turn in range(4):
            requests = [(tasks.at(i), 16, "explore") for i in range(8)]
            groups = play_groups(policy, requests, Rollout(ENV), seed=100 * seed + turn)
            success.append(np.mean([member.success for group in groups for member in group.members]))
            if pairs := pairs_of(groups, every=True):
                dpo(policy, pairs, DPO(lr=0.1, batch=16, micro_batch=16))
        assert success[-1] > success[0] + 0.4, success


def language_policy(seed: int = 0) -> HFPolicy:
    tokenizer = build_word_tokenizer([ENV().reset(seed=0)[0], " ".join(ENV().reset(seed=0)[1]["admissible"])])
    return HFPolicy(tiny_llama(len(tokenizer), 32, 2, 2, seed=seed), tokenizer, max_tokens=512)


def test_micro_batches_of_pairs_do_not_change_the_step() -> None:
    tasks = ENV().tasks
    rollout = Rollout(ENV, Sampling(decode="trie"), FullHistory)
    steps = []
    for micro in (1, 4):
        policy = language_policy()
        groups = play_groups(policy, [(tasks.at(i), 4, "explore") for i in range(3)], rollout, seed=2)
        rng = np.random.default_rng(0)
        for member in (member for group in groups for member in group.members):
            member.turns[-1].reward = float(rng.random())
        pairs = pairs_of(groups, every=True)
        history = dpo(policy, pairs, DPO(lr=1e-3, batch=4, micro_batch=micro, nll=0.1))
        steps.append((history, [parameter.detach().clone() for parameter in policy.trainable_parameters()]))
        assert all(row["loss"] > 0 and row["grad_norm"] > 0 for row in history)
    for one, four in zip(steps[0][0], steps[1][0], strict=True):
        if abs(one["margin"]) < 1e-4:  # at first all margins are 0 but for rounding, whose sign decides the accuracy
            four = {**four, "accuracy": one["accuracy"]}
        assert one == pytest.approx(four, abs=1e-4)
    for one, four in zip(steps[0][1], steps[1][1], strict=True):
        assert torch.allclose(one, four, atol=1e-4)


def test_an_episodes_units_are_summed_by_hand() -> None:
    """Two episodes that decide twice in one state of a uniform table, the winner always a, the loser always b."""
    policy = TabularPolicy(key="obs_key")
    (group,) = play_groups(policy, [(ENV().tasks.at(0), 16, "explore")], Rollout(ENV), seed=3)
    first = {member.turns[0].action: member for member in group.members}
    won, lost = list(first.values())[:2]
    for member in (won, lost):
        member.turns = [member.turns[0], member.turns[0]]
    actions = len(won.turns[0].call.choices or ())
    before, after = dpo(policy, [(won, lost)], DPO(beta=0.5, nll=0.1, lr=0.1, epochs=2))
    # at first both log-ratios are 0: -log sigmoid(0) = log 2; and the winner's mean -log pi is log n
    assert before["loss"] == pytest.approx(np.log(2) + 0.1 * np.log(actions), abs=1e-6)
    assert before["margin"] == before["accuracy"] == 0
    # Adam's first step moves the logits of a and b by +.1 and -.1, so that in each of the two units
    # log pi(a) - log pi(b) has become .2: m = .5 * (.2 + .2) = .2 (the normalisation cancels)
    assert after["margin"] == pytest.approx(0.2, abs=1e-5)
    assert after["accuracy"] == 1


def test_imitation_by_hand() -> None:
    # tokens: seen, spoken, seen, spoken with log p -1 -2 -3 -4; observation weight 1/4
    logprobs, spoken = torch.tensor([-1.0, -2.0, -3.0, -4.0], dtype=D), torch.tensor([False, True, False, True])
    ones = torch.ones(4, dtype=D)
    # (1/4 + 2 + 3/4 + 4) / (1/4 + 1 + 1/4 + 1) = 7 / 2.5 = 2.8
    assert sft_loss(logprobs, spoken, ones, ones, 0.25).item() == pytest.approx(2.8)
    # the second action is worth 1/2, the second pair's episode weighs 3: weights 1/4, 1, 3/4, 3/2, together 3.5
    # (1/4 + 2 + 9/4 + 6) / 3.5 = 10.5 / 3.5 = 3
    actions, episodes = torch.tensor([9, 1, 9, 0.5], dtype=D), torch.tensor([1, 1, 3, 3], dtype=D)
    assert sft_loss(logprobs, spoken, actions, episodes, 0.25).item() == pytest.approx(3.0)
    assert sft_loss(logprobs, spoken, 0 * ones, ones, 0.0).item() == 0  # nothing counts, nothing is lost


def test_an_episode_of_weight_zero_is_as_if_it_were_not_there() -> None:
    tasks = ENV().tasks
    rollout = Rollout(ENV, context=FullHistory)
    shown = play(OraclePolicy(), tasks.first(3), rollout) + play(RandomPolicy(), tasks.first(2), rollout, seed=1)
    plain = SFT(lr=1e-3, batch=8, warmup=0, observation_weight=0.2)
    results: list[tuple[list[float], Any]] = []
    for episodes, weights in ((shown, [1, 1, 1, 0, 0]), (shown[:3], None), (shown[:3], [2, 2, 2])):
        policy = language_policy()
        losses = sft(policy, demonstrations(policy.format, episodes), plain, weights=weights)
        results.append((losses, policy.model.state_dict()))
    for losses, weights_now in results[1:]:
        assert losses == pytest.approx(results[0][0], abs=1e-5)
        assert all(torch.allclose(weights_now[name], tensor, atol=1e-4) for name, tensor in results[0][1].items())
    policy = language_policy()
    calls = demonstrations(policy.format, shown)
    for wrong in ([1.0], [1, 1, 1, -1, 0], [1, 1, 1, float("nan"), 0]):
        with pytest.raises(InvalidArgument, match="weights"):
            sft(policy, calls, plain, weights=wrong)
    with pytest.raises(InvalidArgument, match="sessions"):
        sft(policy, [calls[0], calls[0]], plain, weights=[1, 1])
