"""What a worker process and its owner say to each other: length-prefixed JSON over pipes. Standard library only.

Not pickle: a worker that a statement has taken over must not be able to run code in its owner.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

MEMORY = 768 << 20
"""Bytes of address space of a worker."""
LENGTH = struct.Struct("<I")
KNOWN, SHORT = 64, 1_000  # heads of requests that a worker remembers, and bytes of the longest


def confine(memory: int = MEMORY) -> None:
    """Limit this process for good: memory, no file may grow, few open files, no core dumps."""
    for kind, limit in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 32),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (limit, limit))


def serve(handle: Callable[[dict[str, Any], Callable[[], bytes]], dict[str, Any]]) -> None:
    """Answer requests until the owner is gone.

    Args:
        handle: gets a request, which it must not change, and a function that reads a raw frame after it; returns the
            reply.
    """
    source, replies = Reader(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # engines print things now and then (DuckDB a progress bar): not into the replies
    os.close(nowhere)
    known: dict[bytes, dict[str, Any]] = {}  # most requests differ in their statement only
    while True:
        try:
            head, _, sql = source.frame().partition(b"\0")
        except EOFError:
            return
        request = known.get(head)
        if request is None:
            request = json.loads(head.decode())
            if len(head) < SHORT:
                if len(known) >= KNOWN:
                    known.clear()
                known[head] = request
        # The default action of SIGALRM ends the process, even inside one long instruction of the engine.
        signal.setitimer(signal.ITIMER_REAL, request["hard"])
        if sql:
            request = {**request, "sql": json.loads(sql.decode())}
        reply = encode(handle(request, source.frame))
        signal.setitimer(signal.ITIMER_REAL, 0)
        write(replies, frame(reply))


class Reader:
    """Takes frames from a pipe, with one call of the kernel for a small one.

    Args:
        descriptor: the pipe's.
        patience: seconds after which the other side counts as gone in the middle of a frame; None waits for ever.
    """

    def __init__(self, descriptor: int, patience: float | None = None) -> None:
        self._descriptor, self._patience = descriptor, patience
        self.rest = b""
        """What came after the last frame."""

    def frame(self) -> bytes:
        """The data of the next frame. Raises EOFError where the other side is gone."""
        data = self.rest or self._more()
        while len(data) < LENGTH.size:
            data += self._more()
        end = LENGTH.size + LENGTH.unpack_from(data)[0]
        if len(data) < end:
            pieces = bytearray(data)
            while len(pieces) < end:
                if self._patience is not None and not self._waits(self._patience):
                    raise EOFError
                pieces += self._more()
            data = bytes(pieces)
        self.rest = data[end:]
        return data[LENGTH.size : end]

    def _waits(self, seconds: float) -> bool:
        poll = select.poll()  # unlike `select`, it knows descriptors above 1,023
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def _more(self) -> bytes:
        data = os.read(self._descriptor, 1 << 16)
        if not data:
            raise EOFError
        return data


def write(descriptor: int, data: bytes) -> None:
    """Write all of it."""
    sent = os.write(descriptor, data)
    if sent < len(data):
        view = memoryview(data)[sent:]
        while view:
            view = view[os.write(descriptor, view) :]


def frame(data: bytes) -> bytes:
    """The data with its length before it."""
    return LENGTH.pack(len(data)) + data


def message(head: bytes, sql: str | None) -> bytes:
    """A request: what many have in common, and the statement."""
    return head if sql is None else head + b"\0" + _text(sql).encode()


def decode(reply: bytes) -> dict[str, Any]:
    """A reply; its "rows" are tuples, with blobs and decimals as they were."""
    found = json.loads(reply.decode())
    if "rows" in found:
        plain = reply.find(b'{"', 1) < 0  # no object in it, so no blob and no decimal
        found["rows"] = tuple(map(tuple, found["rows"])) if plain else cells(found["rows"])
    return found


def cells(rows: list[list[Any]]) -> tuple[tuple[Any, ...], ...]:
    """Rows as JSON brought them, with blobs and decimals as they were."""
    return tuple(tuple(_cell(cell) if type(cell) is dict else cell for cell in row) for row in rows)


def special(value: Any) -> Any:
    """A blob or decimal as JSON can hold it; anything else as text."""
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    return str(value)


def _cell(value: dict[str, str]) -> Any:
    return bytes.fromhex(value["bytes"]) if "bytes" in value else Decimal(value["decimal"])


_json = json.JSONEncoder(separators=(",", ":"), default=special, check_circular=False).encode
_text = json.JSONEncoder().encode


def encode(data: Any) -> bytes:
    """The data as JSON."""
    return _json(data).encode()
