"""Policies without tokens: a softmax over the admissible actions whose logits are sums of weights.

Exact, fast and differentiable: on these, methods are tested in seconds and against closed forms.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
import torch

from ..policy import Sampling
from ..records import Call, Context
from .evaluation import Evaluation

FREE = ("",)  # what there is to choose from where the environment lists nothing


class ChoicePolicy(torch.nn.Module, ABC):
    """Logit of an action = sum of the weights that `features` names for it. One unit per call.

    Args:
        size: number of weights.
        critic: also keep a value function over `state_features`.
    """

    def __init__(self, size: int, *, critic: bool = False) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(torch.zeros(size, dtype=torch.float64))
        self.value_weights = torch.nn.Parameter(torch.zeros(size, dtype=torch.float64)) if critic else None
        self.version = 0
        self._ids = count()

    @abstractmethod
    def features(self, context: Context, action: str) -> np.ndarray:
        """Indices into the weights for choosing `action` in `context`."""

    @abstractmethod
    def state_features(self, context: Context) -> np.ndarray:
        """Indices into the critic's weights for `context`."""

    def logits(self, context: Context) -> np.ndarray:
        """(actions,) float64, without gradient."""
        weights = self.weights.detach().numpy()
        return np.array([weights[self.features(context, action)].sum() for action in context.admissible or FREE])

    def generate(self, contexts: Sequence[Context], sampling: Sampling, seeds: Sequence[int]) -> list[Call]:
        """Draw one action per context; temperature 0 takes the most likely one (the first of equals)."""
        calls = []
        for context, seed in zip(contexts, seeds, strict=True):
            choices = context.admissible or FREE
            logits = self.logits(context) / (sampling.temperature or 1.0)
            logprobs = logits - np.logaddexp.reduce(logits)
            if sampling.temperature == 0:
                choice = int(np.argmax(logprobs))
            else:
                point = np.random.Generator(np.random.PCG64(seed)).random()
                choice = min(int(np.searchsorted(np.cumsum(np.exp(logprobs)), point)), len(choices) - 1)
            value = None
            if self.value_weights is not None:
                value = float(self.value_weights.detach().numpy()[self.state_features(context)].sum())
            calls.append(
                Call(
                    id=f"{context.session}#{next(self._ids)}",
                    context=context,
                    text=choices[choice],
                    logprobs=np.array([logprobs[choice]], dtype=np.float64),
                    choices=choices,
                    choice=choice,
                    temperature=sampling.temperature or 1.0,
                    value=value,
                    version=self.version,
                    finish="choice",
                )
            )
        return calls

    def forget(self, sessions: Sequence[str]) -> None:
        """Nothing is cached per session."""

    def evaluate(self, calls: Sequence[Call]) -> Evaluation:
        """Differentiable log-probabilities and entropies, one unit per call; values with a critic."""
        features: list[np.ndarray] = []
        for call in calls:
            features += [self.features(call.context, action) for action in call.choices or FREE]
        logits = self._sums(self.weights, features)
        sizes = [len(call.choices or FREE) for call in calls]
        padded = torch.full((len(calls), max(sizes)), -torch.inf, dtype=torch.float64)
        rows = torch.repeat_interleave(torch.arange(len(calls)), torch.tensor(sizes))
        columns = torch.cat([torch.arange(size) for size in sizes])
        temperatures = torch.tensor([call.temperature for call in calls], dtype=torch.float64)
        padded = padded.index_put((rows, columns), logits / temperatures[rows])
        logprobs = torch.log_softmax(padded, dim=1)
        chosen = logprobs[torch.arange(len(calls)), torch.tensor([call.choice for call in calls])]
        entropy = -(logprobs.exp() * logprobs.masked_fill(logprobs.isneginf(), 0.0)).sum(1)
        values = None
        if self.value_weights is not None:
            values = self._sums(self.value_weights, [self.state_features(call.context) for call in calls])
        return Evaluation(logprobs=chosen, entropy=entropy, values=values, unit_values=values)

    def score(self, calls: Sequence[Call], contexts: Sequence[Context] | None = None) -> list[np.ndarray]:
        """Log-probabilities of the recorded choices, under other contexts if given (their actions stay the calls')."""
        scores = []
        for call, context in zip(calls, contexts or [call.context for call in calls], strict=True):
            choices = call.choices or FREE
            weights = self.weights.detach().numpy()
            logits = np.array([weights[self.features(context, action)].sum() for action in choices]) / call.temperature
            scores.append(np.array([logits[call.choice] - np.logaddexp.reduce(logits)]))
        return scores

    def trainable_parameters(self) -> list[torch.nn.Parameter]:
        """All weights, the critic's last."""
        return [self.weights] if self.value_weights is None else [self.weights, self.value_weights]

    def value_parameters(self) -> list[torch.nn.Parameter]:
        """The critic's weights."""
        return [] if self.value_weights is None else [self.value_weights]

    @staticmethod
    def _sums(weights: torch.Tensor, features: list[np.ndarray]) -> torch.Tensor:
        index = torch.from_numpy(np.concatenate(features))
        owner = torch.repeat_interleave(torch.arange(len(features)), torch.tensor([len(f) for f in features]))
        return torch.zeros(len(features), dtype=weights.dtype).index_add(0, owner, weights[index])

    def get_extra_state(self) -> dict[str, Any]:
        """The version travels with the weights."""
        return {"version": self.version}

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restore the version."""
        self.version = state["version"]
