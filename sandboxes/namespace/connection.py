"""The host's end of an agent's socket: requests and replies, and the ends of processes as they come."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import weakref
from collections.abc import Sequence

from ..errors import SandboxFault
from . import channel

_OPEN: weakref.WeakSet[Connection] = weakref.WeakSet()


def _forget() -> None:
    """In a forked child: its copies of the sockets would keep the parent's sandboxes alive."""
    for connection in list(_OPEN):
        connection.lost = "this sandbox belongs to the process that was forked"
        connection._sock.close()
    _OPEN.clear()


os.register_at_fork(after_in_child=_forget)


class Connection:
    """Used from one event loop. Everything that waits gets a SandboxFault when the agent is gone."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock, self._number_of_sock = sock, sock.fileno()
        self._loop = asyncio.get_running_loop()
        self._number = 0
        self._waiting: dict[int, asyncio.Future[tuple[channel.Message, list[int]]]] = {}
        self._ends: dict[int, asyncio.Future[int]] = {}
        self._room: asyncio.Future[None] | None = None
        self.oom_kills = 0
        """What the agent's own watch has killed."""
        self.lost = ""
        """Why there is no agent any more."""
        self.first: asyncio.Queue[tuple[channel.Message, list[int]]] = asyncio.Queue()
        """Messages of the start."""
        self._loop.add_reader(sock.fileno(), self._read)
        _OPEN.add(self)

    def _read(self) -> None:
        try:
            received = channel.receive(self._sock)
        except BlockingIOError:
            return
        except OSError as error:
            return self.close(f"the sandbox's agent is gone: {error}")
        if received is None:
            return self.close("the sandbox's agent is gone")
        message, descriptors = received
        if "id" in message:
            future = self._waiting.pop(message["id"], None)
            if future is not None and not future.done():
                return future.set_result(received)
        elif "exit" in message:
            end = self._ends.pop(message["exit"], None)
            if end is not None and not end.done():
                fault = message.get("fault")
                if fault:
                    end.set_exception(SandboxFault(f"a program could not be set up: {fault}"))
                    end.exception()  # whoever waits gets it; nobody need wait
                else:
                    end.set_result(message["code"])
        elif "oom" in message:
            self.oom_kills = message["oom"]
        else:
            return self.first.put_nowait(received)
        for descriptor in descriptors:
            os.close(descriptor)

    def configure(self, config: channel.Message) -> None:
        """Send the agent what it starts with."""
        with contextlib.suppress(OSError):  # it failed already, and has said why
            channel.send(self._sock, config)

    async def request(
        self, message: channel.Message, descriptors: Sequence[int] = ()
    ) -> tuple[channel.Message, list[int]]:
        """Ask, and wait for the reply and its descriptors.

        Raises:
            SandboxFault: the agent is gone, or could not do it.
        """
        future = self._loop.create_future()
        self._number += 1
        return await self._asked(self._number, message, descriptors, future)

    def spawn(
        self, message: channel.Message, descriptors: Sequence[int]
    ) -> tuple[asyncio.Future[int], asyncio.Task[tuple[channel.Message, list[int]]]]:
        """Ask for a process: the future of its exit code, and the reply on its way."""
        self._number += 1
        end: asyncio.Future[int] = self._loop.create_future()
        self._ends[self._number] = end
        reply = self._asked(self._number, message, descriptors, self._loop.create_future())
        return end, asyncio.ensure_future(reply)

    async def _asked(
        self,
        number: int,
        message: channel.Message,
        descriptors: Sequence[int],
        future: asyncio.Future[tuple[channel.Message, list[int]]],
    ) -> tuple[channel.Message, list[int]]:
        self._waiting[number] = future
        try:
            while True:
                if self.lost:
                    raise SandboxFault(self.lost)
                try:
                    channel.send(self._sock, {**message, "id": number}, descriptors)
                    break
                except BlockingIOError:
                    await asyncio.sleep(0.001)  # the agent is busy; it reads one message after the other
                except OSError as error:
                    raise SandboxFault(f"the sandbox's agent is gone: {error}") from error
            reply, received = await future
        finally:
            self._waiting.pop(number, None)
        if "error" in reply:
            self._ends.pop(number, None)
            raise SandboxFault(f"the sandbox could not {message['op']}: {reply['error']}")
        return reply, received

    def abandon(self) -> None:
        """`close` from any thread, also when the loop is gone."""
        if self.lost:
            return
        try:
            self._loop.call_soon_threadsafe(self.close)
        except RuntimeError:
            self._sock.close()

    def close(self, reason: str = "this sandbox is closed") -> None:
        """Stop listening, and tell whoever waits. Safe to call twice."""
        if self.lost:
            return
        self.lost = reason
        if not self._loop.is_closed():
            self._loop.remove_reader(self._number_of_sock)
        self._sock.close()
        for future in (*self._waiting.values(), *self._ends.values()):
            if not future.done():
                future.set_exception(SandboxFault(reason))
                future.exception()
        self._waiting.clear()
        self._ends.clear()
        self.first.put_nowait(({"failed": "starting", "errno": 0, "error": reason}, []))
