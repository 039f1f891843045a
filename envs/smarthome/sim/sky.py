"""The sky: the sun's position, sunrise and sunset, and the weather's trace.

The sun follows Spencer's series for the declination and the equation of time: within two minutes of an almanac, and a
function of time only.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..spec import HomeSpec, WeatherPoint
from .draws import uniform

DAY, HOUR = 86_400.0, 3_600.0
_HORIZON = -0.833  # degrees: refraction and the sun's radius


class Sun(NamedTuple):
    """Where the sun is."""

    elevation: float
    """Degrees above the horizon."""
    azimuth: float
    """Degrees from north."""


def _declination(day: float) -> float:
    """The sun's, in radians (Spencer's series)."""
    angle = 2 * math.pi * (day - 1) / 365.25
    first = 0.006918 - 0.399912 * math.cos(angle) + 0.070257 * math.sin(angle)
    second = -0.006758 * math.cos(2 * angle) + 0.000907 * math.sin(2 * angle)
    return first + second - 0.002697 * math.cos(3 * angle) + 0.00148 * math.sin(3 * angle)


def _equation_of_time(day: float) -> float:
    """Minutes by which a sundial is ahead (Spencer's series)."""
    angle = 2 * math.pi * (day - 1) / 365.25
    first = 0.000075 + 0.001868 * math.cos(angle) - 0.032077 * math.sin(angle)
    return 229.18 * (first - 0.014615 * math.cos(2 * angle) - 0.040849 * math.sin(2 * angle))


class Sky:
    """The sun and the weather over one home; everything is a function of time (seconds since 1970, UTC)."""

    def __init__(self, spec: HomeSpec, start: float) -> None:
        self._spec, self._start = spec, start
        self._latitude = math.radians(max(-89.0, min(89.0, spec.latitude)))
        self._edges: dict[int, tuple[float, float]] = {}  # a cache: functions of the day
        self._light: tuple[float, tuple[float, float, Sun]] | None = None  # the last answer of `radiation`

    def sun(self, time: float) -> Sun:
        """The sun's position."""
        day = time / DAY % 365.25 + 1
        solar = (time % DAY) / HOUR + self._spec.longitude / 15 + _equation_of_time(day) / 60
        hour_angle = math.radians(15 * (solar - 12))
        declination = _declination(day)
        sine = math.sin(self._latitude) * math.sin(declination)
        sine += math.cos(self._latitude) * math.cos(declination) * math.cos(hour_angle)
        east = -math.cos(declination) * math.sin(hour_angle)
        north = math.cos(self._latitude) * math.sin(declination)
        north -= math.sin(self._latitude) * math.cos(declination) * math.cos(hour_angle)
        return Sun(math.degrees(math.asin(max(-1, min(1, sine)))), math.degrees(math.atan2(east, north)) % 360)

    def edges(self, day: int) -> tuple[float, float]:
        """(sunrise, sunset) around the solar noon of a day since 1970; a polar day or night has both at noon."""
        if day not in self._edges:
            number = day % 365.25 + 1.5
            noon = day * DAY + (12 - self._spec.longitude / 15 - _equation_of_time(number) / 60) * HOUR
            declination = _declination(number)
            cosine = math.sin(math.radians(_HORIZON)) - math.sin(self._latitude) * math.sin(declination)
            cosine /= math.cos(self._latitude) * math.cos(declination)
            half = math.degrees(math.acos(max(-1, min(1, cosine)))) / 15 * HOUR
            self._edges[day] = (noon, noon) if half in (0.0, 12 * HOUR) else (noon - half, noon + half)
        return self._edges[day]

    def next_edge(self, time: float, which: str, offset: float = 0.0) -> float:
        """The first "sunrise" or "sunset" after `time`, shifted by `offset` seconds."""
        index = 0 if which == "sunrise" else 1
        day = int(time // DAY) - 2
        while self.edges(day)[index] + offset <= time:
            day += 1
        return self.edges(day)[index] + offset

    def weather(self, time: float) -> WeatherPoint:
        """The weather, between the trace's hourly points."""
        trace = self._spec.weather
        hours = max(0.0, (time - self._start) / HOUR)
        index = int(hours)
        here, there = trace[index % len(trace)], trace[(index + 1) % len(trace)]
        part = hours - index
        return WeatherPoint(
            here.temperature + (there.temperature - here.temperature) * part,
            here.humidity + (there.humidity - here.humidity) * part,
            here.cloud + (there.cloud - here.cloud) * part,
            here.wind + (there.wind - here.wind) * part,
            here.rain,
        )

    def radiation(self, time: float) -> tuple[float, float, Sun]:
        """(direct, diffuse) sunlight in watts per square metre, and the sun."""
        if self._light is None or self._light[0] != time:
            self._light = time, self._radiation(time)
        return self._light[1]

    def _radiation(self, time: float) -> tuple[float, float, Sun]:
        sun = self.sun(time)
        if sun.elevation <= 0:
            return 0.0, 0.0, sun
        sine = math.sin(math.radians(sun.elevation))
        cloud = self.weather(time).cloud
        return 900 * sine**0.3 * (1 - 0.9 * cloud), (60 + 120 * cloud) * sine, sun


def condition(point: WeatherPoint, dark: bool) -> str:
    """Home Assistant's word for the weather."""
    if point.rain > 0.1:
        return "snowy" if point.temperature < 0.5 else "pouring" if point.rain > 4 else "rainy"
    if point.wind > 12:
        return "windy"
    if point.cloud < 0.25:
        return "clear-night" if dark else "sunny"
    return "partlycloudy" if point.cloud < 0.7 else "cloudy"


def weather_trace(
    seed: int, hours: int, mean: float = 10.0, swing: float = 4.0, start_hour: float = 0.0, cloud: float = 0.5
) -> tuple[WeatherPoint, ...]:
    """A plausible trace, one point per hour: days and nights, fronts that drift, rain where it is overcast.

    Args:
        seed: equal seeds, equal traces.
        hours: its length.
        mean: degrees Celsius, over the trace.
        swing: half of what lies between day and night, in kelvin.
        start_hour: local hour of the first point.
        cloud: mean covered fraction of the sky.
    """
    points = []
    for hour in range(hours):
        front = _drift(seed, "front", hour, 36) * 5
        cover = min(1.0, max(0.0, cloud + 0.9 * _drift(seed, "cloud", hour, 9)))
        day = math.cos(2 * math.pi * (start_hour + hour - 15) / 24)  # warmest at three in the afternoon
        temperature = mean + front + swing * day * (1 - 0.5 * cover)
        wind = max(0.0, 4 + 6 * _drift(seed, "wind", hour, 7))
        rain = max(0.0, cover - 0.75) * 16 * max(0.0, _drift(seed, "rain", hour, 3) + 0.5)
        humidity = min(98.0, max(25.0, 75 - 4 * swing * day / 2 + 15 * (cover - 0.5) + 3 * rain))
        points.append(
            WeatherPoint(round(temperature, 2), round(humidity, 1), round(cover, 3), round(wind, 2), round(rain, 2))
        )
    return tuple(points)


def _drift(seed: int, name: str, hour: int, length: int) -> float:
    """A smooth random line in (-0.5, 0.5) with a knot every `length` hours."""
    knot, part = divmod(hour, length)
    here, there = uniform(seed, name, knot), uniform(seed, name, knot + 1)
    weight = (1 - math.cos(math.pi * part / length)) / 2
    return here + (there - here) * weight - 0.5
