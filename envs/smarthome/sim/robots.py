"""Robots: vacuum and lawn_mower. They work through phases, use their battery and charge it in the dock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..backend import EntityState
from ..spec import EntitySpec
from .domain import Domain, Refused, Service, one_of
from .fields import Anything, Text

if TYPE_CHECKING:
    from .home import SimHome

PAUSE, STOP, RETURN_HOME, FAN_SPEED, BATTERY = 4, 8, 16, 32, 64
SEND_COMMAND, LOCATE, CLEAN_SPOT, STATE, START = 256, 512, 1024, 4096, 8192
START_MOWING, MOWER_PAUSE, DOCK = 1, 2, 4
_VACUUM = PAUSE | STOP | RETURN_HOME | FAN_SPEED | BATTERY | LOCATE | CLEAN_SPOT | STATE | START
CLEAN_TIME, SPOT_TIME, RETURN_TIME = 45 * 60.0, 5 * 60.0, 120.0  # seconds
DRAIN, CHARGE = 100 / (120 * 60), 100 / (180 * 60)  # percent per second: 2 hours of work, 3 hours in the dock
EMPTY = 10  # percent at which a robot does not start


def _vacuum(spec: EntitySpec) -> tuple[str, dict[str, Any]]:
    features = int(spec.attributes.get("supported_features", _VACUUM))
    attributes: dict[str, Any] = {"supported_features": features, "battery_level": 100}
    if features & FAN_SPEED:
        attributes |= {"fan_speed_list": ["quiet", "standard", "turbo"], "fan_speed": "standard"}
    return "docked", attributes


def _battery(home: SimHome, robot: EntityState) -> int:
    """The level now: it falls while working and rises in the dock, reckoned from the last time it was noted."""
    level, since = home.memory(robot.entity_id).get("battery", (robot.attributes.get("battery_level", 100), home.time))
    rate = CHARGE if robot.state == "docked" else -DRAIN if robot.state in ("cleaning", "mowing", "returning") else 0.0
    level = max(0.0, min(100.0, level + rate * (home.time - since)))
    home.remember(robot.entity_id, {"battery": (level, home.time)})
    return 4 if home.fault(robot.entity_id) == "low_battery" else round(level)


def _to(home: SimHome, robot: EntityState, state: str, changes: dict[str, Any] | None = None) -> None:
    shown = {"battery_level": _battery(home, robot)} if "battery_level" in robot.attributes else {}
    home.update(robot.entity_id, state, shown | (changes or {}))


def _work(state: str, seconds: float) -> Any:
    def handle(home: SimHome, robot: EntityState, data: dict[str, Any]) -> None:
        if robot.state == state:
            return
        if _battery(home, robot) < EMPTY:
            raise Refused(f"{robot.name} cannot start: the battery is too low.", "home_assistant_error")
        left = home.memory(robot.entity_id).get("left") if robot.state == "paused" else None
        duration = float(home.params(robot.entity_id).get("work_time", seconds)) if left is None else left
        _to(home, robot, state)
        home.begin(robot.entity_id, "worked", duration, home.time + duration)

    return handle


def _pause(home: SimHome, robot: EntityState, data: dict[str, Any]) -> None:
    if robot.state not in ("cleaning", "mowing", "returning"):
        return
    moving = home.cancel(robot.entity_id)
    left = max(0.0, moving[0] - home.time) if moving and robot.state != "returning" else None
    _to(home, robot, "paused")
    home.remember(robot.entity_id, {"left": left})


def _stop(home: SimHome, robot: EntityState, data: dict[str, Any]) -> None:
    if robot.state in ("cleaning", "returning", "paused"):
        home.cancel(robot.entity_id)
        home.remember(robot.entity_id, {"left": None})
        _to(home, robot, "idle")


def _return(home: SimHome, robot: EntityState, data: dict[str, Any]) -> None:
    if robot.state not in ("docked", "returning"):
        _go_home(home, robot)


def _go_home(home: SimHome, robot: EntityState) -> None:
    home.remember(robot.entity_id, {"left": None})
    if home.fault(robot.entity_id) == "jammed":
        home.cancel(robot.entity_id)
        return _to(home, robot, "error")
    # Home Assistant of 2024 has no state for a mower on its way home: it is docked when it is there.
    if robot.domain == "vacuum":
        _to(home, robot, "returning")
    home.begin(robot.entity_id, "docked", RETURN_TIME)


def _worked(home: SimHome, entity_id: str, payload: tuple[Any, ...]) -> None:
    _go_home(home, home.states()[entity_id])


def _docked(home: SimHome, entity_id: str, payload: tuple[Any, ...]) -> None:
    _to(home, home.states()[entity_id], "docked")


def _fan_speed(home: SimHome, robot: EntityState, data: dict[str, Any]) -> None:
    one_of("fan_speed", data["fan_speed"], robot.attributes.get("fan_speed_list"))
    home.update(robot.entity_id, None, {"fan_speed": data["fan_speed"]})


def refresh(home: SimHome, robot: EntityState) -> None:
    """Show the battery as it is now (on the simulation's tick); an empty robot goes home."""
    level = _battery(home, robot)
    if "battery_level" in robot.attributes and level != robot.attributes["battery_level"]:
        home.update(robot.entity_id, None, {"battery_level": level})
    if level < EMPTY and robot.state in ("cleaning", "mowing"):
        _go_home(home, home.states()[robot.entity_id])


_EVENTS = {"worked": _worked, "docked": _docked}
VACUUM = Domain(
    "vacuum",
    "docked, cleaning, paused, returning, idle, error",
    {
        "start": Service(_work("cleaning", CLEAN_TIME), features=(START,)),
        "pause": Service(_pause, features=(PAUSE,)),
        "stop": Service(_stop, features=(STOP,)),
        "return_to_base": Service(_return, features=(RETURN_HOME,)),
        "clean_spot": Service(_work("cleaning", SPOT_TIME), features=(CLEAN_SPOT,)),
        "locate": Service(lambda home, robot, data: None, features=(LOCATE,)),
        "set_fan_speed": Service(_fan_speed, {"fan_speed": Text()}, ("fan_speed",), (FAN_SPEED,)),
        "send_command": Service(
            lambda home, robot, data: None,
            {"command": Text(), "params": Anything(free=True)},
            ("command",),
            (SEND_COMMAND,),
        ),
    },
    _vacuum,
    {
        "PAUSE": PAUSE,
        "STOP": STOP,
        "RETURN_HOME": RETURN_HOME,
        "FAN_SPEED": FAN_SPEED,
        "BATTERY": BATTERY,
        "SEND_COMMAND": SEND_COMMAND,
        "LOCATE": LOCATE,
        "CLEAN_SPOT": CLEAN_SPOT,
        "STATE": STATE,
        "START": START,
    },
    _EVENTS,
    timing="cleans 45 min (parameter `work_time`), a spot 5 min, returns in 2 min; 2 h of battery",
)
LAWN_MOWER = Domain(
    "lawn_mower",
    "docked, mowing, paused, error",
    {
        "start_mowing": Service(_work("mowing", 60 * 60.0), features=(START_MOWING,)),
        "pause": Service(_pause, features=(MOWER_PAUSE,)),
        "dock": Service(_return, features=(DOCK,)),
    },
    lambda spec: ("docked", {"supported_features": START_MOWING | MOWER_PAUSE | DOCK}),
    {"START_MOWING": START_MOWING, "PAUSE": MOWER_PAUSE, "DOCK": DOCK},
    _EVENTS,
    timing="mows 60 min (parameter `work_time`), returns in 2 min",
)
