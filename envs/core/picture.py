"""`Picture`: what a person can look at while an agent plays. Reports draw it, `sandlot play` prints its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle; lengths in the picture's own units."""

    x: float
    y: float
    width: float
    height: float
    fill: str = "none"
    """A colour, "#rrggbb" or "none"."""
    stroke: str = "none"


@dataclass(frozen=True, slots=True)
class Dot:
    """A circle."""

    x: float
    y: float
    radius: float
    fill: str = "none"
    stroke: str = "none"


@dataclass(frozen=True, slots=True)
class Label:
    """A line of text, from its left end on the base line."""

    x: float
    y: float
    text: str
    size: float = 11.0
    fill: str = "#222222"
    bold: bool = False


Shape = Box | Dot | Label


@dataclass(frozen=True, slots=True)
class Picture:
    """The state of an episode for a person: never part of an observation or of `info`, and nothing privileged in it.

    Parts that stay equal from one picture to the next are stored once in a report, so that what stands still costs
    nothing: give what changes together a part of its own.
    """

    width: float
    height: float
    parts: Mapping[str, tuple[Shape, ...]] = field(default_factory=dict)
    """Name -> shapes; drawn in this order, later ones on top."""
    text: str = ""
    """The same for a terminal."""
