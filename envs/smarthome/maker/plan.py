"""Where rooms lie: floors cut into rectangles of given areas, without gaps (a squarified treemap), gardens below.

The method is that of Bruls, Huizing and van Wijk, "Squarified Treemaps" (2000).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_WIDER = 1.4
"""A floor's width over its depth."""
_PATH = 0.5  # metres between the house and what lies outside


class Place(NamedTuple):
    """A rectangle on the plan, in metres."""

    x: float
    y: float
    width: float
    depth: float


def cut(areas: Sequence[float], whole: Place) -> list[Place]:
    """Rectangles of these areas that fill `whole`, as near to squares as can be, in the order of `areas`.

    Args:
        areas: square metres; they add up to the area of `whole`.
        whole: what is cut.
    """
    order = sorted(range(len(areas)), key=lambda index: -areas[index])
    places: dict[int, Place] = {}
    while order:
        side = min(whole.width, whole.depth)
        count = 1
        while count < len(order) and _worst(areas, order[: count + 1], side) <= _worst(areas, order[:count], side):
            count += 1
        row, order = order[:count], order[count:]
        thick = sum(areas[index] for index in row) / side
        along = 0.0
        for index in row:
            length = areas[index] / thick
            if whole.width >= whole.depth:
                places[index] = Place(whole.x, whole.y + along, thick, length)
            else:
                places[index] = Place(whole.x + along, whole.y, length, thick)
            along += length
        if whole.width >= whole.depth:
            whole = Place(whole.x + thick, whole.y, whole.width - thick, whole.depth)
        else:
            whole = Place(whole.x, whole.y + thick, whole.width, whole.depth - thick)
    return [places[index] for index in range(len(areas))]


def lay_out(rooms: Sequence[tuple[str, float, bool]]) -> list[Place]:
    """A place for every room; those of one floor never overlap.

    Args:
        rooms: floor, square metres, and whether it is outdoors.
    """
    places: dict[int, Place] = {}
    for floor in dict.fromkeys(room[0] for room in rooms):
        here = [index for index, room in enumerate(rooms) if room[0] == floor]
        inside = [index for index in here if not rooms[index][2]]
        areas = [rooms[index][1] for index in inside]
        width = (sum(areas) * _WIDER) ** 0.5
        depth = sum(areas) / width if inside else 0.0
        places |= zip(inside, cut(areas, Place(0.0, 0.0, width, depth)), strict=True)
        along = 0.0
        for index in here:
            if rooms[index][2]:
                side = rooms[index][1] ** 0.5
                places[index] = Place(along, depth + _PATH, side, side)
                along += side + _PATH
    return [places[index] for index in range(len(rooms))]


def _worst(areas: Sequence[float], row: Sequence[int], side: float) -> float:
    """The largest ratio of sides in a row of rectangles along a side."""
    total = sum(areas[index] for index in row)
    return max(max(side**2 * areas[i] / total**2, total**2 / (side**2 * areas[i])) for i in row)
