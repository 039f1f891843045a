"""`HomeServer` and `HassBackend` beyond the contract: tokens, REST, hostile clients, a lost server, a running clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

aiohttp = pytest.importorskip("aiohttp")

import asyncio  # noqa: E402

import httpx  # noqa: E402

from sandlot.envs.core.errors import EnvironmentFault, InvalidArgument  # noqa: E402
from sandlot.envs.smarthome.example import example_home  # noqa: E402
from sandlot.envs.smarthome.hass.backend import HassBackend  # noqa: E402
from sandlot.envs.smarthome.hass.server import HomeServer  # noqa: E402
from sandlot.envs.smarthome.sim.home import SimHome  # noqa: E402


@pytest.fixture
def server() -> Iterator[HomeServer]:
    with HomeServer(SimHome(example_home()), token="secret") as running:
        yield running


@pytest.fixture
def rest(server: HomeServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers={"Authorization": "Bearer secret"}) as client:
        yield client


def talk(server: HomeServer, *messages: Any, token: Any = "secret") -> list[dict[str, Any]]:
    """The answers to messages on a fresh WebSocket, those of the login first."""

    async def work() -> list[dict[str, Any]]:
        async with aiohttp.ClientSession() as session, session.ws_connect(f"{server.url}/api/websocket") as socket:
            answers = [await socket.receive_json()]
            await socket.send_json({"type": "auth", "access_token": token})
            answers.append(await socket.receive_json())
            for message in messages:
                await (socket.send_str(message) if isinstance(message, str) else socket.send_json(message))
                answers.append(await socket.receive_json(timeout=5))
            return answers

    return asyncio.run(work())


def test_only_this_machine_and_only_with_the_token(server: HomeServer) -> None:
    assert server.url.startswith("http://127.0.0.1:")
    assert httpx.get(f"{server.url}/api/states").status_code == 401
    for given in (b"Bearer wrong", b"secret", b"\xff\xfe"):
        headers = [(b"Authorization", given)]
        assert httpx.get(f"{server.url}/api/states", headers=headers).status_code == 401
    for token in ("wrong", "", "\ud800", 7, None):
        assert talk(server, token=token)[1]["type"] == "auth_invalid"
    with pytest.raises(InvalidArgument, match="does not accept the token"):
        HassBackend(server.url, "wrong")


def test_rest(rest: httpx.Client) -> None:
    assert rest.get("/api/").json() == {"message": "API running."}
    assert rest.get("/api/config").json()["version"] == "2024.3.3"
    assert len(rest.get("/api/states").json()) > 60
    lamp = rest.get("/api/states/light.bedside_lamp").json()
    assert lamp["state"] == "off" and lamp["last_changed"] == "2026-03-02T07:00:00+00:00"
    assert rest.get("/api/states/light.no").status_code == 404
    changed = rest.post("/api/services/light/turn_on", json={"entity_id": "light.bedside_lamp"}).json()
    assert [(item["entity_id"], item["state"]) for item in changed] == [("light.bedside_lamp", "on")]
    bad = rest.post("/api/services/light/turn_on", json={"entity_id": "light.bedside_lamp", "brightness_pct": 500})
    assert bad.status_code == 400 and "at most 100" in bad.json()["message"]
    assert rest.post("/api/services/light/nope").status_code == 400
    answer = rest.post("/api/services/todo/get_items?return_response", json={"entity_id": "todo.shopping"}).json()
    assert len(answer["service_response"]["todo.shopping"]["items"]) == 2
    domains = {item["domain"] for item in rest.get("/api/services").json()}
    assert {"light", "climate", "vacuum", "todo"} <= domains
    shown = rest.post("/api/template", json={"template": "{{ states('light.bedside_lamp') }}, {{ 1 + 1 }}"})
    assert shown.status_code == 400
    text = "{{ states('light.bedside_lamp') }} {{ state_attr('light.bedside_lamp', 'brightness') }} {{ now() }}"
    assert rest.post("/api/template", json={"template": text}).text == "on 255 2026-03-02T08:00:00+01:00"
    period = rest.get("/api/history/period", params={"filter_entity_id": "light.bedside_lamp,light.no"}).json()
    assert [[item["state"] for item in states] for states in period] == [["on"]]
    assert rest.get("/api/history/period").status_code == 400
    assert rest.get("/api/history/period/tomorrow?filter_entity_id=light.no").status_code == 400


@pytest.mark.parametrize("body", ["{", "[1]", '"x"', "null", "[" * 5000])
def test_broken_bodies_are_answered(rest: httpx.Client, body: str) -> None:
    for path in ("services/light/turn_on", "events/x", "config/automation/config/1", "sandlot/advance"):
        answer = rest.post(f"/api/{path}", content=body)
        assert answer.status_code == 400 and answer.json()["message"]
    assert rest.get("/api/").status_code == 200


@pytest.mark.parametrize("seconds", [-1, "x", None, True, 1e12, [1]])
def test_the_clock_takes_only_sensible_steps(rest: httpx.Client, seconds: Any) -> None:
    assert rest.post("/api/sandlot/advance", json={"seconds": seconds}).status_code == 400


def test_websocket_commands_and_what_is_none(server: HomeServer) -> None:
    answers = talk(
        server,
        {"id": 1, "type": "ping"},
        {"id": 2, "type": "get_config"},
        {"id": 3, "type": "config/area_registry/list"},
        {"id": 4, "type": "config/device_registry/list"},
        {"id": 5, "type": "config/entity_registry/list"},
        {"id": 6, "type": "config/floor_registry/list"},
        {"id": 7, "type": "make_coffee"},
        {"id": 7, "type": "ping"},
        "{nonsense",
        {"type": "ping"},
        {"id": "8", "type": "ping"},
        {"id": 9, "type": "call_service", "domain": 1, "service": []},
        {"id": 10, "type": "call_service", "domain": "light", "service": "turn_on", "service_data": 7},
        {"id": 11, "type": "unsubscribe_events", "subscription": 99},
        {"id": 12, "type": "fire_event"},
    )
    assert [answer["type"] for answer in answers[:3]] == ["auth_required", "auth_ok", "pong"]
    assert [len(answer["result"]) for answer in answers[4:8:3]] == [5, 2]
    assert answers[6]["result"][0]["entity_id"].count(".") == 1
    codes = [answer["error"]["code"] for answer in answers[8:]]
    assert codes[:2] == ["unknown_command", "id_reuse"] and codes[-2] == "not_found"
    assert set(codes[2:-2]) == {"invalid_format"}


def test_events_reach_those_who_subscribed(server: HomeServer) -> None:
    with HassBackend(server.url, server.token) as one, HassBackend(server.url, server.token) as other:
        mark = other._connection.received
        result = one.call_service("light", "turn_on", None, {"entity_id": "light.bathroom"})
        assert [state.entity_id for state in result.changed] == ["light.bathroom"]
        other.state("light.bathroom")  # an answer after the event
        seen = [event["data"]["entity_id"] for event in other._connection.since(mark)]
        assert "light.bathroom" in seen


def test_the_registry_travels_whole_and_areas_are_targets(server: HomeServer) -> None:
    with HassBackend(server.url, server.token) as backend:
        assert backend.registry() == SimHome(example_home()).registry()
        assert backend.states() == dict(SimHome(example_home()).states())
        result = backend.call_service("light", "turn_on", None, {"floor_id": "upper"})
        assert {state.entity_id for state in result.changed} == {"light.bathroom", "light.bedside_lamp"}


def test_a_lost_server_is_a_fault() -> None:
    with HomeServer(SimHome(example_home())) as server:
        backend = HassBackend(server.url, server.token, timeout=5)
    with pytest.raises(EnvironmentFault):
        backend.states()
    backend.close()
    backend.close()
    with pytest.raises(EnvironmentFault):
        backend.states()
    with pytest.raises(EnvironmentFault):
        HassBackend(server.url, server.token, timeout=2)


def test_a_clock_that_runs() -> None:
    with HomeServer(SimHome(example_home()), speed=600) as server, HassBackend(server.url, server.token) as backend:
        before = backend.now()
        time.sleep(1.2)
        assert 300 <= (backend.now() - before).total_seconds() <= 1800
        with pytest.raises(InvalidArgument, match="longest_wait"):
            backend.advance(10_000)


def test_a_port_in_use_is_said(server: HomeServer) -> None:
    port = int(server.url.rpartition(":")[2])
    with pytest.raises(InvalidArgument, match="cannot listen"):
        HomeServer(SimHome(example_home()), port=port)


def test_nothing_is_left_behind() -> None:
    before = {thread.ident for thread in threading.enumerate()}
    with HomeServer(SimHome(example_home())) as server, HassBackend(server.url, server.token):
        pass
    assert {thread.ident for thread in threading.enumerate()} == before
