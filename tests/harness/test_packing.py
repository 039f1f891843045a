"""Packing: hand-worked forests, and what must hold for any calls."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.harness.packing import Packing, batch_indices, micro_batches, pack
from sandlot.harness.records import Call, Context


def make_call(
    name: str, prompt: tuple[int, ...], completion: tuple[int, ...], session: str = "s", choices=None, choice: int = -1
) -> Call:
    return Call(
        name,
        Context((), session=session),
        text="",
        logprobs=np.zeros(1 if choices else len(completion), dtype=np.float32),
        prompt_ids=prompt,
        completion_ids=completion,
        choices=choices,
        choice=choice,
    )


def test_growing_history_is_one_chain() -> None:
    calls = [
        make_call("a", (1, 2), (3, 4)),
        make_call("b", (1, 2, 3, 4, 5), (6,)),  # the first prompt, its completion, one observation token
        make_call("c", (1, 2, 3, 4, 5, 6, 7), (8, 9)),
    ]
    packing = pack(calls)
    assert packing.ids.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert packing.parent.tolist() == [-1, 0, 1, 2, 3, 4, 5, 6, 7]
    assert packing.position.tolist() == list(range(9))
    assert packing.chains.tolist() == [True]
    assert [nodes.tolist() for nodes in packing.completion] == [[2, 3], [5], [7, 8]]
    assert packing.value.tolist() == [1, 4, 6]  # the last prompt tokens: 2, 5, 7


def test_rewritten_history_forks_where_it_differs() -> None:
    calls = [make_call("a", (1, 2, 3), (4,)), make_call("b", (1, 2, 5, 6), (7,))]
    packing = pack(calls)
    # 0:1 - 1:2 - 2:3 - 3:4
    #         \ - 4:5 - 5:6 - 6:7
    assert packing.ids.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert packing.parent.tolist() == [-1, 0, 1, 2, 1, 4, 5]
    assert packing.position.tolist() == [0, 1, 2, 3, 2, 3, 4]
    assert packing.chains.tolist() == [False]
    assert [nodes.tolist() for nodes in packing.completion] == [[3], [6]]
    assert packing.value.tolist() == [2, 5]


def test_candidates_are_side_branches_and_the_chosen_one_goes_on() -> None:
    choices = ((5, 9), (5, 8), (7,))
    calls = [
        make_call("a", (1, 2), choices[1], choices=choices, choice=1),
        make_call("b", (1, 2, 5, 8, 3), (4,)),
    ]
    packing = pack(calls)
    # The chosen candidate comes first: 0:1 - 1:2 - 2:5 - 3:8 - 6:3 - 7:4; then 4:9 below 2:5 and 5:7 below 1:2.
    assert packing.ids.tolist() == [1, 2, 5, 8, 9, 7, 3, 4]
    assert packing.parent.tolist() == [-1, 0, 1, 2, 2, 1, 3, 6]
    assert packing.candidates[0] is not None and packing.candidates[1] is None
    assert [nodes.tolist() for nodes in packing.candidates[0]] == [[2, 4], [2, 3], [5]]
    assert packing.completion[0].tolist() == [2, 3]
    assert packing.value.tolist() == [1, 6]


def test_sessions_with_one_first_prompt_may_be_one_tree() -> None:
    prompt = tuple(range(1, 101))
    calls = [make_call(name, prompt, (200, 200 + n), name) for n, name in enumerate("abc")]
    calls.append(make_call("d", (*prompt, 200, 201, 7), (8,), "b"))
    packing = pack(calls, share=True)
    # 100 of the prompt, 200 once, then 200, 201 and 202; 7 and 8 go on below the second one's.
    assert packing.lengths.tolist() == [106]
    assert [packing.path(int(nodes[-1]))[100:] for nodes in packing.completion] == [
        (200, 200),
        (200, 201),
        (200, 202),
        (200, 201, 7, 8),
    ]
    assert packing.value.tolist() == [99, 99, 99, int(packing.completion[3][0]) - 1]
    # A fourth session of another prompt stays apart; so do two whose own parts cost more than the prompt saves.
    assert pack([*calls, make_call("e", (1, 2), (3,), "e")], share=True).rows == 2
    long = [make_call(name, (1, 2), tuple(range(n, n + 300)), name) for n, name in ((5, "x"), (6, "y"))]
    assert pack(long, share=True).lengths.tolist() == [302, 302]
    assert pack(calls, forks=False, share=True).chains.all()
    # As one tree all fit into 106 slots; as rows of their own, at most one of 102 or 104 does.
    assert batch_indices(calls, 106, share=True) == [[0, 1, 2, 3]]
    assert sorted(batch_indices(calls, 106)) == [[0], [1, 3], [2]]


def test_sessions_do_not_share_unless_asked() -> None:
    packing = pack([make_call("a", (1, 2), (3,), "s"), make_call("b", (1, 2), (3,), "t")])
    assert packing.starts.tolist() == [0, 3, 6]
    assert packing.chains.tolist() == [True, True]
    assert [nodes.tolist() for nodes in packing.completion] == [[2], [5]]


def test_same_prompt_sampled_twice_is_stored_once() -> None:
    packing = pack([make_call("a", (1, 2), (3, 4)), make_call("b", (1, 2), (3, 5)), make_call("c", (1, 2), (3, 4))])
    assert packing.ids.tolist() == [1, 2, 3, 4, 5]
    assert [nodes.tolist() for nodes in packing.completion] == [[2, 3], [2, 4], [2, 3]]


def test_branches_that_share_little_become_rows() -> None:
    # A row of 2000 costs 2000 * 1024 for its nodes and 1 + 2 + ... + 2000 = 2.0 M for attention: 4.05 M, two 8.1 M.
    # One tree of 1 + 2 * 1999 nodes costs 3999 * (1024 + 64) = 4.35 M and the same attention: 8.35 M.
    a = make_call("a", (1, *range(2, 2000)), (3,))
    b = make_call("b", (1, *range(3, 2001)), (3,))
    assert pack([a, b]).lengths.tolist() == [2000, 2000]
    # Sharing 1500 of 2000 tokens: 2500 * 1088 = 2.7 M, and 2.0 M + (1501 + ... + 2000 = 0.9 M): 5.6 M in one tree.
    b = make_call("b", (*a.prompt_ids[:1500], *range(5000, 5499)), (3,))
    assert pack([a, b]).lengths.tolist() == [2500]


def test_without_forks_every_row_is_a_chain() -> None:
    choices = ((5, 9), (5, 8))
    calls = [
        make_call("a", (1, 2), choices[1], choices=choices, choice=1),
        make_call("b", (1, 2, 5, 8, 3), (4,)),
        make_call("c", (1, 7), (4,)),
    ]
    packing = pack(calls, forks=False)
    assert packing.chains.all()
    check_paths(packing, calls)
    assert sorted(packing.lengths.tolist()) == [3, 4, 6]  # (1 7 4), (1 2 5 9), (1 2 5 8 3 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (make_call("a", (), (3,)), "no prompt ids"),
        (make_call("a", (1,), (), choices=("look", "wait"), choice=0), "texts"),
        (make_call("a", (1,), (), choices=((2,),), choice=1), "number 1 of 1"),
    ],
)
def test_what_cannot_be_packed_is_named(call: Call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pack([call])


def test_nothing_to_pack() -> None:
    packing = pack([])
    assert packing.rows == 0 and packing.chains.tolist() == [] and micro_batches([], 100) == []


def test_micro_batches_keep_sessions_whole_and_within_the_limit() -> None:
    calls = [
        make_call("a", (1,) * 9, (2,), "long"),
        make_call("b", (1,) * 3, (2,), "short"),
        make_call("c", (1,) * 9 + (2, 3), (2,), "long"),  # the session is now 12 long
        make_call("d", (1,) * 4, (2,), "middle"),
        make_call("e", (1,) * 3, (2,), "other"),
    ]
    # Longest first: 12 alone; 5 and 4 and 4 padded to 5 make 15.
    assert batch_indices(calls, 15) == [[0, 2], [1, 3, 4]]
    assert batch_indices(calls, 14) == [[0, 2], [1, 3], [4]]
    assert [[call.id for call in batch] for batch in micro_batches(calls, 1)] == [["a", "c"], ["d"], ["b"], ["e"]]


# -- invariants -------------------------------------------------------------------------------------------------------

tokens = st.lists(st.integers(0, 3), min_size=1, max_size=5).map(tuple)  # few ids, so that paths collide


@st.composite
def histories(draw: st.DrawFn) -> list[Call]:
    """Calls of a few sessions whose prompts grow, are rewritten, or start afresh."""
    calls: list[Call] = []
    for session in range(draw(st.integers(1, 2))):
        seen = [draw(tokens)]
        for turn in range(draw(st.integers(1, 5))):
            prompt = draw(st.sampled_from(seen))
            completion = draw(tokens)
            choices, choice = None, -1
            if draw(st.booleans()):
                choices = (*draw(st.lists(tokens, max_size=3)), completion)
                choice = len(choices) - 1
            calls.append(make_call(f"{session}.{turn}", prompt, completion, str(session), choices, choice))
            seen += [prompt + completion + draw(tokens), draw(tokens)]
    return calls


def check_paths(packing: Packing, calls: list[Call]) -> None:
    for index, call in enumerate(calls):
        assert packing.path(int(packing.value[index])) == call.prompt_ids
        nodes = packing.completion[index]
        assert tuple(packing.ids[nodes]) == call.completion_ids
        assert packing.path(int(nodes[-1])) == call.prompt_ids + call.completion_ids
        assert (packing.candidates[index] is None) == (call.choices is None)
        for candidate, found in zip(call.choices or (), packing.candidates[index] or (), strict=True):
            assert packing.path(int(found[-1])) == call.prompt_ids + candidate
            assert len(found) == len(candidate)


@settings(max_examples=80, deadline=None)
@given(histories(), st.booleans())
def test_every_path_spells_its_call(calls: list[Call], forks: bool) -> None:
    packing = pack(calls, forks=forks)
    check_paths(packing, calls)
    nodes = np.arange(len(packing.ids))
    assert (packing.parent < nodes).all()
    inner = packing.parent >= 0
    assert (packing.position[inner] == packing.position[packing.parent[inner]] + 1).all()
    assert (packing.position[~inner] == 0).all()
    row = np.searchsorted(packing.starts, nodes, side="right")
    assert (row[inner] == row[packing.parent[inner]]).all()
    if not forks:
        assert packing.chains.all()
    most = sum(len(c.prompt_ids) + sum(len(x) for x in c.choices or (c.completion_ids,)) for c in calls)
    if forks:
        assert len(packing.ids) <= most


@settings(max_examples=50, deadline=None)
@given(histories(), st.randoms(use_true_random=False))
def test_order_of_calls_changes_nothing_within_a_session(calls: list[Call], random) -> None:
    packing = pack(calls)
    order = list(range(len(calls)))
    random.shuffle(order)
    order.sort(key=lambda i: calls[i].session)  # sessions in the same order of appearance
    other = pack([calls[i] for i in order])
    assert other.ids.tolist() == packing.ids.tolist()
    assert other.parent.tolist() == packing.parent.tolist()
    for place, index in enumerate(order):
        assert other.completion[place].tolist() == packing.completion[index].tolist()


@settings(max_examples=30, deadline=None)
@given(histories(), st.integers(1, 60))
def test_batches_hold_every_call_once(calls: list[Call], limit: int) -> None:
    batches = batch_indices(calls, limit)
    assert sorted(index for batch in batches for index in batch) == list(range(len(calls)))
    for batch in batches:
        packing = pack([calls[index] for index in batch])
        sessions = {calls[index].session for index in batch}
        assert packing.rows * int(packing.lengths.max()) <= limit or len(sessions) == 1


def test_trees_are_batched_apart_from_chains() -> None:
    chain = [make_call(name, (1,) * 8, (2,), name) for name in "ab"]
    tree = [make_call(name, (1, 2), (3,), name, choices=((3,), (4, 5)), choice=0) for name in "cd"]
    assert batch_indices([chain[0], tree[0], chain[1], tree[1]], 20) == [[1, 3], [0, 2]]
