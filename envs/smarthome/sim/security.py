"""Security: alarm_control_panel, siren and camera."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..backend import EntityState
from ..spec import EntitySpec
from .domain import Domain, Refused, Service, flags
from .fields import Duration, Number, Text

if TYPE_CHECKING:
    from .home import SimHome

ARM_HOME, ARM_AWAY, ARM_NIGHT, TRIGGER, ARM_CUSTOM_BYPASS, ARM_VACATION = 1, 2, 4, 8, 16, 32
SIREN_ON, SIREN_OFF, TONES, VOLUME_SET, DURATION = 1, 2, 4, 8, 16
CAMERA_ON_OFF, STREAM = 1, 2
ARMING_TIME = 30.0  # seconds to leave the house


def _alarm(spec: EntitySpec) -> tuple[str, dict[str, Any]]:
    features = int(spec.attributes.get("supported_features", ARM_HOME | ARM_AWAY | ARM_NIGHT | TRIGGER))
    coded = "code" in spec.params
    attributes = {
        "code_format": "number" if coded else None,
        "code_arm_required": False,
        "changed_by": None,
        "supported_features": features,
    }
    return "disarmed", attributes


def _check_code(home: SimHome, alarm: EntityState, data: dict[str, Any], arming: bool) -> None:
    code = home.params(alarm.entity_id).get("code")
    if code is None or (arming and not alarm.attributes.get("code_arm_required")):
        return
    if data.get("code") != str(code):
        raise Refused("Invalid alarm code provided")


def _arm(mode: str) -> Any:
    def handle(home: SimHome, alarm: EntityState, data: dict[str, Any]) -> None:
        _check_code(home, alarm, data, arming=True)
        if alarm.state == f"armed_{mode}":
            return
        # Who stays at home need not leave: only the other modes wait for the door.
        wait = 0.0 if mode in ("home", "night") else float(home.params(alarm.entity_id).get("arming_time", ARMING_TIME))
        if wait:
            home.update(alarm.entity_id, "arming")
            home.begin(alarm.entity_id, "armed", wait, f"armed_{mode}")
        else:
            home.cancel(alarm.entity_id)
            home.update(alarm.entity_id, f"armed_{mode}")

    return handle


def _armed(home: SimHome, entity_id: str, payload: tuple[Any, ...]) -> None:
    home.update(entity_id, payload[0])


def _disarm(home: SimHome, alarm: EntityState, data: dict[str, Any]) -> None:
    _check_code(home, alarm, data, arming=False)
    home.cancel(alarm.entity_id)
    home.update(alarm.entity_id, "disarmed")


def _trigger(home: SimHome, alarm: EntityState, data: dict[str, Any]) -> None:
    home.cancel(alarm.entity_id)
    home.update(alarm.entity_id, "triggered")


_CODE = {"code": Text()}
ALARM = Domain(
    "alarm_control_panel",
    "disarmed, arming, armed_home, armed_away, armed_night, armed_vacation, armed_custom_bypass, pending, triggered",
    {
        "alarm_disarm": Service(_disarm, _CODE),
        "alarm_arm_home": Service(_arm("home"), _CODE, features=(ARM_HOME,)),
        "alarm_arm_away": Service(_arm("away"), _CODE, features=(ARM_AWAY,)),
        "alarm_arm_night": Service(_arm("night"), _CODE, features=(ARM_NIGHT,)),
        "alarm_arm_vacation": Service(_arm("vacation"), _CODE, features=(ARM_VACATION,)),
        "alarm_arm_custom_bypass": Service(_arm("custom_bypass"), _CODE, features=(ARM_CUSTOM_BYPASS,)),
        "alarm_trigger": Service(_trigger, _CODE, features=(TRIGGER,)),
    },
    _alarm,
    {
        "ARM_HOME": ARM_HOME,
        "ARM_AWAY": ARM_AWAY,
        "ARM_NIGHT": ARM_NIGHT,
        "TRIGGER": TRIGGER,
        "ARM_CUSTOM_BYPASS": ARM_CUSTOM_BYPASS,
        "ARM_VACATION": ARM_VACATION,
    },
    {"armed": _armed},
    timing="arms 30 s after the call where people leave (parameter `arming_time`); the parameter `code` is asked for",
)


def _siren(spec: EntitySpec) -> tuple[str, dict[str, Any]]:
    features = int(spec.attributes.get("supported_features", SIREN_ON | SIREN_OFF | VOLUME_SET | DURATION))
    return "off", {"supported_features": features} | (
        {"available_tones": ["alarm", "bell"]} if features & TONES else {}
    )


def _siren_on(home: SimHome, siren: EntityState, data: dict[str, Any]) -> None:
    tones = siren.attributes.get("available_tones") or ()
    if flags(siren) & TONES and "tone" in data and data["tone"] not in tones:
        raise Refused(
            f"Invalid tone specified for entity {siren.entity_id}: {data['tone']}, "
            "check the available_tones attribute for valid tones to pass in",
            "unknown_error",
        )
    home.cancel(siren.entity_id)
    home.update(siren.entity_id, "on")
    if flags(siren) & DURATION and "duration" in data:
        home.begin(siren.entity_id, "quiet", data["duration"])


def _siren_off(home: SimHome, siren: EntityState, data: dict[str, Any]) -> None:
    home.cancel(siren.entity_id)
    home.update(siren.entity_id, "off")


def _quiet(home: SimHome, entity_id: str, payload: tuple[Any, ...]) -> None:
    home.update(entity_id, "off")


def _siren_toggle(home: SimHome, siren: EntityState, data: dict[str, Any]) -> None:
    (_siren_off if siren.state == "on" else _siren_on)(home, siren, data)


SIREN = Domain(
    "siren",
    "on, off",
    {
        "turn_on": Service(
            _siren_on, {"tone": Text(), "volume_level": Number(0, 1), "duration": Duration()}, features=(SIREN_ON,)
        ),
        "turn_off": Service(_siren_off, features=(SIREN_OFF,)),
        "toggle": Service(_siren_toggle, features=(SIREN_ON | SIREN_OFF,)),
    },
    _siren,
    {"TURN_ON": SIREN_ON, "TURN_OFF": SIREN_OFF, "TONES": TONES, "VOLUME_SET": VOLUME_SET, "DURATION": DURATION},
    {"quiet": _quiet},
    lambda siren, params: 10.0 if siren.state == "on" else 0.2,
    "sounds for `duration` seconds where one is given",
)


def _camera_power(camera: EntityState, params: Mapping[str, Any]) -> float:
    return 0.0 if camera.state == "off" else float(params.get("power", 5.0))


CAMERA = Domain(
    "camera",
    "idle, streaming, recording, off",
    {
        "turn_on": Service(lambda home, camera, data: home.update(camera.entity_id, "idle"), features=(CAMERA_ON_OFF,)),
        "turn_off": Service(lambda home, camera, data: home.update(camera.entity_id, "off"), features=(CAMERA_ON_OFF,)),
        "enable_motion_detection": Service(
            lambda home, camera, data: home.update(camera.entity_id, None, {"motion_detection": True})
        ),
        "disable_motion_detection": Service(
            lambda home, camera, data: home.update(camera.entity_id, None, {"motion_detection": False})
        ),
    },
    lambda spec: ("idle", {"motion_detection": False, "supported_features": CAMERA_ON_OFF}),
    {"ON_OFF": CAMERA_ON_OFF, "STREAM": STREAM},
    power=_camera_power,
)
