"""Attention over packed trees: intervals and blocks say what the dense mask says, and compute the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Qwen2Config, Qwen2ForCausalLM

from sandlot.harness.packing import Packing, pack
from sandlot.harness.policies import block_attention, tree_attention
from sandlot.harness.policies.evaluation import evaluate
from sandlot.harness.records import Call, Context

GPU = torch.device("cuda")


@st.composite
def forests(draw: st.DrawFn) -> Packing:
    """Rows of random trees, in an order in which parents come first; every row may have several roots."""
    rows = draw(st.lists(st.lists(st.integers(0, 10**6), min_size=1, max_size=12), min_size=1, max_size=4))
    parents, starts = [], [0]
    for row in rows:
        first = starts[-1]
        parents += [first + number % (node + 1) - 1 for node, number in enumerate(row)]
        for node in range(first, first + len(row)):
            if parents[node] < first:
                parents[node] = -1
        starts.append(first + len(row))
    count = starts[-1]
    return Packing(
        ids=np.zeros(count, np.int64),
        parent=np.array(parents, np.int64),
        position=np.zeros(count, np.int64),
        starts=np.array(starts, np.int64),
        completion=(),
        candidates=(),
        value=np.zeros(0, np.int64),
    )


@given(forests())
@settings(max_examples=200, deadline=None)
def test_intervals_say_who_sees_whom(packing: Packing) -> None:
    enter, leave = tree_attention.intervals(packing)
    seen = (enter[:, None, :] <= enter[:, :, None]) & (enter[:, :, None] < leave[:, None, :])
    np.testing.assert_array_equal(seen, tree_attention.dense_mask(packing))
    for row, length in enumerate(packing.lengths):  # and the dense mask says what the parents say
        start = packing.starts[row]
        for node in range(length):
            above, at = {node}, packing.parent[start + node]
            while at >= 0:
                above.add(int(at - start))
                at = packing.parent[at]
            assert set(np.flatnonzero(seen[row, node])) == above


@given(forests(), st.integers(1, 5), st.sampled_from([0, 3, 20]))
@settings(max_examples=200, deadline=None)
def test_blocks_say_who_sees_whom(packing: Packing, chunk: int, overhead: int) -> None:
    packing = block_attention.flat(packing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_attention, "CHUNK", chunk)
        patch.setattr(block_attention, "OVERHEAD", overhead)
        plan = block_attention.plan(packing, torch.device("cpu"), torch.float32)
    pieces = torch.arange(len(packing.ids)).split(plan.sizes)
    seen = np.zeros((len(packing.ids), len(packing.ids)), dtype=bool)
    for block in plan.blocks:
        asking, asked = (torch.cat([pieces[piece] for piece in side]).numpy() for side in (block.asking, block.asked))
        mask = np.tri(len(asking)) if block.mask is None else block.mask.exp().numpy()  # exp: 0 and 1
        seen[np.ix_(asking, asked)] = mask
    np.testing.assert_array_equal(seen, tree_attention.dense_mask(packing)[0])
    assert [piece for block in plan.blocks for piece in block.asking] == list(range(len(plan.sizes)))


def test_a_shared_prompt_costs_each_episode_its_own_tokens() -> None:
    # A prompt of 100 and eight episodes of 100 more. The first and its prompt are cut at the fork.
    calls = []
    for number in range(8):
        ids = (*range(100), 1000 + number, *range(2000, 2099))
        calls.append(Call(f"c{number}", Context((), session=f"s{number}"), "", np.zeros(1), ids[:100], ids[100:]))
    packing = pack(calls, share=True)
    assert packing.lengths.tolist() == [900]
    plan = block_attention.plan(packing, torch.device("cpu"), torch.float32)
    # 100 * 100 of the prompt's by itself and 100 * 200 per episode; the dense mask has 900 * 900 = 810 000. Joining
    # prompt and first episode takes 200 * 200 instead of 100 * 100 + 100 * 200: 10 000 more, less than another call.
    assert plan.pairs == 200 * 200 + 7 * 100 * 200 == 180_000
    assert [block.mask is None for block in plan.blocks] == [True] + [False] * 7


def model_and_calls(device: str = "cpu") -> tuple[Any, list[Call]]:
    """Grouped queries, 6 to 2: the share of 3 is none that FlexAttention's kernels know."""
    config = Qwen2Config(
        vocab_size=50,
        hidden_size=96,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        initializer_range=0.3,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model: Any = Qwen2ForCausalLM(config).eval()
    model.to(device)
    rng = np.random.default_rng(0)
    head = tuple(int(x) for x in rng.integers(0, 50, 150))
    calls = []
    for number in range(8):  # one long prompt, eight ways to go on, each with candidates
        ways = tuple(tuple(int(x) for x in rng.integers(0, 50, 1 + i)) for i in range(3))
        tail = tuple(int(x) for x in rng.integers(0, 50, number))
        calls.append(
            Call(
                f"c{number}",
                Context((), session="s"),
                "",
                np.zeros(1, np.float32),
                prompt_ids=head + tail,
                completion_ids=ways[1],
                choices=ways,
                choice=1,
            )
        )
    return model, calls


def test_blocks_give_numbers_and_gradients_of_the_dense_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """In double precision: in single, rounding alone makes some 1e-5 of a gradient, more or less on every processor."""
    model, calls = model_and_calls()
    model.double()
    found = []
    for attention, overhead in (("dense", 0), ("blocks", 0), ("blocks", block_attention.OVERHEAD)):
        monkeypatch.setattr(block_attention, "OVERHEAD", overhead)
        result = evaluate(model, calls, attention=attention)
        loss = result.logprobs.sum() + result.entropy.sum()
        found.append([result.logprobs, result.entropy, *torch.autograd.grad(loss, list(model.parameters()))])
    for blocks in found[1:]:
        for dense, other in zip(found[0], blocks, strict=True):
            exact = 1e-12 if dense.dtype == torch.float64 else 1e-6  # log-probabilities and entropy are single
            assert float((other - dense).detach().abs().max()) <= exact * max(1.0, float(dense.detach().abs().max()))
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_gives_the_numbers_of_the_dense_mask() -> None:
    model, calls = model_and_calls()
    assert not pack(calls).chains.all()
    with torch.no_grad():
        dense = evaluate(model, calls, attention="dense")
        flex = evaluate(model, calls, attention="flex")
    torch.testing.assert_close(flex.logprobs, dense.logprobs, atol=1e-5, rtol=2e-6)
    torch.testing.assert_close(flex.entropy, dense.entropy, atol=1e-5, rtol=0)
    assert dense.logprobs.std() > 0.1
    assert model.config._attn_implementation == "sdpa"


def test_which_attention_is_chosen() -> None:
    short = pack(model_and_calls()[1])
    long = Packing(
        np.zeros(3000, np.int64),
        np.arange(-1, 2999),
        np.arange(3000),
        np.array([0, 3000]),
        (),
        (),
        np.zeros(0, np.int64),
    )
    model, _ = model_and_calls()
    assert [tree_attention.chosen(asked, model, short) for asked in ("auto", "blocks", "flex", "dense")] == [
        "blocks",
        "blocks",
        "flex",
        "dense",
    ]
    model.set_attn_implementation("eager")  # it may do more than scale and mask: only a mask is safe
    assert tree_attention.chosen("blocks", model, long) == "dense"
    model.set_attn_implementation("sdpa")
    if torch.cuda.is_available():
        model.to(GPU)
        assert [tree_attention.chosen("auto", model, what) for what in (short, long)] == ["dense", "flex"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_compiled_flex_attention_has_the_gradients_of_the_dense_mask() -> None:
    model, calls = model_and_calls("cuda")
    gradients = []
    for attention in ("dense", "flex"):
        found = evaluate(model, calls, attention=attention)
        loss = found.logprobs.sum() + found.entropy.sum()
        gradients.append([loss.detach()[None], *torch.autograd.grad(loss, list(model.parameters()))])
    for dense, flex in zip(*gradients, strict=True):
        torch.testing.assert_close(flex, dense, atol=2e-3, rtol=2e-3)
