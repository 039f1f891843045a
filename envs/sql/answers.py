"""Answers that a benchmark gives as result files instead of statements (Spider 2), by its own rule.

Each right column (or those that count) must be among the columns given: numbers within 0.01, NULL as 0. The rule is
lenient: which values stand in a row together is lost, and further columns cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .backends.base import Result
from .scoring.compare import Verdict
from .task import Answer


def among(given: Result, answers: Sequence[Answer]) -> Verdict:
    """Whether a result is one of the right ones."""
    if not given.ok:
        return Verdict(False, f"the statement failed: {given.error}")
    if given.truncated:
        return Verdict(False, "the result is too large")
    if any(_fits(given, answer) for answer in answers):
        return Verdict(True, "the result has the right columns")
    return Verdict(False, "the values differ")


def _fits(given: Result, answer: Answer) -> bool:
    columns = list(zip(*answer.rows, strict=True))
    wanted = [columns[i] for i in answer.columns if i < len(columns)] if answer.columns else columns
    found = [_ordered(column, answer.ignore_order) for column in zip(*given.rows, strict=True)]
    targets = [_ordered(column, answer.ignore_order) for column in wanted]
    return bool(targets) and all(any(_close(target, column) for column in found) for target in targets)


def _ordered(column: Sequence[Any], ignore_order: bool) -> list[Any]:
    cells = [0 if cell is None else cell for cell in column]
    return sorted(cells, key=lambda cell: (isinstance(cell, str), str(cell))) if ignore_order else cells


def _close(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(map(_equal, a, b))


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, int | float) and isinstance(b, int | float):
        return math.isclose(a, b, abs_tol=0.01)
    return str(a) == str(b)
