"""A small home written by hand: five rooms, two residents, and at least one entity of every device domain."""

from __future__ import annotations

from typing import Any

from .sim.sky import weather_trace
from .spec import (
    ActivitySpec,
    DeviceSpec,
    EntitySpec,
    FloorSpec,
    HomeSpec,
    LinkSpec,
    OpeningSpec,
    ResidentSpec,
    RoomSpec,
)


def _entity(entity_id: str, name: str, area: str | None = None, state: str | None = None, **more: Any) -> EntitySpec:
    attributes, params = more.pop("attributes", {}), more.pop("params", {})
    return EntitySpec(entity_id, name, area=area, state=state, attributes=attributes, params=params, **more)


def _measure(what: str, area: str | None, name: str, entity_id: str, **attributes: Any) -> EntitySpec:
    return EntitySpec(entity_id, name, area=area, attributes=attributes, params={"measures": what})


def example_home() -> HomeSpec:
    """The home; a Monday in March, eight in the morning, around six degrees outside."""
    rooms = (
        RoomSpec("kitchen", "Kitchen", "ground", 0, 0, 4, 4, azimuth=90),
        RoomSpec("living_room", "Living Room", "ground", 4, 0, 6, 5, window=6, azimuth=180, aliases=("Lounge",)),
        RoomSpec("bedroom", "Bedroom", "upper", 0, 0, 4, 4, window=2, azimuth=270, temperature=18),
        RoomSpec("bathroom", "Bathroom", "upper", 4, 0, 3, 2.5, window=0.6, azimuth=0, temperature=21, humidity=55),
        RoomSpec("garden", "Garden", None, 0, 5, 10, 8, outdoor=True),
    )
    links = (
        LinkSpec("kitchen", "living_room", 30),
        LinkSpec("living_room", "bedroom", 12),
        LinkSpec("bedroom", "bathroom", 10),
        LinkSpec("living_room", "garden", 0.0),
    )
    devices = (
        DeviceSpec("washer", "Washing Machine", "bathroom", "Miele", "WSD 663"),
        DeviceSpec("robot", "Robot Vacuum", "living_room", "Roborock", "S8"),
        DeviceSpec("front_lock", "Front Door Lock", "living_room", "Nuki", "Smart Lock 4"),
    )
    lights = (
        _entity("light.kitchen_ceiling", "Kitchen Ceiling", "kitchen", "on", attributes={"brightness": 180}),
        _entity(
            "light.living_room_lamp",
            "Living Room Lamp",
            "living_room",
            attributes={
                "supported_color_modes": ["color_temp", "hs"],
                "supported_features": 36,
                "effect_list": ["none", "candle"],
            },
        ),
        _entity("light.bedside_lamp", "Bedside Lamp", "bedroom"),
        _entity("light.bathroom", "Bathroom Light", "bathroom", attributes={"supported_color_modes": ["onoff"]}),
        _entity("light.garden", "Garden Light", "garden"),
        _entity("switch.coffee_machine", "Coffee Machine", "kitchen", params={"power": 900}),
        EntitySpec(
            "switch.washer",
            "Washing Machine",
            "washer",
            params={"power": 500, "cycle": {"select": "select.washer_program", "programs": {"quick": 30, "eco": 180}}},
        ),
        EntitySpec("select.washer_program", "Washing Program", "washer", attributes={"options": ["quick", "eco"]}),
        _measure("power:switch.washer", "bathroom", "Washing Machine Power", "sensor.washer_power"),
        _measure("energy:switch.washer", "bathroom", "Washing Machine Energy", "sensor.washer_energy"),
    )
    climate = (
        _entity(
            "climate.living_room",
            "Living Room Thermostat",
            "living_room",
            "heat",
            attributes={
                "hvac_modes": ["off", "heat", "cool", "heat_cool"],
                "supported_features": 1 | 2 | 8 | 16 | 128 | 256,
            },
            params={"heating_power": 3000, "preset_temperatures": {"eco": 17.0, "comfort": 21.5}},
        ),
        _entity("climate.bedroom", "Bedroom Radiator", "bedroom", params={"heating_power": 1200}),
        _entity("fan.bedroom", "Bedroom Fan", "bedroom", attributes={"supported_features": 1 | 2 | 4 | 8}),
        _entity("fan.bathroom", "Bathroom Exhaust", "bathroom", params={"role": "exhaust"}),
        _entity("humidifier.bedroom", "Bedroom Humidifier", "bedroom", attributes={"supported_features": 1}),
        _entity("water_heater.boiler", "Boiler", "bathroom"),
    )
    openings = (
        _entity(
            "cover.living_room_blind",
            "Living Room Blind",
            "living_room",
            attributes={"device_class": "blind", "current_position": 100},
        ),
        _entity(
            "cover.garage", "Garage Door", "garden", attributes={"device_class": "garage", "supported_features": 11}
        ),
        EntitySpec("lock.front_door", "Front Door", "front_lock"),
        EntitySpec(
            "lock.back_door", "Back Door", area="kitchen", attributes={"code_format": r"\d{4}"}, params={"code": "4711"}
        ),
        _entity("valve.garden_tap", "Garden Tap", "garden", attributes={"supported_features": 15}),
    )
    others = (
        _entity(
            "media_player.tv", "TV", "living_room", attributes={"device_class": "tv", "supported_features": 2048 + 5565}
        ),
        _entity("media_player.kitchen_speaker", "Kitchen Speaker", "kitchen", attributes={"device_class": "speaker"}),
        EntitySpec("vacuum.robot", "Robot Vacuum", "robot"),
        _entity("lawn_mower.garden", "Mower", "garden"),
        _entity("alarm_control_panel.home", "Alarm", "living_room", params={"code": "1234"}),
        _entity("siren.alarm", "Siren", "living_room"),
        _entity("camera.garden", "Garden Camera", "garden"),
        _entity("number.ev_limit", "Charging Limit", "garden", "80.0", attributes={"min": 50, "max": 100, "step": 5}),
        _entity(
            "switch.car",
            "Car Charger",
            "garden",
            params={"power": 11_000, "charger": {"capacity": 60, "level": 35, "limit": "number.ev_limit"}},
        ),
        _entity("button.doorbell_test", "Doorbell Test", "living_room"),
        _entity("input_boolean.guests", "Guests"),
        _entity("input_number.target_lux", "Target Light", state="300.0", attributes={"min": 0, "max": 1000}),
        _entity("input_select.mode", "House Mode", attributes={"options": ["day", "evening", "night"]}),
        _entity("counter.visitors", "Visitors"),
        _entity("timer.tea", "Tea", "kitchen", attributes={"duration": "0:05:00"}),
        _entity("todo.shopping", "Shopping List", params={"items": ["milk", "bread"]}),
        _entity(
            "calendar.family",
            "Family",
            params={"events": [{"start": "2026-03-02T18:00:00", "end": "2026-03-02T19:00:00", "summary": "Swimming"}]},
        ),
        _entity(
            "scene.movie",
            "Movie",
            params={
                "entities": {
                    "light.living_room_lamp": {"state": "on", "brightness": 40},
                    "cover.living_room_blind": {"state": "closed", "current_position": 0},
                }
            },
        ),
        _entity(
            "script.good_night",
            "Good Night",
            params={
                "sequence": [
                    {"action": "light.turn_off", "target": {"entity_id": "all"}},
                    {"delay": {"minutes": 1}},
                    {"action": "lock.lock", "target": {"entity_id": "lock.front_door"}},
                ]
            },
        ),
        _entity("weather.home", "Weather"),
    )
    sensors = (
        *(
            _measure(quantity, room, f"{title} {quantity.title()}", f"sensor.{room}_{quantity}")
            for room, title in (
                ("kitchen", "Kitchen"),
                ("living_room", "Living Room"),
                ("bedroom", "Bedroom"),
                ("bathroom", "Bathroom"),
            )
            for quantity in ("temperature", "humidity")
        ),
        _measure("illuminance", "living_room", "Living Room Illuminance", "sensor.living_room_illuminance"),
        _measure("co2", "bedroom", "Bedroom CO2", "sensor.bedroom_co2"),
        _measure("pm25", "kitchen", "Kitchen Particles", "sensor.kitchen_pm25"),
        _measure("outdoor.temperature", "garden", "Outdoor Temperature", "sensor.outdoor_temperature"),
        _measure("home.power", None, "Home Power", "sensor.home_power"),
        _measure("home.energy", None, "Home Energy", "sensor.home_energy"),
        _measure("motion", "kitchen", "Kitchen Motion", "binary_sensor.kitchen_motion", device_class="motion"),
        _measure(
            "occupancy", "bedroom", "Bedroom Presence", "binary_sensor.bedroom_presence", device_class="occupancy"
        ),
        _measure(
            "open:bedroom_window", "bedroom", "Bedroom Window", "binary_sensor.bedroom_window", device_class="window"
        ),
        _measure("open:cover.garage", "garden", "Garage Contact", "binary_sensor.garage", device_class="garage_door"),
        _measure("charge:switch.car", "garden", "Car Battery", "sensor.car_battery"),
        _measure("battery:lock.front_door", "living_room", "Front Door Battery", "sensor.front_door_battery"),
    )
    anna = ResidentSpec(
        "anna",
        "Anna",
        "kitchen",
        routine=(
            ActivitySpec("08:30", "away", days="weekday"),
            ActivitySpec("17:30", "kitchen", "cook", days="weekday", jitter=10),
            ActivitySpec("19:00", "living_room", "tv"),
            ActivitySpec("22:45", "bedroom", "sleep"),
            ActivitySpec("06:45", "bathroom", "shower"),
            ActivitySpec("07:10", "kitchen", "eat"),
        ),
    )
    ben = ResidentSpec(
        "ben",
        "Ben",
        "bedroom",
        "work",
        routine=(
            ActivitySpec("12:30", "kitchen", "cook"),
            ActivitySpec("13:15", "bedroom", "work", days="weekday"),
            ActivitySpec(
                "18:30",
                "living_room",
                "tv",
                calls=({"action": "light.turn_on", "target": {"entity_id": "light.living_room_lamp"}},),
            ),
            ActivitySpec("23:15", "bedroom", "sleep"),
        ),
    )
    evening = {
        "id": "evening_lights",
        "alias": "Garden light at sunset",
        "triggers": [{"trigger": "sun", "event": "sunset"}],
        "actions": [{"action": "light.turn_on", "target": {"entity_id": "light.garden"}}],
    }
    return HomeSpec(
        "example",
        "Example Home",
        utc_offset=1.0,
        latitude=52.1,
        longitude=5.1,
        floors=(FloorSpec("ground", "Ground Floor", 0), FloorSpec("upper", "Upper Floor", 1)),
        rooms=rooms,
        links=links,
        openings=(OpeningSpec("bedroom_window", "bedroom"), OpeningSpec("terrace_door", "living_room", "door")),
        devices=devices,
        entities=(*lights, *climate, *openings, *others, *sensors),
        residents=(anna, ben),
        weather=weather_trace(7, 24 * 14, mean=6, swing=4, start_hour=8),
        automations=(evening,),
        tariff=(0.22,) * 7 + (0.31,) * 15 + (0.22,) * 2,
        seed=11,
    )
