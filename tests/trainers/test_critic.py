"""The critic on recorded ALFWorld episodes: its values and advantages against a plain calculation, call by call."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sandlot.harness.context import History
from sandlot.harness.loop import EnvMaker, Rollout, play_groups
from sandlot.harness.packing import batch_indices
from sandlot.harness.policies.hf import HFPolicy
from sandlot.harness.policies.tiny import build_word_tokenizer, tiny_llama
from sandlot.harness.policy import Sampling
from sandlot.harness.records import Group, StopReason
from sandlot.trainers.estimators import GAE

ENV = EnvMaker("sandlot/ALFWorld-v0", {"source": "generated", "task_types": [1], "max_receptacles": 6, "max_steps": 6})
HISTORIES = {"newest observation": History(window=0, brief=True), "whole episode": History()}


@pytest.fixture(scope="module", params=HISTORIES)
def played(request: pytest.FixtureRequest) -> tuple[HFPolicy, list[Group]]:
    """Two groups of three, some cut by the step limit and some (said to be) solved, and who played them."""
    env = ENV()
    texts: list[str] = []
    for i in range(2):
        observation, info = env.reset(options={"task": ENV.tasks().at(i).id})
        texts += [observation, *info["admissible"]]
    policy = HFPolicy(
        tiny_llama(len(tokenizer := build_word_tokenizer(texts)), 32, 2, 2, seed=0), tokenizer, critic=True
    )
    assert policy.value_head is not None
    torch.nn.init.normal_(policy.value_head.weight, generator=torch.Generator().manual_seed(0))
    rollout = Rollout(ENV, Sampling(decode="choice"), HISTORIES[request.param])
    groups = play_groups(policy, [(ENV.tasks().at(i), 3, "explore") for i in range(2)], rollout, seed=1)
    for group in groups:
        solved = group.members[0]
        solved.turns, solved.stop = solved.turns[:4], StopReason.TERMINATED
        solved.turns[-1].reward = 1.0
    assert {member.stop for group in groups for member in group.members} == {
        StopReason.TERMINATED,
        StopReason.STEP_LIMIT,
    }
    return policy, groups


def test_values_are_those_of_the_prompts_alone(played: tuple[HFPolicy, list[Group]]) -> None:
    policy, groups = played
    assert policy.value_head is not None
    calls = [call for group in groups for member in group.members for call in member.calls]
    alone = []
    with torch.no_grad():
        for call in calls:  # unpacked: one prompt, one forward pass
            state = policy.model.model(torch.tensor([call.prompt_ids])).last_hidden_state[0, -1]
            alone.append(policy.value_head(state).item())
        packed = np.zeros(len(calls))
        for batch in batch_indices(calls, 2048, share=True):  # as the learner packs them: trees, shared prompts
            values = policy.evaluate([calls[i] for i in batch]).values
            assert values is not None
            packed[batch] = values.numpy()
    assert np.std(alone) > 0.1
    assert packed == pytest.approx(alone, abs=1e-5)
    assert [call.value for call in calls] == pytest.approx(alone, abs=1e-5)  # what GAE reads


def test_advantages_are_those_of_the_definition(played: tuple[HFPolicy, list[Group]]) -> None:
    _, groups = played
    gamma, lam = 0.97, 0.9
    for bootstrap in (False, True):
        plain: list[list[float]] = []
        for member in (member for group in groups for member in group.members):
            cut = member.stop is not StopReason.TERMINATED
            after = member.metrics["bootstrap_value"] if bootstrap and cut else 0.0
            values = [*(call.value or 0.0 for call in member.calls), after]
            deltas = [turn.reward + gamma * values[k + 1] - values[k] for k, turn in enumerate(member.turns)]
            plain.append(
                [sum((gamma * lam) ** (j - k) * deltas[j] for j in range(k, len(deltas))) for k in range(len(deltas))]
            )
        flat = np.concatenate(plain)
        estimator = GAE(gamma=gamma, lam=lam, bootstrap=bootstrap)
        used = [units for group in estimator(groups) for member in group for units in member]
        assert all(len(units) == 1 for units in used)  # a choice is one unit
        assert np.concatenate(used) == pytest.approx((flat - flat.mean()) / flat.std(ddof=1), abs=1e-5)
        targets = np.concatenate([row for rows in estimator.returns for row in rows])
        values = [call.value for group in groups for member in group.members for call in member.calls]
        assert targets == pytest.approx(flat + np.array(values), abs=1e-5)
