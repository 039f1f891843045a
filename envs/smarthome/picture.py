"""The home for a person: a floor plan with what every device does, and what has changed over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from textwrap import fill

from ..core.picture import Box, Dot, Label, Picture, Shape
from .backend import UNAVAILABLE, EntityState
from .blueprint.run import Recorder
from .sim.home import SimHome
from .spec import RoomSpec

_SCALES = (44.0, 62.0)  # units per metre: of homes with up to 20 devices, of others
_EDGE, _HEAD = 12.0, 34.0  # units around the plan, above each floor
_OUTDOORS = 150.0  # units: gardens are drawn no deeper
_ROW, _LETTER = 12.5, 5.1  # units of a line, of a letter at size 9.5
_WIDTH = 520.0  # at least: what the head line needs
_SHOWN = (
    *("light", "switch", "climate", "fan", "cover", "lock", "valve", "media_player", "vacuum", "humidifier"),
    *("water_heater", "lawn_mower", "alarm_control_panel", "siren", "camera"),
)
_QUIET = ("off", "closed", "locked", "docked", "idle", "standby", "disarmed", "unknown")
_SENSED = ("binary_sensor",)  # shown only while they tell something
_LIT, _ACTIVE, _STILL, _WRONG, _CHANGED = "#f2b01e", "#2f7d4f", "#b8bcc4", "#c0392b", "#1f4fa3"
_TIMELINE, _NAME, _BAR = 10, 200.0, 420.0  # rows; units of their names and of their bars


def picture(recorder: Recorder) -> Picture:
    """The home now. Bold is what differs from the moment at which the record began."""
    home = recorder.home
    places, width, height = _places(home)
    histories = recorder.histories()
    rows = {room: _rows(home, room, histories) for room in places}
    parts: dict[str, tuple[Shape, ...]] = {"plan": _plan(home, places, width, height)}
    for room, (x, y, wide, deep) in places.items():
        parts[room] = _room(home, room, rows[room], (x, y, wide, deep))
    parts["head"] = (Label(_EDGE, 16, _head(home, recorder), 12, bold=True),)
    timeline = _timeline(recorder, histories, height)
    parts["timeline"] = timeline
    depth = height + (30 + _ROW * 1.4 * (len(timeline) and _count(timeline)) if timeline else 0)
    return Picture(max(width, _WIDTH, _NAME + _BAR + 60 if timeline else 0), depth, parts, _text(home, recorder, rows))


# -- what there is to say ------------------------------------------------------------------------------------------


def _rows(home: SimHome, room: str, histories: Mapping[str, Sequence[EntityState]]) -> list[tuple[str, str, bool]]:
    """Words, colour and whether it has changed, for each device of a room: first what has, then what is on."""
    title = next(spec.name for spec in home.spec.rooms if spec.id == room)
    found = []
    for entity in home.registry().in_area(room):
        state = home.state(entity)
        if state is None or state.domain not in (*_SHOWN, *_SENSED):
            continue
        changed = _value(histories[entity][0]) != _value(state)
        active = state.state not in _QUIET
        if state.domain in _SENSED and not active and not changed:
            continue
        name = state.name.removeprefix(f"{title} ").removesuffix(f" {title}")
        colour = _WRONG if state.state == UNAVAILABLE else _STILL
        if active and state.state != UNAVAILABLE:
            colour = _LIT if state.domain == "light" else _ACTIVE
        found.append((not changed, not active, name, f"{name}: {_value(state)}", colour))
    return [(words, colour, not same) for same, _, _, words, colour in sorted(found)]


def _value(state: EntityState) -> str:
    """The state in a few words, with the number that goes with it."""
    told, text = state.attributes, state.state
    if state.domain == "light" and state.state == "on" and told.get("brightness") is not None:
        return f"on {round(float(told['brightness']) / 2.55)} %"
    if state.domain == "cover" and told.get("current_position") not in (None, 0, 100):
        return f"{text} {told['current_position']} %"
    if state.domain == "climate" and state.state != "off" and told.get("temperature") is not None:
        return f"{text} {told['temperature']:g} °C"
    if state.domain == "media_player" and state.state == "playing" and told.get("volume_level") is not None:
        return f"{text} {round(float(told['volume_level']) * 100)} %"
    if state.domain == "fan" and state.state == "on" and told.get("percentage") is not None:
        return f"on {told['percentage']} %"
    if state.domain == "humidifier" and state.state == "on" and told.get("humidity") is not None:
        return f"on {told['humidity']} %"
    return text


def _air(home: SimHome, room: str) -> str:
    air = home.rooms()[room]
    return f"{air.temperature:.1f} °C  {air.humidity:.0f} %  {home.air.lux(room):.0f} lx"


def _people(home: SimHome, room: str) -> list[str]:
    return [who.name for who in home.spec.residents if home.people.where[who.id][0] == room]


def _head(home: SimHome, recorder: Recorder) -> str:
    away = _people(home, "away")
    weather = home.sky.weather(home.time)
    told = f"{home.now():%A %Y-%m-%d %H:%M:%S}, outside {weather.temperature:.1f} °C"
    return told + (f", away: {', '.join(away)}" if away else "")


def _text(home: SimHome, recorder: Recorder, rows: Mapping[str, list[tuple[str, str, bool]]]) -> str:
    lines = [_head(home, recorder)]
    wide = max(len(room.name) for room in home.spec.rooms)
    for room in home.spec.rooms:
        people = ", ".join(_people(home, room.id))
        told = "; ".join(f"*{words}" if changed else words for words, _, changed in rows[room.id])
        air = "outdoors" if room.outdoor else _air(home, room.id)
        lines.append(f"{room.name:<{wide}}  {air}{f'  [{people}]' if people else ''}")
        lines.append(fill(told or "-", 79, initial_indent=" " * (wide + 2), subsequent_indent=" " * (wide + 2)))
    return "\n".join(lines)


# -- the drawing ---------------------------------------------------------------------------------------------------


def _places(home: SimHome) -> tuple[dict[str, tuple[float, float, float, float]], float, float]:
    """Every room's rectangle, floor below floor, and the size of all."""
    levels = {floor.id: floor.level for floor in home.spec.floors}
    floors: dict[str, list[RoomSpec]] = {}
    for room in sorted(home.spec.rooms, key=lambda room: -levels.get(room.floor or "", 0)):
        floors.setdefault(room.floor or "", []).append(room)
    scale = _SCALES[len(home.spec.devices) > 20]
    places, top, width = {}, 26.0, 0.0
    for rooms in floors.values():
        top += _HEAD - 10
        left, above = min(room.x for room in rooms), min(room.y for room in rooms)
        for room in rooms:
            x, y = _EDGE + (room.x - left) * scale, top + (room.y - above) * scale
            deep = min(room.depth * scale, _OUTDOORS) if room.outdoor else room.depth * scale
            places[room.id] = (x, y, room.width * scale, deep)
            width = max(width, x + room.width * scale + _EDGE)
        top = max(places[room.id][1] + places[room.id][3] for room in rooms)
    return places, width, top + 26


def _plan(
    home: SimHome, places: Mapping[str, tuple[float, float, float, float]], width: float, height: float
) -> tuple[Shape, ...]:
    """What never changes: the rooms, their names, the legend."""
    names = {floor.id: floor.name for floor in home.spec.floors}
    shapes: list[Shape] = []
    titled: set[str] = set()
    for room in sorted(home.spec.rooms, key=lambda room: places[room.id][1]):
        x, y, wide, deep = places[room.id]
        if (room.floor or "") not in titled and room.floor in names:
            shapes.append(Label(_EDGE, y - 6, names[room.floor], 11, "#666666"))
        titled.add(room.floor or "")
        shapes.append(Box(x, y, wide, deep, "#eef5ea" if room.outdoor else "#fbfaf7", "#8a8f98"))
        shapes.append(Label(x + 6, y + 15, _fit(room.name, wide - 12, 6.4), 11.5, bold=True))
    legend = (("light on", _LIT), ("on, open, unlocked", _ACTIVE), ("off, closed, locked", _STILL))
    along = _EDGE
    for words, colour in (*legend, ("not available", _WRONG), ("changed since the request", _CHANGED)):
        shapes.append(Dot(along + 4, height - 12, 4, colour))
        shapes.append(Label(along + 12, height - 8.5, words, 9.5, "#555555"))
        along += 22 + len(words) * _LETTER
    return tuple(shapes)


def _room(
    home: SimHome,
    room: str,
    rows: list[tuple[str, str, bool]],
    place: tuple[float, float, float, float],
) -> tuple[Shape, ...]:
    x, y, wide, deep = place
    outdoor = any(spec.id == room and spec.outdoor for spec in home.spec.rooms)
    people = ", ".join(_people(home, room))
    shapes: list[Shape] = []
    told = " ".join(part for part in ("" if outdoor else _air(home, room), people and f"· {people}") if part)
    shapes.append(Label(x + 6, y + 28, _fit(told, wide - 12), 9.5, "#555555"))
    deepest = max(1, int((deep - 34) / _ROW))
    columns = max(1, min(int(wide // 115), -(-len(rows) // deepest)))
    fitting = deepest * columns
    shown = rows if len(rows) <= fitting else rows[: fitting - 1]
    for index, (words, colour, changed) in enumerate(shown):
        column, row = divmod(index, deepest)
        left, base = x + 6 + column * (wide - 6) / columns, y + 42 + row * _ROW
        shapes.append(Dot(left + 3, base - 3.2, 3.2, colour, _CHANGED if changed else "none"))
        ink = _CHANGED if changed else "#333333"
        shapes.append(Label(left + 10, base, _fit(words, (wide - 6) / columns - 16), 9.5, ink, changed))
    if len(shown) < len(rows):
        column, row = divmod(len(shown), deepest)
        left, base = x + 6 + column * (wide - 6) / columns, y + 42 + row * _ROW
        shapes.append(Label(left + 10, base, f"+ {len(rows) - len(shown)} more", 9.5, "#777777"))
    return tuple(shapes)


def _timeline(recorder: Recorder, histories: Mapping[str, Sequence[EntityState]], top: float) -> tuple[Shape, ...]:
    """A bar for each device that has changed since the request: its states over time."""
    home, start, end = recorder.home, recorder.start, recorder.home.time
    histories = {
        entity: states
        for entity, states in histories.items()
        if entity.partition(".")[0] in (*_SHOWN, *_SENSED) and len({_value(state) for state in states}) > 1
    }
    if not histories or end <= start:
        return ()
    shapes: list[Shape] = [
        Label(_EDGE, top + 14, f"From the request, {_clock(home, start)}, to {_clock(home, end)}", 10, "#555555")
    ]
    for number, states in enumerate(list(histories.values())[:_TIMELINE]):
        y = top + 22 + number * _ROW * 1.4
        shapes.append(Label(_EDGE, y + 10, _fit(states[0].name, _NAME - 20), 9.5))
        told = ""
        for index, state in enumerate(states):
            since = max(start, state.last_updated)
            until = states[index + 1].last_updated if index + 1 < len(states) else end
            left = _EDGE + _NAME + _BAR * (since - start) / (end - start)
            long = _BAR * (max(since, until) - since) / (end - start)
            colour = _LIT if state.domain == "light" else "#8cc3a0"
            quiet = state.state in _QUIET
            shapes.append(Box(left, y, max(long, 1.0), 13, "#e4e6ea" if quiet else colour, "#ffffff"))
            words = _value(state)
            if words != told and long > len(words) * _LETTER + 6:
                shapes.append(Label(left + 4, y + 10, words, 9))
                told = words
    return tuple(shapes)


def _count(timeline: tuple[Shape, ...]) -> int:
    return len({shape.y for shape in timeline if isinstance(shape, Box)})


def _clock(home: SimHome, time: float) -> str:
    return f"{datetime.fromtimestamp(time, home.now().tzinfo):%H:%M:%S}"


def _fit(text: str, width: float, letter: float = _LETTER) -> str:
    most = max(3, int(width / letter))
    return text if len(text) <= most else f"{text[: most - 1]}…"
