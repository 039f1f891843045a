"""Whether two results are the same answer: multisets of rows, ordered only where the question asks for an order."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby, islice
from typing import Any, NamedTuple

from ..backends.base import Result
from ..backends.database import Row

MAX_ORDERS = 720  # orders of columns that are tried with column_order="permute"
MAX_MATCHED = 300  # rows alike but for their numbers that are matched one by one where sorting does not settle it
DIVISION = 1e-12  # engines print quotients of exact numbers with differing numbers of digits


class Verdict(NamedTuple):
    """Whether an answer is right, and in words why not. The reason never quotes the reference answer."""

    match: bool
    reason: str


@dataclass(frozen=True)
class Tolerance:
    """When two cells are equal. Integers, texts and blobs: exactly. Exact decimals: up to the digits of a division."""

    relative: float = 1e-6
    absolute: float = 1e-9
    null_eq: bool = True

    def cells(self, a: Any, b: Any) -> bool:
        """Whether two normal cells are equal."""
        if a is None or b is None:
            return a is b and self.null_eq
        if isinstance(a, (int, float, Decimal)) and isinstance(b, (int, float, Decimal)):
            if isinstance(a, int) and isinstance(b, int):
                return a == b
            if isinstance(a, float) or isinstance(b, float):
                a, b = _as_float(a), _as_float(b)
                return a == b or math.isclose(a, b, rel_tol=self.relative, abs_tol=self.absolute) or (a != a and b != b)
            return a == b or abs(a - b) <= Decimal(DIVISION) * max(abs(a), abs(b))
        return type(a) is type(b) and a == b

    def rows(self, a: Row, b: Row) -> bool:
        """Whether two rows of normal cells are equal."""
        return len(a) == len(b) and all(map(self.cells, a, b))


def compare(
    pred: Result,
    gold: Result,
    *,
    ordered: Sequence[Row] | None = None,
    multiset: bool = True,
    float_rel: float = 1e-6,
    float_abs: float = 1e-9,
    column_order: str = "exact",
    null_eq: bool = True,
    decimals: int | None = None,
) -> Verdict:
    """Compare two results. Names of columns do not count.

    Args:
        pred: the agent's result.
        gold: the right one.
        ordered: the values of the sort keys, one tuple per row of `gold` (`order.reference` finds them): rows with
            equal keys may come in any order among themselves. None compares without order.
        multiset: count duplicates; False compares sets.
        float_rel: relative tolerance where either number is a float.
        float_abs: absolute tolerance where either number is a float.
        column_order: "exact", or "permute" to accept the columns in any one order.
        null_eq: NULL equals NULL; False makes a row with NULL equal to nothing.
        decimals: round numbers to so many places first; None does not.
    """
    if not pred.ok:
        return Verdict(False, f"the statement failed: {pred.error}")
    if not gold.ok or gold.truncated:
        return Verdict(False, "the reference statement has no usable result")
    if pred.truncated:
        return Verdict(False, "the result is too large")
    if len(pred.columns) != len(gold.columns):
        return Verdict(False, "the number of columns differs")
    tolerance = Tolerance(float_rel, float_abs, null_eq)
    wanted = [normal(row, decimals) for row in gold.rows]
    given = [normal(row, decimals) for row in pred.rows]
    if not multiset:
        wanted, given = list(dict.fromkeys(wanted)), list(dict.fromkeys(given))
    elif len(wanted) != len(given):
        return Verdict(False, "the number of rows differs")
    orders = iter([tuple(range(len(gold.columns)))]) if column_order == "exact" else _orders(given, wanted, tolerance)
    reason = "the values differ"
    for order in islice(orders, MAX_ORDERS):
        moved = [tuple(row[i] for i in order) for row in given]
        if ordered is None or not multiset:
            if same_rows(moved, wanted, tolerance):
                return Verdict(True, "the results are equal")
        elif _same_blocks(moved, wanted, [normal(row, decimals) for row in ordered], tolerance):
            return Verdict(True, "the results are equal, in order")
        elif same_rows(moved, wanted, tolerance):
            reason = "the rows are right, their order is not"
    return Verdict(False, reason)


def normal(row: Row, decimals: int | None = None) -> Row:
    """The row with truth values as 0 and 1, whole decimals as integers, and numbers rounded if asked."""
    return tuple(_normal(cell, decimals) for cell in row)


def same_rows(a: Sequence[Row], b: Sequence[Row], tolerance: Tolerance) -> bool:
    """Whether two lists of normal rows are equal as multisets."""
    if len(a) != len(b):
        return False
    if tolerance.null_eq and sorted(map(_exact_key, a)) == sorted(map(_exact_key, b)):
        return True
    groups: dict[Row, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for side, rows in enumerate((a, b)):
        for row in rows:
            groups[tuple("#" if _is_number(cell) else (cell,) for cell in row)][side].append(row)
    return all(_same_numbers(first, second, tolerance) for first, second in groups.values())


def _same_numbers(a: list[Row], b: list[Row], tolerance: Tolerance) -> bool:
    """Whether rows that differ in their numbers at most can be paired off."""
    if len(a) != len(b):
        return False
    if all(map(tolerance.rows, sorted(a, key=_number_key), sorted(b, key=_number_key))):
        return True
    # Sums of floats in another order differ in their last digits, which may sort rows that tie in them differently.
    return len(a) <= MAX_MATCHED and _pair_off(a, b, tolerance)


def _pair_off(a: list[Row], b: list[Row], tolerance: Tolerance) -> bool:
    """Whether there is a perfect matching of equal rows (augmenting paths)."""
    partner: dict[int, int] = {}
    equal = [[j for j, other in enumerate(b) if tolerance.rows(row, other)] for row in a]

    def place(i: int, seen: set[int]) -> bool:
        for j in equal[i]:
            if j not in seen:
                seen.add(j)
                if j not in partner or place(partner[j], seen):
                    partner[j] = i
                    return True
        return False

    return all(place(i, set()) for i in range(len(a)))


def _same_blocks(given: list[Row], wanted: list[Row], keys: Sequence[Row], tolerance: Tolerance) -> bool:
    """Whether the rows agree block by block, a block being the wanted rows whose sort keys are equal."""
    start = 0
    for _, block in groupby(keys):
        end = start + sum(1 for _ in block)
        if not same_rows(given[start:end], wanted[start:end], tolerance):
            return False
        start = end
    return start == len(given)


def _orders(given: list[Row], wanted: list[Row], tolerance: Tolerance) -> Iterator[tuple[int, ...]]:
    """Orders of the given columns in which each column alone has the wanted values."""
    columns, targets = [list(zip(*rows)) for rows in (given, wanted)]
    if not targets:
        width = len(wanted[0]) if wanted else len(given[0]) if given else 0
        yield tuple(range(width))
        return
    fits = [
        [i for i, column in enumerate(columns) if same_rows([(x,) for x in column], [(x,) for x in target], tolerance)]
        for target in targets
    ]

    def extend(chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(chosen) == len(fits):
            yield chosen
            return
        for i in fits[len(chosen)]:
            if i not in chosen:
                yield from extend((*chosen, i))

    yield from extend(())


def _normal(cell: Any, decimals: int | None) -> Any:
    if isinstance(cell, bool):
        return int(cell)
    if isinstance(cell, Decimal) and cell.is_finite() and cell == cell.to_integral_value():
        return int(cell)
    if decimals is not None and isinstance(cell, (float, Decimal)):
        return round(cell, decimals)
    return cell


def _is_number(cell: Any) -> bool:
    return isinstance(cell, (int, float, Decimal))


def _exact_key(row: Row) -> tuple[tuple[str, Any], ...]:
    return tuple(
        ("number", cell) if _is_number(cell) and cell == cell else (type(cell).__name__, repr(cell)) for cell in row
    )


def _number_key(row: Row) -> tuple[float, ...]:
    # Seven digits: neighbours within the tolerance mostly share a key, so that the other numbers decide.
    return tuple(float(f"{_as_float(cell):.7g}") for cell in row if _is_number(cell) and cell == cell)


def _as_float(number: float | Decimal) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
