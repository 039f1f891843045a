"""Which tasks a step plays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..envs.core.tasks import TaskSet
from ..harness.records import Group
from .recipe import Request


class UniformSampler:
    """`groups` tasks per step, drawn uniformly from the task set, `group_size` episodes of each."""

    def __init__(self, tasks: TaskSet, groups: int, group_size: int, seed: int) -> None:
        self.tasks, self.groups, self.group_size, self.seed = tasks, groups, group_size, seed

    def plan(self, step: int, retry: int = 0) -> list[Request]:
        """The step's requests: a function of the seed, the step and the round alone."""
        path = (self.seed, step, retry) if retry else (self.seed, step)
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(path)))
        return [Request(self.tasks.sample(rng), self.group_size) for _ in range(self.groups)]

    def observe(self, groups: Sequence[Group]) -> None:
        """Learns nothing from outcomes."""

    def state_dict(self) -> dict[str, Any]:
        """There is no state."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """There is no state."""
