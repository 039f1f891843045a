"""Copies of a database with other content, on which a wrong statement that happens to fit the original is found out.

Values keep their columns: those of columns outside keys are shuffled among the rows, and a part of the rows goes. So
every constraint still holds, references included: a row goes with the row that it refers to.
"""

from __future__ import annotations

import random
from functools import lru_cache

from ...core.errors import InvalidArgument
from ..backends.database import Database, Row, TableSchema, names, quoted

DELETED = 0.2  # share of rows that go, of tables that others refer to half of that


@lru_cache(maxsize=256)
def fuzzed(database: Database, seed: int) -> Database:
    """The copy of `database` with this number; the same one in any process.

    Raises:
        InvalidArgument: the database is not one in memory.
    """
    if database.path is not None or database.dialect != "sqlite":
        raise InvalidArgument(f"database {database.name!r} cannot be copied: it is large or of another engine")
    rng = random.Random(f"{database.key}/{seed}")
    connection = database.open()
    connection.execute("PRAGMA foreign_keys=OFF")
    for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {quoted(trigger)}")
    schemas = [table.schema for table in database.tables]
    referred = {key.table.lower() for schema in schemas for key in schema.foreign_keys}
    content: dict[str, list[Row]] = {}
    for schema in schemas:
        listed = names([column.name for column in schema.columns])
        rows = connection.execute(f"SELECT {listed} FROM {quoted(schema.name)}").fetchall()
        share = DELETED / 2 if schema.name.lower() in referred else DELETED
        kept = [row for row in _shuffled(schema, rows, rng) if rng.random() >= share]
        content[schema.name.lower()] = _without_orphans(schema, rows, kept, content, schemas)
    for schema in schemas:
        rows = content[schema.name.lower()]
        connection.execute(f"DELETE FROM {quoted(schema.name)}")
        holes = ", ".join("?" * len(schema.columns))
        listed = names([column.name for column in schema.columns])
        connection.executemany(f"INSERT INTO {quoted(schema.name)} ({listed}) VALUES ({holes})", rows)
    connection.commit()
    image = connection.serialize()
    connection.close()
    return Database(f"{database.name}~{seed}", image)


def copies(database: Database, number: int) -> list[Database]:
    """The database and `number` fuzzed copies; the database alone where it cannot be copied."""
    if database.path is not None or database.dialect != "sqlite":
        return [database]
    return [database, *(fuzzed(database, seed) for seed in range(number))]


def _shuffled(schema: TableSchema, rows: list[Row], rng: random.Random) -> list[Row]:
    keys = {name.lower() for columns in (schema.primary_key, *schema.unique) for name in columns}
    columns = [list(values) for values in zip(*rows)]
    for column, values in zip(schema.columns, columns):
        if column.name.lower() not in keys:
            rng.shuffle(values)
    return list(zip(*columns))


def _without_orphans(
    schema: TableSchema, before: list[Row], rows: list[Row], content: dict[str, list[Row]], schemas: list[TableSchema]
) -> list[Row]:
    """The rows without those whose reference is gone, for references to tables that are done already."""
    place = {column.name.lower(): i for i, column in enumerate(schema.columns)}
    for key in schema.foreign_keys:
        target = next((other for other in schemas if other.name.lower() == key.table.lower()), None)
        if target is None or target is schema or target.name.lower() not in content:
            continue
        there = {column.name.lower(): i for i, column in enumerate(target.columns)}
        if not all(name.lower() in there for name in key.references) or len(key.references) != len(key.columns):
            continue
        mine = [place[name.lower()] for name in key.columns]
        known = {tuple(row[there[name.lower()]] for name in key.references) for row in content[target.name.lower()]}
        left = [row for row in rows if None in (cells := tuple(row[i] for i in mine)) or cells in known]
        if left or not before:  # data that never kept the reference stays as it is
            rows = left
    return rows
