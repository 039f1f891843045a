"""What a search may try: calls made of the request's own words and of the home, and nothing of the goal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..assist import translate
from ..backend import EntityState
from ..calls import ToolCall, parse_call
from ..oracle.regress import ATTRIBUTES, STATES
from ..session import Session
from ..tools import use

if TYPE_CHECKING:
    from ..env import SmartHomeEnv

_NUMBER = re.compile(r"(?<![\d:])\d+(?:\.\d+)?(?![\d:])")
_MINUTES = re.compile(r"\b(\d+(?:\.\d+)?) minutes?\b")
CLOCK = re.compile(r"\b\d\d:\d\d\b")
_SCALES = {"brightness": 2.55, "volume_level": 0.01}
_MOST = 4  # devices that are looked at closely
_LISTED = 16  # actions, at most


def candidates(env: SmartHomeEnv) -> list[tuple[str, float]]:
    """Actions to try from here with their prior probabilities, the likeliest first: see `proposals`."""
    return proposals(env.session)


def short_candidates(env: SmartHomeEnv) -> list[tuple[str, float]]:
    """The same in few words, see `short`: what `candidates=True` lists."""
    found: dict[str, float] = {}
    for text, prior in proposals(env.session):
        call = parse_call(text)
        assert isinstance(call, ToolCall)
        found.setdefault(short(env.session, call).text(), prior)
    return list(found.items())


def short(session: Session, call: ToolCall) -> ToolCall:
    """A service call as an Assist tool with the device's name, where that means the same; other calls as they are."""
    service, entity = str(call.args.get("service")), call.args.get("entity_id")
    if call.name != "call_service":
        return call
    where: dict[str, Any] = {}
    if entity is None:
        where = {"area": session.home.registry().areas[call.args["area_id"]].name, "domain": service.partition(".")[0]}
    elif (state := session.home.state(entity)) is not None:
        where = {"name": state.name}
    data = {key: value for key, value in call.args.items() if key not in ("service", "entity_id", "area_id")}
    field, value = next(iter(data.items()), ("", 0))
    told: dict[str, Any] = {}
    if len(data) > 1:
        return call
    if field:
        tool, name, scale = _SET.get((service, field), ("", "", 1.0))
        told = {name: round(float(value) * scale, 0 if name == "brightness" else 1)} if tool and name else {}
        told = {key: int(number) if number == int(number) else number for key, number in told.items()}
    else:
        tool = _SAID.get(service.partition(".")[2], "")
    if (service, value) == ("climate.set_hvac_mode", "off"):
        tool = "HassTurnOff"
    if not tool:
        return call
    found = translate(session.home, tool, {**where, **told})
    same = entity is None or (len(found.calls) == 1 and found.calls[0][3] == [entity])
    return ToolCall(tool, {**where, **told}) if found.error is None and same else call


_SAID = {
    **dict.fromkeys(("turn_on", "open_cover", "open_valve", "lock", "start", "start_mowing"), "HassTurnOn"),
    **dict.fromkeys(("turn_off", "close_cover", "close_valve", "unlock", "return_to_base", "dock"), "HassTurnOff"),
    **{"media_pause": "HassMediaPause", "media_play": "HassMediaUnpause"},
}
_SET = {
    ("light.turn_on", "brightness"): ("HassLightSet", "brightness", 1 / 2.55),
    ("light.turn_on", "color_temp_kelvin"): ("HassLightSet", "temperature", 1.0),
    ("climate.set_temperature", "temperature"): ("HassClimateSetTemperature", "temperature", 1.0),
    ("cover.set_cover_position", "position"): ("HassSetPosition", "position", 1.0),
    ("media_player.volume_set", "volume_level"): ("HassSetVolume", "volume_level", 100.0),
}


def accepted(env: SmartHomeEnv) -> tuple[str, ...]:
    """The proposals that would not be refused, at most 16, in alphabetical order; finishing is always among them."""
    finish, session = ToolCall("finish").text(), env.session
    found = [finish]
    for text, _ in short_candidates(env):
        if len(found) < _LISTED and text != finish and _fits(session, text):
            found.append(text)
    return tuple(sorted(found))


def _fits(session: Session, text: str) -> bool:
    call = parse_call(text)
    assert isinstance(call, ToolCall)
    before = session.recorder.save()
    try:
        return use(session, call).valid
    finally:
        session.recorder.load(before)


def proposals(session: Session) -> list[tuple[str, float]]:
    """Calls with their prior probabilities, the likeliest first.

    Devices are ranked by the words that their names and rooms share with what has been said, by the request and, after
    a question, by the resident.
    """
    said = " ".join((session.task.request, *_heard(session)))
    acted = bool(session.recorder.planned) or any(call.cause == "agent" for call in session.home.journal.calls)
    scored = [(3.0 if acted else 0.1, ToolCall("finish"))]
    for rank, (state, overlap) in enumerate(_devices(session, said)[:_MOST]):
        weight = overlap / (1 + rank)
        scored += [(weight * share, call) for share, call in device_calls(state, said)]
    for area in session.home.areas():
        if area.name.lower() in said.lower() and "all" in said.lower():
            for domain in ("light", "cover"):
                for service in dict.fromkeys(STATES[domain].values()):
                    scored.append(
                        (1.0, ToolCall("call_service", {"service": f"{domain}.{service}", "area_id": area.id}))
                    )
    scored += [(0.15, ToolCall("ask", {"question": "Which one do you mean?", "about": "which"}))]
    scored += [(0.1, ToolCall("ask", {"question": "What value should I set?", "about": "value"}))]
    total = sum(weight for weight, _ in scored)
    best: dict[str, float] = {}
    for weight, call in scored:
        best[call.text()] = max(best.get(call.text(), 0.0), weight / total)
    return sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))[:24]


def _heard(session: Session) -> Iterator[str]:
    asked = {act.what for act in session.recorder.acts if act.kind == "ask"}
    return (text for slot, text in session.task.answers.items() if slot in asked)


def words(text: str) -> set[str]:
    """The words of a text, in the singular, without the smallest."""
    return {word.rstrip("s") for word in re.findall(r"[a-z]+|\d+", text.lower())} - {
        "the",
        "in",
        "to",
        "and",
        "it",
        "i",
    }


def _devices(session: Session, said: str) -> list[tuple[EntityState, float]]:
    registry, heard, found = session.home.registry(), words(said), []
    for entity, state in session.home.states().items():
        if state.domain in STATES or state.domain in ("climate", "select", "number"):
            area = registry.areas.get(registry.area_of(entity) or "")
            own, place = words(state.name), words(area.name if area else "")
            here = area is not None and area.id == session.task.area and "in here" in said
            overlap = (
                len(own & heard) / len(own) + 0.3 * bool(place & heard) + 0.2 * (state.domain in said) + 0.5 * here
            )
            if overlap:
                found.append((state, overlap))
    return sorted(found, key=lambda pair: (-pair[1], pair[0].entity_id))


def delays(said: str) -> list[float]:
    """The minutes that were said."""
    return [float(text) for text in _MINUTES.findall(said)]


def device_calls(state: EntityState, said: str) -> Iterator[tuple[float, ToolCall]]:
    """Ways to change one device, now or later, with the numbers and times that were said."""
    entity, domain = state.entity_id, state.domain
    now: list[tuple[float, dict[str, Any]]] = []
    services = dict.fromkeys(STATES.get(domain, {}).values())
    now += [(1.0, {"service": f"{domain}.{name}"}) for name in services]
    if domain == "climate":
        now += [
            (0.5, {"service": "climate.set_hvac_mode", "hvac_mode": mode})
            for mode in state.attributes.get("hvac_modes", ())
        ]
    numbers = [float(text) for text in _NUMBER.findall(_MINUTES.sub("", said))]
    for (known, attribute), (service, field) in ATTRIBUTES.items():
        if known == domain and attribute in state.attributes and attribute != "rgb_color":
            scale, current = _SCALES.get(attribute, 1), state.attributes[attribute]
            values = [number * scale for number in numbers]
            if isinstance(current, int | float) and not isinstance(current, bool):
                values += [current + sign * number * scale for number in numbers for sign in (1, -1)]
            for value in values:
                value = round(value, 2)
                now.append(
                    (
                        1.5,
                        {"service": f"{domain}.{service}", field: round(value) if attribute == "brightness" else value},
                    )
                )
    for share, args in now:
        call = {"service": args["service"], "entity_id": entity, **{k: v for k, v in args.items() if k != "service"}}
        yield share, ToolCall("call_service", call)
        for minutes in delays(said):
            yield share * 0.8, ToolCall("schedule", {"after": minutes, **call})
        for clock in CLOCK.findall(said):
            yield share * 0.7, ToolCall("schedule", {"at": clock, **call})
    yield 0.3, ToolCall("get_state", {"entity_id": entity})
