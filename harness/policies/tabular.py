"""A table of logits: one weight per state and action, one value per state. The exact policy of the tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...envs.core.errors import InvalidArgument
from ..records import Context
from .choice import ChoicePolicy


class TabularPolicy(ChoicePolicy):
    """Softmax over the admissible actions with a free logit for each (state key, action).

    Args:
        capacity: entries that the table can hold.
        key: "state_key" (Markov) or "obs_key" (what the agent sees).
        critic: also keep a value per state.

    Raises:
        InvalidArgument: the table is full.
    """

    def __init__(self, capacity: int = 65_536, *, key: str = "state_key", critic: bool = False) -> None:
        super().__init__(capacity, critic=critic)
        self.key = key
        self.index: dict[str, int] = {}
        self.frozen = False
        """Whether what was never seen is uniform for ever, and gets no entry."""

    def features(self, context: Context, action: str) -> np.ndarray:
        """The one entry of this state and action, made on first sight."""
        return self._entry(f"{getattr(context, self.key)}\n{action}")

    def state_features(self, context: Context) -> np.ndarray:
        """The one entry of this state."""
        return self._entry(getattr(context, self.key))

    def _entry(self, name: str) -> np.ndarray:
        if self.frozen and name not in self.index:
            return np.empty(0, dtype=np.int64)
        at = self.index.setdefault(name, len(self.index))
        if at >= len(self.weights):
            raise InvalidArgument(f"the table is full at {len(self.weights)} entries: pass a larger capacity")
        return np.array([at])

    def get_extra_state(self) -> dict[str, Any]:
        """The index belongs to the weights."""
        return {**super().get_extra_state(), "index": dict(self.index)}

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restore the index."""
        super().set_extra_state(state)
        self.index = dict(state["index"])
