"""Engines by name."""

from __future__ import annotations

from ..core.errors import InvalidArgument
from .backends.base import SqlBackend

BACKENDS = ("sqlite", "postgres", "duckdb")


def connect(backend: str, dsn: str | None = None) -> SqlBackend:
    """A new session of the engine called `backend`.

    Args:
        backend: "sqlite", "postgres" or "duckdb".
        dsn: a PostgreSQL superuser's connection string, as libpq reads it; None is a private server, which ends with
            the last session of this process.

    Raises:
        InvalidArgument: there is no such engine, or `dsn` does not fit it.
        MissingExtra: its driver is not installed.
    """
    if backend not in BACKENDS:
        raise InvalidArgument(f"backend must be one of {', '.join(BACKENDS)}, not {backend!r}")
    if dsn is not None and backend != "postgres":
        raise InvalidArgument("dsn=… is where PostgreSQL is: pass backend='postgres' with it")
    if backend == "postgres":
        from .backends.postgres import PostgresBackend

        return PostgresBackend(dsn)
    if backend == "duckdb":
        from .backends.duckdb import DuckDBBackend

        return DuckDBBackend()
    from .backends.sqlite import SqliteBackend

    return SqliteBackend()
