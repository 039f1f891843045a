"""Messages between the host and the agent: JSON and descriptors over a SOCK_SEQPACKET socket. Standard library only."""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
from collections.abc import Sequence
from typing import Any

SMALL = 60_000  # bytes; what is longer travels in a file of its own
MOST = 16  # descriptors of one message
Message = dict[str, Any]


def send(sock: socket.socket, message: Message, descriptors: Sequence[int] = ()) -> None:
    """Send one message; the descriptors are duplicated on the way."""
    data = json.dumps(message, separators=(",", ":")).encode("ascii")
    passed = list(descriptors)
    extra = -1
    if len(data) > SMALL:
        extra = os.memfd_create("sandlot", os.MFD_CLOEXEC)
        with os.fdopen(os.dup(extra), "wb") as file:
            file.write(data)
        data, passed = b"", [*passed, extra]
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", passed))] if passed else []
    try:
        sock.sendmsg([data or b"@"], ancillary)
    finally:
        if extra >= 0:
            os.close(extra)


def receive(sock: socket.socket) -> tuple[Message, list[int]] | None:
    """Receive one message and its descriptors; None when the other end is gone."""
    while True:
        with contextlib.suppress(ConnectionResetError):  # said once when the other end left something unread
            data, ancillary, _, _ = sock.recvmsg(SMALL + 1, socket.CMSG_SPACE(4 * MOST), socket.MSG_CMSG_CLOEXEC)
            break
    descriptors: list[int] = []
    for level, kind, body in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers = array.array("i")
            numbers.frombytes(body[: len(body) - len(body) % 4])
            descriptors.extend(numbers)
    if not data:
        return None
    if data == b"@":
        extra = descriptors.pop()
        os.lseek(extra, 0, os.SEEK_SET)
        with os.fdopen(extra, "rb") as file:
            data = file.read()
    return json.loads(data), descriptors
