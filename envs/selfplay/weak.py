"""Weak policies: what shows whether a hint is worth anything, without a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from .grammar import Grammar

LONGEST = 8
"""Words of an action that is looked for in a text."""
_SENTENCE = re.compile(r"[\n;!?]+|\.(?:\s|$)")
_WORD = re.compile(r"[^\s,:\"()]+")


class WeakPolicy(Protocol):
    """Anything that plays a little; one that learns, or a small model, fits as well."""

    def start(self, text: str, hint: str, rng: np.random.Generator) -> None:
        """Begin an episode: the instruction, the hint ("" where there is none), and where to draw from."""
        ...

    def act(self, observation: str, actions: Sequence[str] | None, grammar: Grammar) -> str:
        """An action; `actions` are the possible ones, or None where they are not listed."""
        ...


class Reader:
    """Does what it reads: actions that are written in the hint, else in the instruction, word for word.

    Of several it takes one whose sentence, besides, shares the most words with the observation, then the next one after
    the last that it took. Where it finds none, and now and then anyway, it tries something at random.

    Args:
        curiosity: how often it tries something at random.
    """

    def __init__(self, curiosity: float = 0.03) -> None:
        self._curiosity = curiosity

    def start(self, text: str, hint: str, rng: np.random.Generator) -> None:
        """See `WeakPolicy`."""
        self._sentences = [_WORD.findall(sentence) for sentence in _SENTENCE.split(hint or text)]
        self._rng, self._last = rng, (-1, -1)
        self._free: dict[tuple[int, int], str] | None = None

    def act(self, observation: str, actions: Sequence[str] | None, grammar: Grammar) -> str:
        """See `WeakPolicy`."""
        if actions is None:  # what the grammar accepts does not change
            self._free = found = self._mentions(None, grammar) if self._free is None else self._free
        else:
            found = self._mentions(actions, grammar)
        if not found or self._rng.random() < self._curiosity:
            if actions is None:
                return grammar.sample(self._rng, observation)
            return actions[int(self._rng.integers(len(actions)))]
        seen = {word.casefold().strip(".") for word in _WORD.findall(observation)}

        def rank(place: tuple[int, int]) -> tuple[int, bool, tuple[int, int]]:
            words, length = self._sentences[place[0]], len(found[place].split())
            here = {word.casefold() for word in (*words[: place[1]], *words[place[1] + length :])}
            return -len(here & seen), place <= self._last, place

        self._last = min(found, key=rank)
        return found[self._last]

    def _mentions(self, actions: Sequence[str] | None, grammar: Grammar) -> dict[tuple[int, int], str]:
        """Where in which sentence which action stands, the longest at each place."""
        listed = None if actions is None else {action.casefold(): action for action in actions}
        found: dict[tuple[int, int], str] = {}
        for number, words in enumerate(self._sentences):
            for start in range(len(words)):
                for end in range(min(len(words), start + LONGEST), start, -1):
                    text = " ".join(words[start:end])
                    action = listed.get(text.casefold()) if listed is not None else text
                    if action is not None and (listed is not None or grammar.accepts(text)):
                        found[number, start] = action
                        break
        return found
