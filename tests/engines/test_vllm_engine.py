"""vLLM as an engine, in this process and as a server: ids and log-probabilities are those of the model that learns."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vllm_parts import ACTIONS, ROOM, make_policy, play, same_as, serve, shake

from sandlot.envs.core.errors import InvalidArgument, MissingData
from sandlot.harness.policies.engine import EnginePolicy
from sandlot.harness.policies.openai import OpenAIPolicy
from sandlot.harness.policies.vllm import VLLM
from sandlot.harness.policies.vllm_server import VLLMServer
from sandlot.harness.policy import Policy, Sampling
from sandlot.harness.records import Context, Message
from sandlot.trainers.engines import Decoupled

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed here: `make test-vllm`"),
]


@pytest.fixture(scope="module")
def here(saved: Path) -> Iterator[VLLM]:
    engine = VLLM(saved, make_policy().format, dtype="float32", eager=True, options={"max_num_seqs": 16})
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def url(saved: Path) -> Iterator[str]:
    with serve(saved, "--enable-lora", "--max-lora-rank", "8") as address:
        yield address


@pytest.fixture(params=["here", "server"])
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Either kind, with the weights of `make_policy()`."""
    if request.param == "here":
        found: Any = request.getfixturevalue("here")
        found.sync(make_policy())
        yield found
    else:
        found = VLLMServer(request.getfixturevalue("url"), make_policy().format)
        found.sync(make_policy())
        yield found
        found.close()


@pytest.mark.parametrize("decode", ["free", "trie", "choice"])
def test_log_probabilities_are_those_of_the_model_that_learns(engine: Any, decode: str) -> None:
    hf = make_policy()
    policy = EnginePolicy(engine, hf.format)
    calls = play(policy, decode)
    assert isinstance(policy, Policy) and len(calls) == 9
    same_as(hf, calls)
    for call in calls[3:]:  # the prompt that grew begins with what was said, token by token
        before = next(c for c in reversed(calls[: calls.index(call)]) if c.session == call.session)
        known = before.prompt_ids + before.completion_ids
        assert call.prompt_ids[: len(known)] == known
    for call, logprobs in zip(calls, policy.score(calls), strict=True):
        np.testing.assert_allclose(call.logprobs, logprobs, atol=1e-3)
    if decode != "free":  # the same numbers from the same seeds: the same actions as with our own engine
        ours = play(make_policy(), decode)
        assert [call.text for call in calls] == [call.text for call in ours]
        assert all(call.text in ACTIONS for call in calls)
        assert [call.allowed for call in calls] == [call.allowed for call in ours]
    else:
        assert {call.finish for call in calls} <= {"stop", "length"}
        for call in calls:
            assert (call.completion_ids[-1] == hf.format.stop) == (call.finish == "stop")
            assert not set(call.completion_ids) & set(hf.format.control)
    again = EnginePolicy(engine, hf.format)  # seeds decide, not what else is in the batch
    assert [call.text for call in play(again, decode)] == [call.text for call in calls]


def test_greedy_completions_are_ours(engine: Any) -> None:
    hf = make_policy()
    for decode in ("free", "trie", "choice"):
        theirs, ours = play(EnginePolicy(engine, hf.format), decode, temperature=0.0), play(hf, decode, temperature=0.0)
        assert [call.completion_ids for call in theirs] == [call.completion_ids for call in ours]
        same_as(hf, theirs)


def test_sampling_follows_the_distribution(engine: Any) -> None:
    """3000 first tokens at temperature 1: every token's share within 5 standard errors of its probability."""
    hf = make_policy()
    policy = EnginePolicy(engine, hf.format)
    context = Context((Message("user", ROOM),))
    n = 3000 if isinstance(engine, VLLM) else 600
    calls = policy.generate([context] * n, Sampling(max_tokens=1), range(n))
    counts = np.bincount([call.completion_ids[0] for call in calls], minlength=hf.format.size)
    probabilities = np.zeros(hf.format.size)
    for call in calls:
        probabilities[call.completion_ids[0]] = np.exp(call.logprobs[0])
    bound = 5 * np.sqrt(np.maximum(probabilities * (1 - probabilities), 1 / n) / n)
    assert (np.abs(counts / n - probabilities) < bound).all() and (counts > 20).sum() > 3


def test_more_prompts_than_one_batch_holds(engine: Any) -> None:
    """60 x 400 tokens: more than the 8192 that vLLM reads at a time by default."""
    hf = make_policy()
    policy = EnginePolicy(engine, hf.format)
    contexts = [Context((Message("user", f"{ACTIONS[i % 4]} {ROOM * 20}"),), ACTIONS) for i in range(60)]
    for decode in ("free", "trie"):
        calls = policy.generate(contexts, Sampling(max_tokens=3, decode=decode), range(60))
        assert len(calls[0].prompt_ids) > 300
        same_as(hf, calls)


def test_new_weights_are_played_with_from_the_next_call_on(engine: Any) -> None:
    hf = make_policy()
    policy = Decoupled(hf, engine)
    before = play(policy)
    same_as(hf, before)
    syncs = engine.syncs
    play(policy, "trie")
    assert engine.syncs == syncs  # the same weights are not handed over twice
    shake(hf)
    after = play(policy)  # the prompts are the same: what was kept of them must not be used
    assert engine.syncs == syncs + 1 and {call.version for call in after} == {1}
    same_as(hf, after)
    gap = np.abs(np.concatenate(hf.score(before)) - np.concatenate([call.logprobs for call in before]))
    assert gap.max() > 0.1


def test_adapters_added_to_the_weights(engine: Any) -> None:
    hf = make_policy().with_lora(4)
    shake(hf, size=0.2)
    weights = [parameter.detach().clone() for parameter in hf.model.parameters()]
    policy = Decoupled(hf, engine)
    calls = play(policy)
    same_as(hf, calls)
    assert all((a == b).all() for a, b in zip(weights, hf.model.parameters(), strict=True))
    gap = np.abs(np.concatenate(make_policy().score(calls)) - np.concatenate([call.logprobs for call in calls]))
    assert gap.max() > 0.1


def test_a_prompt_that_does_not_fit_is_an_empty_call(engine: Any) -> None:
    policy = EnginePolicy(engine, make_policy().format)
    contexts = [Context((Message("user", ROOM * n),), ACTIONS) for n in (1, 40)]
    for decode in ("free", "trie", "choice"):
        fits, long = policy.generate(contexts, Sampling(max_tokens=4, decode=decode), [0, 1])
        assert fits.completion_ids and (long.finish, long.completion_ids) == ("context", ())


def test_adapters_as_such_in_this_process(saved: Path) -> None:
    hf = make_policy().with_lora(4)
    engine = VLLM(saved, hf.format, dtype="float32", eager=True, lora=4, options={"max_num_seqs": 16})
    try:
        policy = Decoupled(hf, engine)
        same_as(hf, play(policy))
        for seed in (1, 2):  # the second time in place of the first
            shake(hf, seed, 0.2)
            same_as(hf, play(policy))
    finally:
        engine.close()


def test_adapters_as_such_at_a_server(url: str) -> None:
    hf = make_policy().with_lora(4)
    base = VLLMServer(url, hf.format)
    base.sync(make_policy())
    engine = VLLMServer(url, hf.format, model=base.model, lora=True)
    try:
        policy = Decoupled(hf, engine)
        for seed in (1, 2):
            shake(hf, seed, 0.2)
            same_as(hf, play(policy, "choice"))
            same_as(hf, play(policy))
    finally:
        engine.close()
        base.close()


def test_sleep_and_wake(url: str) -> None:
    """A CPU keeps its memory; the routes, their order and the new weights after waking are what is tested here."""
    hf = make_policy()
    engine = VLLMServer(url, hf.format, sleep=True)
    try:
        policy = Decoupled(hf, engine, nap=True)
        calls = play(policy)
        syncs = engine.syncs
        policy.evaluate(calls).logprobs.sum().backward()
        assert engine.asleep
        shake(hf)
        same_as(hf, play(policy))
        assert not engine.asleep and engine.syncs == syncs + 1
    finally:
        engine.close()


def test_the_openai_policy_records_what_vllm_sampled(url: str, saved: Path) -> None:
    hf = make_policy()
    server = VLLMServer(url, hf.format)
    server.sync(hf)
    policy = OpenAIPolicy(server.model, url, route="completions", chat_format=hf.format)
    calls = policy.generate([Context((Message("user", ROOM),), session="s")], Sampling(max_tokens=6), [3])
    assert calls[0].completion_ids and calls[0].prompt_ids == tuple(hf.format.prompt([Message("user", ROOM)], {}))
    # control tokens have a probability there: compare with the bare model
    import torch

    ids = torch.tensor([calls[0].prompt_ids + calls[0].completion_ids])
    with torch.no_grad():
        logits = hf.model(ids).logits[0, len(calls[0].prompt_ids) - 1 : -1].log_softmax(-1)
    bare = logits.gather(1, torch.tensor(calls[0].completion_ids)[:, None])[:, 0]
    np.testing.assert_allclose(calls[0].logprobs, bare.numpy(), atol=1e-3)
    policy.close()
    server.close()


def test_mistakes_are_one_clear_error(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=r"config\.json"):
        VLLM(tmp_path, make_policy().format)
    with pytest.raises(InvalidArgument, match="vLLM refuses"):
        VLLM(saved, make_policy().format, dtype="float99")
