"""Sensors: which quantity each one reads (its parameter `measures`), and when it reports.

Room sensors report on the tick (every 5 minutes), and light, presence, contact and power sensors when something
changes. `measures` is one of

    temperature, humidity, illuminance, co2, pm25      of the sensor's room, or of "<room>.<quantity>"
    motion, occupancy                                  of the sensor's room
    outdoor.temperature, outdoor.humidity, outdoor.wind, outdoor.rain
    home.power, home.energy, home.cost, home.people
    power:<entity>, energy:<entity>                    what an entity draws or has used
    charge:<switch with a charger>                     the battery's level
    battery:<entity>, position:<entity>, state:<entity>
    open:<opening, cover or lock>                      a contact
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..backend import UNAVAILABLE, EntityState
from . import charging, robots

if TYPE_CHECKING:
    from .home import SimHome

CLEAR = 90.0  # seconds without movement after which a motion sensor is off
_UNITS = {
    "temperature": ("temperature", "°C"),
    "humidity": ("humidity", "%"),
    "illuminance": ("illuminance", "lx"),
    "co2": ("carbon_dioxide", "ppm"),
    "pm25": ("pm25", "µg/m³"),
    "power": ("power", "W"),
    "energy": ("energy", "kWh"),
    "battery": ("battery", "%"),
    "charge": ("battery", "%"),
    "wind": ("wind_speed", "m/s"),
    "rain": ("precipitation_intensity", "mm/h"),
    "cost": ("monetary", "EUR"),
}
_ROOM = ("temperature", "humidity", "illuminance", "co2", "pm25", "motion", "occupancy")


def attributes_of(measures: str) -> dict[str, Any]:
    """Device class and unit that belong to a quantity."""
    known = _UNITS.get(measures.partition(":")[0].rpartition(".")[2])
    if known is None:
        return {}
    state_class = "total_increasing" if known[0] == "energy" else "measurement"
    return {"device_class": known[0], "unit_of_measurement": known[1], "state_class": state_class}


class Sensing:
    """The sensors of one home."""

    def __init__(self, home: SimHome) -> None:
        self._home = home
        self._by_room: dict[tuple[str, str], list[str]] = {}  # (room, quantity) -> sensors
        self._by_entity: dict[str, list[tuple[str, str]]] = {}  # entity or opening -> (sensor, kind)
        self._of_home: list[tuple[str, str]] = []
        self._robots = [entity.entity_id for entity in home.spec.entities if _is_robot(entity.entity_id)]
        self._climates = [
            entity.entity_id
            for entity in home.spec.entities
            if entity.entity_id.partition(".")[0] in ("climate", "humidifier", "water_heater", "weather")
            and not entity.params.get("static")
        ]
        self._room_of = {entity: home.registry().area_of(entity) or "" for entity in self._climates}
        for entity in home.spec.entities:
            measures = str(entity.params.get("measures", ""))
            kind, colon, what = measures.partition(":")
            room, _, quantity = measures.rpartition(".")
            if colon:
                self._by_entity.setdefault(what, []).append((entity.entity_id, kind))
            elif room in ("home", "outdoor"):
                self._of_home.append((entity.entity_id, measures))
            elif quantity in _ROOM:
                place = room or home.registry().area_of(entity.entity_id) or ""
                self._by_room.setdefault((place, quantity), []).append(entity.entity_id)

    # -- the tick -------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Report everything that changes by itself."""
        home = self._home
        for (room, quantity), sensors in self._by_room.items():
            if quantity not in ("motion", "occupancy") and room in home.air.states:
                value = self._room_value(room, quantity)
                for sensor in sensors:
                    self._report(sensor, value)
        for sensor, measures in self._of_home:
            self._report(sensor, self._home_value(measures))
        for entity_id, sensors in self._by_entity.items():
            for sensor, kind in sensors:
                if kind in ("energy", "battery", "charge"):
                    self._report(sensor, self._entity_value(entity_id, kind))
        for entity_id in self._climates:
            self._show_climate(home.states()[entity_id])
        for entity_id in self._robots:
            if home.states()[entity_id].state != UNAVAILABLE:
                robots.refresh(home, home.states()[entity_id])

    def begin(self) -> None:
        """The first report of every sensor."""
        for (room, quantity), sensors in self._by_room.items():
            if quantity in ("motion", "occupancy"):
                present = self._home.people.in_room(room) > 0
                for sensor in sensors:
                    self._report(sensor, "on" if present and quantity == "occupancy" else "off")
        for entity_id, sensors in self._by_entity.items():
            for sensor, kind in sensors:
                self._report(sensor, self._entity_value(entity_id, kind))
        for resident in self._home.people.specs:
            self._show_person(resident)
        self.refresh()

    # -- at once --------------------------------------------------------------------------------------------------

    def entity_changed(self, entity_id: str) -> None:
        """An entity, or an opening, has another state: contacts, positions and lights report."""
        for sensor, kind in self._by_entity.get(entity_id, ()):
            if kind in ("open", "position", "state", "charge"):
                self._report(sensor, self._entity_value(entity_id, kind))
        room = self._home.air.room_of.get(entity_id)
        if room and entity_id.startswith("climate.") and entity_id in self._room_of:
            self._show_action(self._home.states()[entity_id], room)
        if room and entity_id.startswith(("light.", "cover.")):
            for sensor in self._by_room.get((room, "illuminance"), ()):
                self._report(sensor, self._room_value(room, "illuminance"))

    def power_changed(self, entity_id: str) -> None:
        """An entity draws more or less."""
        for sensor, kind in self._by_entity.get(entity_id, ()):
            if kind == "power":
                self._report(sensor, self._entity_value(entity_id, kind))

    def people_moved(self, resident: str, before: str, after: str) -> None:
        """Somebody went from one room to another."""
        self._show_person(resident)
        for room in (before, after):
            present = "on" if self._home.people.in_room(room) else "off"
            for sensor in self._by_room.get((room, "occupancy"), ()):
                self._report(sensor, present)
        self.motion(after)

    def motion(self, room: str) -> None:
        """Somebody moved in a room: its motion sensors are on for a while."""
        for sensor in self._by_room.get((room, "motion"), ()):
            self._report(sensor, "on")
            self._home.clock.begin(sensor, "still", CLEAR)

    # -- values ---------------------------------------------------------------------------------------------------

    def _room_value(self, room: str, quantity: str) -> str:
        air = self._home.air.states[room]
        if quantity == "temperature":
            return f"{air.temperature:.1f}"
        if quantity == "humidity":
            return f"{air.humidity:.0f}"
        if quantity == "illuminance":
            return f"{self._home.air.lux(room):.0f}"
        return f"{air.co2:.0f}" if quantity == "co2" else f"{air.pm25:.0f}"

    def _home_value(self, measures: str) -> str:
        home = self._home
        if measures == "home.power":
            return f"{home.meters.total_watts:.0f}"
        if measures == "home.energy":
            return f"{home.meters.total_energy:.2f}"
        if measures == "home.cost":
            return f"{home.meters.cost:.2f}"
        if measures == "home.people":
            return str(home.people.at_home)
        weather = home.sky.weather(home.time)
        return f"{getattr(weather, measures.partition('.')[2], 0.0):.1f}"

    def _entity_value(self, entity_id: str, kind: str) -> str:
        home = self._home
        if kind == "power":
            return f"{home.meters.watts(entity_id):.1f}"
        if kind == "energy":
            return f"{home.meters.energy(entity_id):.2f}"
        if kind == "charge":
            return f"{charging.level(home, entity_id):.0f}"
        if kind == "open" and entity_id in home.openings:
            return "on" if home.openings[entity_id] else "off"
        entity = home.state(entity_id)
        if entity is None:
            return "unknown"
        if kind == "battery":
            level = 4 if home.fault(entity_id) == "low_battery" else entity.attributes.get("battery_level")
            return str(level if level is not None else home.params(entity_id).get("battery", 90))
        if kind == "open":
            return "off" if entity.state in ("closed", "locked") else "on"
        if kind == "position":
            return str(entity.attributes.get("current_position", ""))
        return entity.state

    def _report(self, sensor: str, value: str) -> None:
        home = self._home
        now = home.states()[sensor]
        if now.state != value and now.state != UNAVAILABLE and home.fault(sensor) != "stuck":
            home.update(sensor, value, cause="home")

    def _show_person(self, resident: str) -> None:
        room = self._home.people.where[resident][0]
        place = "not_home" if room == "away" else "home"
        for entity_id in (f"person.{resident}", f"device_tracker.{resident}"):
            if entity_id in self._home.states():
                self._report(entity_id, place)
        if "zone.home" in self._home.states():
            self._report("zone.home", str(self._home.people.at_home))

    def _show_action(self, climate: EntityState, room: str) -> None:
        """What a thermostat sets about when it is told something else, before the air has answered."""
        temperature = self._home.air.states[room].temperature
        low, high = climate.attributes.get("target_temp_low"), climate.attributes.get("target_temp_high")
        target = climate.attributes.get("temperature")
        low, high = target if low is None else low, target if high is None else high
        cold = climate.state in ("heat", "auto", "heat_cool") and low is not None and temperature < low
        warm = climate.state in ("cool", "auto", "heat_cool") and high is not None and temperature > high
        action = _hvac_action(climate, temperature, 1000.0 if cold or warm else 0.0)
        self._home.update(climate.entity_id, None, {"hvac_action": action}, quiet=True)

    def _show_climate(self, entity: EntityState) -> None:
        home = self._home
        if entity.state == UNAVAILABLE:
            return
        if entity.domain == "weather":
            home.update(entity.entity_id, *home.weather_state(), cause="home", quiet=True)
            return
        if entity.domain == "water_heater":
            _heat_water(home, entity)
            return
        air = home.air.states.get(self._room_of[entity.entity_id])
        if air is None:
            return
        watts = round(home.air.powers.get(entity.entity_id, 0.0))
        if entity.domain == "humidifier":
            word = "drying" if entity.attributes.get("device_class") == "dehumidifier" else "humidifying"
            action = "off" if entity.state == "off" else word if watts > 2 else "idle"
            home.update(
                entity.entity_id,
                None,
                {"current_humidity": round(air.humidity), "action": action},
                cause="home",
                quiet=True,
            )
            home.meters.set(entity.entity_id, 0.0 if entity.state == "off" else watts)
            return
        action = _hvac_action(entity, air.temperature, watts)
        shown: dict[str, Any] = {"current_temperature": round(air.temperature, 1), "hvac_action": action}
        if "current_humidity" in entity.attributes:
            shown["current_humidity"] = round(air.humidity)
        home.update(entity.entity_id, None, shown, cause="home", quiet=True)
        home.meters.set(entity.entity_id, 0.0 if entity.state == "off" else watts)


def _hvac_action(climate: EntityState, temperature: float, watts: float) -> str:
    if climate.state in ("off", "dry", "fan_only"):
        return {"off": "off", "dry": "drying", "fan_only": "fan"}[climate.state]
    if watts < 5:
        return "idle"
    if climate.state in ("heat", "cool"):
        return {"heat": "heating", "cool": "cooling"}[climate.state]
    low = climate.attributes.get("target_temp_low")
    high = climate.attributes.get("target_temp_high")
    target = climate.attributes.get("temperature")
    middle = (low + high) / 2 if low is not None and high is not None else target
    return "cooling" if middle is not None and temperature > middle else "heating"


def _heat_water(home: SimHome, heater: EntityState) -> None:
    """A tank of 150 litres over one tick: its heater, its losses, and the showers it feeds."""
    capacity = 150 * 4186.0  # J/K
    now = float(heater.attributes.get("current_temperature") or 50)
    target = float(heater.attributes.get("temperature") or 55)
    if heater.state == "eco":
        target = min(target, 50.0)
    if heater.attributes.get("away_mode") == "on":
        target = 30.0
    showers = sum(activity == "shower" for _, activity in home.people.where.values())
    now -= 300 * (1.5 * (now - 18) + showers * 6_000) / capacity
    most = float(home.params(heater.entity_id).get("power", 2000.0))
    watts = 0.0 if heater.state == "off" else min(most, max(0.0, (target - now) * capacity / 300))
    now = max(10.0, now + 300 * watts / capacity)
    home.update(heater.entity_id, None, {"current_temperature": round(now, 2)}, cause="home", quiet=True)
    home.meters.correct(heater.entity_id, watts, home.time - 300, home.time)
    home.meters.set(heater.entity_id, watts)


def _is_robot(entity_id: str) -> bool:
    return entity_id.startswith(("vacuum.", "lawn_mower."))
