"""`EnginePolicy` and `Decoupled` on the plainest real engine: the whole prompt through transformers at every token."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sandlot.envs.core.errors import InvalidArgument, MissingData, MissingExtra
from sandlot.harness.loop import EnvMaker, Limits, Rollout
from sandlot.harness.policies.engine import Answer, Ask, EnginePolicy
from sandlot.harness.policies.handover import weights, write_weights
from sandlot.harness.policies.hf import HFPolicy
from sandlot.harness.policies.tiny import build_word_tokenizer, tiny_llama
from sandlot.harness.policies.vllm import VLLM
from sandlot.harness.policy import Policy, Sampling
from sandlot.harness.records import Call, Context, Message
from sandlot.trainers.engines import Decoupled
from sandlot.trainers.loop import Schedule, train
from sandlot.trainers.methods import make_recipe

ROOM = "You see a desk 1, a shelf 2 and a mug 3."
ACTIONS = ("go to desk 1", "go to shelf 2", "look", "take mug 3", "take mug 3 from desk 1")


class Plain:
    """An `Engine` on a model of its own."""

    def __init__(self, policy: HFPolicy) -> None:
        self.policy = policy.copy()
        self.max_context = policy.max_context
        self.lock = threading.RLock()
        self.loaded: Any = None
        self.did: list[str] = []
        self.asleep = False

    def complete(self, asks: Sequence[Ask]) -> list[Answer]:
        assert not self.asleep
        with torch.no_grad(), self.policy._masked():
            return [self.answer(ask) for ask in asks]

    def answer(self, ask: Ask) -> Answer:
        ids: list[int] = []
        logprobs: list[float] = []
        random = np.random.Generator(np.random.PCG64(ask.seed))
        while True:
            logits = self.policy.model(torch.tensor([[*ask.prompt, *ids]])).logits[0, -1]
            row = torch.log_softmax(logits / (ask.temperature or 1.0), 0)
            if ask.among:
                return Answer((), row[list(ask.among)].numpy(), "stop")
            edges = row.double().exp().cumsum(0).numpy()
            drawn = int((edges <= random.random() * edges[-1]).sum()) if ask.temperature else int(row.argmax())
            ids.append(drawn)
            logprobs.append(float(row[drawn]))
            if drawn == self.policy.format.stop or len(ids) == ask.max_tokens:
                finish = "stop" if drawn == self.policy.format.stop else "length"
                return Answer(tuple(ids), np.array(logprobs, np.float32), finish)

    def sync(self, policy: Any) -> None:
        self.did.append("sync")
        self.policy.model.load_state_dict(dict(weights(policy.model)))

    def sleep(self) -> None:
        self.did += [] if self.asleep else ["sleep"]
        self.asleep = True

    def wake(self) -> None:
        self.did += ["wake"] if self.asleep else []
        self.asleep = False

    def close(self) -> None:
        self.did.append("close")


def make_policy(**options: Any) -> HFPolicy:
    tokenizer = build_word_tokenizer([ROOM, *ACTIONS])
    model = tiny_llama(len(tokenizer), d_model=32, layers=2, heads=2, init_std=0.3, max_context=160)
    return HFPolicy(model, tokenizer, device="cpu", **options)


def play(policy: Any, decode: str, temperature: float = 0.7) -> list[Call]:
    histories = [[Message("user", ROOM)] for _ in range(2)]
    calls = []
    for turn in range(3):
        contexts = [Context(tuple(h), ACTIONS, session=f"s{i}") for i, h in enumerate(histories)]
        sampling = Sampling(temperature, max_tokens=6, decode=decode)
        for history, call in zip(histories, policy.generate(contexts, sampling, [turn, turn + 100])):
            calls.append(call)
            history += [Message("assistant", call.text, call.id), Message("user", "You see a mug 3.")]
    return calls


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("decode", ["free", "trie", "choice"])
def test_an_engine_plays_as_hf_does(decode: str, temperature: float) -> None:
    hf = make_policy()
    policy = EnginePolicy(Plain(hf), hf.format)
    assert isinstance(policy, Policy)
    theirs, ours = play(policy, decode, temperature), play(hf, decode, temperature)
    for a, b in zip(theirs, ours, strict=True):
        for field in ("text", "prompt_ids", "completion_ids", "allowed", "choices", "choice", "finish", "spans"):
            assert getattr(a, field) == getattr(b, field), field
        assert a.temperature == b.temperature
        np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)
    for a, b in zip(policy.score(theirs), hf.score(ours), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_scores_under_other_contexts() -> None:
    hf = make_policy()
    policy = EnginePolicy(Plain(hf), hf.format)
    for decode in ("free", "choice"):
        calls = play(policy, decode)
        hinted = [Context((Message("system", "look"), *call.context.messages), session="x") for call in calls]
        for a, b in zip(policy.score(calls, hinted), hf.score(calls, hinted), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)
        policy.forget(["s0", "s1"])


def test_weights_are_handed_over_when_somebody_plays() -> None:
    hf = make_policy(critic=True)
    engine = Plain(hf)
    policy = Decoupled(hf, engine, nap=True)
    calls = play(policy, "trie")
    assert engine.did == ["sync"] and all(call.value == 0.0 for call in calls)
    loss = policy.evaluate(calls).logprobs.sum()
    loss.backward()
    assert engine.did == ["sync", "sleep"]
    policy.score(calls)
    with torch.no_grad():
        for parameter in policy.trainable_parameters():
            parameter += 0.05 if parameter.grad is None else 0.05 * parameter.grad
    policy.version += 1
    policy.version += 1
    assert engine.did == ["sync", "sleep"]
    after = play(policy, "trie")
    assert engine.did == ["sync", "sleep", "wake", "sync"] and {call.version for call in after} == {2}
    for call, logprobs in zip(after, hf.score(after), strict=True):
        np.testing.assert_allclose(call.logprobs, logprobs, atol=1e-5)
    values = hf.evaluate(after).values
    assert values is not None and float(values.abs().max()) > 0
    np.testing.assert_allclose([float(call.value or 0) for call in after], values.detach().numpy(), atol=1e-5)
    state = deepcopy(policy.state_dict())
    policy.load_state_dict(state)  # the version is the same, the weights need not be
    play(policy, "trie")
    other = policy.copy()
    other.version += 1
    play(other, "trie")
    play(policy, "trie")
    assert engine.did[4:] == ["sync", "sync", "sync"]
    policy.close()
    assert engine.did[-1] == "close"


def test_adapters_are_added_on_the_way(tmp_path: Path) -> None:
    hf = make_policy().with_lora(4)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in hf.trainable_parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
    policy = Decoupled(hf, Plain(make_policy()))
    calls = play(policy, "free")
    for call, logprobs in zip(calls, hf.score(calls), strict=True):
        np.testing.assert_allclose(call.logprobs, logprobs, atol=1e-4)
    write_weights(hf.model, tmp_path)
    from safetensors.torch import load_file

    written = load_file(tmp_path / "model.safetensors")
    assert set(written) == set(make_policy().model.state_dict())  # the tied output layer included
    plain = make_policy()
    plain.model.load_state_dict(written)
    for call, logprobs in zip(calls, plain.score(calls), strict=True):
        np.testing.assert_allclose(call.logprobs, logprobs, atol=1e-4)


@pytest.mark.parametrize("mode", ["sync", "ahead", "stream"])
def test_training_with_an_engine(mode: str) -> None:
    maker = EnvMaker("sandlot/Corridor-v0", {"rooms": 3})
    observation, info = maker().reset(seed=0)
    tokenizer = build_word_tokenizer([observation, " ".join(info["admissible"])])
    hf = HFPolicy(tiny_llama(len(tokenizer), 16, 1, 2, seed=0), tokenizer, device="cpu")
    engine = Plain(hf)
    rollout = Rollout(maker, Sampling(decode="trie"), limits=Limits(concurrency=8))
    recipe = make_recipe("grpo", groups=2, group_size=3, lr=1e-3, entropy_coef=0.1)
    policy: Any = Decoupled(hf, engine, nap=mode == "sync")
    history = train(recipe, policy, rollout, maker.tasks(), Schedule(3, mode=mode))
    assert len(history) == 3 and policy.version == 3
    assert any(metrics["update/grad_norm"] > 0 for metrics in history)
    assert all(m["update/logprob_gap"] < 1e-4 for m in history if m["rollout/staleness"] == 0)
    assert engine.did.count("sync") == 3 or mode == "stream"


def test_a_context_that_does_not_fit() -> None:
    hf = make_policy()
    policy = EnginePolicy(Plain(hf), hf.format)
    contexts = [Context((Message("user", ROOM * n),), ACTIONS) for n in (1, 40)]
    for decode in ("free", "trie", "choice"):
        fits, long = policy.generate(contexts, Sampling(max_tokens=4, decode=decode), [0, 1])
        assert fits.completion_ids and (long.finish, long.completion_ids) == ("context", ())


def test_mistakes(tmp_path: Path) -> None:
    hf = make_policy()
    policy = EnginePolicy(Plain(hf), hf.format)
    with pytest.raises(InvalidArgument, match="decode"):
        policy.generate([], Sampling(decode="beam"), [])
    with pytest.raises(InvalidArgument, match="temperature >= 0"):
        policy.generate([], Sampling(temperature=-1), [])
    with pytest.raises(MissingData, match=r"config\.json"):
        VLLM(tmp_path, hf.format)
    (tmp_path / "config.json").write_text("{}")
    try:
        import vllm  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        with pytest.raises(MissingExtra, match=r"sandlot\[vllm\]"):
            VLLM(tmp_path, hf.format)
