"""A linear policy over hashed prompt words crossed with the candidate action: the smallest one that reads its prompt.

Text added to the prompt (a hint, a memory, a skill) really changes its distribution, so that methods with
privileged or rewritten contexts can be tested without a language model.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from ..records import Context
from .choice import ChoicePolicy

_WORD = re.compile(r"\w+")


@lru_cache(maxsize=65_536)
def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


@lru_cache(maxsize=16_384)
def _words(text: str) -> np.ndarray:
    """(distinct words + 1,) uint64 hashes; the last one is the bias."""
    return np.array([*(_hash(word) for word in sorted(set(_WORD.findall(text.lower())))), 0], dtype=np.uint64)


class BagPolicy(ChoicePolicy):
    """Logit(action) = sum over the prompt's distinct words w of weight[hash(w, action)], plus weight[hash(action)].

    Args:
        size: number of weights (a power of two).
        critic: also keep a linear value function of the words.
    """

    def __init__(self, size: int = 2**16, *, critic: bool = False) -> None:
        super().__init__(size, critic=critic)

    def features(self, context: Context, action: str) -> np.ndarray:
        """One index per distinct word of the prompt, and the action's own."""
        return self._mix(self._prompt(context), _hash(action))

    def state_features(self, context: Context) -> np.ndarray:
        """One index per distinct word of the prompt."""
        return self._mix(self._prompt(context), _hash("\0value"))

    def _mix(self, words: np.ndarray, other: int) -> np.ndarray:
        mixed = (words ^ np.uint64(other)) * np.uint64(0x9E3779B97F4A7C15)  # Fibonacci hashing spreads the product
        return ((mixed >> np.uint64(40)) % np.uint64(len(self.weights))).astype(np.int64)

    @staticmethod
    def _prompt(context: Context) -> np.ndarray:
        return _words("\n".join(message.text for message in context.messages))
