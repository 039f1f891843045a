"""The published homes and blueprints of home-assistant-datasets load and run (the files are not part of sandlot)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandlot.envs.core.errors import InvalidArgument, MissingData
from sandlot.envs.smarthome.ha_fixtures import load_blueprint, load_fixtures, load_homes
from sandlot.envs.smarthome.sim.home import SimHome

pytest.importorskip("yaml")
BESIDE = Path(__file__).resolve().parents[2].parent / "shared" / "data"
DATA = Path(os.environ.get("SANDLOT_TEST_DATA", BESIDE)) / "smarthome" / "home-assistant-datasets"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"no Home Assistant datasets in {DATA} (SANDLOT_TEST_DATA)")

HOME = """
areas: [{name: Hall, id: hall, floor: Ground}, {name: Back Garden, id: back_garden}]
devices: [{name: Blind, id: blind, area: hall, info: {manufacturer: IKEA, model: Fyrtur}}]
entities:
  - {name: Blind, id: cover.blind, device: blind, state: "closed", attributes: {current_position: 0,
     device_class: cover.CoverDeviceClass.BLIND,
     supported_features: [cover.CoverEntityFeature.OPEN, cover.CoverEntityFeature.CLOSE]}}
  - {name: Warmth, id: sensor.warmth, area: hall, attributes: {native_value: 22, native_unit_of_measurement: "°C",
     device_class: sensor.SensorDeviceClass.TEMPERATURE}}
  - {name: Stat, id: climate.stat, area: hall, attributes: {hvac_mode: heat, hvac_modes: ["off", heat],
     target_temperature: 21, current_temperature: 19}}
  - {name: Plug, id: switch.plug, area: hall, state: true}
  - {name: Sky, id: weather.sky, attributes: {native_temperature: 50, native_temperature_unit: "°F", condition: sunny}}
"""


def test_a_fixtures_file_becomes_a_home(tmp_path: Path) -> None:
    (tmp_path / "_fixtures.yaml").write_text(HOME, encoding="utf-8")
    spec = load_fixtures(tmp_path / "_fixtures.yaml")
    states = SimHome(spec).states()
    assert states["cover.blind"].state == "closed" and states["cover.blind"].attributes["supported_features"] == 3
    assert states["cover.blind"].attributes["device_class"] == "blind"
    assert states["sensor.warmth"].state == "22"
    assert states["sensor.warmth"].attributes["unit_of_measurement"] == "°C"
    assert states["climate.stat"].state == "heat" and states["climate.stat"].attributes["temperature"] == 21
    assert states["switch.plug"].state == "on"
    assert states["weather.sky"].state == "sunny" and states["weather.sky"].attributes["temperature"] == 50
    assert spec.weather[0].temperature == 10 and spec.weather[0].cloud == 0.1
    registry = SimHome(spec).registry()
    assert registry.area_of("cover.blind") == "hall" and registry.areas["hall"].floor == "ground"
    assert [room.outdoor for room in spec.rooms] == [False, True] and spec.rooms[0].temperature == 19


def test_files_that_are_something_else(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="cannot be read"):
        load_fixtures(tmp_path / "no.yaml")
    (tmp_path / "x.yaml").write_text("a: [", encoding="utf-8")
    with pytest.raises(MissingData, match="not valid YAML"):
        load_fixtures(tmp_path / "x.yaml")
    (tmp_path / "x.yaml").write_text("a: 1", encoding="utf-8")
    for load in (load_fixtures, load_homes, lambda path: load_blueprint(path, {})):
        with pytest.raises(MissingData):
            load(tmp_path / "x.yaml")


@needs_data
def test_every_published_home_runs_for_a_day() -> None:
    found = sorted(DATA.rglob("_fixtures.yaml"))
    assert len(found) == 14
    for path in found:
        sim = SimHome(load_fixtures(path))
        before = dict(sim.states())
        sim.advance(86_400)
        assert {key for key in before if sim.states()[key] != before[key]} <= {"sun.sun"}, path
        lights = [key for key in sim.states() if key.startswith("light.")]
        assert sim.call_service("light", "turn_on", None, {"entity_id": "all"}).ok
        assert all(sim.states()[key].state == "on" for key in lights), path


@needs_data
def test_the_published_homes_without_devices() -> None:
    homes = load_homes(DATA / "homes.yaml")
    assert len(homes) == 195
    assert sum(len(home.rooms) for home in homes) / len(homes) > 4
    for home in homes[:20]:
        SimHome(home).advance(3600)


@needs_data
def test_a_published_blueprint_runs() -> None:
    """A light that follows a door, and goes out on its own after a while."""
    folder = DATA / "automations" / "light_on_door"
    inputs = {"door_sensor": "binary_sensor.pantry_door", "light_switch": {"entity_id": "light.pantry_light"}}
    with pytest.raises(InvalidArgument, match="needs the input 'door_sensor'"):
        load_blueprint(folder / "solution.yaml", {})
    sim = SimHome(load_fixtures(folder / "_fixtures.yaml"))
    assert sim.add_automation(load_blueprint(folder / "solution.yaml", {**inputs, "light_timeout": 120})).ok

    def door(state: str) -> str:
        sim.inject("binary_sensor.pantry_door", state)
        return sim.states()["light.pantry_light"].state

    door("off")
    sim.call_service("light", "turn_off", None, {"entity_id": "light.pantry_light"})
    assert door("on") == "on"
    sim.advance(100)
    assert door("off") == "off" and door("on") == "on"
    sim.advance(119)
    assert sim.states()["light.pantry_light"].state == "on"
    sim.advance(2)
    assert sim.states()["light.pantry_light"].state == "off"


@needs_data
def test_the_other_published_blueprints() -> None:
    folder = DATA / "automations" / "vacuum_pause"
    sim = SimHome(load_fixtures(folder / "_fixtures.yaml"))
    vacuum = next(key for key in sim.states() if key.startswith("vacuum."))
    phone = next(key for key in sim.states() if key.startswith("binary_sensor."))
    inputs = {"phone_call_sensor": phone, "vacuum_entity": vacuum}
    assert sim.add_automation(load_blueprint(folder / "solution.yaml", inputs)).ok
    sim.inject(phone, "off")
    sim.call_service("vacuum", "start", None, {"entity_id": vacuum})
    sim.inject(phone, "on")
    assert sim.states()[vacuum].state == "paused"
