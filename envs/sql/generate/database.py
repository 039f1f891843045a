"""A generated database: its schema and its rows, as portable SQL."""

from __future__ import annotations

import datetime
import random
from dataclasses import dataclass

from .schema import Column, Schema, Table, draw_schema
from .words import label

Value = str | int | float | None


@dataclass(frozen=True)
class Generated:
    """One instance of a domain with its rows."""

    schema: Schema
    rows: dict[str, list[tuple[Value, ...]]]
    """Table -> rows, in the order of the table's columns."""

    def values(self, table: Table, column: Column) -> list[Value]:
        """All values of a column, missing ones included."""
        index = table.columns.index(column)
        return [row[index] for row in self.rows[table.name]]

    def script(self) -> str:
        """Statements that build the database on any of the engines."""
        statements = self.schema.ddl()
        for table in self.schema.tables:
            lines = ",\n".join(f"({', '.join(map(literal, row))})" for row in self.rows[table.name])
            statements.append(f"INSERT INTO {table.name} VALUES\n{lines}")
        return ";\n".join(statements) + ";\n"


def draw_database(domain: str, split: str, instance: str, scale: float = 1.0) -> Generated:
    """The instance of a domain with this name: the same for equal arguments in every process."""
    rng = random.Random(f"{domain}/{split}/{instance}/{scale}")
    schema = draw_schema(domain, split, rng, scale)
    rows: dict[str, list[tuple[Value, ...]]] = {}
    for table in schema.tables:
        columns = [_fill(column, table, rows, rng) for column in table.columns]
        rows[table.name] = list(zip(*columns, strict=True))
    return Generated(schema, rows)


def literal(value: Value) -> str:
    """The value in SQL."""
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def _fill(column: Column, table: Table, rows: dict[str, list[tuple[Value, ...]]], rng: random.Random) -> list[Value]:
    count = table.rows
    if column.kind == "id":
        return list(range(1, count + 1))
    if column.kind == "label":
        taken: set[str] = set()
        for _ in range(count):
            taken.add(label(rng, column.values[0], taken))
        values: list[Value] = [*sorted(taken)]
        rng.shuffle(values)
        return values
    if column.kind == "ref":
        # Parents are used unevenly, and about one in eight is not used at all: what joins and anti-joins are about.
        parents = [int(str(row[0])) for row in rows[column.target]]
        weights = [0.0 if rng.random() < 0.12 else rng.uniform(0.2, 1.0) ** 2 for _ in parents]
        weights[rng.randrange(len(weights))] = 1.0
        values = [*rng.choices(parents, weights, k=count)]
    else:
        values = [draw_value(column, rng) for _ in range(count)]
    return [None if rng.random() * 100 < column.nulls else value for value in values]


def draw_value(column: Column, rng: random.Random) -> Value:
    """A value for a column that is neither a key nor a reference."""
    if column.kind in ("text", "label"):
        return label(rng, column.values[0], set())
    if column.kind == "category":
        weights = [1 / (rank + 1.5) for rank in range(len(column.values))]
        return rng.choices(column.values, weights)[0]
    low, high = column.values
    if column.kind == "date":
        first, last = datetime.date.fromisoformat(low), datetime.date.fromisoformat(high)
        return (first + datetime.timedelta(days=rng.randint(0, (last - first).days))).isoformat()
    # Wide ranges are skewed to their low end, as sizes and prices are.
    bottom, top = float(low), float(high)
    share = rng.random() ** (2 if top > 20 * max(1.0, bottom) else 1)
    value = bottom + share * (top - bottom)
    return round(value) if column.kind == "integer" else round(value, 2)
