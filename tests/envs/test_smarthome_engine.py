"""`SimHome`: devices over time, the rooms' air, people, energy, faults, automations, snapshots and hostile calls."""

from __future__ import annotations

import json
import math
import pickle
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs.core.errors import InvalidArgument
from sandlot.envs.smarthome.backend import EntityState, HomeBackend
from sandlot.envs.smarthome.example import example_home
from sandlot.envs.smarthome.sim.air import AIR_HEAT, saturation
from sandlot.envs.smarthome.sim.catalogue import DOMAINS
from sandlot.envs.smarthome.sim.document import rewrite
from sandlot.envs.smarthome.sim.draws import uniform
from sandlot.envs.smarthome.sim.home import SimHome
from sandlot.envs.smarthome.spec import (
    ActivitySpec,
    EntitySpec,
    FaultSpec,
    HomeSpec,
    LinkSpec,
    OpeningSpec,
    ResidentSpec,
    RoomSpec,
    WeatherPoint,
)

LAMP = EntitySpec("light.lamp", "Lamp", area="room")
ROOM = RoomSpec("room", "Room", window=0.0)


def home(*entities: EntitySpec, strict: bool = False, **more: Any) -> SimHome:
    return SimHome(HomeSpec("test", **{"rooms": (ROOM,), "entities": entities, **more}), strict=strict)


def call(sim: SimHome, name: str, entity_id: str | None = None, **data: Any) -> None:
    domain, _, service = name.partition(".")
    result = sim.call_service(domain, service, data, {"entity_id": entity_id} if entity_id else None)
    assert result.ok, result.error


def get(sim: SimHome, entity_id: str) -> EntityState:
    found = sim.state(entity_id)
    assert found is not None
    return found


# -- the home as a whole --------------------------------------------------------------------------------------------


def test_the_protocol_is_kept() -> None:
    backend: HomeBackend = SimHome(example_home())
    assert backend.now().isoformat() == "2026-03-02T08:00:00+01:00"
    assert [area.id for area in backend.areas()] == ["bathroom", "bedroom", "garden", "kitchen", "living_room"]
    assert backend.registry().area_of("switch.washer") == "bathroom"  # its device's
    assert backend.registry().of_device("robot") == ["vacuum.robot"]
    assert "light.bedside_lamp" in backend.registry().on_floor("upper")


def test_the_example_has_every_domain() -> None:
    sim = SimHome(example_home())
    missing = {name for name, domain in DOMAINS.items() if domain.states != "(no entities)"}
    missing -= {entity.partition(".")[0] for entity in sim.states()}
    assert missing == {"input_text", "input_button", "device_tracker"}
    assert len(DOMAINS) >= 30


def test_a_description_travels_as_json() -> None:
    spec = example_home()
    again = HomeSpec.from_json(json.loads(json.dumps(spec.to_json())))
    assert SimHome(again).key() == SimHome(spec).key()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"entities": (replace(LAMP, entity_id="rocket.x"),)}, "no known domain"),
        ({"entities": (LAMP, LAMP)}, "twice"),
        ({"entities": (replace(LAMP, area="attic"),)}, "no known room"),
        ({"entities": (replace(LAMP, device="d"),)}, "no known device"),
        ({"links": (LinkSpec("room", "attic"),)}, "no known room"),
        ({"faults": (FaultSpec("light.no", "stuck"),)}, "fault of no known entity"),
        ({"automations": ({"id": "a", "trigger": {"platform": "moon"}, "action": []},)}, "automation 'a'"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        SimHome(HomeSpec("test", **{"rooms": (ROOM,), **change}))


def test_equal_calls_give_equal_homes_in_any_process() -> None:
    program = """
from sandlot.envs.smarthome.example import example_home
from sandlot.envs.smarthome.sim.home import SimHome
sim = SimHome(example_home())
sim.call_service("climate", "turn_off", None, {"area_id": "living_room"})
sim.advance(40_000)
print(sim.key().hex(), sim.rooms()["bedroom"])
"""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("0", "1")
    }
    assert len(outputs) == 1


def test_the_way_time_is_cut_does_not_matter() -> None:
    whole, parts = SimHome(example_home()), SimHome(example_home())
    whole.advance(7000)
    for seconds in (1, 299, 300, 0.5, 6399.5):
        parts.advance(seconds)
        parts.rooms()  # looking changes nothing
        parts.history("light.garden")
    assert whole.key() == parts.key()


@settings(max_examples=10, deadline=None)
@given(st.lists(st.sampled_from(["lamp", "blind", "heat", "lock", "wash", "wait", "rule", "window"]), max_size=8))
def test_a_snapshot_is_an_exact_branch_point(steps: list[str]) -> None:
    sim = SimHome(example_home())

    def do(step: str) -> None:
        if step == "lamp":
            call(sim, "light.toggle", "light.living_room_lamp")
        elif step == "blind":
            call(sim, "cover.toggle", "cover.living_room_blind")
        elif step == "heat":
            call(sim, "climate.set_temperature", "climate.living_room", temperature=23)
        elif step == "lock":
            call(sim, "lock.unlock", "lock.front_door")
        elif step == "wash":
            call(sim, "switch.toggle", "switch.washer")
        elif step == "rule":
            action = [{"delay": 60}, {"action": "light.turn_on", "target": {"entity_id": "light.bathroom"}}]
            sim.add_automation(
                {"id": "r", "alias": "R", "triggers": [{"trigger": "time", "at": "09:00"}], "actions": action}
            )
        elif step == "window":
            sim.set_opening("bedroom_window", not sim.openings["bedroom_window"])
        else:
            sim.advance(777)

    for step in steps[: len(steps) // 2]:
        do(step)
    saved = pickle.loads(pickle.dumps(sim.snapshot()))
    key = sim.key()
    for step in steps[len(steps) // 2 :]:
        do(step)
    sim.advance(5000)
    after, states = sim.key(), dict(sim.states())
    sim.restore(saved)
    assert sim.key() == key
    other = SimHome(example_home())
    other.restore(saved)
    assert other.key() == key
    for step in steps[len(steps) // 2 :]:
        do(step)
    sim.advance(5000)
    assert sim.key() == after and dict(sim.states()) == states


def test_draws_belong_to_their_names() -> None:
    assert uniform("a", 1) == uniform("a", 1) != uniform("a", 2)
    mean = sum(uniform("n", number) for number in range(1000)) / 1000
    assert abs(mean - 0.5) < 0.03  # the standard error is 0.009


def test_the_device_table_in_the_documentation_is_current() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "smarthome_engine.md").read_text(encoding="utf-8")
    assert rewrite(page) == page, "run python -m sandlot.envs.smarthome.sim.document docs/smarthome_engine.md"


# -- devices over time ----------------------------------------------------------------------------------------------


def test_a_blind_moves_at_its_speed() -> None:
    sim = home(EntitySpec("cover.blind", "Blind", area="room", attributes={"current_position": 100}))
    call(sim, "cover.close_cover", "cover.blind")
    assert get(sim, "cover.blind").state == "closing"
    sim.advance(5)  # of 20 seconds
    call(sim, "cover.stop_cover", "cover.blind")
    assert get(sim, "cover.blind").state == "open"
    assert get(sim, "cover.blind").attributes["current_position"] == 75
    call(sim, "cover.set_cover_position", "cover.blind", position=0)
    sim.advance(14.9)  # 75 % take 15 seconds
    assert get(sim, "cover.blind").state == "closing"
    sim.advance(0.2)
    assert get(sim, "cover.blind").state == "closed"


def test_turning_round_on_the_way() -> None:
    sim = home(EntitySpec("cover.garage", "Garage", area="room", attributes={"device_class": "garage"}))
    call(sim, "cover.open_cover", "cover.garage")
    sim.advance(6)  # of 15 seconds: 40 % open
    call(sim, "cover.close_cover", "cover.garage")
    sim.advance(5.9)
    assert get(sim, "cover.garage").state == "closing"
    sim.advance(0.2)
    assert get(sim, "cover.garage").state == "closed"


def test_an_appliance_runs_its_program() -> None:
    sim = SimHome(example_home())
    heard: list[str] = []
    sim.listeners.append(lambda kind, data: heard.append(kind) if kind != "state_changed" else None)
    call(sim, "select.select_option", "select.washer_program", option="quick")
    call(sim, "switch.turn_on", "switch.washer")
    assert get(sim, "sensor.washer_power").state == "500.0"
    sim.advance(29 * 60)
    assert get(sim, "switch.washer").state == "on"
    sim.advance(2 * 60)
    assert get(sim, "switch.washer").state == "off" and heard == ["appliance_finished"]
    sim.advance(300)
    # half an hour at 500 W, and 0.5 W for about 6 minutes: 0.25 kWh
    assert get(sim, "sensor.washer_energy").state == "0.25"


def test_a_car_charges_to_its_limit() -> None:
    sim = SimHome(example_home())
    call(sim, "switch.turn_on", "switch.car")
    sim.advance(3600)
    assert get(sim, "sensor.car_battery").state == "53"  # 35 % + 11 of 60 kWh
    call(sim, "switch.turn_off", "switch.car")
    sim.advance(3600)
    call(sim, "number.set_value", "number.ev_limit", value=75)
    call(sim, "switch.turn_on", "switch.car")
    sim.advance(3600)
    call(sim, "number.set_value", "number.ev_limit", value=80)
    sim.advance(1700)  # 26.67 % of 60 kWh take 5236 seconds
    assert get(sim, "switch.car").state == "off" and get(sim, "sensor.car_battery").state == "80"
    assert [event[1] for event in sim.journal.events] == ["charging_finished"]


def test_a_vacuum_works_returns_and_charges() -> None:
    sim = home(EntitySpec("vacuum.robot", "Robot", area="room"))
    call(sim, "vacuum.start", "vacuum.robot")
    sim.advance(20 * 60)
    call(sim, "vacuum.pause", "vacuum.robot")
    sim.advance(3600)
    call(sim, "vacuum.start", "vacuum.robot")
    sim.advance(24 * 60)
    assert get(sim, "vacuum.robot").state == "cleaning"  # 20 + 24 of 45 minutes
    sim.advance(2 * 60)
    assert get(sim, "vacuum.robot").state == "returning"
    sim.advance(2 * 60)
    assert get(sim, "vacuum.robot").state == "docked"
    # 45 minutes of work and 2 of the way home, at 100 % in 120 minutes: 39 % used
    assert get(sim, "vacuum.robot").attributes["battery_level"] == pytest.approx(61, abs=1)
    sim.advance(3 * 3600)
    assert get(sim, "vacuum.robot").attributes["battery_level"] == 100


def test_an_empty_vacuum_goes_home_and_does_not_start() -> None:
    sim = home(
        EntitySpec("vacuum.robot", "Robot", area="room", attributes={"battery_level": 20}, params={"work_time": 9999})
    )
    call(sim, "vacuum.start", "vacuum.robot")
    sim.advance(20 * 60)  # 10 % last 12 minutes
    assert get(sim, "vacuum.robot").state == "docked"
    sim.set_fault("vacuum.robot", "low_battery")
    result = sim.call_service("vacuum", "start", None, {"entity_id": "vacuum.robot"})
    assert result.error == "Robot cannot start: the battery is too low." and get(sim, "vacuum.robot").state == "docked"


def test_a_lock_asks_for_its_code() -> None:
    sim = SimHome(example_home())
    wrong = [{}, {"code": "12"}, {"code": "0000"}]
    for data in wrong:
        assert not sim.call_service("lock", "unlock", data, {"entity_id": "lock.back_door"}).ok
    call(sim, "lock.unlock", "lock.back_door", code="4711")
    assert get(sim, "lock.back_door").state == "unlocking"
    sim.advance(2)
    assert get(sim, "lock.back_door").state == "unlocked"


def test_an_alarm_waits_for_people_to_leave() -> None:
    sim = SimHome(example_home())
    alarm = "alarm_control_panel.home"
    call(sim, "alarm_control_panel.alarm_arm_away", alarm)
    assert get(sim, alarm).state == "arming"
    sim.advance(30)
    assert get(sim, alarm).state == "armed_away"
    wrong = sim.call_service("alarm_control_panel", "alarm_disarm", {"code": "1"}, {"entity_id": alarm})
    assert wrong.error == "Invalid alarm code provided" and get(sim, alarm).state == "armed_away"
    call(sim, "alarm_control_panel.alarm_disarm", alarm, code="1234")
    assert get(sim, alarm).state == "disarmed"


def test_lists_and_calendars() -> None:
    sim = SimHome(example_home())
    call(sim, "todo.add_item", "todo.shopping", item="eggs", due_date="2026-03-04")
    call(sim, "todo.update_item", "todo.shopping", item="milk", status="completed")
    assert get(sim, "todo.shopping").state == "2"
    found = sim.call_service("todo", "get_items", {"status": "needs_action"}, {"entity_id": "todo.shopping"}).response
    summaries = [item["summary"] for item in found["todo.shopping"]["items"]]
    assert summaries == ["bread", "eggs"]
    missing = sim.call_service("todo", "remove_item", {"item": "jam"}, {"entity_id": "todo.shopping"})
    assert missing.error == "Unable to find To-do item 'jam'"
    day = {"start_date_time": "2026-03-02 00:00:00", "end_date_time": "2026-03-03 00:00:00"}
    events = sim.call_service("calendar", "get_events", day, {"entity_id": "calendar.family"}).response
    assert [event["summary"] for event in events["calendar.family"]["events"]] == ["Swimming"]
    sim.advance(10 * 3600 + 1)
    assert get(sim, "calendar.family").state == "on"
    sim.advance(3600)
    assert get(sim, "calendar.family").state == "off"


def test_scenes_and_scripts() -> None:
    sim = SimHome(example_home())
    call(sim, "scene.turn_on", "scene.movie")
    sim.advance(25)
    assert get(sim, "light.living_room_lamp").attributes["brightness"] == 40
    assert get(sim, "cover.living_room_blind").state == "closed"
    call(sim, "scene.create", scene_id="before", snapshot_entities=["light.living_room_lamp"])
    call(sim, "light.turn_off", "light.living_room_lamp")
    call(sim, "scene.turn_on", "scene.before")
    assert get(sim, "light.living_room_lamp").attributes["brightness"] == 40
    call(sim, "scene.delete", "scene.before")
    assert sim.state("scene.before") is None
    call(sim, "lock.unlock", "lock.front_door")
    call(sim, "script.good_night")
    assert get(sim, "script.good_night").state == "on" and get(sim, "light.kitchen_ceiling").state == "off"
    sim.advance(63)
    assert get(sim, "script.good_night").state == "off" and get(sim, "lock.front_door").state == "locked"


# -- targets and errors ---------------------------------------------------------------------------------------------


def test_areas_floors_devices_and_all() -> None:
    sim = SimHome(example_home())
    sim.call_service("light", "turn_on", None, {"area_id": ["bedroom", "bathroom"]})
    assert get(sim, "light.bedside_lamp").state == get(sim, "light.bathroom").state == "on"
    sim.call_service("light", "turn_off", None, {"floor_id": "upper"})
    assert get(sim, "light.bedside_lamp").state == "off" and get(sim, "light.kitchen_ceiling").state == "on"
    sim.call_service("light", "turn_off", None, {"entity_id": "all"})
    assert get(sim, "light.kitchen_ceiling").state == "off"
    assert sim.call_service("vacuum", "start", None, {"device_id": "robot"}).changed[0].state == "cleaning"
    result = sim.call_service("homeassistant", "turn_on", None, {"area_id": "bathroom"})
    assert result.ok and get(sim, "light.bathroom").state == get(sim, "fan.bathroom").state == "on"


def test_what_is_not_there() -> None:
    faithful, strict = home(LAMP), home(LAMP, strict=True)
    for target in ({"entity_id": "light.no"}, {"area_id": "attic"}, {"entity_id": ["light.lamp", "light.no"]}):
        passed = faithful.call_service("light", "turn_on", None, target)
        assert passed.ok and "missing or not currently available" in passed.warnings[0]
        refused = strict.call_service("light", "turn_on", None, target)
        assert refused.code == "not_found" and get(strict, "light.lamp").state == "off"
    assert get(faithful, "light.lamp").state == "on"  # the one that is there
    nothing = strict.call_service("fan", "turn_on", None, {"area_id": "room"})
    assert nothing.error == "No entity of the domain fan matches the target."


def test_a_call_is_all_or_nothing() -> None:
    limits = {"min_temp": 7, "max_temp": 18}
    sim = home(EntitySpec("climate.a", "A", area="room"), EntitySpec("climate.b", "B", area="room", attributes=limits))
    before = sim.key()
    result = sim.call_service("climate", "set_temperature", {"temperature": 22}, {"area_id": "room"})
    assert result.error == "Provided temperature 22.0 is not valid. Accepted range is 7 to 18"
    assert sim.key() == before


def test_every_call_is_in_the_log() -> None:
    sim = home(LAMP)
    sim.call_service("light", "turn_on", {"brightness": 999}, {"entity_id": "light.lamp"})
    call(sim, "light.turn_on", "light.lamp")
    first, second = sim.journal.calls
    assert first.error and first.cause == second.cause == "agent"
    assert second.error is None and second.entities == ("light.lamp",)


# -- faults ---------------------------------------------------------------------------------------------------------


def test_faults_come_and_go() -> None:
    blind = EntitySpec("cover.blind", "Blind", area="room", attributes={"current_position": 100})
    lock = EntitySpec("lock.door", "Door", area="room")
    faults = (
        FaultSpec("light.lamp", "unavailable", 60, 120),
        FaultSpec("lock.door", "jammed"),
        FaultSpec("cover.blind", "jammed", 0, 1000),
        FaultSpec("switch.plug", "stuck"),
    )
    sim = home(LAMP, blind, lock, EntitySpec("switch.plug", "Plug", area="room"), faults=faults)
    call(sim, "light.turn_on", "light.lamp", brightness=99)
    sim.advance(61)
    assert get(sim, "light.lamp").state == "unavailable" and "brightness" not in get(sim, "light.lamp").attributes
    call(sim, "light.turn_off", "light.lamp")  # Home Assistant passes over it
    sim.advance(60)
    assert get(sim, "light.lamp").state == "on" and get(sim, "light.lamp").attributes["brightness"] == 99
    call(sim, "lock.unlock", "lock.door")
    sim.advance(3)
    assert get(sim, "lock.door").state == "jammed"
    call(sim, "cover.close_cover", "cover.blind")
    sim.advance(30)
    assert get(sim, "cover.blind").attributes["current_position"] == 50
    sim.advance(1000)
    call(sim, "cover.close_cover", "cover.blind")
    sim.advance(30)
    assert get(sim, "cover.blind").state == "closed"
    call(sim, "switch.turn_on", "switch.plug")
    assert get(sim, "switch.plug").state == "off"
    strict = home(LAMP, strict=True)
    strict.set_fault("light.lamp", "unavailable")
    result = strict.call_service("light", "turn_on", None, {"entity_id": "light.lamp"})
    assert result.error == "Entity light.lamp is unavailable."


# -- the air --------------------------------------------------------------------------------------------------------


def test_a_room_cools_as_the_equation_says() -> None:
    """One room of 4 m x 4 m x 2.5 m without windows: C = 120,000 J/K m2 * 16 m2, UA = 1.5 * 16 + rho cp V n / 3600."""
    sim = home(weather=(WeatherPoint(0.0),))
    loss = 1.5 * 16 + AIR_HEAT * 40 * 0.3 / 3600  # 24 + 4.02 W/K
    sim.advance(36_000)
    expected = 20.0 * math.exp(-36_000 * loss / (120_000 * 16))
    assert sim.rooms()["room"].temperature == pytest.approx(expected, abs=1e-6)


def test_an_open_window_cools_faster() -> None:
    window = OpeningSpec("window", "room")
    closed, opened = (home(openings=(window,), weather=(WeatherPoint(0.0),)) for _ in range(2))
    opened.set_opening("window", True)
    closed.advance(3600)
    opened.advance(3600)
    loss = 1.5 * 16 + AIR_HEAT * 40 * 5.3 / 3600  # leakage 0.3 and the window's 5 air changes per hour
    assert opened.rooms()["room"].temperature == pytest.approx(20 * math.exp(-3600 * loss / 1_920_000), abs=1e-6)
    assert opened.rooms()["room"].temperature < closed.rooms()["room"].temperature - 1.5


def test_steps_of_five_minutes_are_fine_enough() -> None:
    """Three rooms with different ends, against the same equations in steps of one second."""
    rooms = tuple(
        replace(ROOM, id=name, name=name, temperature=warm) for name, warm in (("a", 24), ("b", 15), ("c", 18))
    )
    links = (LinkSpec("a", "b", 30), LinkSpec("b", "c", 20))
    sim = home(rooms=rooms, links=links, weather=(WeatherPoint(5.0),))
    sim.advance(6 * 3600)
    loss, capacity = 24 + AIR_HEAT * 40 * 0.3 / 3600, 1_920_000
    a, b, c = 24.0, 15.0, 18.0
    for _ in range(6 * 3600):
        a, b, c = (
            a + (loss * (5 - a) + 30 * (b - a)) / capacity,
            b + (loss * (5 - b) + 30 * (a - b) + 20 * (c - b)) / capacity,
            c + (loss * (5 - c) + 20 * (b - c)) / capacity,
        )
    assert [sim.rooms()[name].temperature for name in "abc"] == pytest.approx([a, b, c], abs=0.03)


def test_a_thermostat_reaches_its_target_and_pays_for_it() -> None:
    heater = EntitySpec("climate.heater", "Heater", area="room", state="heat", attributes={"temperature": 22.0})
    meter = EntitySpec("sensor.energy", "Energy", params={"measures": "energy:climate.heater"})
    sim = home(heater, meter, weather=(WeatherPoint(0.0),))
    sim.advance(300)
    assert get(sim, "climate.heater").attributes["hvac_action"] == "heating"
    sim.advance(6 * 3600)
    assert sim.rooms()["room"].temperature == pytest.approx(22.0, abs=0.01)
    # Holding 22 degrees at 0 degrees outside takes 22 K * 28.02 W/K = 616 W.
    assert sim.meters.watts("climate.heater") == pytest.approx(22 * (24 + AIR_HEAT * 40 * 0.3 / 3600), rel=0.01)
    before = float(get(sim, "sensor.energy").state)
    sim.advance(10 * 3600)
    assert float(get(sim, "sensor.energy").state) - before == pytest.approx(6.16, abs=0.05)
    call(sim, "climate.turn_off", "climate.heater")
    assert sim.meters.watts("climate.heater") == 0


def test_what_heating_up_takes_is_metered_exactly() -> None:
    """Energy = C dT + the losses on the way, against the same in steps of one second."""
    heater = EntitySpec("climate.heater", "Heater", area="room", state="off", attributes={"temperature": 22.0})
    sim = home(heater, weather=(WeatherPoint(20.0),), start="2026-03-02T08:01:07")
    sim.advance(100)
    call(sim, "climate.turn_on", "climate.heater")
    assert get(sim, "climate.heater").attributes["hvac_action"] == "heating"
    sim.advance(1900)
    call(sim, "climate.turn_off", "climate.heater")
    assert get(sim, "climate.heater").attributes["hvac_action"] == "off"
    sim.advance(700)
    temperature, loss = 20.0, 24 + AIR_HEAT * 40 * 0.3 / 3600
    for _ in range(1900):
        temperature += (1500 - loss * (temperature - 20)) / 1_920_000
    assert temperature < 22  # 1500 W all the time
    assert sim.meters.energy("climate.heater") == pytest.approx(1500 * 1900 / 3.6e6, rel=1e-6)
    assert sim.meters.total_energy == pytest.approx(1500 * 1900 / 3.6e6, rel=1e-6)
    cooled = 20 + (temperature - 20) * math.exp(-700 * loss / 1_920_000)
    assert sim.rooms()["room"].temperature == pytest.approx(cooled, abs=1e-3)


def test_cooling_and_drying() -> None:
    cooler = EntitySpec(
        "climate.ac", "AC", area="room", state="cool", attributes={"hvac_modes": ["off", "cool"], "temperature": 21.0}
    )
    dryer = EntitySpec(
        "humidifier.dry", "Dryer", area="room", state="on", attributes={"device_class": "dehumidifier", "humidity": 50}
    )
    sim = home(cooler, dryer, rooms=(replace(ROOM, temperature=28, humidity=80),), weather=(WeatherPoint(30, 70),))
    sim.advance(7200)
    air = sim.rooms()["room"]
    assert air.temperature == pytest.approx(21, abs=0.05) and air.humidity < 75
    assert get(sim, "climate.ac").attributes["hvac_action"] == "cooling"
    assert get(sim, "humidifier.dry").attributes["action"] == "drying"


def test_people_warm_and_spoil_the_air() -> None:
    anna = ResidentSpec("anna", "Anna", "room", "sleep")
    sim = home(residents=(anna,), weather=(WeatherPoint(20.0, 50),))
    sim.advance(3600)
    # ds/dt = 11 l/h / 40 m3 = 275 ppm per hour, against 0.3 air changes per hour on the 80 ppm above outdoors
    expected = 420 + 275 / 0.3 + (80 - 275 / 0.3) * math.exp(-0.3)
    assert sim.rooms()["room"].co2 == pytest.approx(expected, abs=0.5)
    assert sim.rooms()["room"].temperature > 20.05


def test_saturation_is_the_tables() -> None:
    """17.3 g/m3 at 20 degrees and 4.85 g/m3 at 0 degrees."""
    assert saturation(20) == pytest.approx(17.3, abs=0.1) and saturation(0) == pytest.approx(4.85, abs=0.02)


def test_light_reaches_the_sensor_at_once() -> None:
    sim = SimHome(example_home())
    sensor = "sensor.living_room_illuminance"
    before = float(get(sim, sensor).state)
    call(sim, "light.turn_on", "light.living_room_lamp", brightness=255)
    # 800 lm over 30 m2, 0.6 of it useful: 16 lx
    assert float(get(sim, sensor).state) - before == pytest.approx(16, abs=1)
    call(sim, "cover.close_cover", "cover.living_room_blind")
    sim.advance(21)
    assert float(get(sim, sensor).state) < before / 2


@pytest.mark.parametrize(
    ("latitude", "longitude", "day", "rise", "fall"),
    [
        (52.37, 4.9, "2026-03-21", "05:41:08", "17:54:57"),
        (52.37, 4.9, "2026-06-21", "03:18:23", "20:06:02"),
        (40.7, -74.0, "2026-12-21", "12:16:47", "21:31:33"),
    ],
)
def test_sunrise_and_sunset(latitude: float, longitude: float, day: str, rise: str, fall: str) -> None:
    """Against what the package astral 2.2 (which Home Assistant uses) gives, in UTC."""
    sim = home(latitude=latitude, longitude=longitude, start=f"{day}T01:00:00")
    for edge, expected in (("sunrise", rise), ("sunset", fall)):
        wanted = datetime.fromisoformat(f"{day}T{expected}+00:00").timestamp()
        assert abs(sim.sky.next_edge(sim.time, edge) - wanted) < 120
    assert get(sim, "sun.sun").state == "below_horizon"
    sim.advance(13 * 3600)
    assert get(sim, "sun.sun").state == "above_horizon"


def test_energy_and_its_price() -> None:
    plug = EntitySpec("switch.plug", "Plug", area="room", params={"power": 1000, "standby": 0})
    sim = home(plug, tariff=(0.2,) * 9 + (0.4,) * 15)  # it begins at eight
    call(sim, "switch.turn_on", "switch.plug")
    sim.advance(2 * 3600)
    assert sim.meters.total_energy == pytest.approx(2.0)
    assert sim.meters.cost == pytest.approx(0.2 + 0.4)


# -- people ---------------------------------------------------------------------------------------------------------


def test_residents_follow_their_routine() -> None:
    rooms = (ROOM, replace(ROOM, id="hall", name="Hall"))
    lines = (
        ActivitySpec("09:00", "hall", calls=({"action": "light.turn_on", "target": {"entity_id": "light.lamp"}},)),
        ActivitySpec("10:00", "away", days="weekday"),
        ActivitySpec("11:00", "room", days="weekend"),
    )
    sensors = (
        EntitySpec("binary_sensor.room", "Room", area="room", params={"measures": "occupancy"}),
        EntitySpec("binary_sensor.motion", "Motion", area="hall", params={"measures": "motion"}),
    )
    sim = home(LAMP, *sensors, rooms=rooms, residents=(ResidentSpec("ann", "Ann", "room", routine=lines),))
    assert get(sim, "person.ann").state == "home" and get(sim, "binary_sensor.room").state == "on"
    sim.advance(3600)
    assert get(sim, "light.lamp").state == "on" and get(sim, "light.lamp").cause == "resident.ann"
    assert get(sim, "binary_sensor.room").state == "off" and get(sim, "binary_sensor.motion").state == "on"
    sim.advance(3600)  # Monday, ten
    assert get(sim, "person.ann").state == "not_home" and get(sim, "zone.home").state == "0"
    sim.advance(120)
    assert get(sim, "binary_sensor.motion").state == "off"
    sim.advance(5 * 86_400 + 3600)  # Saturday, eleven
    assert get(sim, "person.ann").state == "home" and sim.people.where["ann"][0] == "room"


def test_the_agent_does_not_change_what_others_do() -> None:
    """The no-op run of a day is the other run without the agent's own changes: no draw moves another."""
    quiet, busy = SimHome(example_home()), SimHome(example_home())
    for hour in range(24):
        call(busy, "light.toggle", "light.bathroom")
        call(busy, "vacuum.locate", "vacuum.robot")
        for sim in (quiet, busy):
            sim.advance(3600)
        assert quiet.people.where == busy.people.where, hour
    for sensor in ("binary_sensor.kitchen_motion", "binary_sensor.bedroom_presence", "sensor.outdoor_temperature"):
        assert quiet.history(sensor) == busy.history(sensor)


# -- hostile calls --------------------------------------------------------------------------------------------------

_JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("light.bathroom"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
_FIELDS = sorted(
    {field for domain in DOMAINS.values() for service in domain.services.values() for field in service.fields}
)
_SERVICES = sorted((domain.name, service) for domain in DOMAINS.values() for service in domain.services)
_SIM = SimHome(example_home())
_ENTITIES = sorted(_SIM.states())


@settings(max_examples=250, deadline=None)
@given(
    st.sampled_from(_SERVICES),
    st.dictionaries(st.sampled_from(_FIELDS), _JUNK, max_size=3) | _JUNK,
    st.sampled_from(_ENTITIES).map(lambda entity: {"entity_id": entity}) | _JUNK,
)
def test_no_call_raises_and_a_refused_one_changes_nothing(name: tuple[str, str], data: Any, target: Any) -> None:
    before = _SIM.key()
    result = _SIM.call_service(*name, data, target)
    if not result.ok:
        assert _SIM.key() == before and not result.changed
    _SIM.advance(30)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["id", "alias", "triggers", "trigger", "conditions", "actions", "action", "mode"]), _JUNK
    )
    | _JUNK
)
def test_no_automation_raises(config: Any) -> None:
    result = _SIM.add_automation(config)
    assert result.ok or str(result.error).startswith("Message malformed")


def test_data_nested_without_end_is_refused() -> None:
    sim = home(LAMP)
    deep: Any = "x"
    for _ in range(3000):
        deep = [deep]
    assert (
        sim.call_service("light", "turn_on", {"effect": deep}, {"entity_id": "light.lamp"}).error == "nested too deeply"
    )
    assert not sim.add_automation({"id": "x", "triggers": deep, "actions": deep}).ok
