"""What the episodes of a program say of it: regret, learning potential, and which memories a designer gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WINDOW = 64
"""Means are over so many of the latest episodes, for what a policy could not do it may have learned since."""
FAST, SLOW = 0.9, 0.99
"""Decays of the two moving means whose gap is the learning potential."""
FEASIBLE = 0.5
"""A program whose hinted episodes reach less on average counts as infeasible."""


@dataclass(frozen=True)
class Statistics:
    """What is known of one program from how it was played."""

    hinted_episodes: int
    """Episodes with the hint, ever."""
    plain_episodes: int
    """Episodes without it, ever."""
    hinted: float | None
    """Mean score with the hint over the latest `WINDOW` episodes; None without any."""
    plain: float | None
    """Mean score without it, likewise."""
    potential: float
    """Fast minus slow moving mean of the plain scores: above 0 while the policy is getting better at it."""
    policy_version: int
    """The latest policy that played it."""

    @property
    def regret(self) -> float | None:
        """What the hint is worth, `hinted - plain` held in [0, 1]; None until both were played."""
        return None if self.hinted is None or self.plain is None else regret(self.hinted, self.plain)

    @property
    def feasible(self) -> bool | None:
        """Whether it can be solved with the hint; None until that was tried."""
        return None if self.hinted is None else self.hinted >= FEASIBLE


@dataclass(frozen=True)
class MemoryEntry:
    """One program that was tried."""

    program_id: str
    """"" where it was not even a program."""
    title: str
    mechanics: tuple[str, ...]
    outcome: str
    """"accepted", or the code of the reason against it."""
    message: str
    """What the gate said."""
    designer: str
    generation: int
    regret: float | None
    """Of accepted ones that were played both ways."""


def regret(hinted: float, plain: float) -> float:
    """`hinted - plain`, held in [0, 1]."""
    return min(1.0, max(0.0, hinted - plain))


def moving_mean(scores: Sequence[float], decay: float) -> float:
    """The mean with weights that fall by `decay` for each step back; 0 without scores."""
    total = weight = 0.0
    for score in scores:
        total, weight = decay * total + (1 - decay) * score, decay * weight + (1 - decay)
    return total / weight if weight else 0.0


def statistics(plays: Sequence[tuple[int, float, int]]) -> Statistics:
    """The statistics of plays (hinted, score, policy version), oldest first."""
    hinted = [score for shown, score, _ in plays if shown]
    plain = [score for shown, score, _ in plays if not shown]
    return Statistics(
        hinted_episodes=len(hinted),
        plain_episodes=len(plain),
        hinted=_mean(hinted[-WINDOW:]),
        plain=_mean(plain[-WINDOW:]),
        potential=moving_mean(plain, FAST) - moving_mean(plain, SLOW),
        policy_version=max((version for *_, version in plays), default=0),
    )


def choose_memory(entries: Sequence[MemoryEntry], count: int) -> list[MemoryEntry]:
    """Up to `count` of them in their order: half for the largest regret, the rest the latest."""
    ranked = sorted(range(len(entries)), key=lambda i: -(entries[i].regret or 0.0))
    best = [i for i in ranked if entries[i].regret][: count // 2]
    recent = [i for i in reversed(range(len(entries))) if i not in best][: max(0, count - len(best))]
    return [entries[i] for i in sorted({*best, *recent})]


def _mean(scores: Sequence[float]) -> float | None:
    return sum(scores) / len(scores) if scores else None
