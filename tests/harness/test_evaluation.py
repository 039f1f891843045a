"""Evaluation under a language model: packed numbers and gradients are those of one call at a time."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch import Tensor  # noqa: E402

from sandlot.harness.packing import pack  # noqa: E402
from sandlot.harness.policies.evaluation import evaluate, evaluate_tokens, score  # noqa: E402
from sandlot.harness.records import Call, Context  # noqa: E402

VOCABULARY, SIZE = 40, 32


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_model(attention: str = "sdpa", seed: int = 0):
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=SIZE,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.2,  # far from uniform, so that mistakes show
    )
    model = transformers.LlamaForCausalLM(config)
    model.set_attn_implementation(attention)
    return model


def make_call(prompt, completion, *, session="s", allowed=None, choices=None, temperature=1.0) -> Call:
    return Call(
        id=f"{session}#{len(prompt)}",
        context=Context((), session=session),
        text="",
        logprobs=np.zeros(0, dtype=np.float32),
        prompt_ids=tuple(prompt),
        completion_ids=tuple(completion),
        allowed=allowed,
        choices=choices,
        choice=choices.index(tuple(completion)) if choices else -1,
        temperature=temperature,
    )


def random_ids(rng: np.random.Generator, low: int, high: int) -> tuple[int, ...]:
    return tuple(int(x) for x in rng.integers(0, VOCABULARY, rng.integers(low, high)))


def growing(rng: np.random.Generator, session: str, turns: int, decode: str, rewrite: bool = False) -> list[Call]:
    """A session's calls; with `rewrite` each prompt forgets its beginning, behind a shared head."""
    calls = []
    head, tail = random_ids(rng, 3, 6), ()
    for turn in range(turns):
        completion = random_ids(rng, 1, 5)
        prompt = head + (tail[-6:] if rewrite else tail)
        extra = {}
        if decode == "choice":
            others = [random_ids(rng, 1, 5) for _ in range(int(rng.integers(1, 4)))]
            extra["choices"] = (*others, completion, (*completion, 1))
        if decode == "trie":
            extra["allowed"] = tuple(tuple(dict.fromkeys((token, *random_ids(rng, 0, 4)))) for token in completion)
        calls.append(make_call(prompt, completion, session=session, temperature=(0.0, 0.7, 1.5)[turn % 3], **extra))
        tail = tail + completion + random_ids(rng, 1, 4)
    return calls


def alone(model, call: Call) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies of one call, straight from the definitions."""
    temperature = call.temperature or 1.0

    def logits(completion: tuple[int, ...]) -> Tensor:
        ids = torch.tensor([call.prompt_ids + completion])
        return model(ids).logits[0, len(call.prompt_ids) - 1 : -1]

    def entropy(logp: Tensor) -> Tensor:
        return -(logp.exp() * logp).sum()

    if call.choices is not None:
        totals = [
            sum(logits(c).log_softmax(-1)[t, token] for t, token in enumerate(c)) / temperature for c in call.choices
        ]
        logp = torch.stack(totals).log_softmax(0)
        return logp[call.choice][None], entropy(logp)[None]
    found = []
    for t, (token, row) in enumerate(zip(call.completion_ids, logits(call.completion_ids) / temperature)):
        among = list(call.allowed[t]) if call.allowed else list(range(VOCABULARY))
        logp = row[among].log_softmax(-1)
        found.append((logp[among.index(token)], entropy(logp)))
    return torch.stack([a for a, _ in found]), torch.stack([b for _, b in found])


def mixed(seed: int) -> list[Call]:
    """Chains, forks, candidates and constrained units of several sessions, interleaved."""
    rng = np.random.default_rng(seed)
    calls = (
        growing(rng, "free", 3, "free")
        + growing(rng, "trie", 3, "trie")
        + growing(rng, "choice", 3, "choice")
        + growing(rng, "window", 4, "free", rewrite=True)
        + growing(rng, "window choice", 3, "choice", rewrite=True)
    )
    return [calls[i] for i in rng.permutation(len(calls))]


def gradients(model, loss: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(loss, list(model.parameters())))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("calls", [mixed, lambda seed: growing(np.random.default_rng(seed), "chain", 5, "free")])
def test_packed_equals_one_call_at_a_time(attention: str, calls: Callable[[int], list[Call]]) -> None:
    model, batch = make_model(attention), calls(1)
    found = evaluate(model, batch)
    logprobs, entropies = (torch.cat(parts) for parts in zip(*(alone(model, call) for call in batch)))
    torch.testing.assert_close(found.logprobs, logprobs, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.entropy, entropies, atol=1e-5, rtol=0)
    weights = torch.linspace(-1, 1, len(logprobs))
    packed = gradients(model, (weights * found.logprobs).sum() + found.entropy.sum())
    apart = gradients(model, (weights * logprobs).sum() + entropies.sum())
    for a, b in zip(packed, apart):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)  # sums over a hundred units
        assert b.abs().max() > 1e-3


def test_a_group_that_shares_its_prompt_gets_the_numbers_of_each_alone() -> None:
    rng, model = np.random.default_rng(5), make_model()
    prompt, calls = random_ids(rng, 60, 61), []
    for member in range(4):
        first = make_call(prompt, random_ids(rng, 2, 6), session=f"m{member}")
        after = make_call(
            first.prompt_ids + first.completion_ids + random_ids(rng, 3, 9),
            (5, 6, 7),
            session=first.session,
            choices=((5, 6, 7), (5, 8)) if member % 2 else None,
        )
        calls += [first, after]
    assert pack(calls, share=True).rows == 1
    assert pack(calls).rows == 4
    found = evaluate(model, calls)
    logprobs, entropies = (torch.cat(parts) for parts in zip(*(alone(model, call) for call in calls)))
    torch.testing.assert_close(found.logprobs, logprobs, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.entropy, entropies, atol=1e-5, rtol=0)
    weights = torch.linspace(-1, 1, len(logprobs))
    packed = gradients(model, (weights * found.logprobs).sum())
    for a, b in zip(packed, gradients(model, (weights * logprobs).sum())):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def test_the_mixed_batch_holds_what_it_promises() -> None:
    packing = pack(mixed(1))
    assert not packing.chains.all() and packing.chains.any()
    assert any(nodes is not None for nodes in packing.candidates)


def test_models_without_tree_masks_give_the_same_numbers() -> None:
    model, batch = make_model(), mixed(2)
    tree = evaluate(model, batch).logprobs
    model.config.sliding_window = 10_000  # wider than anything here, but such layers would ignore a tree's mask
    torch.testing.assert_close(evaluate(model, batch).logprobs, tree, atol=1e-5, rtol=0)


def test_uniform_logits_by_hand() -> None:
    model = make_model()
    torch.nn.init.zeros_(model.lm_head.weight)
    free = make_call((1, 2), (3,), session="a")
    forced = make_call((1, 2), (4, 5), session="b", allowed=((4, 6, 7), (5,)))
    # Candidates weigh (1/40)^tokens: 1/40, 1/1600, 1/1600; the first gets 40 / 42.
    choice = make_call((1, 2), (3,), session="c", choices=((3,), (4, 5), (4, 6)))
    # At temperature 2 the roots count: 1/sqrt(40) against 2 * 1/40.
    warm = make_call((1, 2), (3,), session="d", choices=((3,), (4, 5), (4, 6)), temperature=2.0)
    root = 1 / math.sqrt(40)
    found = evaluate(model, [free, forced, choice, warm])
    expected = [-math.log(40), -math.log(3), 0.0, math.log(40 / 42), math.log(root / (root + 2 / 40))]
    assert found.logprobs.tolist() == pytest.approx(expected, abs=1e-5)
    entropy = -(40 / 42 * math.log(40 / 42) + 2 * (1 / 42) * math.log(1 / 42))
    assert found.entropy.tolist()[:4] == pytest.approx([math.log(40), math.log(3), 0.0, entropy], abs=1e-5)


def test_a_call_does_not_feel_its_neighbours() -> None:
    model, batch = make_model(), mixed(3)
    together = evaluate(model, batch).logprobs
    ends = np.cumsum([1 if call.choices else len(call.completion_ids) for call in batch])
    for call, part in zip(batch, torch.tensor_split(together, ends[:-1].tolist())):
        torch.testing.assert_close(evaluate(model, [call]).logprobs, part, atol=1e-5, rtol=0)


def test_padding_is_told_by_length_not_by_id() -> None:
    model = make_model()
    model.config.pad_token_id = 0
    zeros = make_call((0, 5, 0), (0, 7), session="a")  # id 0 is an ordinary token here
    long = make_call(tuple(range(1, 20)), (3,), session="b")
    torch.testing.assert_close(evaluate(model, [zeros, long]).logprobs[:2], alone(model, zeros)[0], atol=1e-5, rtol=0)


def test_values_are_read_at_the_last_prompt_token() -> None:
    model, head, batch = make_model(), torch.nn.Linear(SIZE, 1), mixed(4)
    found = evaluate(model, batch, value_head=head).values
    assert found is not None and found.shape == (len(batch),)
    for call, value in zip(batch, found):
        hidden = model.model(torch.tensor([call.prompt_ids])).last_hidden_state[0, -1]
        torch.testing.assert_close(value, head(hidden)[0], atol=1e-5, rtol=0)
    assert evaluate(model, batch).values is None
    (gradient,) = torch.autograd.grad(found.sum(), head.weight)
    assert gradient.abs().sum() > 0


def test_logits_are_the_models_own_whatever_it_does_to_them() -> None:
    torch.manual_seed(0)
    config = transformers.CohereConfig(  # multiplies its logits by logit_scale
        vocab_size=VOCABULARY,
        hidden_size=SIZE,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=4,
        logit_scale=3.0,
        initializer_range=0.2,
    )
    model = transformers.CohereForCausalLM(config)
    call = make_call((1, 2, 3), (4, 5))
    torch.testing.assert_close(evaluate(model, [call]).logprobs, alone(model, call)[0], atol=1e-5, rtol=0)


def test_models_without_a_separate_output_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    model, head, batch = make_model(), torch.nn.Linear(SIZE, 1), mixed(7)
    usual = evaluate(model, batch, value_head=head)
    monkeypatch.setattr(model, "get_output_embeddings", lambda: None)
    other = evaluate(model, batch, value_head=head)
    torch.testing.assert_close(other.logprobs, usual.logprobs, atol=1e-5, rtol=0)
    torch.testing.assert_close(other.values, usual.values, atol=1e-5, rtol=0)


def test_lora_and_its_reference() -> None:
    peft = pytest.importorskip("peft")
    base = make_model()
    batch = mixed(5)
    before = evaluate(base, batch).logprobs.detach()
    model = peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules="all-linear"))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.2)
    found = evaluate(model, batch).logprobs
    torch.testing.assert_close(found, torch.cat([alone(model, call)[0] for call in batch]), atol=1e-5, rtol=0)
    assert (found - before).abs().max() > 0.01
    found.sum().backward()
    assert all(p.grad is not None for name, p in model.named_parameters() if "lora_" in name)
    with model.disable_adapter():
        torch.testing.assert_close(evaluate(model, batch).logprobs, before, atol=1e-5, rtol=0)


def test_score_is_evaluate_in_batches() -> None:
    model, batch = make_model(), mixed(6)
    scores = score(model, batch, max_tokens=40)
    assert [len(part) for part in scores] == [1 if call.choices else len(call.completion_ids) for call in batch]
    torch.testing.assert_close(torch.from_numpy(np.concatenate(scores)), evaluate(model, batch).logprobs.detach())
    assert scores[0].dtype == np.float32


def test_tokens_for_supervised_training() -> None:
    model = make_model()
    calls = [
        make_call((1, 2), (3, 4), temperature=0.5),
        make_call((1, 2, 3, 4, 5), (6, 7), choices=((6, 7), (8,))),
    ]
    logprobs, spoken, number = evaluate_tokens(model, calls)
    # One chain 1 2 3 4 5 6 7; the candidate 8 is left out and nothing predicts the first token.
    assert number.tolist() == [0, 0, 0, 0, 1, 1]  # 3 4 are the first call's, 6 7 the second's
    assert spoken.tolist() == [False, True, True, False, True, True]
    logits = model(torch.tensor([[1, 2, 3, 4, 5, 6, 7]])).logits[0, :-1]
    expected = logits.log_softmax(-1).gather(1, torch.tensor([[2], [3], [4], [5], [6], [7]]))[:, 0]
    torch.testing.assert_close(logprobs, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("allowed", [((4, 6), (7, 8)), ((3, 6),)])
def test_impossible_constraints_are_named(allowed) -> None:
    with pytest.raises(ValueError, match="allowed"):
        evaluate(make_model(), [make_call((1, 2), (3, 7), allowed=allowed)])
