"""The same recorded episodes and the same tiny model: our loss and gradients are TRL's, for every setting both have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sandlot.harness.loop import EnvMaker, Limits, Rollout, play_groups
from sandlot.harness.policies.evaluation import evaluate
from sandlot.harness.policies.hf import HFPolicy
from sandlot.harness.policies.tiny import build_word_tokenizer, tiny_llama
from sandlot.harness.policy import Sampling
from sandlot.harness.records import Call, Group
from sandlot.trainers.estimators import GRPO
from sandlot.trainers.objective import Batch, policy_loss, unit_weights
from sandlot.trainers.recipe import Objective

trl = pytest.importorskip("trl", reason="trl is not installed (extra: trl)")
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:'pin_memory' argument"),
]

ENV = EnvMaker("sandlot/Corridor-v0", {"rooms": 4})


@pytest.fixture(scope="module")
def groups() -> list[Group]:
    """Multi-turn episodes of a tiny model, with rewards of every kind."""
    tokenizer = build_word_tokenizer([ENV().reset(seed=0)[0], "left right up down forward back"])
    policy = HFPolicy(tiny_llama(len(tokenizer), 32, 2, 2, seed=3), tokenizer)
    rollout = Rollout(ENV, Sampling(max_tokens=3, decode="free"), limits=Limits(concurrency=8))
    played = play_groups(policy, [(ENV().tasks.at(i), 4, "explore") for i in range(2)], rollout, seed=1)
    rng = np.random.default_rng(0)
    for member in (member for group in played for member in group.members):
        member.turns = member.turns[: int(rng.integers(2, 5))]
        member.turns[-1].reward = float(rng.normal())
        for call in member.calls:  # as if sampled a few updates ago
            call.logprobs = call.logprobs + rng.normal(scale=0.3, size=len(call.logprobs)).astype(np.float32)
    return played


@pytest.fixture(scope="module")
def model() -> Any:
    tokenizer = build_word_tokenizer([ENV().reset(seed=0)[0], "left right up down forward back"])
    return tiny_llama(len(tokenizer), 32, 2, 2, seed=4)


@pytest.fixture(scope="module")
def trainer(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from datasets import Dataset

    folder: Path = tmp_path_factory.mktemp("trl")
    tokenizer = build_word_tokenizer([ENV().reset(seed=0)[0], "left right up down forward back"])
    args = trl.GRPOConfig(
        str(folder),
        use_cpu=True,
        report_to="none",
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=40,
        bf16=False,
    )
    yield trl.GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        args=args,
        train_dataset=Dataset.from_list([{"prompt": "x"}] * 8),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
    )


def rows(groups: list[Group], advantages: Any, reference: list[np.ndarray]) -> dict[str, torch.Tensor]:
    """The batch as TRL wants it: one row per episode, everything after the first prompt is the completion."""
    scores = iter(reference)
    made: list[dict[str, list[Any]]] = []
    for group, members in zip(groups, advantages):
        for member, turns in zip(group.members, members):
            calls = list(member.calls)
            prompt = list(calls[0].prompt_ids)
            ids = list(calls[-1].prompt_ids + calls[-1].completion_ids)
            size = len(ids) - len(prompt)
            row: dict[str, list[Any]] = {"prompt": prompt, "ids": ids[len(prompt) :], "mask": [0] * size}
            row |= {"old": [0.0] * size, "ref": [0.0] * size, "advantage": [float(turns[0][0])]}
            for call in calls:
                assert ids[: len(call.prompt_ids)] == list(call.prompt_ids)
                start = len(call.prompt_ids) - len(prompt)
                stop = start + len(call.completion_ids)
                row["mask"][start:stop] = [1] * (stop - start)
                row["old"][start:stop] = call.logprobs.tolist()
                row["ref"][start:stop] = next(scores).tolist()
            made.append(row)
    width, left = max(len(row["ids"]) for row in made), max(len(row["prompt"]) for row in made)

    def right(name: str, dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor([row[name] + [0] * (width - len(row[name])) for row in made], dtype=dtype)

    return {
        "prompt_ids": torch.tensor([[0] * (left - len(row["prompt"])) + row["prompt"] for row in made]),
        "prompt_mask": torch.tensor([[0] * (left - len(row["prompt"])) + [1] * len(row["prompt"]) for row in made]),
        "completion_ids": right("ids", torch.long),
        "completion_mask": torch.tensor([[1] * len(row["ids"]) + [0] * (width - len(row["ids"])) for row in made]),
        "tool_mask": right("mask", torch.long),
        "old_per_token_logps": right("old", torch.float32),
        "ref_per_token_logps": right("ref", torch.float32),
        "advantages": torch.tensor([row["advantage"][0] for row in made], dtype=torch.float32),
        "num_items_in_batch": torch.tensor(float(sum(sum(row["mask"]) for row in made))),
    }


def ours(
    model: Any, calls: list[Call], groups: list[Group], advantages: Any, reference: list[np.ndarray], o: Objective
) -> torch.Tensor:
    members = [member for group in groups for member in group.members]
    weights = unit_weights([[len(call.logprobs) for call in member.calls] for member in members], o.aggregation, 40)
    evaluation = evaluate(model, calls)
    sizes = torch.tensor([len(call.logprobs) for call in calls])
    trajectory = torch.tensor([i for i, member in enumerate(members) for _ in member.turns])

    def flat(parts: Any) -> torch.Tensor:
        return torch.tensor(np.concatenate(list(parts)), dtype=torch.float32)

    batch = Batch(
        old_logprobs=flat(call.logprobs for call in calls),
        advantages=flat(turn for group in advantages for member in group for turn in member),
        weights=flat(part for row in weights for part in row),
        # TRL's rows are episodes: its sequence ratio is the episode's
        call=torch.repeat_interleave(trajectory if o.ratio == "sequence" else torch.arange(len(calls)), sizes),
        ref_logprobs=flat(reference),
    )
    return policy_loss(o, batch, evaluation.logprobs, evaluation.entropy)[0]


SETTINGS: list[tuple[dict[str, Any], Objective]] = [
    ({"loss_type": "grpo"}, Objective(aggregation="trajectory", kl_coef=0.1, kl_weighted=True)),
    ({"loss_type": "grpo", "use_bias_correction_kl": False}, Objective(aggregation="trajectory", kl_coef=0.1)),
    ({"loss_type": "grpo", "beta": 0.0}, Objective(aggregation="trajectory")),
    ({"loss_type": "dapo", "beta": 0.0, "epsilon_high": 0.28}, Objective(aggregation="token", clip_high=0.28)),
    ({"loss_type": "bnpo"}, Objective(aggregation="token", kl_coef=0.1, kl_weighted=True)),
    ({"loss_type": "dr_grpo", "beta": 0.0}, Objective(aggregation="constant", length=40)),
    ({"loss_type": "cispo", "beta": 0.0, "epsilon_high": 1.1}, Objective(surrogate="cispo", clip_high=0.1)),
    (  # GSPO
        {"loss_type": "grpo", "beta": 0.0, "importance_sampling_level": "sequence"},
        Objective(ratio="sequence", aggregation="trajectory"),
    ),
    (
        {"loss_type": "grpo", "beta": 0.0, "_entropy_bonus_enabled": True, "entropy_coef": 0.05},
        Objective(aggregation="token", entropy_coef=0.05),
    ),
]


@pytest.mark.parametrize(("theirs", "objective"), SETTINGS, ids=lambda value: str(value)[:60])
def test_loss_and_gradients_are_trls(
    groups: list[Group],
    model: Any,
    trainer: Any,
    theirs: dict[str, Any],
    objective: Objective,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    defaults = {"loss_type": "grpo", "beta": 0.1, "epsilon_low": 0.2, "epsilon_high": 0.2}
    for name, value in {**defaults, "importance_sampling_level": "token", **theirs}.items():
        owner = trainer.args if name == "use_bias_correction_kl" else trainer
        monkeypatch.setattr(owner, name, value, raising=False)
    calls = [call for group in groups for member in group.members for call in member.calls]
    advantages = GRPO(eps=1e-4)(groups)  # TRL's epsilon
    rng = np.random.default_rng(1)
    reference = [call.logprobs + rng.normal(scale=0.2, size=len(call.logprobs)).astype(np.float32) for call in calls]

    model.zero_grad()
    model.eval()
    expected = trainer._compute_loss(model, rows(groups, advantages, reference))
    expected.backward()
    gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    if "_entropy_bonus_enabled" in theirs:  # TRL's bonus is always a token mean, whatever the policy term's mean is
        plain = replace(objective, aggregation="trajectory", entropy_coef=0.0)
        loss = ours(model, calls, groups, advantages, reference, plain) + (
            ours(model, calls, groups, advantages, reference, objective)
            - ours(model, calls, groups, advantages, reference, replace(objective, entropy_coef=0.0))
        )
    else:
        loss = ours(model, calls, groups, advantages, reference, objective)
    loss.backward()
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
    assert abs(loss.item()) > 1e-3
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter.grad, gradients[name], atol=1e-5), name
    assert max(float(gradient.abs().max()) for gradient in gradients.values()) > 1e-3


def test_some_of_it_is_clipped(groups: list[Group], model: Any) -> None:
    """Otherwise the comparison would say little about clipping."""
    calls = [call for group in groups for member in group.members for call in member.calls]
    with torch.no_grad():
        now = evaluate(model, calls).logprobs.numpy()
    ratio = np.exp(now - np.concatenate([call.logprobs for call in calls]))
    assert 0.05 < np.mean((ratio < 0.8) | (ratio > 1.2)) < 0.95
