"""Forms of question without grouping: counts, lists, aggregates, the first few of an order."""

from __future__ import annotations

import random

from .draft import Draft
from .scope import Scope

AGGREGATES = {
    "AVG": ("average", "mean"),
    "SUM": ("total", "sum of the"),
    "MAX": ("highest", "maximum"),
    "MIN": ("lowest", "minimum"),
}


def count(scope: Scope, rng: random.Random) -> Draft:
    """How many rows."""
    many = scope.main.plural
    return Draft(
        "count",
        1,
        (
            f"How many {many}{{where}} are there?",
            f"Count the {many}{{where}}.",
            f"What is the number of {many}{{where}}?",
        ),
        lambda where: f"SELECT COUNT(*) FROM {scope.sql}{where}",
    )


def listing(scope: Scope, rng: random.Random) -> Draft | None:
    """One to three columns of the rows."""
    fields = rng.sample(scope.fields, min(len(scope.fields), rng.randint(1, 3)))
    many, said = scope.main.plural, " and the ".join(field.phrase for field in fields)
    columns = ", ".join(field.sql for field in fields)
    return Draft(
        "list",
        1,
        (
            f"Show the {said} of all {many}{{where}}.",
            f"For all {many}{{where}}, list the {said}.",
            f"What is the {said} of each of the {many}{{where}}?",
        ),
        lambda where: f"SELECT {columns} FROM {scope.sql}{where}",
        needs_filter=True,
    )


def different(scope: Scope, rng: random.Random) -> Draft | None:
    """The different values of a category."""
    fields = scope.of_kind("category", "text", complete=True)
    if not fields:
        return None
    field, many = rng.choice(fields), scope.main.plural
    return Draft(
        "different",
        1,
        (
            f"What are the different values of the {field.phrase} among the {many}{{where}}?",
            f"List every {field.phrase} that occurs among the {many}{{where}}, each one once.",
            f"Show the distinct {field.phrase} values of the {many}{{where}}.",
        ),
        lambda where: f"SELECT DISTINCT {field.sql} FROM {scope.sql}{where}",
        needs_filter=True,
    )


def count_different(scope: Scope, rng: random.Random) -> Draft | None:
    """How many different values."""
    fields = scope.of_kind("category", "text", "label", complete=True)
    fields = [field for field in fields if field.column.kind != "label" or field.table is not scope.main]
    if not fields:
        return None
    field, many = rng.choice(fields), scope.main.plural
    return Draft(
        "count different",
        2,
        (
            f"How many different values does the {field.phrase} have among the {many}{{where}}?",
            f"Count the distinct {field.phrase} values among the {many}{{where}}.",
        ),
        lambda where: f"SELECT COUNT(DISTINCT {field.sql}) FROM {scope.sql}{where}",
    )


def aggregate(scope: Scope, rng: random.Random) -> Draft | None:
    """One or two aggregates of a number."""
    fields = scope.of_kind("integer", "real")
    if not fields:
        return None
    field, many = rng.choice(fields), scope.main.plural
    functions = rng.sample(list(AGGREGATES), rng.choice((1, 1, 2)))
    columns = ", ".join(f"{function}({field.sql})" for function in functions)
    said = [" and the ".join(AGGREGATES[function][i] for function in functions) for i in (0, 1)]
    return Draft(
        "aggregate",
        len(functions),
        (
            f"What is the {said[0]} {field.full}, over the {many}{{where}}?",
            f"Find the {said[1]} {field.full} over all {many}{{where}}.",
            f"Over the {many}{{where}}, give the {said[0]} {field.full}.",
        ),
        lambda where: f"SELECT {columns} FROM {scope.sql}{where}",
    )


def top(scope: Scope, rng: random.Random) -> Draft | None:
    """The first k rows of an order, in that order."""
    label = scope.main.label
    fields = scope.of_kind("integer", "real", "date", complete=True, main=True)
    if label is None or not fields:
        return None
    field, k = rng.choice(fields), rng.choice((1, 3, 4, 5))
    down = rng.random() < 0.6
    extreme = ("latest" if down else "earliest") if field.column.kind == "date" else "highest" if down else "lowest"
    one = scope.main.noun if k == 1 else f"{k} {scope.main.plural}"
    columns = f"{scope.alias}{label.name}, {field.sql}"
    order = f"ORDER BY {field.sql} {'DESC' if down else 'ASC'} LIMIT {k}"
    tail = "" if k == 1 else f", {extreme} first"
    shown = f"the {label.phrase} and the {field.phrase}{tail}"
    most, many = f"the {extreme} {field.phrase}", scope.main.plural
    return Draft(
        "top",
        3,
        (
            f"Which {one}{{where}} {'has' if k == 1 else 'have'} {most}? Show {shown}.",
            f"Of the {many}{{where}}, take {'the one' if k == 1 else k} with {most} and give {shown}.",
            f"Among the {many}{{where}}, find the {'one' if k == 1 else k} with {most} and show {shown}.",
        ),
        lambda where: f"SELECT {columns} FROM {scope.sql}{where} {order}",
    )


def ordered(scope: Scope, rng: random.Random) -> Draft | None:
    """All rows in an order."""
    label = scope.main.label
    fields = scope.of_kind("integer", "real", "date", "label", complete=True, main=True)
    if label is None or not fields:
        return None
    field = rng.choice(fields)
    down = rng.random() < 0.5
    direction = "descending" if down else "ascending"
    shown = label.phrase if field.column is label else f"{label.phrase} and the {field.phrase}"
    columns = f"{scope.alias}{label.name}" + ("" if field.column is label else f", {field.sql}")
    many = scope.main.plural
    return Draft(
        "ordered",
        2,
        (
            f"List the {shown} of the {many}{{where}} in {direction} order of the {field.phrase}.",
            f"Show the {shown} of all {many}{{where}}, sorted by the {field.phrase} ({direction}).",
        ),
        lambda where: f"SELECT {columns} FROM {scope.sql}{where} ORDER BY {field.sql} {'DESC' if down else 'ASC'}",
    )


def share(scope: Scope, rng: random.Random) -> Draft | None:
    """The percentage of rows with a category."""
    fields = scope.of_kind("category", complete=True)
    if not fields:
        return None
    field, many = rng.choice(fields), scope.main.plural
    value = str(rng.choice(scope.values(field)))
    part = f"100.0 * SUM(CASE WHEN {field.sql} = '{value}' THEN 1 ELSE 0 END)"
    return Draft(
        "share",
        3,
        (
            f"What percentage (0 to 100) of the {many}{{where}} have '{value}' as the {field.phrase}?",
            f"Of the {many}{{where}}, what share in percent has the {field.phrase} '{value}'?",
        ),
        lambda where: f"SELECT {part} / COUNT(*) FROM {scope.sql}{where}",
    )


def recorded(scope: Scope, rng: random.Random) -> Draft | None:
    """How many rows have a value and how many miss it."""
    fields = [field for field in scope.fields if field.column.nulls]
    if not fields:
        return None
    field, many = rng.choice(fields), scope.main.plural
    return Draft(
        "recorded",
        2,
        (
            f"For how many of the {many}{{where}} is the {field.phrase} recorded, and for how many is it missing?",
            f"Of the {many}{{where}}, count those with a recorded {field.phrase} and, in another column, the rest.",
        ),
        lambda where: f"SELECT COUNT({field.sql}), COUNT(*) - COUNT({field.sql}) FROM {scope.sql}{where}",
    )
