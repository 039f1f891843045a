"""The process that statements of agents run in: guarded SQLite connections, built when they are asked for.

Standard library only, and started without site packages. A worker is a cache: its owner holds the truth (which database
in which state), and can kill it at any time.
"""

from __future__ import annotations

import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Any

from . import wire
from .guard import Guard
from .introspect import read_schema
from .tables import quoted

READERS, SESSIONS = 32, 64  # connections kept
IMAGES = 64 << 20  # bytes of images kept
STATE_ROWS = 100_000  # rows of a database that are still compared


@dataclass
class Session:
    """A connection in which something may be changed."""

    guard: Guard
    key: str
    now: str
    generation: int
    applied: int = 0
    """How many of the owner's statements it has run."""


class Worker:
    """Answers requests about many databases and sessions."""

    def __init__(self) -> None:
        self._images: OrderedDict[str, bytes] = OrderedDict()
        self._readers: OrderedDict[tuple[str, str], Guard] = OrderedDict()
        self._sessions: OrderedDict[int, Session] = OrderedDict()

    def handle(self, request: dict[str, Any], raw: Callable[[], bytes]) -> dict[str, Any]:
        """One request. Replies with "need" when the owner must send an image or replay statements first."""
        kind = request["do"]
        if kind == "image":
            self._keep(request["key"], raw())
            return {}
        if kind == "close":
            self._drop(request["session"])
            return {}
        if request["write"]:
            session = self._session(request)
            if session is None:
                return {"need": "image"}
            if kind == "replay":
                return self._replay(session, request)
            if session.applied != request["applied"]:
                return {"need": "replay"}
            guard = session.guard
        else:
            session, reader = None, self._reader(request)
            if reader is None:
                return {"need": "image"}
            guard = reader
        if kind == "state":
            return state(guard, request["limits"])
        if kind == "schema":
            return {"schema": [astuple(table) for table in unlimited_schema(guard)]}
        began = time.perf_counter()
        found = guard.execute(request["sql"], **request["limits"])
        found["elapsed"] = time.perf_counter() - began
        if session is not None and found.get("wrote"):
            session.applied += 1
        return found

    def _replay(self, session: Session, request: dict[str, Any]) -> dict[str, Any]:
        for sql in request["statements"][session.applied :]:
            found = session.guard.execute(sql, **request["limits"])
            if "error" in found:
                return {"failed": found["error"]}
            session.applied += 1
        return {}

    def _session(self, request: dict[str, Any]) -> Session | None:
        session = self._sessions.get(request["session"])
        if session is None or session.generation != request["generation"]:
            image = self._images.get(request["key"])
            if image is None:
                return None
            if session is not None and (session.key, session.now) == (request["key"], request["now"]) and image:
                session.guard.reload(image)
                session.generation, session.applied = request["generation"], 0
            else:
                session = self._open(request, image)
            if len(self._sessions) > SESSIONS:
                self._sessions.popitem(last=False)[1].guard.close()
        self._sessions.move_to_end(request["session"])
        return session

    def _open(self, request: dict[str, Any], image: bytes) -> Session:
        self._drop(request["session"])
        # Cached statements would skip the authorizer, and our own ones are privileged.
        connection = sqlite3.connect(":memory:", isolation_level=None, cached_statements=0)
        if image:
            connection.deserialize(image)
        guard = Guard(connection, write=True, now=request["now"], foreign_keys=request["foreign_keys"])
        session = Session(guard, request["key"], request["now"], request["generation"])
        self._sessions[request["session"]] = session
        return session

    def _reader(self, request: dict[str, Any]) -> Guard | None:
        key = (request["key"], request["now"])
        guard = self._readers.get(key)
        if guard is None:
            if request["path"]:
                connection = sqlite3.connect(request["path"], uri=True, isolation_level=None)
            elif request["key"] in self._images:
                connection = sqlite3.connect(":memory:", isolation_level=None)
                if self._images[request["key"]]:
                    connection.deserialize(self._images[request["key"]])
            else:
                return None
            guard = self._readers[key] = Guard(connection, write=False, now=request["now"])
            if len(self._readers) > READERS:
                self._readers.popitem(last=False)[1].close()
        self._readers.move_to_end(key)
        return guard

    def _keep(self, key: str, image: bytes) -> None:
        self._images[key] = image
        while len(self._images) > 1 and sum(map(len, self._images.values())) > IMAGES:
            self._images.popitem(last=False)

    def _drop(self, session: int) -> None:
        old = self._sessions.pop(session, None)
        if old is not None:
            old.guard.close()


def unlimited_schema(guard: Guard) -> list[Any]:
    """The schema as it is now. Names in it may be the agent's, so it is read with trusted statements only."""

    class Trusted:
        def execute(self, sql: str) -> Any:
            return _Fetched(guard.trusted(sql))

    return read_schema(Trusted())  # pyright: ignore[reportArgumentType]


class _Fetched(list[Any]):
    def fetchall(self) -> list[Any]:
        return self


def state(guard: Guard, limits: dict[str, Any]) -> dict[str, Any]:
    """Schema and rows of every table and view; "complete" is False where there are more than `STATE_ROWS` rows."""
    tables: list[Any] = []
    left = STATE_ROWS
    for schema in unlimited_schema(guard):
        # A view may hold anything that the agent has written, so it runs as the agent's statements do.
        rows = {"max_rows": left, "max_counted": left + 1, "max_bytes": 1 << 26}
        found = guard.execute(f"SELECT * FROM {quoted(schema.name)}", **{**limits, **rows})
        whole = "error" not in found and not found["cut"]
        if not whole and not schema.view:
            return {"tables": [], "complete": False}
        left -= len(found["rows"]) if whole else 0
        tables.append([astuple(schema), found["rows"] if whole else None])
    return {"tables": tables, "complete": True}


def main() -> None:
    """Serve until the owner is gone."""
    wire.confine()
    wire.serve(Worker().handle)
