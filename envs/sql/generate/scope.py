"""Where a question looks: a table, perhaps joined to the tables that it refers to."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property

from .database import Generated, Value
from .schema import Column, Table


@dataclass(frozen=True)
class Field:
    """A column within a scope."""

    table: Table
    column: Column
    sql: str
    phrase: str
    """As in "whose author's country is …"."""
    full: str
    """As in "the average birth year of the author"."""


@dataclass(frozen=True)
class Scope:
    """The rows of `path[0]`, each with the row of `path[1]` that it refers to, and so on."""

    source: Generated
    path: tuple[Table, ...]

    @property
    def main(self) -> Table:
        """The table whose rows are asked about."""
        return self.path[0]

    @property
    def alias(self) -> str:
        """What stands before a column of the main table."""
        return "t1." if len(self.path) > 1 else ""

    @property
    def sql(self) -> str:
        """What follows FROM."""
        if len(self.path) == 1:
            return self.main.name
        parts = [f"{self.main.name} AS t1"]
        for i, (child, parent) in enumerate(zip(self.path, self.path[1:]), start=1):
            ref = next(column for column in child.of_kind("ref") if column.target == parent.name)
            parts.append(f"JOIN {parent.name} AS t{i + 1} ON t{i}.{ref.name} = t{i + 1}.id")
        return " ".join(parts)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """Every column that a question may name, keys left out."""
        found = []
        for i, table in enumerate(self.path):
            prefix = f"t{i + 1}." if len(self.path) > 1 else ""
            for column in table.columns:
                if column.kind not in ("id", "ref"):
                    short = column.phrase.removeprefix(f"{table.noun} ")
                    phrase = f"{table.noun}'s {short}" if i else column.phrase
                    full = f"{short} of the {table.noun}" if i else column.phrase
                    found.append(Field(table, column, prefix + column.name, phrase, full))
        return tuple(found)

    def of_kind(self, *kinds: str, complete: bool = False, main: bool = False) -> list[Field]:
        """The fields of these kinds; only those without missing values, only the main table's."""
        return [
            field
            for field in self.fields
            if field.column.kind in kinds
            and not (complete and field.column.nulls)
            and not (main and field.table is not self.main)
        ]

    def values(self, field: Field) -> list[Value]:
        """The values of a field's column that are not missing, in ascending order."""
        return sorted(value for value in self.source.values(field.table, field.column) if value is not None)  # type: ignore[type-var]


def draw_scope(source: Generated, rng: random.Random, joins: int) -> Scope:
    """A scope with up to `joins` joins along references."""
    tables = [table for table in source.schema.tables if joins == 0 or table.of_kind("ref")]
    path = [rng.choice(tables)]
    while len(path) <= joins and path[-1].of_kind("ref"):
        path.append(source.schema.table(rng.choice(path[-1].of_kind("ref")).target))
    return Scope(source, tuple(path))
