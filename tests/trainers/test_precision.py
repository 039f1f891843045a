"""bfloat16, recomputed activations, offloaded optimiser state and LoRA targets change memory, not what is learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sandlot.envs.core.errors import InvalidArgument
from sandlot.harness import packing
from sandlot.harness.policies.hf import HFPolicy
from sandlot.harness.policies.tiny import build_word_tokenizer, tiny_llama
from sandlot.harness.policy import Sampling
from sandlot.harness.records import Call, Context, Message
from sandlot.trainers.methods import make_recipe
from sandlot.trainers.optimizer import AdamW
from sandlot.trainers.updater import SumUpdater

ROOM = "You see a desk 1, a shelf 2 and a mug 3."
ACTIONS = ("go to desk 1", "go to shelf 2", "look", "take mug 3")


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def make_policy(**options: Any) -> HFPolicy:
    tokenizer = build_word_tokenizer([ROOM, *ACTIONS])
    model = tiny_llama(len(tokenizer), d_model=64, layers=3, heads=2, init_std=0.1, max_context=200)
    return HFPolicy(model, tokenizer, device="cpu", **options)


def play(policy: Any, decode: str = "free", turns: int = 4) -> list[Call]:
    messages, calls = [Message("user", ROOM)], []
    for turn in range(turns):
        context = Context(tuple(messages), ACTIONS, session="s")
        calls += policy.generate([context], Sampling(decode=decode, max_tokens=8), [turn])
        messages += [Message("assistant", calls[-1].text, calls[-1].id), Message("user", "You see a mug 3.")]
    return calls


def losses(policy: HFPolicy, calls: list[Call], steps: int, **recipe: Any) -> list[float]:
    """Imitate `calls` for some optimiser steps, two micro-batches each."""
    updater = SumUpdater(policy, make_recipe("rloo", lr=3e-3, **recipe))
    found = []
    for _ in range(steps):
        total = 0.0
        for half in (calls[:2], calls[2:]):
            loss = -policy.evaluate(half).logprobs.sum() / 20
            updater.accumulate({"loss": loss})
            total += float(loss.detach())
        assert updater.step()["skipped"] == 0
        found.append(total)
    return found


@pytest.mark.parametrize("precision", ["mixed", "bfloat16"])
def test_bfloat16_learns_what_float32_learns(precision: str) -> None:
    exact = make_policy()
    calls = play(exact)
    wanted = losses(exact, calls, 6)
    policy = make_policy(precision=precision)
    assert policy.compute_dtype == torch.bfloat16
    found = losses(policy, calls, 6)
    assert wanted[-1] < 0.9 * wanted[0]
    np.testing.assert_allclose(found, wanted, rtol=0.03)
    weights = next(policy.model.parameters())
    assert weights.dtype == (torch.float32 if precision == "mixed" else torch.bfloat16)
    assert policy.model.model.rotary_emb.inv_freq.dtype == torch.float32
    again = play(policy)  # and it plays: what it records is what it computes again, in its precision
    recorded = np.concatenate([call.logprobs for call in again])
    np.testing.assert_allclose(policy.evaluate(again).logprobs.detach().numpy(), recorded, atol=0.1)


def test_small_steps_move_bfloat16_weights_by_way_of_masters() -> None:
    """A step of 1e-4 on a weight of 1 is lost in bfloat16 (spacing 2^-7 = 0.0078); a hundred add up in float32."""
    weight = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
    optimizer = AdamW([{"params": [weight], "lr": 1e-4}])
    for _ in range(100):
        weight.grad = torch.ones_like(weight)
        optimizer.step()
        optimizer.zero_grad()
    assert weight.tolist() == [0.98828125] * 4  # 1 - 100 * 1e-4 = 0.99, and the nearest bfloat16s are 0.988, 0.992
    assert float(optimizer.masters[0][0]) == pytest.approx(0.99, abs=1e-5)
    plain = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
    other = torch.optim.AdamW([plain], lr=1e-4, weight_decay=0.0)
    for _ in range(100):
        plain.grad = torch.ones_like(plain)
        other.step()
    assert plain.tolist() == [1.0] * 4


def test_gradients_of_micro_batches_add_up_in_float32() -> None:
    """1 + 64 * 2^-9 = 1.125; in bfloat16 each addend would be lost (spacing 2^-7)."""
    weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.bfloat16))
    optimizer = AdamW([{"params": [weight], "lr": 0.0}])
    for gradient in (1.0, *[2.0**-9] * 64):
        (weight * gradient).sum().backward()
        optimizer.collect()
    assert optimizer.clip(1e9) == 1.125


@pytest.mark.parametrize("decode", ["free", "choice"])
def test_recomputed_activations_give_the_same_gradients(decode: str) -> None:
    plain = make_policy(critic=True)
    calls = play(plain, decode)
    assert packing.pack(calls).chains.all() == (decode == "free")  # what is recomputed has the same attention, too
    gradients = []
    kept = []
    for checkpointing in (False, True):
        policy = make_policy(critic=True, checkpointing=checkpointing)
        sizes: list[int] = []

        def pack(tensor: torch.Tensor, sizes: list[int] = sizes) -> torch.Tensor:
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            result = policy.evaluate(calls)
        assert result.values is not None
        (result.logprobs.sum() + result.entropy.sum() + result.values.sum()).backward()
        gradients.append([parameter.grad for parameter in policy.trainable_parameters()])
        kept.append(sum(sizes))
        assert not any(module.training for module in policy.model.modules())
        assert play(policy, decode)[0].text == calls[0].text  # the cache still works
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, atol=0, rtol=0)
    assert kept[1] < kept[0] / 2


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_offloaded_state_gives_the_same_updates_and_resumes(precision: str) -> None:
    """On one device the copies are made as they would be across two: `device` differs from None only in that."""
    policies = [make_policy(precision=precision) for _ in range(3)]
    calls = play(policies[0])
    updaters = [SumUpdater(policy, make_recipe("rloo", lr=1e-3)) for policy in policies]
    offloaded = updaters[1]
    weights = policies[1].trainable_parameters()
    offloaded.optimizer = AdamW([{"params": weights, "lr": 1e-3, "peak": 1e-3}], device="meta")
    with pytest.raises(
        (NotImplementedError, RuntimeError), match="meta"
    ):  # gradients really travel to the device that was asked for
        losses_of(policies[1], offloaded, calls)
    offloaded.optimizer = Copies([{"params": weights, "lr": 1e-3, "peak": 1e-3}])
    assert all(m is not w and m.dtype == torch.float32 for m, w in zip(offloaded.optimizer.masters, weights))
    for step in range(4):
        for number in (0, 1):
            losses_of(policies[number], updaters[number], calls)
        if step == 1:  # the third one goes on from here
            policies[2].load_state_dict(policies[1].state_dict())
            updaters[2].optimizer = Copies([{"params": policies[2].trainable_parameters(), "lr": 1e-3, "peak": 1e-3}])
            updaters[2].load_state_dict(copy_of(offloaded.state_dict()))
        if step > 1:
            losses_of(policies[2], updaters[2], calls)
    for a, b, c in zip(*(policy.trainable_parameters() for policy in policies), strict=True):
        assert torch.equal(a, b) and torch.equal(b, c)


class Copies(AdamW):
    """Masters of their own for all weights, as where they lie on another device."""

    def _master(self, weight: torch.nn.Parameter) -> torch.nn.Parameter:
        return torch.nn.Parameter(weight.detach().to(torch.float32, copy=True))


def losses_of(policy: HFPolicy, updater: SumUpdater, calls: list[Call]) -> None:
    updater.accumulate({"loss": -policy.evaluate(calls).logprobs.mean()})
    updater.step()


def copy_of(state: Any) -> Any:
    if isinstance(state, torch.Tensor):
        return state.clone()
    if isinstance(state, dict):
        return {key: copy_of(value) for key, value in state.items()}
    return [copy_of(value) for value in state] if isinstance(state, list) else state


def test_offload_is_a_property_of_the_policy() -> None:
    policy = make_policy(offload=True)
    assert policy.optimizer_device == torch.device("cpu") and make_policy().optimizer_device is None
    assert SumUpdater(policy, make_recipe("rloo")).optimizer.device == torch.device("cpu")
    assert policy.copy().offload and policy.with_lora(4).offload


def test_lora_targets_choose_the_layers() -> None:
    policy = make_policy().with_lora(4, targets=["q_proj", "v_proj"])
    adapted = {n.split(".")[-4] for n, p in policy.model.named_parameters() if p.requires_grad}
    assert adapted == {"q_proj", "v_proj"}
    assert len(policy.trainable_parameters()) == 3 * 2 * 2  # layers x targets x (A, B)
    with pytest.raises(InvalidArgument, match=r"no linear layer 'query'; it has .*q_proj"):
        make_policy().with_lora(4, targets=["q_proj", "query"])


def test_adapters_and_precision_go_together() -> None:
    policy = make_policy(precision="bfloat16", checkpointing=True).with_lora(4)
    assert {parameter.dtype for parameter in policy.model.parameters()} == {torch.bfloat16}
    calls = play(policy)
    found = losses(policy, calls, 5)
    assert found[-1] < found[0]
    exact = make_policy().with_lora(4)
    np.testing.assert_allclose(found, losses(exact, calls, 5), rtol=0.03)


@pytest.mark.parametrize("wrong", [{"precision": "fp16"}, {"attention": "flash"}])
def test_unknown_options_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="is none of auto"):
        make_policy(**wrong)
