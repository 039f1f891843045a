"""Designers as parts of a training: they propose programs, are told what these were worth, and learn from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..envs.selfplay.blueprint import Blueprint
from ..envs.selfplay.pool import Pool
from ..envs.selfplay.program import Program, ProgramError
from ..envs.selfplay.reasons import Reason
from ..envs.selfplay.signature import Known, likeness
from ..envs.selfplay.verdict import Finding, Verdict
from ..harness.records import Group, Trajectory
from ..harness.trajectories import dumps, loads


@dataclass
class Proposal:
    """A design on its way: proposed, judged by the gates, played, rewarded."""

    program_id: str
    """"" where the gates refused it."""
    novelty: float = 0.0
    """1 - the largest likeness to a program that was there before."""
    difficulty: int | None = None
    """The sum of its stages' levels, where the grammar designer made it."""
    tags: tuple[str, ...] = ()
    """The mechanics that the grammar designer drew, in the order of drawing; none where it changed a program."""
    episode: Trajectory | None = None
    """How a model wrote it."""
    hinted: list[float] = field(default_factory=list)
    """Scores of its episodes with the hint so far."""
    plain: list[float] = field(default_factory=list)
    """And without."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a checkpoint."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "episode"}
        return {**values, "tags": list(self.tags), "episode": "" if self.episode is None else dumps(self.episode)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Proposal:
        """What `to_dict` gave."""
        episode = loads(values["episode"]) if values["episode"] else None
        return cls(**{**values, "tags": tuple(values["tags"]), "episode": episode})


class DesignerRole(Protocol):
    """What proposes programs and learns from their rewards. Stateful: `state_dict`, `load_state_dict`."""

    def propose(self, policy: Any, pool: Pool, count: int, step: int, *, memory: bool) -> list[Proposal]:
        """`count` designs, judged by the gates; accepted ones are in the pool, refused ones in its memory.

        Args:
            policy: the policy that is being trained.
            pool: where the programs go.
            count: how many.
            step: of the training; together with the role's seed it decides all drawing.
            memory: whether the designer may see what was tried before.
        """
        ...

    def learn(self, proposals: Sequence[Proposal], rewards: Sequence[float]) -> list[Group]:
        """Learn from what the designs were worth; returns groups for the learner, if it is the policy that designs."""
        ...

    def metrics(self) -> dict[str, float]:
        """Numbers of its own."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything that a resumed run needs."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore it."""
        ...


def take(pool: Pool, program: Program | None, verdict: Verdict, known: list[Known]) -> Proposal:
    """Put a judged program where it belongs: into the pool and among the known ones, or into the memory of failures.

    A program that the pool has already is refused: what is proposed must be new.
    """
    if program is not None and any(other.id == program.id for other in known):
        verdict = Verdict(program.id, (Finding(Reason.SAME_STRUCTURE, f"it is {program.id} once more."),))
    if program is None or not verdict.passed or verdict.signature is None:
        pool.reject(program, verdict)
        return Proposal("")
    likest = max((likeness(verdict.signature.structure, other.signature.structure) for other in known), default=0.0)
    known.append(Known(program.id, verdict.signature))
    return Proposal(pool.add(program, verdict), novelty=1.0 - likest)


def difficulty(program: Program) -> int | None:
    """The sum of the stages' levels, where the grammar designer made it."""
    try:
        return Blueprint.read(program).difficulty
    except ProgramError:
        return None
