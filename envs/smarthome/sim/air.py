"""The rooms' air: temperature, humidity, carbon dioxide, particles and light, and what devices do to them.

Per room, with everything that flows in or out held constant over a step of at most 300 s:

    C dT/dt = (UA + rho cp V n) (To - T) + sum_j G_j (T_j - T) + P          heat
    V dw/dt = n V (wo - w) + m                                              moisture (w in g/m3)
    dc/dt   = n (co - c) + s                                                CO2 (ppm), particles (ug/m3)

n is the air exchange (leakage, open windows and outer doors, exhaust fans), P the heat of the sun, people and devices.
Each equation is linear in its own unknown and is solved exactly over the step (the neighbours' temperatures are taken
from its start), so that no step is unstable. A thermostat gives the power that reaches its target at the step's end,
within what the device can.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from ..backend import UNAVAILABLE, EntityState
from ..spec import RoomSpec
from .openings import position

if TYPE_CHECKING:
    from .home import SimHome

STEP = 300.0  # seconds
AIR_HEAT = 1206.0  # J per m3 and kelvin
OUTDOOR_CO2, OUTDOOR_PM25 = 420.0, 8.0
PERSON = {  # heat in watts, moisture in g/h, CO2 in l/h, particles in ug/h
    "sleep": (70.0, 30.0, 11.0, 0.0),
    "cook": (120.0, 350.0, 20.0, 30_000.0),
    "shower": (110.0, 1200.0, 18.0, 0.0),
    "idle": (100.0, 50.0, 16.0, 0.0),
}
_SHADES = ("blind", "curtain", "shade", "shutter", "awning")
_DRAUGHTS = {"window": 5.0, "door": 8.0, "garage": 6.0}
_DRY, _DRYING = 45.0, 800.0  # percent that a climate device in "dry" aims at; grams of water per hour
ACTUATORS = ("light", "switch", "media_player", "climate", "fan", "humidifier", "cover")


class RoomState(NamedTuple):
    """The air of one room."""

    temperature: float
    """Degrees Celsius."""
    moisture: float
    """Grams of water per cubic metre."""
    co2: float
    """ppm."""
    pm25: float
    """Micrograms per cubic metre."""

    @property
    def humidity(self) -> float:
        """Relative humidity in percent."""
        return min(100.0, 100 * self.moisture / saturation(self.temperature))


class _Inputs(NamedTuple):
    """What devices, openings and people do in a room between two changes."""

    heat: float
    exchange: float
    moisture: float
    co2: float
    particles: float
    clean_air: float
    shade: float
    lumens: float
    climates: tuple[EntityState, ...]
    humidifiers: tuple[EntityState, ...]


def saturation(temperature: float) -> float:
    """Grams of water per cubic metre of saturated air (Magnus)."""
    pressure = 611.2 * math.exp(17.62 * temperature / (243.12 + temperature))
    return 1000 * pressure / (461.5 * (temperature + 273.15))


class Air:
    """All rooms of a home."""

    def __init__(self, home: SimHome) -> None:
        self._home = home
        spec = home.spec
        self.rooms: dict[str, RoomSpec] = {room.id: room for room in spec.rooms}
        self._links: dict[str, list[tuple[str, float]]] = {room: [] for room in self.rooms}
        for link in spec.links:
            self._links[link.a].append((link.b, link.conductance))
            self._links[link.b].append((link.a, link.conductance))
        self.actuators: dict[str, list[str]] = {room: [] for room in self.rooms}
        for entity in spec.entities:
            area = home.registry().area_of(entity.entity_id)
            if area in self.rooms and entity.entity_id.partition(".")[0] in ACTUATORS:
                self.actuators[area].append(entity.entity_id)
        self.room_of = {entity: room for room, entities in self.actuators.items() for entity in entities}
        self.time = home.time
        self.states = {room.id: self._initial(room) for room in spec.rooms}
        self.powers: dict[str, float] = {}
        """Watts of electricity that each climate device and humidifier drew over the last step."""
        self._inputs: dict[str, _Inputs] = {}

    def _initial(self, room: RoomSpec) -> RoomState:
        if room.outdoor:
            return self._outdoors(self._home.time)
        return RoomState(
            room.temperature, saturation(room.temperature) * room.humidity / 100, OUTDOOR_CO2 + 80, OUTDOOR_PM25
        )

    def _outdoors(self, time: float) -> RoomState:
        weather = self._home.sky.weather(time)
        moisture = saturation(weather.temperature) * weather.humidity / 100
        return RoomState(weather.temperature, moisture, OUTDOOR_CO2, OUTDOOR_PM25)

    def changed(self, room: str | None) -> None:
        """Something in `room` is about to change: reckon up to now with what held until now."""
        if room in self.rooms:
            self.advance(self._home.time)
            self._inputs.pop(room, None)

    def advance(self, time: float) -> None:
        """Reckon all rooms up to `time`, in steps of at most 300 s."""
        while self.time < time:
            until = min(time, self.time + STEP)
            self.states, self.powers = self._step(self.time, until)
            for entity_id, watts in self.powers.items():
                self._home.meters.correct(entity_id, watts, self.time, until)
            self.time = until

    def at(self, time: float) -> dict[str, RoomState]:
        """The rooms at `time`, without going there: looking does not change what will be."""
        return self.states if time <= self.time else self._step(self.time, time)[0]

    def _step(self, start: float, end: float) -> tuple[dict[str, RoomState], dict[str, float]]:
        outdoors = self._outdoors((start + end) / 2)
        direct, diffuse, sun = self._home.sky.radiation((start + end) / 2)
        states: dict[str, RoomState] = {}
        powers: dict[str, float] = {}
        seconds = end - start
        for name, room in self.rooms.items():
            if room.outdoor:
                states[name] = outdoors
                continue
            now = self.states[name]
            inputs = self._inputs.get(name) or self._collect(name)
            volume = room.area * room.height
            facing = max(0.0, math.cos(math.radians(sun.azimuth - room.azimuth)))
            solar = room.window * 0.55 * (direct * facing * 0.7 + diffuse) * inputs.shade
            loss = room.loss * room.area + AIR_HEAT * volume * inputs.exchange / 3600
            flow = loss * outdoors.temperature + solar + inputs.heat
            for other, conductance in self._links[name]:
                loss += conductance
                flow += conductance * self.states[other].temperature
            decay = math.exp(-seconds * loss / (room.heat_capacity * room.area))
            temperature = flow / loss + (now.temperature - flow / loss) * decay
            gain = (1 - decay) / loss  # kelvin at the step's end per watt of device
            for climate in inputs.climates:
                change, powers[climate.entity_id] = _climate(self._home, climate, temperature, gain)
                temperature += change
            fresh = math.exp(-seconds * inputs.exchange / 3600)
            hours = (1 - fresh) / inputs.exchange
            moisture = outdoors.moisture + (now.moisture - outdoors.moisture) * fresh + inputs.moisture / volume * hours
            for humidifier in inputs.humidifiers:
                change, powers[humidifier.entity_id] = _humidify(
                    self._home, humidifier, moisture, temperature, hours / volume
                )
                moisture += change
            if any(climate.state == "dry" for climate in inputs.climates):
                dry = saturation(temperature) * _DRY / 100
                moisture -= min(max(0.0, moisture - dry), _DRYING * hours / volume)
            moisture = max(0.1, min(moisture, saturation(temperature)))
            co2 = OUTDOOR_CO2 + (now.co2 - OUTDOOR_CO2) * fresh + inputs.co2 * 1000 / volume * hours
            cleaning = inputs.exchange + inputs.clean_air / volume
            left = math.exp(-seconds * cleaning / 3600)
            source = (inputs.exchange * OUTDOOR_PM25 * 0.8 + inputs.particles / volume) / cleaning
            states[name] = RoomState(temperature, moisture, co2, source + (now.pm25 - source) * left)
        return states, powers

    def _collect(self, name: str) -> _Inputs:
        """Read the room's devices once; the result holds until something in it changes."""
        home, room = self._home, self.rooms[name]
        heat, exchange, clean, lumens = 0.0, max(0.01, room.leakage), 0.0, 0.0
        covers: list[float] = []
        climates: list[EntityState] = []
        humidifiers: list[EntityState] = []
        for entity_id in self.actuators[name]:
            entity = home.states()[entity_id]
            if entity.state in ("off", UNAVAILABLE):
                continue
            params, domain = home.params(entity_id), entity.domain
            if domain == "climate":
                climates.append(entity)
            elif domain == "humidifier":
                humidifiers.append(entity)
            elif domain == "cover":
                kind, opened = entity.attributes.get("device_class"), position(entity) / 100
                if kind in _SHADES:
                    covers.append(opened)
                exchange += _DRAUGHTS.get(str(kind), 0.0) * opened
            else:
                heat += home.meters.watts(entity_id)
                if domain == "light":
                    lumens += float(params.get("lumens", 800.0)) * (entity.attributes.get("brightness") or 255) / 255
                if domain == "fan":
                    speed = (entity.attributes.get("percentage") or 50) / 100
                    clean += float(params.get("clean_air", 250.0)) * speed if params.get("role") == "purifier" else 0.0
                    exchange += (
                        float(params.get("air_changes", 6.0)) * speed if params.get("role") == "exhaust" else 0.0
                    )
        exchange += sum(opening.air_changes for opening in home.open_in(name))
        moisture = co2 = particles = 0.0
        for activity in home.people.activities_in(name):
            person = PERSON.get(activity, PERSON["idle"])
            heat, moisture = heat + person[0], moisture + person[1]
            co2, particles = co2 + person[2], particles + person[3]
        shade = 0.15 + 0.85 * sum(covers) / len(covers) if covers else 1.0
        inputs = _Inputs(
            heat, exchange, moisture, co2, particles, clean, shade, lumens, tuple(climates), tuple(humidifiers)
        )
        self._inputs[name] = inputs
        return inputs

    def lux(self, name: str) -> float:
        """The light in a room: of its lamps, and of the sky through the glass."""
        room = self.rooms[name]
        inputs = self._inputs.get(name) or self._collect(name)
        direct, diffuse, sun = self._home.sky.radiation(self._home.time)
        if room.outdoor:
            return (
                110 * (direct * max(0.0, math.sin(math.radians(sun.elevation))) + diffuse) + inputs.lumens / room.area
            )
        facing = max(0.0, math.cos(math.radians(sun.azimuth - room.azimuth)))
        daylight = 110 * (direct * facing * 0.1 + diffuse) * room.window / room.area * 0.3 * inputs.shade
        return daylight + 0.6 * inputs.lumens / room.area

    def save(self) -> tuple[Any, ...]:
        """Everything that changes; the inputs are kept, as they are a function of the rest."""
        return self.time, self.states, self.powers, dict(self._inputs)

    def load(self, state: tuple[Any, ...]) -> None:
        """Go back."""
        self.time, self.states, self.powers = state[:3]
        self._inputs = dict(state[3])


def _climate(home: SimHome, climate: EntityState, free: float, gain: float) -> tuple[float, float]:
    """(kelvin added at the step's end, watts drawn) by a thermostat where the room would be at `free` without it."""
    params, attributes, mode = home.params(climate.entity_id), climate.attributes, climate.state
    target = attributes.get("temperature")
    low, high = attributes.get("target_temp_low"), attributes.get("target_temp_high")
    if mode == "heat":
        low, high = (target if target is not None else low), None
    elif mode == "cool":
        low, high = None, (target if target is not None else high)
    elif mode in ("auto", "heat_cool"):
        low = target if low is None else low
        high = target if high is None else high
    else:
        return 0.0, 30.0 if mode == "fan_only" else 200.0 if mode == "dry" else 1.0
    if low is not None and free < low:
        most = float(params.get("heating_power", 1500.0))
        watts = min(most, (low - free) / gain) if gain > 0 else 0.0
        return watts * gain, watts / float(params.get("efficiency", 1.0))
    if high is not None and free > high:
        most = float(params.get("cooling_power", 2500.0))
        watts = min(most, (free - high) / gain) if gain > 0 else 0.0
        return -watts * gain, watts / float(params.get("cooling_efficiency", 3.0))
    return 0.0, 1.0


def _humidify(
    home: SimHome, humidifier: EntityState, moisture: float, temperature: float, gain: float
) -> tuple[float, float]:
    """(g/m3 added at the step's end, watts drawn) by a humidifier or dehumidifier."""
    params = home.params(humidifier.entity_id)
    target = saturation(temperature) * float(humidifier.attributes.get("humidity") or 45) / 100
    most = float(params.get("output", 300.0))  # g/h
    dries = humidifier.attributes.get("device_class") == "dehumidifier"
    missing = moisture - target if dries else target - moisture
    if missing <= 0 or gain <= 0:
        return 0.0, 1.0
    output = min(most, missing / gain)
    watts = float(params.get("power", 250.0 if dries else 35.0)) * output / most
    return (-output if dries else output) * gain, 1.0 + watts
