"""The reference answer with the order that its question asks for, ties included.

Only an ORDER BY of the outermost query counts. Its keys are evaluated with the answer, as hidden columns, so that rows
with equal keys are known: their order among themselves is nobody's fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..backends.base import Result, SqlBackend, SqlLimits
from ..backends.database import Database, Row
from ..backends.grammar import grammar

GENEROUS = SqlLimits(timeout=5.0, max_rows=50_000, max_counted=50_001, max_bytes=1 << 24, operations=500_000_000)
"""For reference statements, which are trusted to end."""


@dataclass(frozen=True)
class Reference:
    """What the right answer is."""

    result: Result
    keys: tuple[Row, ...] | None
    """The sort keys of each row; None where no order is asked for."""
    tie_decided: bool
    """LIMIT cuts through rows with equal keys that differ: other answers are as right. Do not make a task of it."""


def reference(backend: SqlBackend, sql: str, limits: SqlLimits = GENEROUS) -> Reference:
    """Run the reference statement in `backend`'s session and find the keys of its order."""
    tree = parsed(sql, backend.dialect)
    plain = backend.execute(sql, limits)
    if tree is None or not plain.ok:
        return Reference(plain, None, False)
    order, limit = tree.args.get("order"), _limit(tree)
    if order is None:
        return Reference(plain, None, limit is not None and _cuts(backend, tree, limit, [], limits))
    keyed = _with_keys(backend, tree, limits)
    if keyed is None or len(keyed[0].rows) != len(plain.rows):
        # The keys cannot be had: every row stands alone, in the order that the engine gave.
        return Reference(plain, tuple((i,) for i in range(len(plain.rows))), False)
    result, keys = keyed
    tied = limit is not None and _cuts(backend, tree, limit, list(keys), limits)
    return Reference(result, keys, tied)


@lru_cache(maxsize=4_096)
def parsed(sql: str, dialect: str) -> Any:
    """The tree of a single query, to be copied before it is changed; None where it is none or cannot be read."""
    sqlglot = grammar()
    exp = sqlglot.exp

    try:
        trees = [tree for tree in sqlglot.parse(sql, read=dialect) if tree is not None]
    except (sqlglot.errors.SqlglotError, RecursionError):
        return None
    return trees[0] if len(trees) == 1 and isinstance(trees[0], exp.Query) else None


def is_ordered(sql: str, dialect: str = "sqlite") -> bool:
    """Whether the outermost query of the statement has an ORDER BY."""
    tree = parsed(sql, dialect)
    return tree is not None and tree.args.get("order") is not None


def depends_on_storage(database: Database, sql: str) -> bool:
    """Whether a query's answer changes when SQLite visits rows in the reverse order: then the data does not settle it.

    For the lint of tasks; runs in this process, so for trusted statements on databases in memory only.
    """
    tree = parsed(sql, "sqlite")
    ordered = tree is not None and tree.args.get("order") is not None
    answers = []
    for setting in ("OFF", "ON"):
        connection = database.open()
        try:
            connection.execute(f"PRAGMA reverse_unordered_selects={setting}")
            rows = [tuple(map(repr, row)) for row in connection.execute(sql).fetchall()]
        finally:
            connection.close()
        answers.append(rows if ordered else sorted(rows))
    return answers[0] != answers[1]


def _limit(tree: Any) -> tuple[int, int] | None:
    """(rows, offset) of the outermost query where they are numbers."""
    exp = grammar().exp

    found = tree.args.get("limit") or tree.args.get("fetch")
    if found is None:
        return None
    count = found.expression if isinstance(found, exp.Limit) else found.args.get("count")
    offset = tree.args.get("offset")
    start = offset.expression if offset is not None else found.args.get("offset")
    if not isinstance(count, exp.Literal) or not (start is None or isinstance(start, exp.Literal)):
        return None
    try:
        return int(count.this), int(start.this) if start is not None else 0
    except ValueError:
        return None


def _cuts(backend: SqlBackend, tree: Any, limit: tuple[int, int], keys: list[Row], limits: SqlLimits) -> bool:
    """Whether the edges of LIMIT and OFFSET part rows with equal keys that are not all the same."""
    whole = tree.copy()
    for part in ("limit", "offset", "fetch"):
        whole.set(part, None)
    if tree.args.get("order") is None:
        result = backend.execute(whole.sql(dialect=backend.dialect), limits)
        keyed = (result, tuple(() for _ in result.rows)) if result.ok else None
    else:
        keyed = _with_keys(backend, whole, limits)
    if keyed is None:
        return False
    rows, every = keyed[0].rows, keyed[1]
    count, start = limit
    for edge in (start, start + count):
        if 0 < edge < len(rows) and every[edge - 1] == every[edge]:
            tied = {repr(row) for row, key in zip(rows, every) if key == every[edge]}
            if len(tied) > 1:
                return True
    return False


def _with_keys(backend: SqlBackend, tree: Any, limits: SqlLimits) -> tuple[Result, tuple[Row, ...]] | None:
    """The result of the query with the values of its sort keys, or None where they cannot be had."""
    exp = grammar().exp

    asked = tree.copy()
    simple = isinstance(asked, exp.Select) and not asked.args.get("distinct")
    hidden: list[Any] = []
    places: list[int | str] = []  # negative: hidden columns counted from the end, once their number is known
    for ordered in asked.args["order"].expressions:
        key = ordered.this
        place = _output_place(asked, key)
        if place is not None:
            places.append(place)
        elif simple and not key.find(exp.Subquery, exp.Window):
            hidden.append(_without_aliases(asked, key))
            places.append(f"hidden {len(hidden) - 1}")
        else:
            return None
    for i, key in enumerate(hidden):
        asked.select(exp.alias_(key, f"sort_key_{i}"), copy=False)
    result = backend.execute(asked.sql(dialect=backend.dialect), limits)
    if not result.ok or result.truncated:
        return None
    width = len(result.columns) - len(hidden)
    numbers = [int(place.split()[1]) + width if isinstance(place, str) else place for place in places]
    if any(not 0 <= number < len(result.columns) for number in numbers):
        return None
    rows = tuple(row[:width] for row in result.rows)
    keys = tuple(tuple(row[number] for number in numbers) for row in result.rows)
    return Result(result.columns[:width], result.types[:width], rows), keys


def _output_place(tree: Any, key: Any) -> int | None:
    """Which output column a sort key is, where it plainly is one and no star comes before it."""
    exp = grammar().exp

    if isinstance(key, exp.Literal) and not key.is_string:
        return int(key.this) - 1 if str(key.this).isdigit() else None
    left = tree
    while isinstance(left, exp.SetOperation):
        left = left.this
    left = left.unnest() if isinstance(left, exp.Subquery) else left
    for i, column in enumerate(left.expressions):
        if column.find(exp.Star) and not column.find(exp.AggFunc):
            return None
        if isinstance(key, exp.Column) and not key.table and column.alias_or_name.lower() == key.name.lower():
            return i
        if column.unalias() == key:
            return i
    return None


def _without_aliases(tree: Any, key: Any) -> Any:
    """The key with names of output columns replaced by what they stand for: a column cannot name its neighbour."""
    exp = grammar().exp

    meanings = {column.alias.lower(): column.this for column in tree.expressions if isinstance(column, exp.Alias)}

    def replace(node: Any) -> Any:
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in meanings:
            return exp.paren(meanings[node.name.lower()].copy())
        return node

    return key.copy().transform(replace)
