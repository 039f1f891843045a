"""Domains read into tables and columns; an instance of a domain has its own choice of names, columns and sizes."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import lru_cache

from . import domains

_SPEC = re.compile(r"\s+(?=->|=|@|[-\d.]+?\.\.)")
_UNITS = ("cm", "m2", "km", "kg")
_TYPES = {"integer": "INTEGER", "real": "DOUBLE PRECISION", "date": "DATE"}


@dataclass(frozen=True)
class Column:
    """One column of an instance's table."""

    name: str
    kind: str
    """"id", "ref", "label" (unique text), "text", "category", "integer", "real" or "date"."""
    values: tuple[str, ...] = ()
    """A category's values; a label's or text's maker; lowest and highest of numbers and dates."""
    nulls: int = 0
    """Percent of missing values."""
    target: str = ""
    """The table that a "ref" points to."""

    @property
    def phrase(self) -> str:
        """How a question calls it."""
        words = self.name.split("_")
        if len(words) > 1 and words[-1] in _UNITS:
            words.pop()
        if self.kind == "date":
            return " ".join([word for word in words if word not in ("on", "date")] + ["date"])
        counted = self.number and (words[0].endswith("s") or words[-1].endswith("s"))
        return ("number of " if counted else "") + " ".join(words)

    @property
    def number(self) -> bool:
        """Whether it can be added up and compared."""
        return self.kind in ("integer", "real")

    @property
    def type(self) -> str:
        """The declared type, known to all engines."""
        return "INTEGER" if self.kind in ("id", "ref") else _TYPES.get(self.kind, "TEXT")


@dataclass(frozen=True)
class Table:
    """One table of an instance."""

    name: str
    noun: str
    rows: int
    columns: tuple[Column, ...]

    @property
    def plural(self) -> str:
        """How a question calls its rows."""
        return self.name.replace("_", " ")

    def of_kind(self, *kinds: str) -> list[Column]:
        """Its columns of these kinds."""
        return [column for column in self.columns if column.kind in kinds]

    def column(self, name: str) -> Column:
        """The column of this name."""
        return next(column for column in self.columns if column.name == name)

    @property
    def label(self) -> Column | None:
        """The column that names a row for people, if there is one."""
        return next(iter(self.of_kind("label")), None)


@dataclass(frozen=True)
class Schema:
    """The tables of one instance of a domain, parents before children."""

    domain: str
    tables: tuple[Table, ...]

    def table(self, name: str) -> Table:
        """The table of this name."""
        return next(table for table in self.tables if table.name == name)

    def children(self, name: str) -> list[tuple[Table, Column]]:
        """The tables with a reference to this one, and the column that refers."""
        return [(table, ref) for table in self.tables for ref in table.of_kind("ref") if ref.target == name]

    def ddl(self) -> list[str]:
        """CREATE TABLE statements in an order that references allow."""
        statements = []
        for table in self.tables:
            lines = []
            for column in table.columns:
                key = " PRIMARY KEY" if column.kind == "id" else "" if column.nulls else " NOT NULL"
                lines.append(f"  {column.name} {column.type}{key}")
            for ref in table.of_kind("ref"):
                lines.append(f"  FOREIGN KEY ({ref.name}) REFERENCES {ref.target} (id)")
            body = ",\n".join(lines)
            statements.append(f"CREATE TABLE {table.name} (\n{body}\n)")
        return statements


def domain_names(split: str) -> tuple[str, ...]:
    """The domains of a split."""
    text = {"valid_unseen": domains.VALID_UNSEEN, "test": domains.TEST}.get(split, domains.SEEN)
    return tuple(_read(text))


def draw_schema(domain: str, split: str, rng: random.Random, scale: float = 1.0) -> Schema:
    """An instance of a domain: names among the alternatives, some columns left out, sizes varied.

    Args:
        domain: one of `domain_names(split)`.
        split: where the domain is looked up.
        rng: what the instance depends on.
        scale: multiplies the number of rows.
    """
    text = {"valid_unseen": domains.VALID_UNSEEN, "test": domains.TEST}.get(split, domains.SEEN)
    tables = []
    for noun, name, size, lines in _read(text)[domain]:
        columns = [Column("id", "id")]
        optional = [i for i, (_, column) in enumerate(lines) if column.kind not in ("label", "ref")]
        dropped = rng.choice(optional) if len(optional) > 3 and rng.random() < 0.5 else None
        for i, (names, column) in enumerate(lines):
            chosen = rng.choice(names)
            if i != dropped:
                columns.append(Column(chosen, column.kind, column.values, column.nulls, column.target))
        rows = max(4, round(size * scale * rng.uniform(0.8, 1.2)))
        tables.append(Table(name, noun, rows, tuple(columns)))
    return Schema(domain, tuple(tables))


_Line = tuple[tuple[str, ...], Column]


@lru_cache(None)
def _read(text: str) -> dict[str, list[tuple[str, str, int, list[_Line]]]]:
    found: dict[str, list[tuple[str, str, int, list[_Line]]]] = {}
    domain = ""
    for line in filter(str.strip, text.replace("\n    |", " |").splitlines()):
        if not line.startswith(" "):
            domain = line.strip()
            found[domain] = []
            continue
        head, *columns = (part.strip() for part in line.split(" | "))
        name, noun, rows = head.split()
        found[domain].append((noun, name, int(rows), [_column(part) for part in columns]))
    return found


def _column(text: str) -> _Line:
    text, _, nulls = text.partition(" ?")
    names, spec = _SPEC.split(text, maxsplit=1)
    missing = int(nulls or 0)
    if spec.startswith("->"):
        column = Column("", "ref", target=spec[2:].strip(), nulls=missing)
    elif spec.startswith("@@"):
        column = Column("", "text", (spec[2:],), missing)
    elif spec.startswith("@"):
        column = Column("", "label", (spec[1:],), missing)
    elif spec.startswith("="):
        column = Column("", "category", tuple(value.strip() for value in spec[1:].split(",")), missing)
    else:
        low, high = spec.split("..")
        kind = "date" if "-" in low else "real" if "." in low else "integer"
        column = Column("", kind, (low, high), missing)
    return tuple(names.split("/")), column
