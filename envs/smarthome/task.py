"""A task of the smart home: a home, what a resident says, the goal behind it, and what is known about reaching it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .blueprint.goal import Blueprint
from .blueprint.run import Happening
from .frozen import FrozenDict
from .spec import HomeSpec

FAMILIES = ("query", "explicit", "implicit", "ambiguous", "scheduling", "personalised", "infeasible", "fault")


@dataclass(frozen=True)
class HomeTask:
    """A task."""

    family: str
    """One of `FAMILIES`."""
    kind: str
    """The sub-type, e.g. "area_except"."""
    home: HomeSpec
    speaker: str
    """The id of the resident who speaks."""
    area: str | None
    """Where they are."""
    request: str
    goal: Blueprint
    """Privileged."""
    warmup: float = 3600.0
    """Seconds that the home has run before the request: what history there is."""
    answers: Mapping[str, str] = field(default_factory=FrozenDict)
    """Slot -> what the resident says when asked about it."""
    world: tuple[Happening, ...] = ()
    """What happens after the request, whoever does what."""
    answer: str = ""
    """Privileged: what to tell the resident at the end."""
    about: str = ""
    """Privileged: what to name in a refusal."""
    oracle_calls: int = 0
    """How many calls the oracle needs; 0 before the task has been checked."""
