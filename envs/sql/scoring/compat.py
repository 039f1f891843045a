"""The benchmarks' own scorers, for reports that must be comparable with published numbers. Do not train on them.

Each reproduces its benchmark's verdict, mistakes included; the docstrings name the mistakes and `docs/sql_scoring.md`
counts them. What they run, they run in a session on a copy that is thrown away, so that even a statement that empties
the database harms nobody else.

A scorer is called as `scorer(backend, database, pred, gold, **options)` and returns a number. `pred` and `gold` are
statements; one of the agent's that fails scores 0.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from decimal import Decimal
from hashlib import md5
from itertools import product
from typing import Any

from ...core.errors import InvalidArgument
from ..backends.base import SqlBackend
from ..backends.database import Database, Row
from ..backends.grammar import grammar
from .order import GENEROUS

_DISTINCT = re.compile(r"\bdistinct\b", re.IGNORECASE)
_COMMENTS = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T]\d\d:\d\d(:\d\d(\.\d+)?)?\Z")


def spider_exec(
    backend: SqlBackend, database: Database, pred: str, gold: str, *, copies: Sequence[Database] = (), **_: Any
) -> float:
    """Spider's execution match (test-suite-sql-eval), on `database` and, as a test suite, on `copies`.

    Bags of rows, equal under some order of the columns; lists where "order by" stands anywhere in the text of the gold.

    Mistakes: DISTINCT is taken out of both statements, so that leaving it out or adding it is never wrong; an ORDER
    BY in a subquery makes an order count that nobody asked for, and one that ties rows demands the order of the
    gold's run; numbers must be equal to the last bit; two empty results are equal; the columns may be swapped even
    where the question names their order. (Its time limit does not work; ours does.)

    Raises:
        InvalidArgument: the gold fails; the original stops with an assertion.
    """
    ordered = "order by" in gold.lower()
    for variant in (database, *copies):
        given, right = (_rows(backend, variant, _DISTINCT.sub("", sql)) for sql in (pred, gold))
        if right is None:
            raise InvalidArgument(f"the reference statement fails on database {variant.name!r}")
        if given is None or not _spider_equal(given, right, ordered):
            return 0.0
    return 1.0


def bird_ex(backend: SqlBackend, database: Database, pred: str, gold: str, **_: Any) -> float:
    """BIRD's execution accuracy: equal sets of rows, the gold run after the prediction on the same connection.

    Mistakes: a prediction that empties the tables makes the gold's result empty and is right (`DELETE FROM singer`);
    duplicates, and with them DISTINCT and joins that multiply rows, do not count; nor does order; numbers must be equal
    to the last bit; two empty results are equal.
    """
    given = _rows(backend, database, pred)
    if given is None:
        return 0.0
    right = backend.execute(gold, GENEROUS)
    return float(right.ok and set(given) == set(right.rows))


def bird_soft_f1(backend: SqlBackend, database: Database, pred: str, gold: str, **_: Any) -> float:
    """BIRD's Soft F1, see `soft_f1`; 0 where a statement fails."""
    given, right = _rows(backend, database, pred), _rows(backend, database, gold)
    return 0.0 if given is None or right is None else soft_f1(given, right)


def soft_f1(given: Sequence[Row], right: Sequence[Row]) -> float:
    """F1 over the cells of row i against row i, after duplicates are gone.

    Mistakes: the right rows in another order score little (three rows reversed: 1/3), though the question asks for no
    order; swapped columns score 1; a row (1, 1) against (1, 2) scores 0.8; two empty results score 1.
    """
    if not given and not right:
        return 1.0
    mine, wanted = list(dict.fromkeys(given)), list(dict.fromkeys(right))
    hit = extra = missing = 0.0
    for i in range(max(len(mine), len(wanted))):
        if i >= len(mine):
            missing += 1
        elif i >= len(wanted):
            extra += 1
        else:
            width = len(wanted[i])
            found = sum(cell in wanted[i] for cell in mine[i])
            hit += found / width
            extra += (len(mine[i]) - found) / width
            missing += sum(cell not in mine[i] for cell in wanted[i]) / width
    precision = hit / (hit + extra) if hit + extra else 0.0
    recall = hit / (hit + missing) if hit + missing else 0.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def bird_interact(
    backend: SqlBackend, database: Database, pred: str, gold: str, *, ordered: bool = False, **_: Any
) -> float:
    """BIRD-Interact's default test of queries: sets of rows (lists if `ordered`), numbers to two places, dates to the
    day.

    Comments, DISTINCT and ROUND are taken out of both statements before they run.

    Mistakes: DISTINCT and duplicates do not count; the time of day does not count; numbers that differ by less than
    half a hundredth are equal, ratios such as 0.004 and 0.001 among them; rows with equal sort keys must come in the
    order of the gold's run; an empty answer is never right; whitespace in texts and comment marks within them are
    changed, because the statements are rewritten as text.
    """
    given, right = (_rows(backend, database, _bird_clean(sql, backend.dialect)) for sql in (pred, gold))
    if not given or not right:
        return 0.0
    mine, wanted = ([tuple(map(_bird_cell, row)) for row in rows] for rows in (given, right))
    return float(mine == wanted if ordered else set(mine) == set(wanted))


def spider2(
    backend: SqlBackend,
    database: Database,
    pred: str,
    gold: str,
    *,
    condition_cols: Sequence[int] = (),
    ignore_order: bool = True,
    **_: Any,
) -> float:
    """Spider 2's comparison: each gold column (or those in `condition_cols`) equals some column of the prediction.

    Numbers within 0.01, NULL as 0; `ignore_order` sorts each column by itself.

    Mistakes: which values belong to one row is lost; NULL equals 0; extra columns cost nothing, so that `SELECT *` is
    right for many questions; numbers closer than 0.01 are equal.
    """
    given, right = _rows(backend, database, pred), _rows(backend, database, gold)
    if given is None or right is None:
        return 0.0
    columns = list(zip(*right))
    wanted = [columns[i] for i in condition_cols if i < len(columns)] if condition_cols else columns
    mine = [_spider2_column(column, ignore_order) for column in zip(*given)]
    return float(
        all(any(_close(_spider2_column(column, ignore_order), other) for other in mine) for column in wanted)
        and (bool(wanted) or not given)
    )


def intercode_iou(backend: SqlBackend, database: Database, pred: str, gold: str, **_: Any) -> float:
    """InterCode's reward: intersection over union of the rows as strings, times Kendall's tau of their common rows.

    Mistakes: tau compares the strings' alphabetical ranks, place by place, so that the right rows in another order
    score as low as -1 where no order is asked for; with fewer than two different common rows tau is undefined and
    left out; 1 and 1.0 differ; rounded to two places. (The original scores the last statement that ran, not the
    submitted one, and keeps its changes.)
    """
    given, right = _rows(backend, database, pred), _rows(backend, database, gold)
    if given is None or right is None:
        return 0.0
    mine, wanted = [str(row) for row in given], [str(row) for row in right]
    common, union = Counter(mine) & Counter(wanted), Counter(mine) | Counter(wanted)
    if not union:
        return 1.0
    share = common.total() / union.total()
    tau = kendall_tau(_common_part(mine, common), _common_part(wanted, common))
    return share if math.isnan(tau) else round(tau * share, 2)


def kendall_tau(a: Sequence[str], b: Sequence[str]) -> float:
    """Kendall's tau-b of two equally long lists; NaN where one of them is constant."""
    score = pairs_a = pairs_b = 0
    for i in range(len(a)):
        for j in range(i):
            first, second = (a[i] > a[j]) - (a[i] < a[j]), (b[i] > b[j]) - (b[i] < b[j])
            score += first * second
            pairs_a += first != 0
            pairs_b += second != 0
    return score / math.sqrt(pairs_a * pairs_b) if pairs_a and pairs_b else math.nan


def dbbench_md5(
    backend: SqlBackend, database: Database, pred: str, gold: str, *, table: str | None = None, **_: Any
) -> float:
    """AgentBench's check of writes: `table_md5` of the table after the prediction and after the gold (all tables if
    None).

    Mistakes: see `table_md5`; a table that must not change is not looked at.
    """
    digests = []
    for sql in (pred, gold):
        backend.reset(database, write=True)
        if not backend.execute(sql, GENEROUS).ok:
            return 0.0
        state = backend.table_state()
        chosen = [table.lower()] if table else sorted(state.tables)
        digests.append([table_md5(state.tables[name].rows or ()) for name in chosen if name in state.tables])
    return float(digests[0] == digests[1])


def table_md5(rows: Sequence[Row]) -> str:
    """MD5 of the sorted row hashes: five hexadecimal digits each, joined by commas, cut after 1024 characters.

    Mistakes: about 170 rows fit, what sorts after them does not count; a row has one of 16^5, about a million, hashes;
    NULLs are skipped before the cells are joined, so that (NULL, 'x') and ('x', NULL) are equal.
    """
    hashes = sorted(
        md5(",".join(str(cell) for cell in row if cell is not None).encode()).hexdigest()[:5] for row in rows
    )
    return md5(",".join(hashes)[:1024].encode()).hexdigest()


SCORERS: dict[str, Callable[..., float]] = {
    scorer.__name__: scorer
    for scorer in (spider_exec, bird_ex, bird_soft_f1, bird_interact, spider2, intercode_iou, dbbench_md5)
}


def _rows(backend: SqlBackend, database: Database, sql: str) -> tuple[Row, ...] | None:
    """The rows that a statement gives on a fresh copy which it may change, None where it fails."""
    backend.reset(database, write=True)
    result = backend.execute(sql, GENEROUS)
    return result.rows if result.ok else None


def _spider_equal(given: Sequence[Row], right: Sequence[Row], ordered: bool) -> bool:
    if not given and not right:
        return True
    if len(given) != len(right) or len(given[0]) != len(right[0]):
        return False
    width = len(right[0])
    values = [set(column) for column in zip(*given)]
    wanted = [set(column) for column in zip(*right)]
    fits = [[i for i in range(width) if values[i] == column] for column in wanted]
    for order in product(*fits):
        if len(set(order)) == width:
            moved = [tuple(row[i] for i in order) for row in given]
            if moved == list(right) if ordered else Counter(moved) == Counter(right):
                return True
    return False


def _bird_clean(sql: str, dialect: str) -> str:
    """The statement without comments, DISTINCT (except DISTINCT ON) and ROUND, on one line."""
    sqlglot = grammar()
    exp = sqlglot.exp

    words = _COMMENTS.sub(" ", sql).split()
    text = " ".join(
        word
        for word, following in zip(words, [*words[1:], ""])
        if word.lower() != "distinct" or following.lower().startswith("on")
    )
    if "round" not in text.lower():
        return text
    try:
        tree = sqlglot.parse_one(text, read=dialect)
    except (sqlglot.errors.SqlglotError, RecursionError):
        return text
    return tree.transform(lambda node: node.this if isinstance(node, exp.Round) else node).sql(dialect=dialect)


def _bird_cell(cell: Any) -> Any:
    if isinstance(cell, (float, Decimal)):
        return round(float(cell), 2)
    found = _TIMESTAMP.match(cell) if isinstance(cell, str) else None
    return found[1] if found else cell


def _spider2_column(column: Sequence[Any], ignore_order: bool) -> list[Any]:
    cells = [0 if cell is None else float(cell) if isinstance(cell, Decimal) else cell for cell in column]
    return sorted(cells, key=lambda cell: (str(cell), isinstance(cell, (int, float)))) if ignore_order else cells


def _close(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(
        math.isclose(x, y, abs_tol=1e-2) if isinstance(x, (int, float)) and isinstance(y, (int, float)) else x == y
        for x, y in zip(a, b)
    )


def _common_part(rows: Sequence[str], common: Counter[str]) -> list[str]:
    """The rows that are in both results, in the order of this one."""
    left: defaultdict[str, int] = defaultdict(int, common)
    kept = []
    for row in rows:
        if left[row] > 0:
            left[row] -= 1
            kept.append(row)
    return kept
