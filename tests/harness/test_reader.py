"""The policy that follows hints: what it is advised, by how much, and that the hint's words count for nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs.core.errors import InvalidArgument
from sandlot.harness.policies.reader import ReaderPolicy, advised
from sandlot.harness.policy import Sampling
from sandlot.harness.records import Context, Message

ACTIONS = ("go north", "go northwest", "put left", "put right")
RULES = "Find the way.\n\nActions:\ngo <north|northwest>"
HINT = "Hint: Turn 01: go northwest\nTurn 02: put left\nTurn 03: go north"


@pytest.mark.parametrize(
    ("now", "action"),
    [
        ("Turn 01. A red sign.", "go northwest"),
        ("Turn 02. A shell.", "put left"),
        ("Turn 03. A blue sign.", "go north"),
        ("Turn 09.", "go northwest"),  # "turn" alone is in all three lines: the first
        ("Nothing here.", None),
    ],
)
def test_the_line_that_shares_most_words_advises(now: str, action: str | None) -> None:
    assert advised(f"{RULES}\n\n{HINT}\n\n{now}", ACTIONS) == action
    assert advised(f"{RULES}\n\n{now}", ACTIONS) is None


def context(text: str) -> Context:
    return Context((Message("user", text),), ACTIONS)


def test_trust_is_the_logit_of_what_is_advised() -> None:
    # e^2 / (e^2 + 3) = 7.389 / 10.389 = .711
    policy = ReaderPolicy(trust=2.0)
    hinted = context(f"{RULES}\n\n{HINT}\n\nTurn 02. A shell.")
    assert policy.logits(hinted) == pytest.approx([0, 0, 2, 0])
    (call,) = policy.generate([hinted], Sampling(temperature=0), [0])
    assert call.text == "put left" and np.exp(call.logprobs[0]) == pytest.approx(0.7112, abs=1e-4)
    assert policy.logits(context(f"{RULES}\n\nTurn 02. A shell.")) == pytest.approx([0, 0, 0, 0])


@settings(max_examples=40, deadline=None)
@given(hint=st.lists(st.text("abcdef ", max_size=20), min_size=1, max_size=4))
def test_words_of_the_hint_are_no_features(hint: list[str]) -> None:
    policy = ReaderPolicy(2**10)
    lines = "\n".join(line.strip() or "x" for line in hint)
    plain, hinted = (f"{RULES}{part}\n\nTurn 02. A shell." for part in ("", f"\n\nHint: {lines}"))
    for action in ACTIONS:
        found = policy.features(context(hinted), action)
        assert found.tolist() == policy.features(context(plain), action).tolist()
        assert found.max() < 2**10 - 1  # the last weight is the hint's alone


def test_a_reader_needs_room() -> None:
    with pytest.raises(InvalidArgument, match="2 weights"):
        ReaderPolicy(1)
