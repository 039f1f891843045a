"""Self-play against one's own past: snapshots of the learner join the frozen opponents that it plays against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..envs.core.errors import InvalidArgument
from ..envs.games.game import Player
from ..envs.games.opponents import OpponentPool
from .watch import History


@dataclass(frozen=True)
class Snapshots:
    """A watcher of `trainers.loop.train`: adds a copy of the policy to the pool after every so many steps.

    The environments must hold the same pool (`pool=` the object, not its folder): they play against a new opponent
    from the step after. A resumed run that gets the pool back from its folder goes on as if it had never stopped.
    """

    policy: Any
    """The learner."""
    pool: OpponentPool
    seat: Callable[[Any], Player]
    """Puts a policy into a seat: `lambda policy: PolicyPlayer(policy, instruction)`."""
    every: int = 10
    """Steps from one snapshot to the next."""
    folder: Path | None = None
    """Where the pool is saved after each snapshot; None keeps it in memory."""

    def __post_init__(self) -> None:
        if self.every < 1:
            raise InvalidArgument(f"every must be at least 1, not {self.every!r}")

    def __call__(self, history: History) -> str | None:
        """Adds "step 10", "step 20" and so on; never ends the run."""
        step = sum("time/update" in metrics for metrics in history)
        name = f"step {step}"
        if step and step % self.every == 0 and name not in self.pool.names:
            self.pool.add(name, self.seat(self.policy))
            if self.folder is not None:
                self.pool.save(self.folder)
        return None
