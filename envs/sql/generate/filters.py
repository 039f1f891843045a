"""Conditions: what they are in SQL and how people put them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from .database import literal
from .scope import Field, Scope


@dataclass(frozen=True)
class Filter:
    """One condition on a scope's rows."""

    sql: str
    phrases: tuple[str, ...]
    """Ways to say it, to be put behind the noun."""
    points: int
    """How hard it is."""
    kind: str
    field: Field | None = None
    shown: str = ""
    """The value that it compares with, as the question writes it."""


def draw_filter(scope: Scope, rng: random.Random, hard: bool) -> Filter | None:
    """A condition, or None where the one that was drawn does not fit the scope."""
    makers: list[Callable[[Scope, random.Random], Filter | None]]
    makers = [_equals, _equals, _compares, _compares, _dated, _year, _one_of, _starts]
    if hard:
        makers = [_missing, _above_average, _has_child, _has_no_child, _differs, _year, _between]
    return rng.choice(makers)(scope, rng)


def join_sql(filters: list[Filter], word: str) -> str:
    """The WHERE clause of some conditions, or nothing."""
    return " WHERE " + f" {word} ".join(each.sql for each in filters) if filters else ""


def a(noun: str) -> str:
    """The noun with its indefinite article."""
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _pick(scope: Scope, rng: random.Random, *kinds: str) -> Field | None:
    fields = [field for field in scope.of_kind(*kinds) if scope.values(field)]  # small tables may miss all values
    return rng.choice(fields) if fields else None


def _equals(scope: Scope, rng: random.Random) -> Filter | None:
    field = _pick(scope, rng, "category", "text")
    if field is None:
        return None
    value = str(rng.choice(scope.values(field)))
    phrases = (
        f"whose {field.phrase} is '{value}'",
        f"with '{value}' as the {field.phrase}",
        f"where the {field.phrase} equals '{value}'",
    )
    return Filter(f"{field.sql} = {literal(value)}", phrases, 1, "equals", field, value)


def _differs(scope: Scope, rng: random.Random) -> Filter | None:
    field = _pick(scope, rng, "category")
    if field is None or field.column.nulls:
        return None
    value = str(rng.choice(scope.values(field)))
    phrases = (f"whose {field.phrase} is not '{value}'", f"with any {field.phrase} other than '{value}'")
    return Filter(f"{field.sql} <> {literal(value)}", phrases, 1, "differs", field, value)


def _one_of(scope: Scope, rng: random.Random) -> Filter | None:
    field = _pick(scope, rng, "category")
    if field is None:
        return None
    values = sorted(set(map(str, scope.values(field))))
    if len(values) < 3:
        return None
    first, second = rng.sample(values, 2)
    phrases = (
        f"whose {field.phrase} is '{first}' or '{second}'",
        f"with '{first}' or '{second}' as the {field.phrase}",
    )
    sql = f"{field.sql} IN ({literal(first)}, {literal(second)})"
    return Filter(sql, phrases, 1, "one of", field, f"{first} or {second}")


def _compares(scope: Scope, rng: random.Random) -> Filter | None:
    field = _pick(scope, rng, "integer", "real")
    if field is None:
        return None
    values = scope.values(field)
    value = round(float(str(values[int(len(values) * rng.uniform(0.25, 0.75))])))
    sign, *words = rng.choice(
        (
            (">", "is greater than", "exceeds", "above"),
            (">=", "is at least", "is no less than", "of at least"),
            ("<", "is less than", "is lower than", "below"),
        )
    )
    phrases = (
        f"whose {field.phrase} {words[0]} {value}",
        f"for which the {field.phrase} {words[1]} {value}",
        f"with {a(field.phrase)} {words[2]} {value}",
    )
    return Filter(f"{field.sql} {sign} {value}", phrases, 1, "compares", field, str(value))


def _between(scope: Scope, rng: random.Random) -> Filter | None:
    field = _pick(scope, rng, "integer", "real")
    if field is None:
        return None
    values = scope.values(field)
    low = round(float(str(values[int(len(values) * rng.uniform(0.1, 0.35))])))
    high = round(float(str(values[int(len(values) * rng.uniform(0.55, 0.85))])))
    phrases = (
        f"whose {field.phrase} is between {low} and {high} (both included)",
        f"with {a(field.phrase)} from {low} to {high} inclusive",
    )
    return Filter(f"{field.sql} BETWEEN {low} AND {high}", phrases, 1, "between", field, f"{low} to {high}")


def _dated(scope: Scope, rng: random.Random) -> Filter | None:
    field = _pick(scope, rng, "date")
    if field is None:
        return None
    values = scope.values(field)
    day = str(values[int(len(values) * rng.uniform(0.25, 0.75))])
    sign, first, second = rng.choice(((">=", "is on or after", "not before"), ("<", "is before", "earlier than")))
    phrases = (f"whose {field.phrase} {first} {day}", f"with {a(field.phrase)} {second} {day}")
    return Filter(f"{field.sql} {sign} '{day}'", phrases, 1, "dated", field, day)


def _year(scope: Scope, rng: random.Random) -> Filter | None:
    field = _pick(scope, rng, "date")
    if field is None:
        return None
    year = int(str(rng.choice(scope.values(field)))[:4])
    phrases = (f"whose {field.phrase} lies in {year}", f"with {a(field.phrase)} in the year {year}")
    sql = f"{field.sql} >= '{year}-01-01' AND {field.sql} < '{year + 1}-01-01'"
    return Filter(f"({sql})", phrases, 1, "year", field, str(year))


def _starts(scope: Scope, rng: random.Random) -> Filter | None:
    field = _pick(scope, rng, "label")
    if field is None:
        return None
    word = str(rng.choice(scope.values(field))).split()[-1]
    if "'" in word or len(word) < 3:
        return None
    phrases = (f"whose {field.phrase} contains '{word}'", f"with '{word}' somewhere in the {field.phrase}")
    return Filter(f"{field.sql} LIKE '%{word}%'", phrases, 1, "contains", field, word)


def _missing(scope: Scope, rng: random.Random) -> Filter | None:
    fields = [field for field in scope.fields if field.column.nulls]
    if not fields:
        return None
    field = rng.choice(fields)
    if rng.random() < 0.6:
        phrases = (f"without a recorded {field.phrase}", f"whose {field.phrase} is missing")
        return Filter(f"{field.sql} IS NULL", phrases, 1, "missing", field)
    phrases = (f"with a recorded {field.phrase}", f"whose {field.phrase} is not missing")
    return Filter(f"{field.sql} IS NOT NULL", phrases, 1, "recorded", field)


def _above_average(scope: Scope, rng: random.Random) -> Filter | None:
    field = _pick(scope, rng, "integer", "real")
    if field is None:
        return None
    sign, word = rng.choice(((">", "above"), ("<", "below")))
    inner = f"SELECT AVG({field.column.name}) FROM {field.table.name}"
    phrases = (
        f"whose {field.phrase} is {word} the average {field.column.phrase} of all {field.table.plural}",
        f"with {a(field.phrase)} {word} the mean {field.column.phrase} over all {field.table.plural}",
    )
    return Filter(f"{field.sql} {sign} ({inner})", phrases, 2, "above average", field)


def _child(scope: Scope, rng: random.Random) -> tuple[str, str, str] | None:
    children = scope.source.schema.children(scope.main.name)
    if not children:
        return None
    table, ref = rng.choice(children)
    inside = Scope(scope.source, (table,))
    condition = _equals(inside, rng) or _compares(inside, rng) if rng.random() < 0.6 else None
    where = f" WHERE {condition.sql}" if condition else ""
    detail = f" {condition.phrases[0]}" if condition else ""
    return f"SELECT {ref.name} FROM {table.name}{where}", table.noun, detail


def _has_child(scope: Scope, rng: random.Random) -> Filter | None:
    found = _child(scope, rng)
    if found is None:
        return None
    inner, noun, detail = found
    phrases = (f"with at least one {noun}{detail}", f"to which one {noun}{detail} or more belong")
    return Filter(f"{scope.alias}id IN ({inner})", phrases, 2, "has")


def _has_no_child(scope: Scope, rng: random.Random) -> Filter | None:
    found = _child(scope, rng)
    if found is None:
        return None
    inner, noun, detail = found
    phrases = (f"without any {noun}{detail}", f"to which no {noun}{detail} belongs")
    return Filter(f"{scope.alias}id NOT IN ({inner})", phrases, 2, "has no")
