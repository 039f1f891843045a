"""GAE over tokens: hand-worked, the same as GAE over turns where turns are single units, and trained with."""

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
from sandlot.harness.loop import EnvMaker, Rollout, play_groups
from sandlot.harness.policies.hf import HFPolicy
from sandlot.harness.policies.tabular import TabularPolicy
from sandlot.harness.policies.tiny import build_word_tokenizer, tiny_llama
from sandlot.harness.policy import Sampling
from sandlot.harness.records import Group, StopReason, Trajectory
from sandlot.trainers.estimators import GAE
from sandlot.trainers.learner import Learner
from sandlot.trainers.methods import make_recipe
from sandlot.trainers.token_gae import TokenGAE, unit_values

ENV = EnvMaker("sandlot/Corridor-v0", {"rooms": 4})
few = settings(max_examples=40, deadline=None)


def estimate(estimator: TokenGAE, groups: list[Group], values: Any) -> list[list[list[float]]]:
    estimator.values = [[[np.array(turn, dtype=float) for turn in member] for member in group] for group in values]
    return [[turn.tolist() for turn in member] for member in estimator(groups)[0]]


def test_by_hand(episode: Callable[..., Trajectory], group: Callable[..., Group]) -> None:
    # two turns of 2 and 1 tokens, rewards 1 and 2, values .5 .25 | 1; gamma .5, lambda .5
    played = group(episode(("a", "x", 1.0, 2), ("b", "y", 2.0, 1)))
    # delta_2 = 2 - 1 = 1                              A_2 = 1
    # delta_1 = 1 + .5 * 1 - .25 = 1.25                A_1 = 1.25 + .25 * 1 = 1.5   (skips the observation between)
    # delta_0 = 0 + .5 * .25 - .5 = -.375              A_0 = -.375 + .25 * 1.5 = 0
    estimator = TokenGAE(gamma=0.5, lam=0.5, whiten=False)
    (advantages,) = estimate(estimator, [played], [[[[0.5, 0.25], [1.0]]]])
    assert [x for turn in advantages for x in turn] == pytest.approx([0.0, 1.5, 1.0])
    assert np.concatenate(estimator.returns[0][0]).tolist() == pytest.approx([0.5, 1.75, 2.0])
    # cut by the step limit, with a bootstrap value of 4: delta_2 = 2 + .5 * 4 - 1 = 3
    cut = group(episode(("a", "x", 1.0, 2), ("b", "y", 2.0, 1), stop=StopReason.STEP_LIMIT, bootstrap=4.0))
    (advantages,) = estimate(
        TokenGAE(gamma=0.5, lam=0.5, whiten=False, bootstrap=True), [cut], [[[[0.5, 0.25], [1.0]]]]
    )
    assert [x for turn in advantages for x in turn] == pytest.approx([0.125, 2.0, 3.0])
    # not asked to: as if it had ended
    (advantages,) = estimate(TokenGAE(gamma=0.5, lam=0.5, whiten=False), [cut], [[[[0.5, 0.25], [1.0]]]])
    assert [x for turn in advantages for x in turn] == pytest.approx([0.0, 1.5, 1.0])


@few
@given(
    values=st.lists(st.floats(-2, 2), min_size=1, max_size=5),
    gamma=st.floats(0, 1),
    lam=st.floats(0, 1),
    whiten=st.booleans(),
)
def test_single_units_are_turns(
    values: list[float],
    gamma: float,
    lam: float,
    whiten: bool,
    episode: Callable[..., Trajectory],
    group: Callable[..., Group],
) -> None:
    played = [group(episode(*((str(k), "go", float(k % 2), 1, v) for k, v in enumerate(values))))]
    turns = GAE(gamma=gamma, lam=lam, whiten=whiten)
    expected = turns(played)[0][0]
    tokens = TokenGAE(gamma=gamma, lam=lam, whiten=whiten)
    (mine,) = estimate(tokens, played, [[[[v] for v in values]]])
    assert [turn[0] for turn in mine] == pytest.approx([float(turn[0]) for turn in expected], abs=1e-9)
    assert np.concatenate(tokens.returns[0][0]).tolist() == pytest.approx(turns.returns[0][0].tolist(), abs=1e-9)


def test_void_members_count_in_no_statistic(episode: Callable[..., Trajectory], group: Callable[..., Group]) -> None:
    good = episode(("a", "x", 1.0, 2), ("b", "y", 0.0, 1))
    broken = episode(("a", "x", 9.0, 2), stop=StopReason.FAULT)
    values = [[[0.5, 0.25], [1.0]]]
    alone = estimate(TokenGAE(), [group(good)], [values])
    both = estimate(TokenGAE(), [group(good, broken)], [[*values, [[3.0, 4.0]]]])
    assert both == [alone[0], [[0.0, 0.0]]]
    assert estimate(TokenGAE(), [group(episode())], [[[]]]) == [[]]


def language_policy(critic: bool = True) -> HFPolicy:
    tokenizer = build_word_tokenizer([ENV().reset(seed=0)[0], " ".join(ENV().reset(seed=0)[1]["admissible"])])
    return HFPolicy(tiny_llama(len(tokenizer), 32, 2, 2, seed=0), tokenizer, critic=critic, max_tokens=512)


@pytest.mark.parametrize("decode", ["free", "trie", "choice"])
def test_values_are_read_where_units_were_decided(decode: str) -> None:
    policy = language_policy()
    assert policy.value_head is not None
    torch.nn.init.normal_(policy.value_head.weight, generator=torch.Generator().manual_seed(0))
    rollout = Rollout(ENV, Sampling(decode=decode, max_tokens=3), FullHistory)
    groups = play_groups(policy, [(ENV().tasks.at(0), 2, "explore")], rollout, seed=1)
    calls = [call for member in groups[0].members for call in member.calls][:5]
    for call, values in zip(calls, unit_values(policy, calls), strict=True):
        assert values[0] == pytest.approx(call.value, abs=1e-5)
        ids = call.prompt_ids + (call.completion_ids if decode != "choice" else ())
        with torch.no_grad():
            hidden = policy.model.model(torch.tensor([ids])).last_hidden_state[0]
            expected = policy.value_head(hidden).squeeze(1)[len(call.prompt_ids) - 1 :][: len(values)]
        assert values.tolist() == pytest.approx(expected.tolist(), abs=1e-5)


def test_without_a_critic_it_is_refused() -> None:
    policy = TabularPolicy()
    groups = play_groups(policy, [(ENV().tasks.at(0), 2, "explore")], Rollout(ENV))
    with pytest.raises(InvalidArgument, match="critic=True"):
        TokenGAE().prepare(policy, groups)
    with pytest.raises(InvalidArgument, match="level must be"):
        make_recipe("ppo", level="word")


def test_a_language_models_critic_fits_its_targets() -> None:
    """The value loss falls over repeated updates on the same episodes, over tokens as over turns."""
    for level in ("turn", "token"):
        policy = language_policy()
        recipe = make_recipe("ppo", level=level, lr=0.0, value_lr=0.05, value_clip=None, minibatches=1)
        rollout = Rollout(ENV, Sampling(decode="trie"), FullHistory)
        groups = play_groups(policy, [(ENV().tasks.at(i), 3, "explore") for i in range(2)], rollout, seed=4)
        for member in (member for group in groups for member in group.members):
            member.turns[-1].reward = 1.0
        learner, losses = Learner(policy, recipe), []
        for _ in range(12):
            if level == "token":
                recipe.estimator.prepare(policy, groups)  # pyright: ignore[reportAttributeAccessIssue]
            metrics = learner.update(groups, recipe.estimator(groups))
            losses.append(metrics["loss/value"])
            assert metrics["logprob_gap"] < 1e-4
        assert losses[-1] < 0.5 * losses[0], (level, losses)
