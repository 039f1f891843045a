"""How much of the right result a result holds: for progress, never for reward."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .backends.base import Result
from .scoring.compare import normal


def overlap(given: Result, right: Result) -> float:
    """In [0, 1]: each right column's best F1 with a given one, as multisets; columns too many count against it.

    1.0 is no proof: which values stand in a row together, and the order, do not count here.
    """
    if not given.ok or not right.ok or not given.columns or not right.columns:
        return 0.0
    wanted, found = _columns(right), _columns(given)
    total = sum(max(_f1(column, target) for column in found) for target in wanted)
    return total / max(len(wanted), len(found))


def _columns(result: Result) -> list[Counter[Any]]:
    rows = [normal(row, 6) for row in result.rows]
    return [Counter(row[i] for row in rows) for i in range(len(result.columns))]


def _f1(a: Counter[Any], b: Counter[Any]) -> float:
    size = a.total() + b.total()
    return 2 * (a & b).total() / size if size else 0.0
