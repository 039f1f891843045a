"""More that a search may try: looking up, telling, refusing, preferences, rules, and a room's devices for wishes.

As in `candidates`, everything is made of what was said, of the home, and of what the agent has looked at; nothing of
the goal. There are more proposals to a state, so a search takes more simulations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..backend import EntityState
from ..blueprint.goal import REASONS
from ..calls import ToolCall
from ..oracle.regress import STATES
from ..session import Session
from .candidates import CLOCK, candidates, delays, device_calls, words

if TYPE_CHECKING:
    from ..env import SmartHomeEnv

_MOST = 60
_SORTS = {
    "light": ("light", "lamp"),
    "cover": ("blind", "curtain", "cover"),
    "switch": ("switch", "switche", "plug"),
    "media_player": ("player",),
    "fan": ("fan",),
    "sensor": ("warmest", "coldest", "room"),
}
"""Domain -> words that mean all its devices."""
_ACTIVE = {"cover": "open", "media_player": "playing"}  # else "on"
_QUESTION = re.compile(r"^(what|how|which|where|why|tell)\b|\bfind out\b", re.IGNORECASE)
_ORDER = re.compile(
    r"\b(turn|switch|set|open|close|lock|unlock|make|put|start|stop|dim|play|pause|bring|let|run|keep)\b", re.IGNORECASE
)
_MEANT = {"wake": {"up"}, "bed": {"bed"}, "sleep": {"sleeping"}}  # key of a preference -> other words for it
_THING = re.compile(r"\bthe ([a-z][a-z -]*?)(?= in the\b| on\b| off\b| and\b|[,.?!]|$)")


def wide_candidates(env: SmartHomeEnv) -> list[tuple[str, float]]:
    """Actions to try from here with their prior probabilities, the likeliest first."""
    session = env.session
    found = dict(candidates(env))
    for weight, call in _more(session):
        found[call.text()] = max(found.get(call.text(), 0.0), weight)
    finish = ToolCall("finish").text()
    others = {text: weight for text, weight in found.items() if text != finish}
    kept = dict(sorted(others.items(), key=lambda pair: (-pair[1], pair[0]))[:_MOST])
    total = sum(kept.values())
    kept[finish] = total * (0.5 if _acted(session) else 0.02)
    total += kept[finish]
    return sorted(((text, weight / total) for text, weight in kept.items()), key=lambda pair: (-pair[1], pair[0]))


def _acted(session: Session) -> bool:
    """Whether the agent has changed, planned or refused something."""
    recorder, home = session.recorder, session.home
    rules = len(home.automations()) > len(session.task.home.automations)
    refused = any(act.kind == "refuse" for act in recorder.acts)
    return bool(recorder.planned) or rules or refused or any(call.cause == "agent" for call in home.journal.calls)


def _more(session: Session) -> Iterator[tuple[float, ToolCall]]:
    request = session.task.request
    looked = {act.what for act in session.recorder.acts if act.kind == "look"}
    ranked = _ranked(session, request)
    if _QUESTION.search(request):
        yield from _looking_up(request, ranked)
        yield from _telling(session, request, ranked, looked)
    else:
        yield from _refusing(session, request, ranked, looked)
        yield from _rules(request, ranked)
        yield from _waiting(session, request)
        if not _ORDER.search(request):
            yield from _wishes(session, request)
    yield from _liking(session, request, ranked, looked)
    for state, overlap in ranked[:2]:
        yield 0.1 * overlap, ToolCall("get_state", {"entity_id": state.entity_id})


def _ranked(session: Session, said: str) -> list[tuple[EntityState, float]]:
    """Every entity whose name shares words with what was said, the closest first."""
    registry, heard, found = session.home.registry(), words(said), []
    for entity, state in session.home.states().items():
        own = words(state.name)
        area = registry.areas.get(registry.area_of(entity) or "")
        place = words(area.name) if area else set()
        if entity in registry.entities and own & heard:
            found.append((state, len(own & heard) / len(own) + 0.3 * bool(place & heard)))
    return sorted(found, key=lambda pair: (-pair[1], pair[0].entity_id))


def _looking_up(request: str, ranked: list[tuple[EntityState, float]]) -> Iterator[tuple[float, ToolCall]]:
    heard = words(request)
    past = {"today", "since", "highest", "lowest"} & heard
    for state, overlap in ranked[:3]:
        tool = "get_history" if past else "get_state"
        yield 0.3 * overlap, ToolCall(tool, {"entity_id": state.entity_id})
    for domain, names in _SORTS.items():
        if heard & set(names):
            yield 0.5, ToolCall("list_entities", {"domain": domain})


def _telling(
    session: Session, request: str, ranked: list[tuple[EntityState, float]], looked: set[str]
) -> Iterator[tuple[float, ToolCall]]:
    """Answers out of what has been looked at."""
    home, heard = session.home, words(request)
    messages: list[str] = []
    if {"highest", "high"} & heard:
        for state, _ in ranked[:3]:
            readings = [item.state for item in home.history(state.entity_id) if item.state[:1].isdigit()]
            messages += [f"{max(readings, key=float)}."] if readings and state.entity_id in looked else []
    messages += [f"{state.name}: {state.state}." for state, _ in ranked[:3] if state.entity_id in looked]
    for domain, names in _SORTS.items():
        states = [state for state in home.states().values() if state.domain == domain and state.entity_id in looked]
        if states and heard & set(names) and domain != "sensor":
            active = _ACTIVE.get(domain, "on")
            messages.append(f"{sum(state.state == active for state in states)}.")
    registry = home.registry()
    warmth = [
        (float(state.state), registry.areas[area].name)
        for entity in sorted(looked)
        if (state := home.state(entity)) is not None
        and state.attributes.get("device_class") == "temperature"
        and (area := registry.area_of(entity)) is not None
    ]
    if warmth and {"warmest", "coldest"} & heard:
        messages.append(f"{(max if 'warmest' in heard else min)(warmth)[1]}.")
    for entity in sorted(looked):
        state = home.state(entity)
        if state is not None and state.attributes.get("device_class") == "window" and state.state == "on":
            messages.append(f"{state.name}: a window is open.")
    for message in messages:
        yield 1.0, ToolCall("finish", {"message": message})


def _refusing(
    session: Session, request: str, ranked: list[tuple[EntityState, float]], looked: set[str]
) -> Iterator[tuple[float, ToolCall]]:
    done = {(act.what, act.about) for act in session.recorder.acts if act.kind == "refuse"}
    names = [state.name for state, _ in ranked[:3] if state.entity_id in looked][:2]
    options = [(reason, name) for name in names for reason in REASONS if reason != "no_such_device"]
    known = {state.name.lower() for state in session.home.states().values()}
    options += [("no_such_device", thing) for thing in _THING.findall(request) if thing.lower() not in known]
    for reason, about in options:
        if (reason, about) not in done:
            yield 0.08 if done else 0.15, ToolCall("refuse", {"reason": reason, "about": about})


def _waiting(session: Session, request: str) -> Iterator[tuple[float, ToolCall]]:
    """Waiting for the minutes, or until the time of day, that was said, to act then."""
    now = session.home.now()
    clocks = [(int(text[:2]) - now.hour) * 60 + int(text[3:]) - now.minute for text in CLOCK.findall(request)]
    for minutes in (*delays(request), *(minutes % 1440 for minutes in clocks)):
        if minutes:
            yield 0.5, ToolCall("wait", {"minutes": minutes})


def _rules(request: str, ranked: list[tuple[EntityState, float]]) -> Iterator[tuple[float, ToolCall]]:
    """Rules with a sensor or machine of the request as the trigger and another of its devices to act."""
    if not re.search(r"\b(whenever|every time|if|when|after)\b", request, re.IGNORECASE):
        return
    later = [float(number) for number in re.findall(r"\b(\d+) minutes? after\b", request)] or [0.0]
    triggers = [state for state, _ in ranked if state.domain in ("binary_sensor", "switch")][:2]
    devices = [state for state, _ in ranked if state.domain in STATES][:3]
    for trigger in triggers:
        to = "on" if trigger.domain == "binary_sensor" else "off"
        for device in devices:
            for service in dict.fromkeys(STATES[device.domain].values()) if device is not trigger else ():
                wait = [{"delay": {"minutes": delay}} for delay in later if delay]
                act = {"action": f"{device.domain}.{service}", "target": {"entity_id": device.entity_id}}
                config = {
                    "alias": f"{device.entity_id} after {trigger.entity_id}",
                    "triggers": [{"trigger": "state", "entity_id": trigger.entity_id, "to": to}],
                    "actions": [*wait, act],
                }
                yield 0.3, ToolCall("create_automation", {"config": json.dumps(config)})


def _wishes(session: Session, request: str) -> Iterator[tuple[float, ToolCall]]:
    """What the devices of the room that is meant can do."""
    registry = session.home.registry()
    named = [area.id for area in session.home.areas() if area.name.lower() in request.lower()]
    for room in named[:1] or [session.task.area]:
        for entity in registry.in_area(room) if room else ():
            state = session.home.state(entity)
            if state is None or state.domain not in ("light", "climate", "fan", "media_player", "humidifier", "cover"):
                continue
            for service in dict.fromkeys(STATES.get(state.domain, {}).values()):
                yield 0.15, ToolCall("call_service", {"service": f"{state.domain}.{service}", "entity_id": entity})
            where = {"entity_id": entity}
            if state.domain == "climate":
                for mode in state.attributes.get("hvac_modes", ()):
                    yield (
                        0.1,
                        ToolCall("call_service", {"service": "climate.set_hvac_mode", **where, "hvac_mode": mode}),
                    )
                for more in (3, 6):
                    warm = round(float(state.attributes.get("current_temperature") or 20) + more)
                    yield (
                        0.1,
                        ToolCall("call_service", {"service": "climate.set_temperature", **where, "temperature": warm}),
                    )
            if state.domain == "humidifier":
                for percent in (40, 45):
                    call = {"service": "humidifier.set_humidity", **where, "humidity": percent}
                    yield 0.1, ToolCall("call_service", call)
            if state.domain == "media_player":
                yield (
                    0.1,
                    ToolCall("call_service", {"service": "media_player.volume_set", **where, "volume_level": 0.05}),
                )


def _liking(
    session: Session, request: str, ranked: list[tuple[EntityState, float]], looked: set[str]
) -> Iterator[tuple[float, ToolCall]]:
    """Preferences of those who speak or are spoken of; once they are known, the values that the request means."""
    heard = words(request)
    for who in session.task.home.residents:
        if who.id != session.task.speaker and who.name not in request:
            continue
        if f"person.{who.id}" not in looked:
            meant = who.name in request or re.search(r"\b(I|my)\b", request) is not None
            yield 0.4 if meant else 0.1, ToolCall("get_preferences", {"person": who.name})
            continue
        names = {
            key: words(key.replace("_", " ")) | _MEANT.get(key.partition("_")[0], set()) for key in who.preferences
        }
        fitting = [value for key, value in who.preferences.items() if names[key] & heard]
        said = " ".join(map(str, fitting or who.preferences.values()))
        for state, overlap in ranked[:2]:
            for share, call in device_calls(state, said):
                yield 0.4 * overlap * share, call
