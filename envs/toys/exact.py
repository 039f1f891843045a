"""The exact decision process of a small deterministic environment, unrolled through its own snapshots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import InvalidArgument
from ..core.text_env import TextEnv


@dataclass(frozen=True)
class Mdp:
    """States `0 .. n-1` (0 is the start) with their admissible actions; ended states have none."""

    observations: tuple[str, ...]
    infos: tuple[dict[str, Any], ...]
    successors: tuple[tuple[int, ...], ...]
    """Per state and action (in the order of `info["admissible"]`), the next state."""
    rewards: tuple[tuple[float, ...], ...]

    def optimal(self, horizon: int) -> float:
        """Undiscounted return from the start of the best policy over `horizon` steps (value iteration)."""
        return self._backup(horizon, lambda state, returns: max(returns))

    def value(self, policy: Callable[[str, dict[str, Any]], Sequence[float]], horizon: int) -> float:
        """Undiscounted return from the start of a policy over `horizon` steps.

        Args:
            policy: (observation, info) -> one probability per entry of `info["admissible"]`.
            horizon: number of steps.
        """
        states = zip(self.observations, self.infos, self.successors, strict=True)
        chances = [policy(observation, info) if after else () for observation, info, after in states]
        return self._backup(horizon, lambda state, returns: float(np.dot(chances[state], returns)))

    def random(self, horizon: int) -> float:
        """Return of the uniformly random policy over `horizon` steps."""
        return self._backup(horizon, lambda state, returns: float(np.mean(returns)))

    def _backup(self, horizon: int, combine: Callable[[int, list[float]], float]) -> float:
        values = [0.0] * len(self.successors)
        for _ in range(horizon):
            values = [
                combine(state, [r + values[s] for r, s in zip(self.rewards[state], after, strict=True)])
                if after
                else 0.0
                for state, after in enumerate(self.successors)
            ]
        return values[0]


def unroll(env: TextEnv, most: int = 20_000) -> Mdp:
    """All states that can be reached from the current one, the step limit aside.

    Raises:
        InvalidArgument: the environment is stochastic, cannot list its actions, or has more than `most` states.
    """
    if env.stochastic:
        raise InvalidArgument(f"{type(env).__name__} is stochastic: its states cannot be unrolled")
    home = env.snapshot()
    observation, info = env.restore(home)
    found = {info["state_key"]: 0}
    queue = [(home, observation, info)]
    successors: list[tuple[int, ...]] = []
    rewards: list[tuple[float, ...]] = []
    for snapshot, _, info in queue:  # grows while it is walked
        if info["admissible"] is None:
            raise InvalidArgument(f"{type(env).__name__} does not list its actions")
        after, paid = [], []
        for action in info["admissible"]:
            env.restore(snapshot)
            observation, reward, _, _, reached = env.step(action)
            key = reached["state_key"]
            if key not in found:
                if len(found) == most:
                    raise InvalidArgument(f"more than {most} states; choose a smaller task")
                found[key] = len(queue)
                queue.append((env.snapshot(), observation, reached))
            after.append(found[key])
            paid.append(reward)
        successors.append(tuple(after))
        rewards.append(tuple(paid))
    env.restore(home)
    observations, infos = tuple(entry[1] for entry in queue), tuple(entry[2] for entry in queue)
    return Mdp(observations, infos, tuple(successors), tuple(rewards))
