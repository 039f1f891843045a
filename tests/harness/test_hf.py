"""`HFPolicy`: caches, batching and constrained decoding against plain forward passes and enumeration."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from sandlot.envs.core.errors import InvalidArgument, UserError
from sandlot.harness.policies.hf import HFPolicy
from sandlot.harness.policies.tiny import build_word_tokenizer, tiny_llama
from sandlot.harness.policy import Sampling
from sandlot.harness.records import Call, Context, Message

ROOM = "You are in a room. You see a desk 1, a shelf 2, a mug 12 and a cup 3.\nYour task is to: put a mug in shelf."
ACTIONS = ("go to desk 1", "go to shelf 2", "look", "take mug 12 from desk 1", "take cup 3 from desk 1", "go to")
ALIKE = ("look", "go", "take mug", "take cup 3", "go to desk")  # of similar length, so that all get some probability
ANSWERS = ("You see a mug 12.", "Nothing happens.", "You pick up the cup 3 from the desk 1.")
TEXTS = (ROOM, *ACTIONS, *ANSWERS)


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def make_policy(seed: int = 0, **kwargs) -> HFPolicy:
    tokenizer = build_word_tokenizer(TEXTS)
    model = tiny_llama(len(tokenizer), d_model=32, layers=2, heads=2, init_std=0.3, max_context=400, seed=seed)
    return HFPolicy(model, tokenizer, device="cpu", **kwargs)


def logits_after(policy: HFPolicy, ids) -> torch.Tensor:
    """(len(ids), V) of a plain causal forward pass, control tokens taken out; float64."""
    with torch.no_grad():
        logits = policy.model(torch.tensor([list(ids)])).logits[0].double()
    logits[:, list(policy.format.control)] = -torch.inf
    return logits


def plain_logprobs(policy: HFPolicy, call: Call) -> np.ndarray:
    """The units of a "free" or "trie" call, from one uncached pass over prompt and completion."""
    logits = logits_after(policy, call.prompt_ids + call.completion_ids)[len(call.prompt_ids) - 1 : -1]
    units = []
    for t, token in enumerate(call.completion_ids):
        row = logits[t] / call.temperature
        among = list(range(len(row))) if call.allowed is None else list(call.allowed[t])
        units.append(float(row[token] - torch.logsumexp(row[among], 0)))
    return np.array(units)


def ask(messages, session="", admissible=ACTIONS) -> Context:
    return Context(tuple(messages), admissible, session=session)


class Episode:
    """A growing history with arbitrary answers."""

    def __init__(self, session: str, rng: np.random.Generator) -> None:
        self.session, self.rng = session, rng
        self.messages = [Message("user", ROOM + " You see a cup 3." * int(rng.integers(0, 6)))]

    def context(self) -> Context:
        return ask(self.messages, self.session)

    def record(self, call: Call) -> None:
        answer = ANSWERS[int(self.rng.integers(len(ANSWERS)))]
        self.messages += [Message("assistant", call.text, call.id), Message("user", answer)]


def same(a: Call, b: Call) -> None:
    assert (a.text, a.completion_ids, a.prompt_ids, a.choice, a.finish) == (
        b.text,
        b.completion_ids,
        b.prompt_ids,
        b.choice,
        b.finish,
    )
    np.testing.assert_allclose(a.logprobs, b.logprobs, atol=2e-5)


@pytest.mark.parametrize("decode", ["free", "trie", "choice"])
@pytest.mark.parametrize("temperature", [0.0, 1.0, 0.6])
def test_interleaved_sessions_equal_a_policy_that_caches_nothing(decode, temperature):
    rng = np.random.default_rng(3)
    kept, fresh = make_policy(critic=True), make_policy(critic=True)
    for policy in (kept, fresh):
        torch.nn.init.constant_(policy.value_parameters()[0], 0.1)
    sampling = Sampling(temperature=temperature, decode=decode, max_tokens=5)
    live, made = [], 0
    for turn in range(12):
        while len(live) < 6:  # refills the rows that were given back
            live.append(Episode(f"s{made}", rng))
            made += 1
        ready = [live[i] for i in sorted(rng.choice(6, size=int(rng.integers(1, 7)), replace=False))]
        seeds = [1000 * turn + i for i in range(len(ready))]
        contexts = [episode.context() for episode in ready]
        calls = kept.generate(contexts, sampling, seeds)
        fresh.reset_cache()
        for episode, call, again in zip(ready, calls, fresh.generate(contexts, sampling, seeds), strict=True):
            same(call, again)
            assert call.value == pytest.approx(again.value, abs=1e-5)
            if decode != "choice":
                np.testing.assert_allclose(call.logprobs, plain_logprobs(kept, call), atol=1e-4)
            episode.record(call)
        ended = [live[i].session for i in range(6) if rng.random() < 0.2]
        for policy in (kept, fresh):
            policy.forget(ended)
        live = [episode for episode in live if episode.session not in ended]
    assert made > 12
    kept.forget([episode.session for episode in live])
    assert not kept.generator.sessions and not kept.generator.recorded and not kept.generator.rows


def test_a_growing_history_appends_ids_and_feeds_only_what_is_new():
    policy = make_policy()
    fed = []
    policy.model.register_forward_pre_hook(
        lambda _module, _args, kwargs: fed.append(kwargs["input_ids"].shape[1]), with_kwargs=True
    )
    episode = Episode("s", np.random.default_rng(0))
    calls = []
    for turn in range(4):
        calls += policy.generate([episode.context()], Sampling(max_tokens=1), [turn])
        episode.record(calls[-1])
    for before, after in pairwise(calls):
        known = before.prompt_ids + before.completion_ids
        assert after.prompt_ids[: len(known)] == known
    # max_tokens=1 means one pass per turn: first the prompt, then (completion, end, answer, roles), here < 20 tokens
    assert fed[0] == len(calls[0].prompt_ids)
    assert fed[1:] == [len(after.prompt_ids) - len(before.prompt_ids) for before, after in pairwise(calls)]
    assert max(fed[1:]) < 20


@pytest.mark.parametrize("decode", ["free", "trie", "choice"])
def test_a_prompt_that_a_group_shares_is_fed_once(decode):
    policy, fed = make_policy(critic=True), []
    torch.nn.init.constant_(policy.value_parameters()[0], 0.1)
    policy.model.register_forward_pre_hook(
        lambda _module, _args, kwargs: fed.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    rng = np.random.default_rng(1)
    episodes = [Episode(f"s{i}", rng) for i in range(5)]
    other = episodes.pop()
    other.messages = [Message("user", "You see a cup 3.")]
    for episode in episodes:
        episode.messages = list(episodes[0].messages)
    everyone = [*episodes[:2], other, *episodes[2:]]
    for turn in range(3):
        seeds = [10 * turn + i for i in range(5)]
        contexts = [episode.context() for episode in everyone]
        calls = policy.generate(contexts, Sampling(decode=decode, max_tokens=4), seeds)
        if turn == 0:  # one row of the shared prompt, one (or padded beside it) of the other
            prefill = [shape for shape in fed if shape[1] >= len(calls[0].prompt_ids)]
            assert sum(rows for rows, _ in prefill) <= 3
        fresh = make_policy(critic=True)
        torch.nn.init.constant_(fresh.value_parameters()[0], 0.1)
        for episode, call, context, seed in zip(everyone, calls, contexts, seeds, strict=True):
            fresh.reset_cache()
            fresh.generator.recorded.update(policy.generator.recorded)
            again = fresh.generate([context], Sampling(decode=decode, max_tokens=4), [seed])[0]
            same(call, again)
            assert call.value == pytest.approx(again.value, abs=1e-5)
            episode.record(call)


@pytest.mark.parametrize("decode", ["free", "trie", "choice"])
def test_rewritten_histories_keep_the_common_prefix_and_stay_exact(decode):
    policy, fresh = make_policy(), make_policy()
    sampling = Sampling(decode=decode, max_tokens=4)
    head = Message("user", ROOM)
    branches = [
        [head],
        [head, Message("assistant", "look"), Message("user", ANSWERS[0])],
        [head, Message("assistant", "look"), Message("user", ANSWERS[1])],
        [head],
        [Message("system", "look"), head],
        [head, Message("assistant", "look"), Message("user", ANSWERS[0])],
    ]
    for seed, messages in enumerate(branches):
        call = policy.generate([ask(messages, "s")], sampling, [seed])[0]
        same(call, fresh.generate([ask(messages)], sampling, [seed])[0])


def test_one_session_twice_in_a_batch_and_roles_of_one_session_do_not_mix():
    policy, fresh = make_policy(), make_policy()
    a, b = [Message("user", ROOM)], [Message("user", ANSWERS[0])]
    contexts = [
        ask(a, "s"),
        ask(b, "s"),
        Context(tuple(b), ACTIONS, session="s", role="planner"),
        ask(a),
    ]
    calls = policy.generate(contexts, Sampling(max_tokens=3), [1, 2, 3, 4])
    for context, call, seed in zip(contexts, calls, [1, 2, 3, 4]):
        same(call, fresh.generate([ask(context.messages)], Sampling(max_tokens=3), [seed])[0])
    assert len({call.id for call in calls}) == 4


@pytest.mark.parametrize("decode", ["free", "trie", "choice"])
def test_sampling_does_not_depend_on_batch_mates(decode):
    rng = np.random.default_rng(0)
    contexts = [Episode("", rng).context() for _ in range(12)]
    sampling, seeds = Sampling(decode=decode, max_tokens=6), list(range(12))
    policy = make_policy(batch_size=5)
    together = policy.generate(contexts, sampling, seeds)
    state = torch.get_rng_state()
    for index in (0, 5, 11):
        same(together[index], policy.generate([contexts[index]], sampling, [seeds[index]])[0])
    assert torch.equal(state, torch.get_rng_state())
    assert decode == "choice" or len({call.text for call in together}) > 1  # "look" is by far the shortest candidate


def enumerated(policy: HFPolicy, prompt, actions, temperature=1.0):
    """Log-probability of every action under token-by-token renormalisation, and under the softmax over sequences."""
    stop = policy.format.stop
    candidates = [(*policy.format.encode(action), stop) for action in actions]
    trie, sums = [], []
    for candidate in candidates:
        logits = logits_after(policy, (*prompt, *candidate))[len(prompt) - 1 : -1]
        total = 0.0
        for t, token in enumerate(candidate):
            children = sorted({other[t] for other in candidates if len(other) > t and other[:t] == candidate[:t]})
            row = logits[t] / temperature
            total += float(row[token] - torch.logsumexp(row[children], 0))
        trie.append(total)
        full = torch.log_softmax(logits, 1)
        sums.append(sum(float(full[t, token]) for t, token in enumerate(candidate)))
    scores = np.array(sums) / temperature
    return np.array(trie), scores - np.logaddexp.reduce(scores)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_constrained_decoding_equals_enumeration_and_yields_admissible_actions_only(temperature):
    policy = make_policy(seed=4)
    context = ask([Message("user", ROOM)], admissible=ALIKE)
    prompt = policy.format.prompt(context.messages, {})
    trie, choice = enumerated(policy, prompt, ALIKE, temperature)
    assert np.exp(trie).sum() == pytest.approx(1, abs=1e-4)  # a trie's leaves are a distribution
    n = 600
    for decode, expected in (("trie", trie), ("choice", choice)):
        calls = policy.generate([context] * n, Sampling(decode=decode, temperature=temperature), range(n))
        counts = np.zeros(len(ALIKE))
        for call in calls:
            index = ALIKE.index(call.text)  # raises on anything else
            counts[index] += 1
            assert float(call.logprobs.sum()) == pytest.approx(expected[index], abs=1e-4)
            assert call.completion_ids == (*policy.format.encode(call.text), policy.format.stop)
        # 600 draws: a share's standard error is at most 0.5 / sqrt(600) = 0.02; five of them are allowed
        np.testing.assert_allclose(counts / n, np.exp(expected), atol=0.1)
        assert (counts > 0).sum() > 1
        greedy = policy.generate([context], Sampling(decode=decode, temperature=0), [0])[0]
        assert greedy.temperature == 1.0
        if decode == "choice":
            at_one = enumerated(policy, prompt, ALIKE)[1]
            assert greedy.choice == at_one.argmax()
            assert greedy.logprobs[0] == pytest.approx(at_one.max(), abs=1e-4)


def test_units_that_leave_no_choice_have_logprob_zero():
    policy = make_policy()
    call = policy.generate([ask([Message("user", ROOM)], admissible=("look",))], Sampling(decode="trie"), [0])[0]
    assert call.text == "look" and call.finish == "stop"
    assert call.logprobs.tolist() == [0.0, 0.0]  # the word and the stop token
    assert call.allowed == tuple((token,) for token in call.completion_ids)
    assert call.spans == {"action": ((0, 1),)}
    call = policy.generate([ask([Message("user", ROOM)], admissible=("look",))], Sampling(decode="choice"), [0])[0]
    assert (call.choice, call.finish, call.logprobs.tolist()) == (0, "choice", [0.0])


def test_actions_with_unknown_words_and_mixed_batches():
    policy = make_policy()
    odd = ("zap the blorb 7", "", "look")
    contexts = [ask([Message("user", ROOM)], f"s{i}", admissible) for i, admissible in enumerate([odd, None, (), odd])]
    for decode in ("trie", "choice"):
        calls = policy.generate(contexts, Sampling(decode=decode, max_tokens=3), [1, 2, 3, 4])
        assert calls[0].text in odd and calls[3].text in odd
        assert [call.allowed is None and call.choices is None for call in calls] == [False, True, True, False]
    with pytest.raises(InvalidArgument, match="decode"):
        policy.generate(contexts, Sampling(decode="beam"), [0] * 4)
    assert policy.generate([], Sampling(), []) == []


def test_top_p_keeps_to_the_nucleus():
    policy = make_policy(seed=2)
    context = ask([Message("user", ROOM)])
    first = logits_after(policy, policy.format.prompt(context.messages, {}))[-1].softmax(0)
    ordered = first.argsort(descending=True)
    # the nucleus of 0.5 is the shortest list of most likely tokens that reaches 0.5
    nucleus = set(ordered[: int((first[ordered].cumsum(0) < 0.5).sum()) + 1].tolist())
    calls = policy.generate([context] * 200, Sampling(top_p=0.5, max_tokens=1), range(200))
    assert {call.completion_ids[0] for call in calls} == nucleus
    mass = float(first[list(nucleus)].sum())
    for call in calls[:20]:
        assert call.allowed == (tuple(sorted(nucleus)),)
        free = plain_logprobs(policy, replace(call, allowed=None))
        np.testing.assert_allclose(call.logprobs, free - np.log(mass), atol=1e-4)
    # Exact over several tokens too: what was recorded is what the training pass gives.
    longer = policy.generate([context] * 8, Sampling(top_p=0.8, temperature=0.7, max_tokens=6), range(8))
    np.testing.assert_allclose(
        policy.evaluate(longer).logprobs.detach().numpy(), np.concatenate([c.logprobs for c in longer]), atol=1e-4
    )
    assert policy.generate([context], Sampling(top_p=0.5, temperature=0), [0])[0].allowed is None


def test_control_tokens_are_never_sampled():
    tokenizer = build_word_tokenizer(TEXTS)
    model = tiny_llama(len(tokenizer), d_model=32, layers=2, heads=2, tied=False)
    policy = HFPolicy(model, tokenizer, device="cpu")
    with torch.no_grad():  # a model that wants nothing but control tokens
        hidden = model.model(torch.tensor([policy.format.prompt([Message("user", ROOM)], {})])).last_hidden_state[0, -1]
        model.lm_head.weight[list(policy.format.control)] = 50 * hidden
    calls = policy.generate([ask([Message("user", ROOM)])] * 50, Sampling(max_tokens=8), range(50))
    sampled = {token for call in calls for token in call.completion_ids}
    assert not sampled & policy.format.control and policy.format.control
    assert all(np.isfinite(call.logprobs).all() for call in calls)
    np.testing.assert_allclose(calls[0].logprobs, plain_logprobs(policy, calls[0]), atol=1e-4)


def test_contexts_that_do_not_fit_are_answered_and_leave_the_others_alone():
    policy = make_policy(max_context=60)
    short, long = [Message("user", "look")], [Message("user", "look " * 80)]
    calls = policy.generate([ask(short, "a"), ask(long, "b"), ask(short, "c")], Sampling(max_tokens=4), [1, 2, 3])
    assert [call.finish == "context" for call in calls] == [False, True, False]
    assert (calls[1].text, calls[1].completion_ids, len(calls[1].logprobs)) == ("", (), 0)
    # 1 + 54 words + end + assistant = 57 ids: three tokens of room
    tight = [Message("user", "look" + " look" * 53)]
    for seed in range(5):
        call = policy.generate([ask(tight)], Sampling(max_tokens=40), [seed])[0]
        assert len(call.completion_ids) <= 3
        assert call.finish == ("stop" if call.completion_ids[-1:] == (policy.format.stop,) else "length")
    assert policy.generate([ask(tight)], Sampling(decode="trie"), [0])[0].finish == "context"  # needs up to six


def test_new_weights_make_the_cache_stale():
    policy, fresh = make_policy(), make_policy()
    context = ask([Message("user", ROOM)], "s")
    policy.generate([context], Sampling(max_tokens=3), [1])
    for each in (policy, fresh):
        with torch.no_grad():
            each.model.model.layers[0].self_attn.k_proj.weight.mul_(1.5)
        each.version += 1
    again = policy.generate([context], Sampling(max_tokens=3), [1])[0]
    same(again, fresh.generate([context], Sampling(max_tokens=3), [1])[0])
    assert again.version == 1


def test_batches_smaller_than_the_number_of_sessions_keep_their_rows():
    policy, fresh = make_policy(batch_size=3), make_policy()
    rng = np.random.default_rng(1)
    episodes = [Episode(f"s{i}", rng) for i in range(8)]
    swaps = []
    swap = policy.generator._swap
    policy.generator._swap = lambda a, b: (swaps.append((a, b)), swap(a, b))[1]
    for turn in range(4):
        contexts, seeds = [episode.context() for episode in episodes], [10 * turn + i for i in range(8)]
        calls = policy.generate(contexts, Sampling(max_tokens=3), seeds)
        for episode, call, again in zip(
            episodes, calls, fresh.generate(contexts, Sampling(max_tokens=3), seeds), strict=True
        ):
            same(call, again)
            episode.record(call)
    assert not swaps


def test_bad_settings_and_diverged_weights_are_one_clear_error():
    policy = make_policy()
    context = ask([Message("user", ROOM)])
    for sampling in (Sampling(max_tokens=0), Sampling(temperature=-1), Sampling(top_p=0), Sampling(top_p=1.5)):
        with pytest.raises(InvalidArgument, match="max_tokens"):
            policy.generate([context], sampling, [0])
    with torch.no_grad():
        policy.model.model.norm.weight.fill_(float("nan"))
    for decode in ("free", "trie", "choice"):
        with pytest.raises(UserError, match="diverged"):
            policy.generate([context], Sampling(decode=decode), [0])


def test_models_with_sliding_windows_are_refused():
    model = tiny_llama(100, d_model=32, layers=2, heads=2)
    model.config.layer_types = ["full_attention", "sliding_attention"]
    with pytest.raises(InvalidArgument, match="sliding_attention"):
        HFPolicy(model, build_word_tokenizer(TEXTS))
