"""All domains, by name."""

from __future__ import annotations

from collections.abc import Mapping

from . import climates, inputs, lights, lists, media, moisture, openings, readings, robots, scenes, security, timers
from .domain import Domain

DOMAINS: Mapping[str, Domain] = {
    domain.name: domain
    for domain in (
        lights.LIGHT,
        lights.SWITCH,
        lights.INPUT_BOOLEAN,
        lights.BUTTON,
        lights.INPUT_BUTTON,
        climates.CLIMATE,
        climates.FAN,
        moisture.HUMIDIFIER,
        moisture.WATER_HEATER,
        openings.COVER,
        openings.VALVE,
        openings.LOCK,
        media.MEDIA_PLAYER,
        robots.VACUUM,
        robots.LAWN_MOWER,
        security.ALARM,
        security.SIREN,
        security.CAMERA,
        inputs.NUMBER,
        inputs.SELECT,
        inputs.INPUT_NUMBER,
        inputs.INPUT_SELECT,
        inputs.INPUT_TEXT,
        inputs.COUNTER,
        lists.TODO,
        lists.CALENDAR,
        timers.TIMER,
        scenes.SCENE,
        scenes.SCRIPT,
        scenes.AUTOMATION,
        readings.SENSOR,
        readings.BINARY_SENSOR,
        readings.WEATHER,
        readings.PERSON,
        readings.DEVICE_TRACKER,
        readings.ZONE,
        readings.SUN,
        scenes.HOMEASSISTANT,
        scenes.NOTIFY,
        scenes.PERSISTENT_NOTIFICATION,
    )
}
