"""Domains without services of their own, or with questions only: sensors, people, the sun and the weather."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..backend import EntityState
from ..spec import EntitySpec
from .domain import Domain, Refused, Service, flags
from .fields import Choice
from .sensing import attributes_of
from .sky import DAY, condition

if TYPE_CHECKING:
    from .home import SimHome

FORECAST_DAILY, FORECAST_HOURLY, FORECAST_TWICE_DAILY = 1, 2, 4


def _sensor(spec: EntitySpec) -> tuple[str, dict[str, Any]]:
    return "unknown", attributes_of(str(spec.params.get("measures", "")))


def _forecasts(home: SimHome, weather: EntityState, data: dict[str, Any]) -> dict[str, Any]:
    kind = data["type"]
    bit = {"daily": FORECAST_DAILY, "hourly": FORECAST_HOURLY, "twice_daily": FORECAST_TWICE_DAILY}[kind]
    if not flags(weather) & bit:
        raise Refused(
            f"Weather entity '{weather.entity_id}' does not support '{kind}' forecast", "home_assistant_error"
        )
    step = {"daily": DAY, "hourly": 3600.0, "twice_daily": DAY / 2}[kind]
    first = (home.time // 3600 + 1) * 3600
    forecast = []
    for index in range(24 if kind == "hourly" else 5):
        start = first + index * step
        points = [home.sky.weather(start + hour * 3600) for hour in range(max(1, int(step // 3600)))]
        middle = points[len(points) // 2]
        forecast.append(
            {
                "datetime": home.iso(start),
                "condition": condition(middle, home.sky.sun(start).elevation < 0 and kind == "hourly"),
                "temperature": round(max(point.temperature for point in points), 1),
                "templow": round(min(point.temperature for point in points), 1),
                "humidity": round(middle.humidity),
                "precipitation": round(sum(point.rain for point in points), 1),
                "wind_speed": round(middle.wind, 1),
            }
        )
    return {"forecast": forecast}


def weather_now(home: SimHome) -> tuple[str, dict[str, Any]]:
    """The state and attributes of the weather entity."""
    point = home.sky.weather(home.time)
    state = condition(point, home.sky.sun(home.time).elevation < 0)
    return state, {
        "temperature": round(point.temperature, 1),
        "humidity": round(point.humidity),
        "cloud_coverage": round(100 * point.cloud),
        "wind_speed": round(point.wind, 1),
    }


def sun_now(home: SimHome) -> tuple[str, dict[str, Any]]:
    """The state and attributes of `sun.sun`."""
    rise, fall = (home.sky.next_edge(home.time, edge) for edge in ("sunrise", "sunset"))
    up = fall < rise if fall != rise else home.sky.sun(home.time).elevation > 0  # equal: a polar day or night
    return ("above_horizon" if up else "below_horizon"), {"next_rising": home.iso(rise), "next_setting": home.iso(fall)}


SENSOR = Domain("sensor", "a reading", initial=_sensor, timing="room sensors report every 5 minutes")
BINARY_SENSOR = Domain(
    "binary_sensor",
    "on, off",
    initial=lambda spec: ("off", {}),
    timing="motion sensors are off 90 s after the last movement",
)
WEATHER = Domain(
    "weather",
    "sunny, clear-night, partlycloudy, cloudy, rainy, pouring, snowy, windy",
    {
        "get_forecasts": Service(
            _forecasts, {"type": Choice(("daily", "hourly", "twice_daily"))}, ("type",), responds=True
        )
    },
    lambda spec: (
        "unknown",
        {
            "temperature_unit": "°C",
            "wind_speed_unit": "m/s",
            "precipitation_unit": "mm",
            "supported_features": FORECAST_DAILY | FORECAST_HOURLY | FORECAST_TWICE_DAILY,
        },
    ),
    {
        "FORECAST_DAILY": FORECAST_DAILY,
        "FORECAST_HOURLY": FORECAST_HOURLY,
        "FORECAST_TWICE_DAILY": FORECAST_TWICE_DAILY,
    },
    timing="follows the home's trace",
)
PERSON = Domain("person", "home, not_home", initial=lambda spec: ("not_home", {}))
DEVICE_TRACKER = Domain("device_tracker", "home, not_home", initial=lambda spec: ("not_home", {}))
ZONE = Domain("zone", "how many people are in it", initial=lambda spec: ("0", {"radius": 100}))
SUN = Domain(
    "sun", "above_horizon, below_horizon", initial=lambda spec: ("unknown", {}), timing="changes at sunrise and sunset"
)
