"""A PostgreSQL server for sessions of agents: a private cluster, or one that the user runs.

Covered by the private cluster: reachable through a socket in a private folder only; no network; memory of every
server process limited; nothing survives `stop`. Covered by the databases: two roles without rights over anything
else; functions that sleep, tell the time, roll dice, reach files or touch other sessions taken away. Not covered:
this is no sandbox against holes in PostgreSQL itself.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
import uuid
import weakref
from collections.abc import Iterator
from typing import Any

from ...core.errors import EnvironmentFault, InvalidArgument, MissingExtra
from .database import Database
from .portable import typed
from .postgres_cluster import Cluster
from .tables import TableSchema, names, quoted

READER, WRITER = "sandlot_reader", "sandlot_writer"
# Volatile functions that statements need; every other one is taken away from agents, with those that tell the time.
KEPT = ("nextval", "currval", "setval", "lastval", "pg_database_size")
TAKEN = (
    "now",
    "transaction_timestamp",
    "statement_timestamp",
    "pg_read_file",
    "current_setting",
    "pg_stat_get_activity",
)
HIDDEN = (
    "pg_database",
    "pg_stat_activity",
    "pg_stat_database",
    "pg_settings",
    "pg_roles",
    "pg_user",
    "pg_file_settings",
)


class PostgresServer:
    """Databases for `PostgresBackend`s on one server.

    Args:
        conninfo: how a superuser connects, as libpq reads it; two roles and databases named `sandlot_…` are made there.

    Raises:
        MissingExtra: psycopg is not installed.
    """

    def __init__(self, conninfo: str) -> None:
        self._psycopg = driver()
        self.conninfo = conninfo
        self._mark = uuid.uuid4().hex[:8]  # other processes make their own databases on the same server
        self._lock = threading.RLock()
        self._built: dict[tuple[str, str], str] = {}
        self._clones: set[str] = set()
        self._doomed: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._janitor: threading.Thread | None = None
        self._admin: Any = None
        self._cluster: Cluster | None = None

    @classmethod
    def start(cls) -> PostgresServer:
        """Start a private cluster in a temporary folder (about 2 s); `stop` ends it, as does the end of the program.

        Raises:
            MissingData: PostgreSQL's programs are not on this machine.
            EnvironmentFault: the cluster does not start.
        """
        cluster = Cluster()
        server = cls(cluster.conninfo)
        server._cluster = cluster
        server._wait(cluster)
        return server

    def admin(self, database: str | None = None) -> Any:
        """A superuser's connection: a new one to `database`, or the one that is kept."""
        if database is not None:
            return self._psycopg.connect(self.conninfo, dbname=database, autocommit=True)
        if self._admin is None or self._admin.closed:
            self._admin = self._psycopg.connect(self.conninfo, autocommit=True)
            self._prepare(self._admin)
        return self._admin

    def readable(self, database: Database) -> str:
        """The name of the database that read sessions share; built when first asked for."""
        return self._build(database, "r")

    def clone(self, database: Database) -> str:
        """The name of a fresh copy for one write session."""
        name = f"sandlot_{self._mark}_task_{uuid.uuid4().hex[:12]}"
        with self._lock:
            base = self._build(database, "w")
            self.admin().execute(f"CREATE DATABASE {name} TEMPLATE {base} OWNER {WRITER} STRATEGY file_copy")
            self._clones.add(name)
        return name

    def drop(self, name: str) -> None:
        """Drop a clone, whoever is still connected to it, in the background: it takes longer than making one."""
        with self._lock:
            self._doomed.put(name)
            if self._janitor is None:
                self._janitor = threading.Thread(target=self._clean, name="sql-janitor", daemon=True)
                self._janitor.start()

    def _clean(self) -> None:
        with self._psycopg.connect(self.conninfo, autocommit=True) as connection:
            while (name := self._doomed.get()) is not None:
                with contextlib.suppress(self._psycopg.Error):
                    connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
                    self._clones.discard(name)

    def stop(self) -> None:
        """End the private cluster and delete it; on a server of the user's, drop what was made there."""
        if self._janitor is not None:
            with contextlib.suppress(queue.Empty):
                while self._cluster is not None:  # the cluster goes with all that is in it
                    self._doomed.get_nowait()
            self._doomed.put(None)
            self._janitor.join(30)
        with self._lock:
            if self._cluster is None and self._admin is not None:
                for name in [*self._clones, *self._built.values()]:
                    self.admin().execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            if self._admin is not None:
                self._admin.close()
            self._admin, self._janitor, self._built, self._clones = None, None, {}, set()
        if self._cluster is not None:
            self._cluster.stop()

    def __enter__(self) -> PostgresServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _wait(self, cluster: Cluster) -> None:
        deadline = time.monotonic() + 30
        while True:
            try:
                self.admin()
                return
            except self._psycopg.OperationalError as error:
                if cluster.ended or time.monotonic() > deadline:
                    log = cluster.log()
                    cluster.stop()
                    raise EnvironmentFault(f"PostgreSQL does not start: {log or error}") from error
                time.sleep(0.02)

    def _prepare(self, admin: Any) -> None:
        for role in (READER, WRITER):
            with contextlib.suppress(self._psycopg.errors.DuplicateObject):
                admin.execute(f"CREATE ROLE {role} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION")
        admin.execute(f"ALTER ROLE {READER} SET default_transaction_read_only = on")

    def _build(self, database: Database, use: str) -> str:
        """The database that read sessions share ("r"), or that write ones have clones of ("w"), which none enters."""
        with self._lock:
            key = (database.key, use)
            if key not in self._built:
                name = f"sandlot_{self._mark}_{use}_{database.key[:16]}"
                admin = self.admin()
                admin.execute(f"CREATE DATABASE {name} TEMPLATE {self._closed()} OWNER {WRITER} STRATEGY file_copy")
                with self.admin(name) as connection:
                    self._fill(connection, database)
                admin.execute(f"REVOKE ALL ON DATABASE {name} FROM PUBLIC")
                admin.execute(f"GRANT CONNECT ON DATABASE {name} TO {READER}, {WRITER}")
                self._built[key] = name
            return self._built[key]

    def _closed(self) -> str:
        """An empty database with its doors closed, which all others are made from."""
        name = f"sandlot_{self._mark}_empty"
        if ("", "") not in self._built:
            self.admin().execute(f"CREATE DATABASE {name} TEMPLATE template0 STRATEGY file_copy")
            with self.admin(name) as connection:
                _close_doors(connection)
            self._built["", ""] = name
        return name

    def _fill(self, connection: Any, database: Database) -> None:
        """Build the content as the writer's property."""
        connection.execute(f"ALTER SCHEMA public OWNER TO {WRITER}")
        connection.execute(f"SET ROLE {WRITER}")
        if database.dialect == "postgres":
            try:
                connection.execute(database.script)
            except self._psycopg.Error as error:
                raise InvalidArgument(f"the script of database {database.name!r} does not run: {error}") from None
        elif database.dialect == "sqlite":
            tables = [typed(table) for table in database.tables]
            for table in tables:
                columns = ", ".join(
                    f"{_fold(column.name)} {column.type}{' NOT NULL' if column.not_null else ''}"
                    for column in table.schema.columns
                )
                connection.execute(f"CREATE TABLE {_fold(table.schema.name)} ({columns})")
                with connection.cursor() as cursor, cursor.copy(f"COPY {_fold(table.schema.name)} FROM STDIN") as copy:
                    for row in table.rows:
                        copy.write_row(row)
            for table in tables:
                for constraint in _constraints(table.schema):
                    # Data that SQLite let in may break what it declares; then the declaration goes.
                    with contextlib.suppress(self._psycopg.Error):
                        connection.execute(f"ALTER TABLE {_fold(table.schema.name)} ADD {constraint}")
        else:
            raise InvalidArgument(f"PostgreSQL cannot build database {database.name!r} from {database.dialect}")
        connection.execute("RESET ROLE")
        connection.execute(f"GRANT USAGE ON SCHEMA public TO {READER}")
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {READER}")


class ServerLease:
    """The use of a server: of one that is given, or of one that all sessions of this process share by its conninfo."""

    def __init__(self, wanted: PostgresServer | str | None) -> None:
        self.owner = os.getpid()
        if isinstance(wanted, PostgresServer):
            self.server = wanted
            self.end: Any = lambda: None
            return
        key = (self.owner, wanted)
        with _LOCK:
            if key not in _SHARED:
                _SHARED[key] = (PostgresServer.start() if wanted is None else PostgresServer(wanted), [0])
            self.server, users = _SHARED[key]
            users[0] += 1
        self.end = weakref.finalize(self, _give_back, key)


_SHARED: dict[tuple[int, str | None], tuple[PostgresServer, list[int]]] = {}
_LOCK = threading.Lock()


def _give_back(key: tuple[int, str | None]) -> None:
    if key[0] != os.getpid():
        return
    with _LOCK:
        server, users = _SHARED[key]
        users[0] -= 1
        last = users[0] == 0
        if last:
            del _SHARED[key]
    if last:
        server.stop()


def driver() -> Any:
    """The package psycopg. Raises `MissingExtra` where it is not installed."""
    try:
        import psycopg
    except ImportError:
        raise MissingExtra("psycopg", "sql") from None
    return psycopg


def _fold(name: str) -> str:
    """The name as unquoted text would find it."""
    return quoted(name.lower())


def _constraints(schema: TableSchema) -> Iterator[str]:
    def lower(columns: tuple[str, ...]) -> str:
        return names([name.lower() for name in columns])

    if schema.primary_key:
        yield f"PRIMARY KEY ({lower(schema.primary_key)})"
    for columns in schema.unique:
        yield f"UNIQUE ({lower(columns)})"
    for key in schema.foreign_keys:
        yield f"FOREIGN KEY ({lower(key.columns)}) REFERENCES {_fold(key.table)} ({lower(key.references)})"


def _close_doors(connection: Any) -> None:
    """Take functions and views of the system away from agents, in this database and its clones."""
    connection.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
    functions = connection.execute(
        "SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
        " WHERE n.nspname = 'pg_catalog' AND p.prokind = 'f' AND NOT p.proname = ANY(%s)"
        " AND (p.provolatile = 'v' OR p.proname = ANY(%s))",
        (list(KEPT), list(TAKEN)),
    ).fetchall()
    listed = ", ".join(row[0] for row in functions)
    connection.execute(f"REVOKE EXECUTE ON FUNCTION {listed} FROM PUBLIC")
    for view in HIDDEN:
        connection.execute(f"REVOKE SELECT ON pg_catalog.{view} FROM PUBLIC")
