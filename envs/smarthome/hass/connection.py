"""A synchronous connection to a Home Assistant server: WebSocket commands, REST requests, and the events it sends."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from ...core.errors import EnvironmentFault, InvalidArgument, MissingExtra

try:
    import aiohttp
except ModuleNotFoundError:
    raise MissingExtra("aiohttp", "smarthome") from None

T = TypeVar("T")
_EVENTS = 10_000  # kept
_LARGEST = 64 * 2**20  # bytes of one message: a real home's states


class Refusal(Exception):
    """The server understood a command and refused it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Connection:
    """Runs an event loop in a thread of its own, so that the agent's side stays synchronous.

    Args:
        url: "http://host:8123".
        token: a long-lived access token.
        timeout: seconds for any answer.

    Raises:
        InvalidArgument: the server does not accept the token.
        EnvironmentFault: the server cannot be reached.
    """

    def __init__(self, url: str, token: str, timeout: float = 30.0) -> None:
        self._url, self._token, self._timeout = url.rstrip("/"), token, timeout
        self.events: deque[Mapping[str, Any]] = deque(maxlen=_EVENTS)
        """The state changes and events that were sent, oldest first."""
        self.received = 0
        """How many events have come, in all."""
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._http: aiohttp.ClientSession | None = None
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._reader: asyncio.Task[None] | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hass-connection", daemon=True)
        self._thread.start()
        try:
            self._do(self._open())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Leave; harmless when repeated."""
        if not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(self._timeout)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def since(self, mark: int) -> list[Mapping[str, Any]]:
        """The events that came after the first `mark`."""
        return list(self.events)[-(self.received - mark) :] if self.received > mark else []

    def command(self, kind: str, **message: Any) -> Any:
        """A WebSocket command's result.

        Raises:
            Refusal: the server says no.
            EnvironmentFault: the server does not answer.
        """
        return self._do(self._command({"type": kind, **message}))

    def rest(self, method: str, path: str, body: Any = None, **query: str) -> tuple[int, Any]:
        """(status, body) of a REST request; the body is JSON where it is declared so, else text."""
        return self._do(self._rest(method, path, body, query))

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop.is_closed():
            work.close()
            raise EnvironmentFault("the connection to Home Assistant is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(self._timeout)
        except TimeoutError as error:
            future.cancel()
            raise EnvironmentFault(f"Home Assistant at {self._url} did not answer in {self._timeout:g} s") from error
        except (aiohttp.ClientError, OSError, asyncio.CancelledError) as error:
            raise EnvironmentFault(f"Home Assistant at {self._url} was lost: {error}") from error

    async def _open(self) -> None:
        self._http = aiohttp.ClientSession(headers={"Authorization": f"Bearer {self._token}"})
        socket = await self._http.ws_connect(f"{self._url}/api/websocket", max_msg_size=_LARGEST, heartbeat=30)
        await socket.receive_json()
        await socket.send_json({"type": "auth", "access_token": self._token})
        answer = await socket.receive_json()
        if answer.get("type") != "auth_ok":
            raise InvalidArgument(f"Home Assistant at {self._url} does not accept the token")
        self._socket = socket
        self._reader = asyncio.create_task(self._read(socket))
        await self._command({"type": "subscribe_events"})

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        try:
            async for message in socket:
                if message.type is aiohttp.WSMsgType.TEXT:
                    self._receive(message.json())
        finally:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(ConnectionError("the server closed the connection"))

    def _receive(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "event":
            self.events.append(message["event"])
            self.received += 1
            return
        future = self._waiting.pop(message["id"], None)
        if future is None or future.done():
            return
        if message.get("success", True):
            future.set_result(message.get("result"))
        else:
            error = message.get("error") or {}
            future.set_exception(Refusal(str(error.get("code")), str(error.get("message"))))

    async def _command(self, message: dict[str, Any]) -> Any:
        if self._socket is None or self._socket.closed:
            raise ConnectionError("the connection is closed")
        self._number += 1
        number = self._number
        future = self._waiting[number] = self._loop.create_future()
        await self._socket.send_json({"id": number, **message})
        return await future

    async def _rest(self, method: str, path: str, body: Any, query: Mapping[str, str]) -> tuple[int, Any]:
        assert self._http is not None
        async with self._http.request(method, f"{self._url}{path}", json=body, params=query) as answer:
            is_json = answer.content_type == "application/json"
            return answer.status, await (answer.json() if is_json else answer.text())

    async def _shut(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
        if self._socket is not None:
            await self._socket.close()
        if self._http is not None:
            await self._http.close()
