"""Judges a goal over a run: every condition becomes the stretches of time in which it holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from ..backend import EntityState
from . import spans
from .goal import (
    After,
    Always,
    And,
    Asked,
    At,
    Attribute,
    Blueprint,
    Called,
    Condition,
    Each,
    Energy,
    Forbid,
    HoldsFor,
    Looked,
    Moment,
    Never,
    Not,
    Or,
    Refused,
    Room,
    Said,
    Selector,
    State,
    Unchanged,
    Until,
    Value,
    Within,
    about,
)
from .run import Run
from .spans import Spans

DAY = 86_400.0
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_PASSIVE = ("sensor", "binary_sensor", "weather", "sun", "person", "zone", "device_tracker", "calendar", "event")
_DRIFTING = (  # attributes that follow from time and physics, whoever did what
    *("current_temperature", "current_humidity", "hvac_action", "action", "battery_level", "last_triggered", "current"),
    *("media_position", "media_position_updated_at", "remaining", "finishes_at", "changed_by", "in_progress"),
)


@dataclass(frozen=True)
class Verdict:
    """A goal judged over a run."""

    must: tuple[bool, ...]
    """For each condition of the goal's `must` whether it holds."""
    broken: tuple[int, ...]
    """The numbers of the goal's `must_not` that hold all the same."""
    preferred: float
    """The share of the weight of `prefer` that is met; 1 where there is none."""
    side_effects: tuple[str, ...]
    """What differs from the run without the agent although it must not."""

    @property
    def success(self) -> bool:
        """Everything that must be is, and nothing that must not."""
        return all(self.must) and not self.broken


def judge(goal: Blueprint, run: Run, alone: Run) -> Verdict:
    """The goal, at the end of `run`; `alone` is the run without the agent, as long or longer."""
    effects = side_effects(goal, run, alone)
    weight = sum(part for part, _ in goal.prefer)
    met = sum(part for part, condition in goal.prefer if holds(condition, run, alone))
    return Verdict(
        tuple(holds(condition, run, alone) for condition in goal.must),
        tuple(index for index, condition in enumerate(goal.must_not) if holds(condition, run, alone)),
        met / weight if weight else 1.0,
        effects,
    )


def holds(condition: Condition, run: Run, alone: Run) -> bool:
    """Whether a condition holds at the end of the run."""
    return spans.holds_at(when(condition, run, alone), run.end)


def side_effects(goal: Blueprint, run: Run, alone: Run) -> tuple[str, ...]:
    """What the goal's `unchanged` conditions find changed."""
    found = [item for item in (*goal.must, *goal.must_not) if isinstance(item, Unchanged)]
    return tuple(dict.fromkeys(name for item in found for name in changes(run, alone, item.without)))


def moment(time: Moment, run: Run) -> float:
    """A moment in seconds since 1970."""
    if time.kind == "end":
        return run.end
    if time.kind == "start":
        return run.start + time.seconds
    midnight = (run.start + run.utc_offset * 3600) // DAY * DAY - run.utc_offset * 3600
    at = midnight + time.seconds
    return at if at >= run.start else at + DAY


def when(condition: Condition, run: Run, alone: Run) -> Spans:
    """When a condition holds. Temporal ones look no further than the run's end."""

    def inner(part: Condition) -> Spans:
        return when(part, run, alone)

    match condition:
        case State(entity, value):
            return _states(run, entity, lambda state: state.state == value)
        case Attribute():
            return _states(run, condition.entity, lambda state: _attribute(condition, state))
        case Room(room, quantity, op, value):
            seen = ((sample.time, sample.rooms.get(room, {}).get(quantity)) for sample in run.samples)
            return spans.steps((time, found is not None and _COMPARE[op](found, value)) for time, found in seen)
        case Energy(op, value, start, end):
            first, last = moment(start, run), min(moment(end, run), run.end)
            used = run.energy_at(last) - run.energy_at(first) if last >= first else 0.0
            return spans.const(_COMPARE[op](used, value))
        case Called(service, entity):
            return _from(call.time for call in run.calls if _is_call(call, service, entity))
        case Forbid(service, entity):
            return spans.inverse(_from(call.time for call in run.calls if _is_call(call, service, entity)))
        case Looked(entity):
            return _from(act.time for act in run.acts if act.kind == "look" and act.what == entity)
        case Said(pattern):
            said = (act for act in run.acts if act.kind == "say")
            return _from(act.time for act in said if re.search(pattern, act.what, re.IGNORECASE))
        case Asked(slot):
            return _from(act.time for act in run.acts if act.kind == "ask" and act.what == slot)
        case Refused(reason, named):
            refused = (act for act in run.acts if act.kind == "refuse" and act.what == reason)
            return _from(act.time for act in refused if re.search(named, act.about, re.IGNORECASE))
        case Each(quantifier, selector, of, op, number):
            return _each(quantifier, [inner(about(of, entity)) for entity in members(selector, run)], op, number)
        case Not(of):
            return spans.inverse(inner(of))
        case And(of):
            return spans.both(*map(inner, of))
        case Or(of):
            return spans.either(*map(inner, of))
        case At(time, of, tolerance):
            at = moment(time, run)
            return spans.const(spans.touches(inner(of), at - tolerance, min(at + tolerance, run.end)))
        case Within(seconds, of):
            return spans.const(spans.touches(inner(of), run.start, min(run.start + seconds, run.end)))
        case Until(hold, release):
            first = next((max(start, run.start) for start, end in inner(release) if end > run.start), spans.FOREVER)
            return spans.const(first <= run.end and spans.covers(inner(hold), run.start, first))
        case Always(of, start, end):
            first = moment(start, run)
            return spans.const(first <= run.end and spans.covers(inner(of), first, _last(end, run)))
        case Never(of, start, end):
            return spans.const(spans.covers(spans.inverse(inner(of)), moment(start, run), _last(end, run)))
        case HoldsFor(seconds, of):
            held = (min(end, run.end) - max(start, run.start) for start, end in inner(of))
            return spans.const(any(length >= seconds for length in held))
        case After(event, of, delay, tolerance):
            return spans.const(_after(spans.begins(inner(event), run.start), inner(of), delay, tolerance, run.end))
        case Unchanged(without):
            return spans.const(not changes(run, alone, without))


def members(selector: Selector, run: Run) -> list[str]:
    """The entities of a set, sorted."""
    return sorted(
        entity
        for entity in run.registry.entities
        if fnmatchcase(entity.partition(".")[0], selector.domain)
        and selector.area in (None, run.registry.area_of(entity))
        and entity not in selector.without
    )


def changes(run: Run, alone: Run, without: tuple[str, ...] = ()) -> tuple[str, ...]:
    """What is otherwise than in the run without the agent: "light.desk", "light.desk.brightness"."""
    found = []
    for entity in sorted({*run.registry.entities, *alone.registry.entities}):
        if entity.partition(".")[0] in _PASSIVE or _excepted(entity, without):
            continue
        here = run.state_at(entity, run.end) if entity in run.registry.entities else None
        there = alone.state_at(entity, run.end) if entity in alone.registry.entities else None
        found += [name for name in _differences(entity, here, there) if not _excepted(name, without)]
    return tuple(found)


def _differences(entity: str, here: EntityState | None, there: EntityState | None) -> Iterable[str]:
    if here is None or there is None:
        return [entity] if here is not there else []
    names = [entity] if here.state != there.state else []
    keys = sorted({*here.attributes, *there.attributes} - {*_DRIFTING})
    return names + [f"{entity}.{key}" for key in keys if here.attributes.get(key) != there.attributes.get(key)]


def _excepted(name: str, without: tuple[str, ...]) -> bool:
    entity = ".".join(name.split(".")[:2])
    return any(fnmatchcase(name, pattern) or fnmatchcase(entity, pattern) for pattern in without)


def _states(run: Run, entity: str, test: Callable[[EntityState], bool]) -> Spans:
    return spans.steps((state.last_updated, test(state)) for state in run.states.get(entity, ()))


def _attribute(condition: Attribute, state: EntityState) -> bool:
    if condition.name == "state":
        try:
            found: Any = float(state.state)
        except ValueError:
            return False
    else:
        found = state.attributes.get(condition.name)
    return compares(found, condition.op, condition.value, condition.tolerance)


def compares(found: Any, op: str, value: Value, tolerance: float = 0.0) -> bool:
    """`found op value`; what cannot be compared does not."""
    if op in ("=", "!="):
        return _equal(found, value, tolerance) == (op == "=")
    if _is_number(found) and _is_number(value):
        return _COMPARE[op](found, value)
    return False


def _equal(found: Any, value: Any, tolerance: float) -> bool:
    if isinstance(value, tuple):
        same = isinstance(found, list | tuple) and len(found) == len(value)
        return same and all(_equal(a, b, tolerance) for a, b in zip(found, value, strict=True))
    if _is_number(found) and _is_number(value):
        return abs(found - value) <= tolerance
    return found == value and isinstance(found, bool) == isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_call(call: Any, service: str, entity: str | None) -> bool:
    named = fnmatchcase(f"{call.domain}.{call.service}", service)
    return call.error is None and named and (entity is None or entity in call.entities)


def _from(times: Iterable[float]) -> Spans:
    first = min(times, default=None)
    return spans.NEVER if first is None else ((first, spans.FOREVER),)


def _each(quantifier: str, found: list[Spans], op: str, number: int) -> Spans:
    if quantifier == "all":
        return spans.both(*found) if found else spans.NEVER
    if quantifier == "any":
        return spans.either(*found)
    edges = sorted({-spans.FOREVER, *(edge for part in found for span in part for edge in span)} - {spans.FOREVER})
    counts = ((time, sum(spans.holds_at(part, time) for part in found)) for time in edges)
    return spans.steps((time, _COMPARE[op](count, number)) for time, count in counts)


def _last(end: Moment, run: Run) -> float:
    """A window that reaches the run's end includes its last moment."""
    last = moment(end, run)
    return last if last < run.end else float(spans.nextafter(run.end))


def _after(events: list[float], of: Spans, delay: float, tolerance: float, end: float) -> bool:
    """An event so late that its window is not over by the run's end is passed over."""
    judged = [event for event in events if event + delay + tolerance <= end]
    for event in judged:
        early, late = event + delay - tolerance, event + delay + tolerance
        if not spans.covers(spans.inverse(of), event, early) or not spans.touches(of, max(event, early), late):
            return False
    return bool(judged)
