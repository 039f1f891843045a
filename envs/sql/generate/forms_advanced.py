"""Forms of question with set operations, windows and correlated or compared subqueries."""

from __future__ import annotations

import random

from .draft import Draft
from .filters import draw_filter
from .scope import Scope


def set_operation(scope: Scope, rng: random.Random) -> Draft | None:
    """What two selections have in common, what only one of them has, or both together."""
    fields = scope.of_kind("category", "text", "label", complete=True)
    first, second = draw_filter(scope, rng, False), draw_filter(scope, rng, False)
    if not fields or first is None or second is None or first.field == second.field:
        return None
    field, many = rng.choice(fields), scope.main.plural
    operation, between = rng.choice(
        (
            ("INTERSECT", "that occurs both among the {many} {first} and among the {many} {second}"),
            ("EXCEPT", "that occurs among the {many} {first} but not among the {many} {second}"),
            ("UNION", "that occurs among the {many} {first} or among the {many} {second}"),
        )
    )
    left = f"SELECT {field.sql} FROM {scope.sql} WHERE {first.sql}"
    right = f"SELECT {field.sql} FROM {scope.sql} WHERE {second.sql}"
    said = [
        between.format(
            many=many, first=first.phrases[i % len(first.phrases)], second=second.phrases[i % len(second.phrases)]
        )
        for i in (0, 1)
    ]
    return Draft(
        "set operation",
        4,
        (
            f"List every {field.phrase} {said[0]}, each one once.",
            f"Find each {field.phrase} {said[1]}, without repetition.",
        ),
        lambda _: f"{left} {operation} {right}",
        takes_filters=False,
        controls=tuple(f"SELECT DISTINCT{side[6:]}" for side in (left, right)),
    )


def rank(scope: Scope, rng: random.Random) -> Draft | None:
    """Each row's rank within its category."""
    label = scope.main.label
    groups, numbers = (
        scope.of_kind("category", complete=True),
        scope.of_kind("integer", "real", complete=True, main=True),
    )
    if label is None or not groups or not numbers:
        return None
    group, number = rng.choice(groups), rng.choice(numbers)
    name, many = f"{scope.alias}{label.name}", scope.main.plural
    over = f"RANK() OVER (PARTITION BY {group.sql} ORDER BY {number.sql} DESC)"
    shown = f"show the {label.phrase}, the {group.phrase} and the rank"
    return Draft(
        "rank",
        4,
        (
            f"For each of the {many}{{where}}, {shown} by {number.phrase} among those of the same {group.phrase} "
            "(1 is the highest; equal values share a rank).",
            f"Rank the {many}{{where}} by {number.phrase} within each {group.phrase}, highest first, ties sharing "
            f"a rank; {shown}.",
        ),
        lambda where: f"SELECT {name}, {group.sql}, {over} FROM {scope.sql}{where}",
    )


def best_of_group(scope: Scope, rng: random.Random) -> Draft | None:
    """The row with the highest number of each category."""
    label = scope.main.label
    groups, numbers = (
        scope.of_kind("category", complete=True),
        scope.of_kind("integer", "real", complete=True, main=True),
    )
    if label is None or not groups or not numbers:
        return None
    group, number = rng.choice(groups), rng.choice(numbers)
    name, many = f"{scope.alias}{label.name}", scope.main.plural
    down = rng.random() < 0.5
    extreme, direction = ("highest", "DESC") if down else ("lowest", "ASC")
    over = f"RANK() OVER (PARTITION BY {group.sql} ORDER BY {number.sql} {direction})"
    return Draft(
        "best of group",
        5,
        (
            f"For each {group.phrase}, which of the {many}{{where}} has the {extreme} {number.phrase}? "
            f"Show the {group.phrase} and the {label.phrase}; if several are equal, show them all.",
            f"Per {group.phrase}, show the {group.phrase} and the {label.phrase} of the {many}{{where}} "
            f"with the {extreme} {number.phrase} (all of them in a tie).",
        ),
        lambda where: (
            f"SELECT grp, label FROM (SELECT {group.sql} AS grp, {name} AS label, {over} AS place "
            f"FROM {scope.sql}{where}) AS ranked WHERE place = 1"
        ),
    )


def running_total(scope: Scope, rng: random.Random) -> Draft | None:
    """A total that grows along the dates."""
    dates, numbers = (
        scope.of_kind("date", complete=True, main=True),
        scope.of_kind("integer", "real", complete=True, main=True),
    )
    if not dates or not numbers:
        return None
    date, number, many = rng.choice(dates), rng.choice(numbers), scope.main.plural
    key = f"{scope.alias}id"
    over = f"SUM({number.sql}) OVER (ORDER BY {date.sql}, {key})"
    return Draft(
        "running total",
        5,
        (
            f"For the {many}{{where}}, show the id, the {date.phrase} and the running total of the {number.phrase} "
            f"in order of the {date.phrase} (equal dates by id), in that order.",
            f"In order of the {date.phrase}, then of the id, list the id, the {date.phrase} and the cumulative "
            f"{number.phrase} of the {many}{{where}}.",
        ),
        lambda where: f"SELECT {key}, {date.sql}, {over} FROM {scope.sql}{where} ORDER BY {date.sql}, {key}",
    )


def above_own_group(scope: Scope, rng: random.Random) -> Draft | None:
    """Rows above the average of their own category: a correlated subquery."""
    table = scope.main
    groups, numbers = table.of_kind("category"), [each for each in table.of_kind("integer", "real") if not each.nulls]
    groups = [each for each in groups if not each.nulls]
    if table.label is None or not groups or not numbers:
        return None
    label, group, number = table.label, rng.choice(groups), rng.choice(numbers)
    inner = f"SELECT AVG(o.{number.name}) FROM {table.name} AS o"
    outer = f"SELECT t.{label.name} FROM {table.name} AS t WHERE t.{number.name} > "
    texts = (
        f"List the {label.phrase} of the {table.plural} whose {number.phrase} is above the average {number.phrase} "
        f"of the {table.plural} with the same {group.phrase}.",
        f"Which {table.plural} exceed the mean {number.phrase} of their own {group.phrase}? Show the {label.phrase}.",
    )
    return Draft(
        "above own group",
        6,
        texts,
        lambda _: f"{outer}({inner} WHERE o.{group.name} = t.{group.name})",
        takes_filters=False,
        controls=(f"{outer}({inner})",),
    )


def difference(scope: Scope, rng: random.Random) -> Draft | None:
    """The difference of an average between two categories."""
    groups, numbers = scope.of_kind("category", complete=True), scope.of_kind("integer", "real")
    if not groups or not numbers:
        return None
    group, number, many = rng.choice(groups), rng.choice(numbers), scope.main.plural
    values = sorted(set(map(str, scope.values(group))))
    if len(values) < 2:
        return None
    first, second = rng.sample(values, 2)
    part = f"(SELECT AVG({number.sql}) FROM {scope.sql} WHERE {group.sql} = '{{}}')"
    return Draft(
        "difference",
        5,
        (
            f"By how much is the average {number.full}, over the {many} with '{first}' as the {group.phrase}, "
            f"greater than over those with '{second}'? (Negative if it is smaller.)",
            f"Subtract the average {number.full} over the {many} whose {group.phrase} is '{second}' from that over "
            f"the {many} whose {group.phrase} is '{first}'.",
        ),
        lambda _: f"SELECT {part.format(first)} - {part.format(second)}",
        takes_filters=False,
        controls=(f"SELECT {part.format(first)}",),
    )
