"""Tasks that change the database: rows added, changed and removed; tables, columns and views made and dropped."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from .database import Generated, Value, draw_value, literal
from .filters import Filter, draw_filter, join_sql
from .schema import Column, Table
from .scope import Scope


@dataclass(frozen=True)
class Change:
    """A finished write task."""

    form: str
    level: str
    texts: tuple[str, ...]
    statements: tuple[str, ...]
    controls: tuple[tuple[str, ...], ...] = field(default=())
    """Statements that must lead to another state, or a part of the task has no effect."""


Maker = Callable[[Generated, random.Random], Change | None]


def draw_change(source: Generated, rng: random.Random, level: str) -> Change | None:
    """A write task of this level, or None where the draw came out otherwise (draw again)."""
    change = rng.choice(_FORMS[level])(source, rng)
    return change if change and change.level == level else None


def _conditions(scope: Scope, rng: random.Random, count: int) -> list[Filter] | None:
    found: list[Filter] = []
    for _ in range(count):
        condition = draw_filter(scope, rng, hard=rng.random() < 0.4)
        if condition is None or any(condition.field and condition.field == other.field for other in found):
            return None
        found.append(condition)
    return found


def _said(filters: list[Filter], paraphrase: int) -> str:
    return " and ".join(each.phrases[(paraphrase + i) % len(each.phrases)] for i, each in enumerate(filters))


def _leaves(source: Generated) -> list[Table]:
    """Tables that no other refers to."""
    return [table for table in source.schema.tables if not source.schema.children(table.name)]


def _shown(value: Value) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def insert_row(source: Generated, rng: random.Random) -> Change | None:
    """One new row; what is not named stays NULL."""
    table = rng.choice(source.schema.tables)
    values: dict[Column, Value] = {}
    for column in table.columns:
        if column.kind == "id":
            values[column] = table.rows + 1
        elif column.kind == "ref":
            values[column] = rng.randint(1, len(source.rows[column.target]))
        elif not column.nulls or rng.random() < 0.5:
            values[column] = draw_value(column, rng)
    names = ", ".join(column.name for column in values)
    said = ", ".join(f"{column.name} {_shown(value)}" for column, value in values.items())
    statement = f"INSERT INTO {table.name} ({names}) VALUES ({', '.join(map(literal, values.values()))})"
    texts = (
        f"Add a {table.noun} to the table {table.name}: {said}. Everything else stays empty.",
        f"Insert one new row into {table.name} with {said}; leave other columns NULL.",
        f"There is a new {table.noun}. Record it in {table.name} with {said} and nothing else.",
    )
    return Change("insert row", "easy", texts, (statement,))


def insert_related(source: Generated, rng: random.Random) -> Change | None:
    """A new row that refers to a row which the task names by its label."""
    children = [
        table for table in _leaves(source) if any(source.schema.table(c.target).label for c in table.of_kind("ref"))
    ]
    if not children:
        return None
    table = rng.choice(children)
    values: dict[str, str] = {}
    said = []
    for column in table.columns:
        if column.kind == "id":
            values[column.name] = str(table.rows + 1)
            said.append(f"id {table.rows + 1}")
        elif column.kind == "ref":
            parent = source.schema.table(column.target)
            row = rng.choice(source.rows[parent.name])
            if parent.label is None:
                return None
            name = row[parent.columns.index(parent.label)]
            values[column.name] = f"(SELECT id FROM {parent.name} WHERE {parent.label.name} = {literal(name)})"
            said.append(f"the {parent.noun} '{name}'")
        elif not column.nulls:
            value = draw_value(column, rng)
            values[column.name] = literal(value)
            said.append(f"{column.name} {_shown(value)}")
    statement = f"INSERT INTO {table.name} ({', '.join(values)}) VALUES ({', '.join(values.values())})"
    texts = (
        f"Add a {table.noun} to {table.name} with {', '.join(said)}. Everything else stays empty.",
        f"Record a new {table.noun} in {table.name}: {', '.join(said)}; other columns are NULL.",
    )
    return Change("insert related row", "medium", texts, (statement,))


def update_rows(source: Generated, rng: random.Random) -> Change | None:
    """A column of the selected rows set to a value, or an integer raised."""
    table = rng.choice(source.schema.tables)
    columns = table.of_kind("category", "integer", "real", "date")
    filters = _conditions(Scope(source, (table,)), rng, rng.choice((1, 1, 2)))
    if not columns or filters is None:
        return None
    column = rng.choice(columns)
    if column.kind == "integer" and rng.random() < 0.6:
        step = rng.randint(2, 20)
        value, said = f"{column.name} + {step}", (f"Raise the {column.name} of", f"by {step}")
    else:
        new = draw_value(column, rng)
        value, said = literal(new), (f"Set the {column.name} of", f"to {_shown(new)}")
    build = f"UPDATE {table.name} SET {column.name} = {value}"
    texts = (
        f"{said[0]} all {table.plural} {_said(filters, 0)} {said[1]}.",
        f"For the {table.plural} {_said(filters, 1)}: {said[0][0].lower()}{said[0][1:]} each {said[1]}.",
    )
    level = ("easy", "medium", "hard", "extra")[min(3, sum(each.points for each in filters))]
    controls = tuple((build + join_sql([o for o in filters if o is not each], "AND"),) for each in filters)
    return Change("update", level, texts, (build + join_sql(filters, "AND"),), controls)


def delete_rows(source: Generated, rng: random.Random) -> Change | None:
    """The selected rows removed."""
    table = rng.choice(_leaves(source))
    filters = _conditions(Scope(source, (table,)), rng, rng.choice((1, 1, 2)))
    if filters is None:
        return None
    build = f"DELETE FROM {table.name}"
    texts = (
        f"Delete all {table.plural} {_said(filters, 0)}.",
        f"Remove from {table.name} every {table.noun} {_said(filters, 1)}.",
    )
    level = ("easy", "medium", "hard", "extra")[min(3, sum(each.points for each in filters))]
    controls = tuple((build + join_sql([o for o in filters if o is not each], "AND"),) for each in filters)
    return Change("delete", level, texts, (build + join_sql(filters, "AND"),), controls)


def delete_by_parent(source: Generated, rng: random.Random) -> Change | None:
    """Rows removed by a property of the row that they refer to."""
    table = rng.choice(_leaves(source))
    if not table.of_kind("ref"):
        return None
    ref = rng.choice(table.of_kind("ref"))
    parent = source.schema.table(ref.target)
    filters = _conditions(Scope(source, (parent,)), rng, 1)
    if filters is None:
        return None
    build = f"DELETE FROM {table.name} WHERE {ref.name} IN (SELECT id FROM {parent.name}{{}})"
    texts = (
        f"Delete all {table.plural} that belong to {parent.plural} {_said(filters, 0)}.",
        f"Remove every {table.noun} of a {parent.noun} {_said(filters, 1)}.",
    )
    return Change("delete by parent", "hard", texts, (build.format(join_sql(filters, "AND")),), ((build.format(""),),))


def add_column(source: Generated, rng: random.Random) -> Change | None:
    """A new column, marked for the selected rows."""
    table = rng.choice(_leaves(source))
    filters = _conditions(Scope(source, (table,)), rng, 1)
    if filters is None:
        return None
    name = rng.choice(("checked", "priority", "archived", "reviewed", "flagged"))
    statements = (
        f"ALTER TABLE {table.name} ADD COLUMN {name} INTEGER",
        f"UPDATE {table.name} SET {name} = CASE WHEN {filters[0].sql} THEN 1 ELSE 0 END",
    )
    texts = (
        f"Add a column {name} of type INTEGER to {table.name}. Set it to 1 for the {table.plural} "
        f"{_said(filters, 0)} and to 0 for all others.",
        f"The table {table.name} needs an INTEGER column {name}: 1 where a row is one of the {table.plural} "
        f"{_said(filters, 1)}, else 0.",
    )
    controls = (
        (statements[0],),
        (statements[0], f"UPDATE {table.name} SET {name} = 1"),
        (statements[0], f"UPDATE {table.name} SET {name} = 0"),
    )
    return Change("add column", "hard", texts, statements, controls)


def create_table(source: Generated, rng: random.Random) -> Change | None:
    """A new table, filled from the selected rows."""
    tables = [table for table in source.schema.tables if table.label]
    table = rng.choice(tables)
    filters = _conditions(Scope(source, (table,)), rng, 1)
    label = table.label
    if filters is None or label is None:
        return None
    name = f"{rng.choice(('chosen', 'archived', 'special'))}_{table.name}"
    selected = f"SELECT id, {label.name} FROM {table.name}"
    statements = (
        f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, {label.name} TEXT)",
        f"INSERT INTO {name} (id, {label.name}) {selected}{join_sql(filters, 'AND')}",
    )
    texts = (
        f"Create a table {name} with the columns id (INTEGER, primary key) and {label.name} (TEXT), and copy into it "
        f"the {table.plural} {_said(filters, 0)}.",
        f"Make a new table {name} (id INTEGER as primary key, {label.name} TEXT) that holds the {table.plural} "
        f"{_said(filters, 1)}.",
    )
    controls = ((statements[0],), (statements[0], f"INSERT INTO {name} (id, {label.name}) {selected}"))
    return Change("create table", "extra", texts, statements, controls)


def create_view(source: Generated, rng: random.Random) -> Change | None:
    """A view of the selected rows."""
    table = rng.choice([table for table in source.schema.tables if table.label])
    filters = _conditions(Scope(source, (table,)), rng, 1)
    if filters is None or table.label is None:
        return None
    name = f"{rng.choice(('current', 'notable', 'listed'))}_{table.name}"
    build = f"CREATE VIEW {name} AS SELECT id, {table.label.name} FROM {table.name}"
    texts = (
        f"Create a view {name} that shows the id and the {table.label.name} of all {table.plural} {_said(filters, 0)}.",
        f"Make a view called {name} with the columns id and {table.label.name} for the {table.plural} "
        f"{_said(filters, 1)}.",
    )
    return Change("create view", "extra", texts, (build + join_sql(filters, "AND"),), ((build,),))


def drop_table(source: Generated, rng: random.Random) -> Change | None:
    """A table removed altogether."""
    table = rng.choice(_leaves(source))
    texts = (
        f"The table {table.name} is no longer needed: remove it with everything in it.",
        f"Drop the table {table.name}.",
    )
    return Change("drop table", "easy", texts, (f"DROP TABLE {table.name}",), ((f"DELETE FROM {table.name}",),))


_FORMS: dict[str, tuple[Maker, ...]] = {
    "easy": (insert_row, insert_row, insert_row, drop_table),
    "medium": (update_rows, delete_rows, insert_related),
    "hard": (update_rows, delete_rows, delete_by_parent, add_column),
    "extra": (update_rows, delete_rows, create_table, create_view),
}
