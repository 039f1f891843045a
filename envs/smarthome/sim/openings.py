"""What opens and closes: cover, valve and lock. Movements take time and can jam."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..backend import EntityState
from ..spec import EntitySpec
from .domain import Domain, Refused, Service, flags
from .fields import Number, Text

if TYPE_CHECKING:
    from .home import SimHome

OPEN, CLOSE, SET_POSITION, STOP = 1, 2, 4, 8
OPEN_TILT, CLOSE_TILT, STOP_TILT, SET_TILT_POSITION = 16, 32, 64, 128
LOCK_OPEN = 1
TRAVEL = {"garage": 15.0, "gate": 15.0, "valve": 5.0}
_TRAVEL_DEFAULT = 20.0  # seconds from closed to open
LOCK_TIME = 2.0  # seconds
JAM_AT = 50  # position at which a jammed movement stops, if it passes there; else half way


def _positioned(spec: EntitySpec, domain: str) -> tuple[str, dict[str, Any]]:
    default = OPEN | CLOSE | SET_POSITION | STOP if domain == "cover" else OPEN | CLOSE
    features = int(spec.attributes.get("supported_features", default))
    attributes: dict[str, Any] = {"supported_features": features}
    state = spec.state or "closed"
    if features & SET_POSITION:
        attributes["current_position"] = 100 if state == "open" else 0
    if domain == "cover" and features & SET_TILT_POSITION:
        attributes["current_tilt_position"] = 0
    return state, attributes


def _cover(spec: EntitySpec) -> tuple[str, dict[str, Any]]:
    return _positioned(spec, "cover")


def _valve(spec: EntitySpec) -> tuple[str, dict[str, Any]]:
    return _positioned(spec, "valve")


def position(entity: EntityState) -> float:
    """How far a cover or valve is open, 0 to 100, whether it reports it or not."""
    known = entity.attributes.get("current_position")
    if known is not None:
        return float(known)
    return 0.0 if entity.state in ("closed", "opening") else 100.0


def _move(home: SimHome, entity: EntityState, target: float) -> None:
    """Start towards `target`; where it is on the way is a matter of the time passed."""
    here = _stop_at(home, entity)
    params = home.params(entity.entity_id)
    kind = entity.attributes.get("device_class") if entity.domain == "cover" else "valve"
    full = float(params.get("travel_time", TRAVEL.get(str(kind), _TRAVEL_DEFAULT)))
    if home.fault(entity.entity_id) == "low_battery":
        full *= 2
    if target == here:
        return _rest(home, entity, here)
    if home.fault(entity.entity_id) == "jammed":
        target = float(JAM_AT) if min(here, target) < JAM_AT < max(here, target) else (here + target) / 2
    shown = {"current_position": round(here)} if "current_position" in entity.attributes else {}
    home.update(entity.entity_id, "opening" if target > here else "closing", shown)
    home.begin(entity.entity_id, "arrive", full * abs(target - here) / 100, here, target, home.time, full)


def _stop_at(home: SimHome, entity: EntityState) -> float:
    """Cancel a movement and return the position it has reached, 0 to 100."""
    moving = home.cancel(entity.entity_id)
    if moving is None:
        return home.memory(entity.entity_id).get("position", position(entity))
    here, target, since, full = moving
    part = (home.time - since) / full * 100
    return min(target, here + part) if target > here else max(target, here - part)


def _rest(home: SimHome, entity: EntityState, here: float) -> None:
    shown = {"current_position": round(here)} if "current_position" in entity.attributes else {}
    home.remember(entity.entity_id, {"position": here})
    home.update(entity.entity_id, "closed" if round(here) == 0 else "open", shown)


def _arrive(home: SimHome, entity_id: str, payload: tuple[Any, ...]) -> None:
    entity = home.states()[entity_id]
    _rest(home, entity, payload[1])


def _open(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
    _move(home, entity, 100.0)


def _close(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
    _move(home, entity, 0.0)


def _set_position(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
    _move(home, entity, float(data["position"]))


def _stop(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
    if entity.state in ("opening", "closing"):
        _rest(home, entity, _stop_at(home, entity))


def _toggle(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
    if entity.state in ("opening", "closing") and flags(entity) & STOP:
        _stop(home, entity, data)
    else:
        _move(home, entity, 100.0 if entity.state in ("closed", "closing") else 0.0)


def _tilt(target: int | None) -> Any:
    def handle(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
        tilt = data["tilt_position"] if target is None else target
        home.update(entity.entity_id, None, {"current_tilt_position": tilt})

    return handle


def _toggle_tilt(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
    _tilt(0 if entity.attributes.get("current_tilt_position") else 100)(home, entity, data)


def _cover_power(entity: EntityState, params: Mapping[str, Any]) -> float:
    return float(params.get("power", 60.0)) if entity.state in ("opening", "closing") else 0.5


_PERCENT = Number(0, 100, integer=True)
COVER = Domain(
    "cover",
    "open, closed, opening, closing",
    {
        "open_cover": Service(_open, features=(OPEN,)),
        "close_cover": Service(_close, features=(CLOSE,)),
        "set_cover_position": Service(_set_position, {"position": _PERCENT}, ("position",), (SET_POSITION,)),
        "stop_cover": Service(_stop, features=(STOP,)),
        "toggle": Service(_toggle, features=(OPEN | CLOSE,)),
        "open_cover_tilt": Service(_tilt(100), features=(OPEN_TILT,)),
        "close_cover_tilt": Service(_tilt(0), features=(CLOSE_TILT,)),
        "set_cover_tilt_position": Service(
            _tilt(None), {"tilt_position": _PERCENT}, ("tilt_position",), (SET_TILT_POSITION,)
        ),
        "stop_cover_tilt": Service(lambda home, entity, data: None, features=(STOP_TILT,)),
        "toggle_cover_tilt": Service(_toggle_tilt, features=(OPEN_TILT | CLOSE_TILT,)),
    },
    _cover,
    {
        "OPEN": OPEN,
        "CLOSE": CLOSE,
        "SET_POSITION": SET_POSITION,
        "STOP": STOP,
        "OPEN_TILT": OPEN_TILT,
        "CLOSE_TILT": CLOSE_TILT,
        "STOP_TILT": STOP_TILT,
        "SET_TILT_POSITION": SET_TILT_POSITION,
    },
    {"arrive": _arrive},
    _cover_power,
    "20 s from closed to open (garages and gates 15 s; parameter `travel_time`); tilting is immediate",
)
VALVE = Domain(
    "valve",
    "open, closed, opening, closing",
    {
        "open_valve": Service(_open, features=(OPEN,)),
        "close_valve": Service(_close, features=(CLOSE,)),
        "set_valve_position": Service(_set_position, {"position": _PERCENT}, ("position",), (SET_POSITION,)),
        "stop_valve": Service(_stop, features=(STOP,)),
        "toggle": Service(_toggle, features=(OPEN | CLOSE,)),
    },
    _valve,
    {"OPEN": OPEN, "CLOSE": CLOSE, "SET_POSITION": SET_POSITION, "STOP": STOP},
    {"arrive": _arrive},
    timing="5 s from closed to open (parameter `travel_time`)",
)


def _lock_to(doing: str, done: str) -> Any:
    def handle(home: SimHome, lock: EntityState, data: dict[str, Any]) -> None:
        pattern = lock.attributes.get("code_format")
        code = data.get("code", "")
        if pattern and not re.fullmatch(pattern, code):
            raise Refused(f"The code for {lock.entity_id} doesn't match pattern {pattern}.")
        expected = home.params(lock.entity_id).get("code")
        if pattern and expected is not None and code != str(expected):
            raise Refused("Invalid code provided", "home_assistant_error")
        if lock.state == done:
            return
        home.update(lock.entity_id, doing)
        seconds = float(home.params(lock.entity_id).get("travel_time", LOCK_TIME))
        home.begin(lock.entity_id, "turned", seconds * (2 if home.fault(lock.entity_id) == "low_battery" else 1), done)

    return handle


def _turned(home: SimHome, entity_id: str, payload: tuple[Any, ...]) -> None:
    home.update(entity_id, "jammed" if home.fault(entity_id) == "jammed" else payload[0])


_CODE = {"code": Text()}
LOCK = Domain(
    "lock",
    "locked, unlocked, locking, unlocking, opening, open, jammed",
    {
        "lock": Service(_lock_to("locking", "locked"), _CODE),
        "unlock": Service(_lock_to("unlocking", "unlocked"), _CODE),
        "open": Service(_lock_to("opening", "open"), _CODE, features=(LOCK_OPEN,)),
    },
    lambda spec: ("locked", {"supported_features": 0}),
    {"OPEN": LOCK_OPEN},
    {"turned": _turned},
    timing="2 s (parameter `travel_time`); the parameter `code` with the attribute `code_format` asks for a code",
)
