"""Forms of question with grouping."""

from __future__ import annotations

import random

from .draft import Draft
from .forms_plain import AGGREGATES
from .scope import Scope


def per_category(scope: Scope, rng: random.Random) -> Draft | None:
    """Rows per category, or an aggregate per category."""
    groups = scope.of_kind("category", "text", complete=True)
    if not groups:
        return None
    group, many = rng.choice(groups), scope.main.plural
    numbers = scope.of_kind("integer", "real", complete=True)
    if numbers and rng.random() < 0.6:
        number, function = rng.choice(numbers), rng.choice(list(AGGREGATES))
        value, said = f"{function}({number.sql})", f"{AGGREGATES[function][0]} {number.full}"
    else:
        value, said = "COUNT(*)", f"number of {many}"
    return Draft(
        "per category",
        2,
        (
            f"For each {group.phrase} among the {many}{{where}}, show the {group.phrase} and the {said}.",
            f"Group the {many}{{where}} by {group.phrase}: what is the {said} of each? Show both.",
            f"Per {group.phrase} of the {many}{{where}}, show the {group.phrase} and the {said}.",
        ),
        lambda where: f"SELECT {group.sql}, {value} FROM {scope.sql}{where} GROUP BY {group.sql}",
    )


def having(scope: Scope, rng: random.Random) -> Draft | None:
    """The categories with more than so many rows."""
    groups = scope.of_kind("category", "text", complete=True)
    if not groups:
        return None
    group, many = rng.choice(groups), scope.main.plural
    least = rng.randint(2, max(3, scope.main.rows // 4))
    build = f"SELECT {group.sql} FROM {scope.sql}{{}} GROUP BY {group.sql} HAVING COUNT(*) > {least}"
    return Draft(
        "having",
        3,
        (
            f"Which values of the {group.phrase} occur more than {least} times among the {many}{{where}}?",
            f"List each {group.phrase} shared by more than {least} of the {many}{{where}}.",
        ),
        lambda where: build.format(where),
        controls=(build.format("").replace(f"COUNT(*) > {least}", "COUNT(*) > 0"),),
    )


def per_year(scope: Scope, rng: random.Random) -> Draft | None:
    """Rows, or a total, per calendar year."""
    dates = scope.of_kind("date", complete=True, main=True)
    if not dates:
        return None
    date, many = rng.choice(dates), scope.main.plural
    year = f"CAST(SUBSTR(CAST({date.sql} AS TEXT), 1, 4) AS INTEGER)"
    numbers = scope.of_kind("integer", "real", complete=True, main=True)
    value, said = "COUNT(*)", f"number of {many}"
    if numbers and rng.random() < 0.5:
        number = rng.choice(numbers)
        value, said = f"SUM({number.sql})", f"total {number.phrase}"
    return Draft(
        "per year",
        3,
        (
            f"For each year of the {date.phrase} of the {many}{{where}}, show the year (an integer) and the {said}, "
            "earliest year first.",
            f"Show, in ascending order of the year, every calendar year (an integer) of the {date.phrase} "
            f"and the {said} of the {many}{{where}}.",
        ),
        lambda where: f"SELECT {year}, {value} FROM {scope.sql}{where} GROUP BY {year} ORDER BY {year}",
    )


def per_parent(scope: Scope, rng: random.Random) -> Draft | None:
    """Children per parent: all parents, also those without; or the one with most."""
    parents = [
        table for table in scope.source.schema.tables if table.label and scope.source.schema.children(table.name)
    ]
    if not parents:
        return None
    parent = rng.choice(parents)
    child, ref = rng.choice(scope.source.schema.children(parent.name))
    name = f"p.{parent.label.name}" if parent.label else ""
    label = parent.label.phrase if parent.label else ""
    numbers = [column for column in child.of_kind("integer", "real") if not column.nulls]
    base = f"FROM {parent.name} AS p LEFT JOIN {child.name} AS c ON c.{ref.name} = p.id GROUP BY p.id, {name}"
    inner = f"FROM {parent.name} AS p JOIN {child.name} AS c ON c.{ref.name} = p.id GROUP BY p.id, {name}"
    value, said = "COUNT(c.id)", f"number of {child.plural}"
    if numbers and rng.random() < 0.5:
        number = rng.choice(numbers)
        value, said = f"SUM(c.{number.name})", f"total {number.phrase} of the {child.plural}"
    if rng.random() < 0.5:
        if value.startswith("SUM"):
            value = f"COALESCE({value}, 0)"
        sql = f"SELECT {name}, {value} {base}"
        none = f"without any {child.plural}"
        texts = (
            f"For every {parent.noun}, show the {label} and the {said}; one {none} counts as 0.",
            f"Show the {label} of each {parent.noun}, also of those {none} (as 0), with the {said}.",
        )
        return Draft("per parent", 5, texts, lambda where: sql, takes_filters=False)
    k = rng.choice((1, 2, 3))
    sql = f"SELECT {name}, {value} {inner} ORDER BY {value} DESC LIMIT {k}"
    who = f"{parent.noun} has" if k == 1 else f"{k} {parent.plural} have"
    tail = "" if k == 1 else ", highest first"
    texts = (
        f"Which {who} the highest {said}? Show the {label} and the {said}{tail}.",
        f"Rank the {parent.plural} by the {said} and give the {label} and that number for the first {k}{tail}.",
    )
    return Draft("top parent", 5, texts, lambda where: sql, takes_filters=False)


def parents_with(scope: Scope, rng: random.Random) -> Draft | None:
    """The parents with at least so many children of a kind."""
    parents = [
        table for table in scope.source.schema.tables if table.label and scope.source.schema.children(table.name)
    ]
    if not parents:
        return None
    parent = rng.choice(parents)
    child, ref = rng.choice(scope.source.schema.children(parent.name))
    categories = [column for column in child.of_kind("category") if not column.nulls]
    if not categories or parent.label is None:
        return None
    category, least = rng.choice(categories), rng.choice((2, 3, 4))
    value = rng.choice(category.values)
    build = (
        f"SELECT p.{parent.label.name} FROM {parent.name} AS p JOIN {child.name} AS c ON c.{ref.name} = p.id"
        f"{{}} GROUP BY p.id, p.{parent.label.name} HAVING COUNT(*) >= {{}}"
    )
    where = f" WHERE c.{category.name} = '{value}'"
    texts = (
        f"List the {parent.label.phrase} of the {parent.plural} that have at least {least} {child.plural} "
        f"whose {category.phrase} is '{value}'.",
        f"Which {parent.plural} have {least} or more {child.plural} with '{value}' as the {category.phrase}? "
        f"Show the {parent.label.phrase}.",
    )
    return Draft(
        "parents with",
        5,
        texts,
        lambda _: build.format(where, least),
        takes_filters=False,
        controls=(build.format("", least), build.format(where, 1)),
    )
