"""`Database`: what an episode starts from, described so that any engine and any process builds the same one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

from ...core.errors import InvalidArgument, MissingData
from .introspect import read_schema
from .notes import schema_names
from .tables import Column, ForeignKey, Row, Table, TableSchema, create_table, names, quoted

__all__ = ["Column", "Database", "ForeignKey", "Row", "Table", "TableSchema", "create_table", "names", "quoted"]

HEADER = b"SQLite format 3\0"
IN_MEMORY = 32 << 20
"""Bytes: larger files stay on disk and are opened read-only; they have no write sessions."""


@dataclass(frozen=True)
class Database:
    """A named database in its initial state.

    The exact form is a SQLite image (`image`, or the file `path` where it is large); PostgreSQL and DuckDB read its
    `tables` and build their own from them. A database that only PostgreSQL can build holds its script instead.
    """

    name: str
    image: bytes = field(repr=False, default=b"")
    """The bytes of a SQLite file; empty for large files and for other dialects."""
    path: Path | None = None
    """A SQLite file of more than `IN_MEMORY` bytes, which must not change while it is in use."""
    script: str = field(repr=False, default="")
    """SQL that builds the database in an empty one; for `dialect` "postgres" only."""
    dialect: str = "sqlite"

    @classmethod
    def from_script(cls, name: str, script: str) -> Database:
        """From SQLite's DDL and INSERT statements. Raises `InvalidArgument` where they do not run."""
        connection = sqlite3.connect(":memory:")
        try:
            connection.executescript(script)
            connection.commit()
            return cls(name, connection.serialize())
        except sqlite3.Error as error:
            raise InvalidArgument(f"the script of database {name!r} does not run in SQLite: {error}") from None
        finally:
            connection.close()

    @classmethod
    def from_tables(cls, name: str, tables: Iterable[Table]) -> Database:
        """From tables in any order. Raises `InvalidArgument` where SQLite refuses them."""
        connection = sqlite3.connect(":memory:")
        try:
            for table in tables:
                connection.execute(create_table(table.schema))
                holes = ", ".join("?" * len(table.schema.columns))
                connection.executemany(f"INSERT INTO {quoted(table.schema.name)} VALUES ({holes})", table.rows)
            connection.commit()
            return cls(name, connection.serialize())
        except sqlite3.Error as error:
            raise InvalidArgument(f"the tables of database {name!r} do not fit together: {error}") from None
        finally:
            connection.close()

    @classmethod
    def from_file(cls, path: str | Path, name: str | None = None) -> Database:
        """From a SQLite file. Raises `MissingData` where it is absent or not one."""
        path = Path(path).absolute()
        if not path.is_file():
            raise MissingData(f"there is no database file {path}")
        with path.open("rb") as file:
            header = file.read(100)
        if not header.startswith(HEADER):
            raise MissingData(f"{path} is not a SQLite database")
        if path.stat().st_size > IN_MEMORY:
            return cls(name or path.stem, path=path)
        image = path.read_bytes()
        # Bytes 18 and 19: 2 means write-ahead logging, which an image in memory cannot have.
        return cls(name or path.stem, image[:18] + b"\1\1" + image[20:] if image[18:20] == b"\2\2" else image)

    @cached_property
    def key(self) -> str:
        """Hash of the content: equal keys, equal databases."""
        digest = blake2b(self.dialect.encode() + b"\0" + self.script.encode(), digest_size=16)
        if self.path is None:
            digest.update(self.image)
        else:
            with self.path.open("rb") as file:
                while piece := file.read(1 << 20):
                    digest.update(piece)
        return digest.hexdigest()

    @cached_property
    def schema(self) -> tuple[TableSchema, ...]:
        """The tables and views in alphabetical order."""
        connection = self.open()
        try:
            return tuple(read_schema(connection))
        finally:
            connection.close()

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all tables and columns, in lower case."""
        return schema_names(self.schema)

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """Every table with its rows, referenced tables first where references have no cycle."""
        connection = self.open()
        try:
            found = [
                Table(schema, tuple(connection.execute(f"SELECT * FROM {quoted(schema.name)}").fetchall()))
                for schema in read_schema(connection)
                if not schema.view
            ]
        finally:
            connection.close()
        return tuple(_referenced_first(found))

    def open(self) -> sqlite3.Connection:
        """A new private connection in this process, for trusted statements only; to a copy, or read-only to the file.

        Raises:
            InvalidArgument: the database is no SQLite database.
        """
        if self.dialect != "sqlite":
            raise InvalidArgument(f"database {self.name!r} is a {self.dialect} script: only that engine can build it")
        if self.path is not None:
            connection = sqlite3.connect(f"{self.path.as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)
        else:
            connection = sqlite3.connect(":memory:", check_same_thread=False)
            if self.image:
                connection.deserialize(self.image)
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        return connection


def _referenced_first(tables: list[Table]) -> list[Table]:
    placed: list[Table] = []
    waiting = list(tables)
    while waiting:
        open_names = {table.schema.name.lower() for table in waiting}
        ready = [
            table
            for table in waiting
            if not any(
                key.table.lower() in open_names - {table.schema.name.lower()} for key in table.schema.foreign_keys
            )
        ]
        placed += ready or waiting[:1]
        waiting = [table for table in waiting if not any(table is other for other in placed)]
    return placed
