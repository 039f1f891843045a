"""A process of a namespace sandbox, known to the host by the number of its request."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

from ..process import Process

if TYPE_CHECKING:
    from .connection import Connection


class NamespaceProcess(Process):
    """Told of its end by the agent."""

    def __init__(self, connection: Connection, ended: asyncio.Future[int]) -> None:
        self._connection, self._ended = connection, ended

    async def wait(self) -> int:
        """See `Process.wait`."""
        return await asyncio.shield(self._ended)

    async def kill(self, signum: int, scope: Literal["process", "group", "session", "children"] = "process") -> None:
        """See `Process.kill`."""
        if scope == "process" and self._ended.done():
            return
        await self._connection.request(
            {
                "op": "kill",
                "pid": self.pid,
                "signal": int(signum),
                "scope": scope,
                "marked": self.marked,
                "newest": self.newest,
            }
        )
