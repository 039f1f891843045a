"""Timers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..backend import EntityState
from ..spec import EntitySpec
from .domain import Domain, Refused, Service
from .fields import Duration, span

if TYPE_CHECKING:
    from .home import SimHome


def clock_text(seconds: float) -> str:
    """A time span as Home Assistant writes it, e.g. "0:05:00"."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


def _timer(spec: EntitySpec) -> tuple[str, dict[str, Any]]:
    return "idle", {"duration": clock_text(span(spec.attributes.get("duration", 0)) or 0), "editable": True}


def _run(home: SimHome, timer: EntityState, seconds: float) -> None:
    home.begin(timer.entity_id, "timer_done", seconds, home.time + seconds)
    home.remember(timer.entity_id, {"left": None})
    ends = home.iso(home.time + seconds)
    home.update(timer.entity_id, "active", {"finishes_at": ends, "remaining": clock_text(seconds)})


def _start(home: SimHome, timer: EntityState, data: dict[str, Any]) -> None:
    if data.get("duration", 0) < 0:
        raise Refused("The duration of a timer cannot be negative", "home_assistant_error")
    left = home.memory(timer.entity_id).get("left") if timer.state == "paused" else None
    event = "timer.restarted" if timer.state != "idle" else "timer.started"
    if "duration" in data:
        home.update(timer.entity_id, None, {"duration": clock_text(data["duration"])})
        _run(home, timer, data["duration"])
    else:
        _run(home, timer, left if left is not None else span(timer.attributes["duration"]) or 0.0)
    home.fire_event(event, {"entity_id": timer.entity_id})


def _pause(home: SimHome, timer: EntityState, data: dict[str, Any]) -> None:
    if timer.state != "active":
        return
    ends = home.cancel(timer.entity_id)
    left = max(0.0, ends[0] - home.time) if ends else 0.0
    home.remember(timer.entity_id, {"left": left})
    home.update(timer.entity_id, "paused", {"finishes_at": None, "remaining": clock_text(left)})
    home.fire_event("timer.paused", {"entity_id": timer.entity_id})


def _end(home: SimHome, timer: EntityState, event: str) -> None:
    if timer.state == "idle":
        return
    home.cancel(timer.entity_id)
    home.remember(timer.entity_id, {"left": None})
    home.update(timer.entity_id, "idle", {"finishes_at": None, "remaining": None})
    home.fire_event(event, {"entity_id": timer.entity_id})


def _change(home: SimHome, timer: EntityState, data: dict[str, Any]) -> None:
    if timer.state != "active":
        raise Refused(
            f"Timer {timer.entity_id} is not running, only active timers can be changed", "home_assistant_error"
        )
    running = home.running(timer.entity_id)
    left = (running[0] if running else home.time) - home.time + data["duration"]
    if left > (span(timer.attributes["duration"]) or 0):
        raise Refused(f"Not possible to change timer {timer.entity_id} beyond duration", "home_assistant_error")
    if left < 0:
        text = f"Not possible to change timer {timer.entity_id} to negative time remaining"
        raise Refused(text, "home_assistant_error")
    _run(home, timer, left)
    home.fire_event("timer.changed", {"entity_id": timer.entity_id})


def _done(home: SimHome, entity_id: str, payload: tuple[Any, ...]) -> None:
    _end(home, home.states()[entity_id], "timer.finished")


_DURATION = {"duration": Duration()}
TIMER = Domain(
    "timer",
    "idle, active, paused",
    {
        "start": Service(_start, _DURATION),
        "pause": Service(_pause),
        "cancel": Service(lambda home, timer, data: _end(home, timer, "timer.cancelled")),
        "finish": Service(lambda home, timer, data: _end(home, timer, "timer.finished")),
        "change": Service(_change, _DURATION, ("duration",)),
    },
    _timer,
    events={"timer_done": _done},
    timing="runs for its duration, then fires `timer.finished`",
)
