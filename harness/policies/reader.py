"""A table over the line that is read last, and a weight for what a hint advises: the smallest policy that it helps."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
import torch

from ...envs.core.errors import InvalidArgument
from ..records import Context
from .bag import BagPolicy, _hash

_HINT = re.compile(r"^Hint: (.*?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"\w+")


@lru_cache(maxsize=16_384)
def advised(text: str, actions: tuple[str, ...]) -> str | None:
    """The action that the hint in a prompt advises now, or None.

    The hint begins after "Hint: " at the start of a line and ends at an empty line; what follows the last empty line is
    what the agent sees now. Of the hint's lines that end with one of the actions, the one that shares the most words
    with what is seen counts; of equal ones, the first.
    """
    found = _HINT.search(text)
    if found is None:
        return None
    seen = set(_WORD.findall(_now(text).casefold()))
    longest = sorted(actions, key=len, reverse=True)
    best: tuple[int, str | None] = (0, None)
    for line in found[1].casefold().splitlines():
        action = next((action for action in longest if line.endswith(action.casefold())), None)
        shared = len(seen & set(_WORD.findall(line[: len(line) - len(action or "")])))
        if action is not None and shared > best[0]:
            best = shared, action
    return best[1]


class ReaderPolicy(BagPolicy):
    """Logit(action) = weight[last line of what is seen, numbers left out; action] + trust where the hint advises it.

    A language model follows instructions before any training; this one has that prior as a number, the logit of the
    action that the hint advises. What it learns is what lines mean: it can do in one environment what it learned in
    another that says the same.

    Args:
        size: number of weights (a power of two).
        trust: initial logit of the advised action.
        critic: also keep a linear value function of the words.

    Raises:
        InvalidArgument: there is no room for two weights.
    """

    def __init__(self, size: int = 2**16, *, trust: float = 3.0, critic: bool = False) -> None:
        if size < 2:
            raise InvalidArgument(f"a reader needs 2 weights or more, not {size!r}")
        super().__init__(size, critic=critic)
        with torch.no_grad():
            self.weights[-1] = trust

    def features(self, context: Context, action: str) -> np.ndarray:
        """The bag's indices, and the last weight where the hint advises this action."""
        found = super().features(context, action) % (len(self.weights) - 1)
        if advised(_text(context), context.admissible or ()) == action:
            return np.append(found, len(self.weights) - 1)
        return found

    @staticmethod
    def _prompt(context: Context) -> np.ndarray:
        line = _NUMBER.sub("#", _now(_text(context)).rstrip().rpartition("\n")[2].casefold())
        return np.array([_hash(line)], dtype=np.uint64)


def _now(text: str) -> str:
    return text.rpartition("\n\n")[2]


def _text(context: Context) -> str:
    """What the environment said: the policy's own answers are no part of it."""
    return "\n\n".join(message.text for message in context.messages if message.role != "assistant")
