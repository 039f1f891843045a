"""Small mistakes made in a query on purpose, to measure how many wrong answers a scorer lets through."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..backends.grammar import grammar
from .order import parsed


class Mutant(NamedTuple):
    """A query with one mistake."""

    kind: str
    sql: str


def mutants(sql: str, dialect: str = "sqlite") -> list[Mutant]:
    """The queries that differ from `sql` by one change each; none where it cannot be parsed.

    Kinds: a comparison turned, WHERE, HAVING, a join, DISTINCT or the order left out, DISTINCT put in, the first sort
    key turned, another LIMIT, another aggregate.
    """
    tree = parsed(sql, dialect)
    if tree is None:
        return []
    same = tree.sql(dialect=dialect)
    found = (Mutant(kind, mutant.sql(dialect=dialect)) for kind, mutant in _mutated(tree))
    return [mutant for mutant in dict.fromkeys(found) if mutant.sql != same]


def _mutated(tree: Any) -> Iterator[tuple[str, Any]]:
    exp = grammar().exp

    turned = {exp.EQ: exp.NEQ, exp.GT: exp.GTE, exp.LT: exp.LTE, exp.GTE: exp.GT, exp.LTE: exp.LT}
    for number, node in enumerate(tree.find_all(*turned)):
        if isinstance(node.this, exp.Column) and isinstance(node.expression, exp.Column):
            continue  # a join's condition: turning it makes a huge product and nothing else
        copy = tree.copy()
        other = list(copy.find_all(*turned))[number]
        other.replace(turned[type(other)](this=other.this.copy(), expression=other.expression.copy()))
        yield "comparison", copy
    for kind, part in (("no where", exp.Where), ("no having", exp.Having), ("no distinct", exp.Distinct)):
        if tree.find(part):
            copy = tree.copy()
            copy.find(part).pop()
            yield kind, copy
    swapped = {exp.Max: exp.Min, exp.Min: exp.Max, exp.Avg: exp.Sum, exp.Sum: exp.Avg}
    for old, new in swapped.items():
        if tree.find(old):
            copy = tree.copy()
            other = copy.find(old)
            other.replace(new(this=other.this.copy()))
            yield "aggregate", copy
    limit = tree.args.get("limit")
    if limit is not None:
        yield "limit", tree.limit(2 if str(limit.expression) != "2" else 3)
    order = tree.args.get("order")
    if order is not None:
        copy = tree.copy()
        first = copy.args["order"].expressions[0]
        first.set("desc", not first.args.get("desc"))
        yield "order turned", copy
        if limit is None:
            copy = tree.copy()
            copy.set("order", None)
            yield "no order", copy
    if isinstance(tree, exp.Select):
        if tree.args.get("joins"):
            copy = tree.copy()
            copy.set("joins", copy.args["joins"][:-1])
            yield "no join", copy
        if not (tree.find(exp.Distinct) or tree.args.get("group") or tree.find(exp.AggFunc)):
            yield "distinct", tree.distinct()
