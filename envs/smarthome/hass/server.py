"""`HomeServer`: a `SimHome` behind Home Assistant's REST and WebSocket protocol (the subset that clients need).

REST: `GET /api/`, `/api/config`, `/api/states[/<id>]`, `/api/services`, `/api/history/period[/<start>]`;
`POST /api/services/<domain>/<service>`, `/api/events/<type>`, `/api/template`;
`GET`, `POST` and `DELETE /api/config/automation/config/<id>`. WebSocket: see `session`. Every request needs the
bearer token. The home's clock stands still unless `speed` is set or somebody posts to `/api/sandlot/advance`.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from ...core.errors import InvalidArgument, MissingExtra
from ..backend import ServiceResult
from ..sim.home import SimHome
from .template import BadTemplate, render
from .wire import state_to_wire

try:
    from aiohttp import web
except ModuleNotFoundError:
    raise MissingExtra("aiohttp", "smarthome") from None

from .session import Session, same

VERSION = "2024.3.3"  # the release whose protocol is spoken
_BEAT = 0.5  # seconds of real time between two steps of a clock that runs
_ADVANCE = 366 * 86400.0  # seconds that one request may let pass
_STATUS = {"invalid_format": 400, "not_found": 400, "service_validation_error": 400}


class HomeServer:
    """Serves one home from a thread of its own. Use it as a context manager, or call `close`.

    While it runs, only the server touches the home; reach it through the protocol.

    Args:
        home: the home.
        host: the interface; by default this machine only.
        port: 0 chooses a free one.
        token: what clients must present; by default a fresh random one.
        speed: seconds of home time per second of real time; 0 leaves the clock to `/api/sandlot/advance`.

    Raises:
        InvalidArgument: the port cannot be opened.
    """

    def __init__(
        self, home: SimHome, *, host: str = "127.0.0.1", port: int = 0, token: str | None = None, speed: float = 0.0
    ) -> None:
        self.home = home
        self.token = token or secrets.token_urlsafe(24)
        self.speed = speed
        self.sessions: set[Session] = set()
        self._host, self._port = host, port
        self._accepted = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._failure: OSError | None = None
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="home-server", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise InvalidArgument(f"cannot listen on {host}:{port}: {self._failure.strerror}")

    @property
    def url(self) -> str:
        """Where it listens, e.g. "http://127.0.0.1:8123"."""
        return f"http://{self._host}:{self._port}"

    def close(self) -> None:
        """Stop; harmless when repeated."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def __enter__(self) -> HomeServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()
            self._ready.set()

    async def _serve(self) -> None:
        runner = web.AppRunner(self._app(), handle_signals=False, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, self._host, self._port)
            await site.start()
            self._port = runner.addresses[0][1]
            self.home.listeners.append(self._publish)
            self._ready.set()
            beat = asyncio.create_task(self._beat()) if self.speed else None
            await self._stopping.wait()
            if beat is not None:
                beat.cancel()
            self.home.listeners.remove(self._publish)
            for session in list(self.sessions):
                await session.socket.close()
        except OSError as error:
            self._failure = error
        finally:
            await runner.cleanup()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_BEAT)
            self.home.advance(_BEAT * self.speed)

    def _publish(self, event_type: str, data: Any) -> None:
        for session in self.sessions:
            session.publish(event_type, data)

    # -- REST -----------------------------------------------------------------------------------------------------

    def _app(self) -> web.Application:
        app = web.Application(middlewares=[self._guard], client_max_size=2**20)
        app.add_routes(
            [
                web.get("/api/websocket", self._websocket),
                web.get("/api/", self._status),
                web.get("/api/config", self._config),
                web.get("/api/states", self._states),
                web.get("/api/states/{entity_id}", self._state),
                web.get("/api/services", self._services),
                web.post("/api/services/{domain}/{service}", self._call),
                web.post("/api/events/{event_type}", self._fire),
                web.get("/api/history/period", self._history),
                web.get("/api/history/period/{start}", self._history),
                web.post("/api/template", self._template),
                web.get("/api/config/automation/config/{id}", self._get_automation),
                web.post("/api/config/automation/config/{id}", self._set_automation),
                web.delete("/api/config/automation/config/{id}", self._delete_automation),
                web.post("/api/sandlot/advance", self._advance),
            ]
        )
        return app

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if request.path != "/api/websocket":  # which asks for the token itself
            given = request.headers.get("Authorization", "")
            if not same(given, f"Bearer {self.token}"):
                return web.Response(status=401, text="401: Unauthorized")
        return await handler(request)

    async def _websocket(self, request: web.Request) -> web.WebSocketResponse:
        self._accepted += 1
        return await Session(self, self._accepted).serve(request)

    async def _status(self, request: web.Request) -> web.Response:
        return web.json_response({"message": "API running."})

    def config(self) -> dict[str, Any]:
        """The answer to `GET /api/config` and `get_config`."""
        spec = self.home.spec
        return {
            "location_name": spec.name,
            "latitude": spec.latitude,
            "longitude": spec.longitude,
            "elevation": 0,
            "unit_system": {"length": "km", "temperature": "°C", "mass": "g", "volume": "L"},
            "time_zone": f"Etc/GMT{-spec.utc_offset:+g}" if spec.utc_offset else "UTC",
            "components": sorted(self.home.services()),
            "version": VERSION,
            "state": "RUNNING",
            "sandlot": {"virtual_clock": not self.speed},
        }

    async def _config(self, request: web.Request) -> web.Response:
        return web.json_response(self.config())

    async def _states(self, request: web.Request) -> web.Response:
        return web.json_response([state_to_wire(state) for state in self.home.states().values()])

    async def _state(self, request: web.Request) -> web.Response:
        state = self.home.state(request.match_info["entity_id"])
        if state is None:
            return web.json_response({"message": "Entity not found."}, status=404)
        return web.json_response(state_to_wire(state))

    async def _services(self, request: web.Request) -> web.Response:
        services = self.home.services()
        return web.json_response([{"domain": domain, "services": services[domain]} for domain in services])

    async def _call(self, request: web.Request) -> web.Response:
        data = await _json(request)
        if data is None:
            return web.json_response({"message": "Data should be valid JSON."}, status=400)
        result = self.home.call_service(request.match_info["domain"], request.match_info["service"], data)
        if result.error is not None:
            return _refusal(result)
        changed = [state_to_wire(state) for state in result.changed]
        if "return_response" in request.query:
            return web.json_response({"changed_states": changed, "service_response": result.response})
        return web.json_response(changed)

    async def _fire(self, request: web.Request) -> web.Response:
        data = await _json(request)
        if data is None:
            return web.json_response({"message": "Event data should be valid JSON."}, status=400)
        self.home.fire_event(request.match_info["event_type"], data)
        return web.json_response({"message": f"Event {request.match_info['event_type']} fired."})

    async def _history(self, request: web.Request) -> web.Response:
        wanted = request.query.get("filter_entity_id")
        if not wanted:
            return web.json_response({"message": "filter_entity_id is missing"}, status=400)
        try:
            start, end = (
                datetime.fromisoformat(text.replace(" ", "+")) if text else None
                for text in (request.match_info.get("start"), request.query.get("end_time"))
            )
        except ValueError:
            return web.json_response({"message": "Invalid datetime"}, status=400)
        found = [self.home.history(entity_id.strip(), start, end) for entity_id in wanted.lower().split(",")]
        return web.json_response([[state_to_wire(state) for state in states] for states in found if states])

    async def _template(self, request: web.Request) -> web.Response:
        data = await _json(request)
        try:
            return web.Response(text=render(self.home, str((data or {}).get("template", ""))))
        except BadTemplate as error:
            return web.json_response({"message": f"Error rendering template: {error}"}, status=400)

    async def _get_automation(self, request: web.Request) -> web.Response:
        config = self.home.automations().get(request.match_info["id"])
        if config is None:
            return web.json_response({"message": "Resource not found"}, status=404)
        return web.json_response(dict(config))

    async def _set_automation(self, request: web.Request) -> web.Response:
        data = await _json(request)
        if data is None:
            return web.json_response({"message": "Invalid JSON specified"}, status=400)
        result = self.home.add_automation({**data, "id": request.match_info["id"]})
        return _refusal(result) if result.error is not None else web.json_response({"result": "ok"})

    async def _delete_automation(self, request: web.Request) -> web.Response:
        result = self.home.remove_automation(request.match_info["id"])
        return _refusal(result) if result.error is not None else web.json_response({"result": "ok"})

    async def _advance(self, request: web.Request) -> web.Response:
        data = await _json(request)
        seconds = (data or {}).get("seconds")
        if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 <= seconds <= _ADVANCE:
            return web.json_response({"message": f"seconds must be a number from 0 to {_ADVANCE:g}"}, status=400)
        self.home.advance(float(seconds))
        return web.json_response({"now": self.home.now().isoformat()})


async def _json(request: web.Request) -> dict[str, Any] | None:
    """The body as a mapping; {} where it is empty, None where it is something else."""
    text = await request.text()
    try:
        data = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _refusal(result: ServiceResult) -> web.Response:
    return web.json_response({"message": result.error}, status=_STATUS.get(result.code or "", 500))
