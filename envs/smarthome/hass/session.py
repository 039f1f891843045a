"""One client of `HomeServer` on its WebSocket, in Home Assistant's dialect.

Commands: auth, ping, get_states, get_services, get_config, call_service, subscribe_events, unsubscribe_events,
fire_event, supported_features, and config/{floor,area,device,entity}_registry/list.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...core.errors import MissingExtra
from ..backend import EntityState
from .wire import registry_to_wire, state_to_wire, utc_text

try:
    from aiohttp import WSMsgType, web
except ModuleNotFoundError:
    raise MissingExtra("aiohttp", "smarthome") from None

if TYPE_CHECKING:
    from .server import HomeServer

_PATIENCE = 10.0  # seconds to present the token
_LARGEST = 2**20  # bytes of one message
_QUEUE = 4096  # messages that a slow client may owe: then it is cut off, as Home Assistant does


def same(given: str, secret: str) -> bool:
    """Whether a token is the right one, in a time that tells nothing about it."""
    return hmac.compare_digest(given.encode(errors="replace"), secret.encode())


class Session:
    """One connection."""

    def __init__(self, server: HomeServer, number: int) -> None:
        self._server, self._number = server, number
        self.socket = web.WebSocketResponse(max_msg_size=_LARGEST)
        self._subscriptions: dict[int, str | None] = {}
        self._outgoing: asyncio.Queue[str | None] = asyncio.Queue(_QUEUE)
        self._last = 0

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """Talk until the client leaves."""
        await self.socket.prepare(request)
        if not await self._authenticate():
            await self.socket.close()
            return self.socket
        writer = asyncio.create_task(self._write())
        self._server.sessions.add(self)
        try:
            async for message in self.socket:
                if message.type is not WSMsgType.TEXT:
                    break
                self._answer(message.data)
        finally:
            self._server.sessions.discard(self)
            writer.cancel()
        return self.socket

    async def _authenticate(self) -> bool:
        from .server import VERSION

        await self.socket.send_json({"type": "auth_required", "ha_version": VERSION})
        try:
            message = json.loads(await self.socket.receive_str(timeout=_PATIENCE))
            given = message.get("access_token") if message.get("type") == "auth" else None
        except (ValueError, TypeError, AttributeError, RecursionError, TimeoutError):
            given = None
        if not isinstance(given, str) or not same(given, self._server.token):
            await self.socket.send_json({"type": "auth_invalid", "message": "Invalid access token or password"})
            return False
        await self.socket.send_json({"type": "auth_ok", "ha_version": VERSION})
        return True

    async def _write(self) -> None:
        while (text := await self._outgoing.get()) is not None:
            await self.socket.send_str(text)
        await self.socket.close()

    def _send(self, message: Mapping[str, Any]) -> None:
        try:
            self._outgoing.put_nowait(json.dumps(message, default=str))
        except asyncio.QueueFull:
            self._server.sessions.discard(self)
            while not self._outgoing.empty():
                self._outgoing.get_nowait()
            self._outgoing.put_nowait(None)

    def publish(self, event_type: str, data: Mapping[str, Any]) -> None:
        """Tell the client about an event, where it has subscribed."""
        numbers = [number for number, wanted in self._subscriptions.items() if wanted in (None, event_type)]
        if not numbers:
            return
        event = {
            "event_type": event_type,
            "data": {key: state_to_wire(item) if isinstance(item, EntityState) else item for key, item in data.items()},
            "origin": "LOCAL",
            "time_fired": utc_text(self._server.home.time),
            "context": {"id": data["new_state"].cause if "new_state" in data else "home"},
        }
        for number in numbers:
            self._send({"id": number, "type": "event", "event": event})

    def _answer(self, text: str) -> None:
        try:
            message = json.loads(text)
            number, kind = message["id"], message["type"]
            if not isinstance(number, int) or not isinstance(kind, str):
                raise TypeError
        except (ValueError, TypeError, KeyError, RecursionError):
            return self._refuse(0, "invalid_format", "Message incorrectly formatted.")
        if number <= self._last:
            return self._refuse(number, "id_reuse", "Identifier values have to increase.")
        self._last = number
        if kind == "ping":
            return self._send({"id": number, "type": "pong"})
        command = _COMMANDS.get(kind)
        if command is None:
            return self._refuse(number, "unknown_command", "Unknown command.")
        return command(self, number, message)

    def _refuse(self, number: int, code: str, text: str) -> None:
        self._send({"id": number, "type": "result", "success": False, "error": {"code": code, "message": text}})

    def _result(self, number: int, result: Any) -> None:
        self._send({"id": number, "type": "result", "success": True, "result": result})

    def _get_states(self, number: int, message: Mapping[str, Any]) -> None:
        self._result(number, [state_to_wire(state) for state in self._server.home.states().values()])

    def _get_services(self, number: int, message: Mapping[str, Any]) -> None:
        self._result(number, self._server.home.services())

    def _get_config(self, number: int, message: Mapping[str, Any]) -> None:
        self._result(number, self._server.config())

    def _nothing(self, number: int, message: Mapping[str, Any]) -> None:
        self._result(number, None)

    def _call_service(self, number: int, message: Mapping[str, Any]) -> None:
        domain, service = message.get("domain"), message.get("service")
        if not isinstance(domain, str) or not isinstance(service, str):
            return self._refuse(number, "invalid_format", "required key not provided @ data['domain']")
        # The cause of what the call does is its context, by which clients know their own events.
        cause = f"client.{self._number}.{number}"
        home = self._server.home
        result = home.call_service(domain, service, message.get("service_data"), message.get("target"), cause=cause)
        if result.error is not None:
            text = result.error if result.code != "service_validation_error" else f"Validation error: {result.error}"
            return self._refuse(number, result.code or "unknown_error", text)
        answer: dict[str, Any] = {"context": {"id": cause, "parent_id": None, "user_id": None}}
        if message.get("return_response"):
            answer["response"] = result.response
        return self._result(number, answer)

    def _subscribe(self, number: int, message: Mapping[str, Any]) -> None:
        wanted = message.get("event_type")
        self._subscriptions[number] = None if wanted is None else str(wanted)
        self._result(number, None)

    def _unsubscribe(self, number: int, message: Mapping[str, Any]) -> None:
        subscription = message.get("subscription")
        if not isinstance(subscription, int) or subscription not in self._subscriptions:
            return self._refuse(number, "not_found", "Subscription not found.")
        del self._subscriptions[subscription]
        return self._result(number, None)

    def _fire(self, number: int, message: Mapping[str, Any]) -> None:
        data = message.get("event_data") or {}
        if not isinstance(message.get("event_type"), str) or not isinstance(data, Mapping):
            return self._refuse(number, "invalid_format", "required key not provided @ data['event_type']")
        self._server.home.fire_event(message["event_type"], data)
        return self._result(number, None)

    def _registry(self, number: int, message: Mapping[str, Any]) -> None:
        kind = message["type"].removeprefix("config/").removesuffix("_registry/list")
        self._result(number, registry_to_wire(self._server.home.registry(), kind))


_COMMANDS = {
    "get_states": Session._get_states,
    "get_services": Session._get_services,
    "get_config": Session._get_config,
    "call_service": Session._call_service,
    "subscribe_events": Session._subscribe,
    "unsubscribe_events": Session._unsubscribe,
    "fire_event": Session._fire,
    "supported_features": Session._nothing,
    **{f"config/{kind}_registry/list": Session._registry for kind in ("floor", "area", "device", "entity")},
}
