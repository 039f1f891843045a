"""`HassBackend`: a Home Assistant server as a `HomeBackend`, over its REST and WebSocket API.

A real home has no snapshots: `restore` calls the services that set the saved states again, as far as there are such
services, and `advance` waits. Before a `HomeServer`, `advance` moves its virtual clock instead.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ...core.errors import EnvironmentFault, InvalidArgument
from ..backend import Area, EntityState, Registry, ServiceResult
from ..frozen import FrozenDict
from ..sim.reproduce import calls_for
from .connection import Connection, Refusal
from .wire import registry_from_wire, state_from_wire

_LISTS = ("floor", "area", "device", "entity")
_VALIDATION = "Validation error: "
_WAIT = 0.05  # seconds between two looks at what should soon be there


class HassBackend:
    """A Home Assistant server.

    Args:
        url: "http://host:8123".
        token: a long-lived access token (in Home Assistant: profile, security).
        timeout: seconds for any answer.
        longest_wait: `advance` refuses to wait longer than this many seconds of real time.

    Raises:
        InvalidArgument: the server does not accept the token.
        EnvironmentFault: the server cannot be reached.
    """

    def __init__(self, url: str, token: str, *, timeout: float = 30.0, longest_wait: float = 3600.0) -> None:
        self._connection = Connection(url, token, timeout)
        self._longest_wait = longest_wait
        config = self._connection.command("get_config")
        self.version = str(config["version"])
        """Home Assistant's version."""
        self._virtual = bool((config.get("sandlot") or {}).get("virtual_clock"))
        self._responding = {
            (domain, name)
            for domain, services in self.services().items()
            for name, service in services.items()
            if "response" in service
        }
        self._first = self.states()

    def states(self) -> Mapping[str, EntityState]:
        """Every entity's state by id."""
        return {item["entity_id"]: state_from_wire(item) for item in self._connection.command("get_states")}

    def state(self, entity_id: str) -> EntityState | None:
        """One entity's state, or None where there is no such entity."""
        status, body = self._connection.rest("GET", f"/api/states/{entity_id}")
        return state_from_wire(body) if status == 200 else None

    def call_service(
        self,
        domain: str,
        service: str,
        data: Mapping[str, Any] | None = None,
        target: Mapping[str, str | Sequence[str]] | None = None,
        *,
        cause: str = "agent",
    ) -> ServiceResult:
        """Call `domain.service`; a refusal is the result's `error`, in the server's words."""
        message: dict[str, Any] = {"domain": domain, "service": service, "service_data": dict(data or {})}
        if target:
            message["target"] = dict(target)
        if (domain, service) in self._responding:
            message["return_response"] = True
        mark = self._connection.received
        try:
            result = self._connection.command("call_service", **message)
        except Refusal as refusal:
            text = str(refusal).removeprefix(_VALIDATION)
            return ServiceResult(error=text, code=refusal.code)
        mine = (result.get("context") or {}).get("id")
        changed = {
            event["data"]["entity_id"]: state_from_wire(event["data"]["new_state"])
            for event in self._connection.since(mark)
            if event["event_type"] == "state_changed"
            and (event.get("context") or {}).get("id") == mine
            and event["data"].get("new_state")
        }
        return ServiceResult(tuple(changed.values()), response=result.get("response"))

    def services(self) -> Mapping[str, Mapping[str, Any]]:
        """Domain -> service -> description."""
        return self._connection.command("get_services")

    def areas(self) -> Sequence[Area]:
        """The areas, sorted by id."""
        return sorted(self.registry().areas.values(), key=lambda area: area.id)

    def registry(self) -> Registry:
        """Floors (from 2024.4 on), areas, devices and entities."""
        lists: dict[str, list[dict[str, Any]]] = {}
        for kind in _LISTS:
            try:
                lists[kind] = self._connection.command(f"config/{kind}_registry/list")
            except Refusal as refusal:
                if refusal.code != "unknown_command":
                    raise EnvironmentFault(f"config/{kind}_registry/list: {refusal}") from refusal
                lists[kind] = []
        return registry_from_wire(lists["floor"], lists["area"], lists["device"], lists["entity"], self.states())

    def now(self) -> datetime:
        """The home's local time, with its UTC offset."""
        status, text = self._connection.rest("POST", "/api/template", {"template": "{{ now().isoformat() }}"})
        if status != 200:
            raise EnvironmentFault(f"Home Assistant does not tell its time: {text}")
        return datetime.fromisoformat(str(text))

    def advance(self, seconds: float) -> None:
        """Wait; before a server with a virtual clock, move the clock.

        Raises:
            InvalidArgument: a wait of more than `longest_wait` in real time.
        """
        if self._virtual:
            status, body = self._connection.rest("POST", "/api/sandlot/advance", {"seconds": seconds})
            if status != 200:
                raise InvalidArgument(f"the server does not advance by {seconds} s: {body}")
        elif not 0 <= seconds <= self._longest_wait:
            raise InvalidArgument(
                f"waiting {seconds} s in real time: raise longest_wait (now {self._longest_wait:g} s)"
            )
        else:
            time.sleep(seconds)

    def history(self, entity_id: str, start: datetime | None = None, end: datetime | None = None) -> list[EntityState]:
        """An entity's states over a period, oldest first, beginning with the one that held at `start`.

        From the server's recorder; a server without one is asked for what was seen since this connection began.
        """
        path = "/api/history/period" + (f"/{start.astimezone(UTC).isoformat()}" if start else "")
        query = {"filter_entity_id": entity_id}
        if end is not None:
            query["end_time"] = end.astimezone(UTC).isoformat()
        status, body = self._connection.rest("GET", path, **query)
        if status == 200:
            return [state_from_wire(item) for item in body[0]] if body else []
        first = self._first.get(entity_id)
        seen = [first] if first is not None else []
        seen += [
            state_from_wire(event["data"]["new_state"])
            for event in list(self._connection.events)
            if event["event_type"] == "state_changed"
            and event["data"]["entity_id"] == entity_id
            and event["data"].get("new_state")
        ]
        until = float("inf") if end is None else end.timestamp()
        since = 0.0 if start is None else start.timestamp()
        seen = [state for state in seen if state.last_updated <= until]
        late = [state for state in seen if state.last_updated > since]
        early = [state for state in seen if state.last_updated <= since]
        return early[-1:] + late

    def automations(self) -> Mapping[str, Mapping[str, Any]]:
        """Automation id -> its configuration, for those that the server's editor can show."""
        found: dict[str, Mapping[str, Any]] = {}
        for entity_id, state in self.states().items():
            number = state.attributes.get("id")
            if entity_id.startswith("automation.") and number is not None:
                status, body = self._connection.rest("GET", f"/api/config/automation/config/{number}")
                if status == 200:
                    found[str(number)] = FrozenDict({"id": str(number), **body})
        return found

    def add_automation(self, config: Mapping[str, Any]) -> ServiceResult:
        """Create or replace the automation `config["id"]`; the response holds its "entity_id"."""
        number = str(config.get("id") or config.get("alias") or "")
        if not number.replace("_", "").replace("-", "").isalnum():
            return ServiceResult(error="Message malformed: an automation needs an id", code="invalid_format")
        body = {key: value for key, value in config.items() if key != "id"}
        status, answer = self._connection.rest("POST", f"/api/config/automation/config/{number}", body)
        if status != 200:
            return ServiceResult(error=_message(answer), code="invalid_format")
        for _ in range(100):  # the server reloads its automations after it has answered
            for state in self.states().values():
                if state.domain == "automation" and str(state.attributes.get("id")) == number:
                    return ServiceResult((state,), response={"entity_id": state.entity_id})
            time.sleep(_WAIT)
        raise EnvironmentFault(f"Home Assistant stored the automation {number} and does not show it")

    def remove_automation(self, automation_id: str) -> ServiceResult:
        """Delete an automation."""
        status, answer = self._connection.rest("DELETE", f"/api/config/automation/config/{automation_id}")
        if status != 200:
            return ServiceResult(error=_message(answer), code="not_found")
        return ServiceResult()

    def fire_event(self, event_type: str, data: Mapping[str, Any] | None = None) -> None:
        """Fire an event on the home's bus."""
        self._connection.command("fire_event", event_type=event_type, event_data=dict(data or {}))

    def snapshot(self) -> Mapping[str, EntityState]:
        """The states of everything now."""
        return self.states()

    def restore(self, snapshot: Mapping[str, EntityState]) -> None:
        """Call the services that set the saved states again; what takes time in a real home takes it here too."""
        now = self.states()
        for entity_id, wanted in snapshot.items():
            current = now.get(entity_id)
            if current is not None:
                for service, data in calls_for(current, wanted.state, wanted.attributes):
                    self.call_service(current.domain, service, {**data, "entity_id": entity_id}, cause="restore")

    def close(self) -> None:
        """Leave; harmless when repeated."""
        self._connection.close()

    def __enter__(self) -> HassBackend:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _message(answer: Any) -> str:
    return str(answer.get("message", answer)) if isinstance(answer, Mapping) else str(answer)
