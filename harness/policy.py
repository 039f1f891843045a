"""The two protocols that everything which answers calls keeps: `Policy` and `Scorer`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from ..envs.core.errors import EnvironmentFault
from .records import Call, Context

MAX_TEXT = 100_000  # characters of a completion that are kept: every later prompt and every file repeats them


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample. The defaults are the training ones; evaluation usually passes `temperature=0`."""

    temperature: float = 1.0
    """0 is greedy."""
    top_p: float = 1.0
    max_tokens: int = 64
    """Per call; the completion is cut there and `finish` says "length"."""
    decode: str = "free"
    """"free" text, "trie" (token by token among the admissible actions' ids) or "choice" (softmax over whole
    admissible actions). The last two fall back to free text where the environment lists no actions."""


class PolicyFault(EnvironmentFault):
    """The model's server failed: the episodes that waited for it are void and are tried again."""


@runtime_checkable
class Policy(Protocol):
    """Answers batches of contexts.

    `generate` is called with the contexts that are ready now, of different episodes; it may keep a cache per session.
    Randomness comes from `seeds` (one per context), so that an episode's actions do not depend on which other
    episodes happen to share its batch.
    """

    version: int

    def generate(self, contexts: Sequence[Context], sampling: Sampling, seeds: Sequence[int]) -> list[Call]:
        """One call per context, in order."""
        ...

    def forget(self, sessions: Sequence[str]) -> None:
        """These sessions ended: drop whatever is cached for them."""
        ...


class Scorer(Protocol):
    """Log-probabilities of given completions, possibly under another context (teachers, hindsight, references)."""

    def score(self, calls: Sequence[Call], contexts: Sequence[Context] | None = None) -> list[np.ndarray]:
        """Per call, the (units,) log-probabilities of its recorded units; `contexts` replaces the calls' own."""
        ...
