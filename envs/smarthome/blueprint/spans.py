"""When a condition holds: sorted, disjoint, half-open stretches of time, and the algebra of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

Spans = tuple[tuple[float, float], ...]
"""[start, end) in seconds; an end of infinity is the end of the run or later."""
FOREVER = float("inf")
ALWAYS: Spans = ((-FOREVER, FOREVER),)
NEVER: Spans = ()


def merged(spans: Iterable[tuple[float, float]]) -> Spans:
    """Any stretches, sorted and joined; empty ones vanish."""
    found: list[tuple[float, float]] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return tuple(found)


def either(*many: Spans) -> Spans:
    """Where at least one holds."""
    return merged(span for spans in many for span in spans)


def both(*many: Spans) -> Spans:
    """Where all hold."""
    return inverse(either(*map(inverse, many)))


def inverse(spans: Spans) -> Spans:
    """Where it does not hold."""
    edges = [-FOREVER, *(edge for span in spans for edge in span), FOREVER]
    return merged(zip(edges[::2], edges[1::2], strict=True))


def holds_at(spans: Spans, time: float) -> bool:
    """Whether it holds at a moment."""
    return any(start <= time < end for start, end in spans)


def touches(spans: Spans, first: float, last: float) -> bool:
    """Whether it holds at some moment of [first, last], both ends included."""
    return first <= last and any(start <= last and end > first for start, end in spans)


def covers(spans: Spans, first: float, last: float) -> bool:
    """Whether it holds at every moment of [first, last); true where that is empty."""
    return first >= last or any(start <= first and last <= end for start, end in spans)


def begins(spans: Spans, after: float) -> list[float]:
    """The moments later than `after` at which it begins to hold."""
    return [start for start, _ in spans if start > after]


def steps(points: Iterable[tuple[float, bool]]) -> Spans:
    """From (time, whether it holds from then on) in order of time."""
    listed = list(points)
    if not listed:
        return NEVER
    edges = [*pairwise(listed), (listed[-1], (FOREVER, False))]
    return merged((time, later[0]) for (time, holds), later in edges if holds)


def const(holds: bool) -> Spans:
    """The whole run, or nothing."""
    return ALWAYS if holds else NEVER


def nextafter(time: float) -> float:
    """The next moment."""
    return math.nextafter(time, FOREVER)
