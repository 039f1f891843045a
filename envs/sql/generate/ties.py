"""Whether chance decides which rows a statement returns, or their order."""

from __future__ import annotations

import sqlite3
from itertools import pairwise
from typing import Any


def has_ties(statement: str, connection: sqlite3.Connection) -> bool:
    """True where rows that the top-level ORDER BY does not tell apart differ, in the result or at its LIMIT.

    A LIMIT without an ORDER BY is decided by chance too, unless there are no more rows than it allows.
    """
    import sqlglot
    from sqlglot import exp

    tree: Any = sqlglot.parse_one(statement, read="sqlite")
    order, limit = tree.args.get("order"), tree.args.get("limit")
    if order is None and limit is None:
        return False
    shown = len(connection.execute(statement).fetchall())
    whole = tree.copy()
    whole.set("limit", None)
    whole.set("offset", None)
    if order is None:
        return len(connection.execute(whole.sql(dialect="sqlite")).fetchall()) != shown
    outputs = {each.alias_or_name.lower(): i for i, each in enumerate(whole.selects)}
    places: list[int] = []
    for key in order.expressions:
        value = key.this
        named = isinstance(value, exp.Column) and not value.table and value.name.lower() in outputs
        if isinstance(value, exp.Literal) and value.is_int:
            places.append(int(value.this) - 1)
        elif named:
            places.append(outputs[value.name.lower()])
        elif isinstance(whole, exp.Select) and not whole.args.get("distinct"):
            places.append(len(whole.selects))
            whole.select(exp.alias_(value.copy(), f"sort_key_{len(places)}"), copy=False)
        else:
            same = [i for i, each in enumerate(whole.selects) if each.unalias() == value]
            if not same:
                return True  # sorted by what is not in the result, which then stands for several rows
            places.append(same[0])
    width = len(tree.selects)
    rows = connection.execute(whole.sql(dialect="sqlite")).fetchall()
    keyed = [(tuple(row[i] for i in places), row[:width]) for row in rows[: shown + 1]]
    return any(a[0] == b[0] and a[1] != b[1] for a, b in pairwise(keyed))
