"""What a statement speaks of, and in which dialect it is run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from .backends.database import TableSchema


@dataclass(frozen=True)
class Parts:
    """The tables and columns of some statements, in lower case, sorted."""

    tables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    """As "table.column", for each of a statement's tables that has a column of that name."""


def parts_of(statements: Iterable[str], schema: tuple[TableSchema, ...], dialect: str) -> Parts:
    """The tables and columns of `schema` that the statements name. What cannot be parsed names nothing."""
    owners = {table.name.lower(): {column.name.lower() for column in table.columns} for table in schema}
    tables: set[str] = set()
    columns: set[str] = set()
    for statement in statements:
        used, named = _names(statement, dialect)
        mine = [name for name in used if name in owners]
        tables |= set(mine)
        columns |= {f"{table}.{name}" for table in mine for name in named if name in owners[table]}
    return Parts(tuple(sorted(tables)), tuple(sorted(columns)))


@lru_cache(4096)
def _names(statement: str, dialect: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of tables and of columns in the order they stand."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        tree = sqlglot.parse_one(statement, read=dialect)
    except (SqlglotError, RecursionError):
        return (), ()
    tables = dict.fromkeys(table.name.lower() for table in tree.find_all(exp.Table))
    columns = dict.fromkeys(column.name.lower() for column in tree.find_all(exp.Column))
    if isinstance(tree, exp.Insert) and isinstance(tree.this, exp.Schema):
        columns |= dict.fromkeys(each.name.lower() for each in tree.this.expressions)
    return tuple(tables), tuple(columns)


@lru_cache(4096)
def translated(statement: str, source: str, target: str) -> str:
    """The statement in the dialect `target`; `source` "" says that it is the same in all of them."""
    if not source or source == target:
        return statement
    import sqlglot

    return sqlglot.transpile(statement, read=source, write=target)[0]
