"""Values that people set: number, select, input_number, input_select, input_text and counter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..backend import EntityState
from .domain import Domain, Refused, Service
from .fields import Boolean, Number, Text, Texts

if TYPE_CHECKING:
    from .home import SimHome


def _limits(entity: EntityState) -> tuple[float, float]:
    attributes = entity.attributes
    low = attributes.get("min", attributes.get("minimum"))
    high = attributes.get("max", attributes.get("maximum"))
    return float("-inf") if low is None else float(low), float("inf") if high is None else float(high)


def _number(entity: EntityState) -> float:
    try:
        return float(entity.state)
    except ValueError:
        return float(entity.attributes.get("min", 0))


def _set_number(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
    low, high = _limits(entity)
    value = data["value"]
    if not low <= value <= high:
        if entity.domain == "number":
            text = f"Value {value} for {entity.entity_id} is outside valid range {low:g} - {high:g}"
            raise Refused(text, "service_validation_error")
        raise Refused(
            f"Invalid value for {entity.entity_id}: {value} (range {low:g} - {high:g})", "home_assistant_error"
        )
    home.update(entity.entity_id, str(float(value)))


def _step_number(sign: int) -> Any:
    def handle(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
        low, high = _limits(entity)
        value = _number(entity) + sign * float(entity.attributes.get("step", 1))
        if low <= value <= high:
            home.update(entity.entity_id, str(float(value)))

    return handle


def _count(sign: int) -> Any:
    def handle(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
        low, high = _limits(entity)
        value = _number(entity) + sign * float(entity.attributes.get("step", 1))
        home.update(entity.entity_id, str(int(max(low, min(high, value)))))

    return handle


def _reset(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
    home.update(entity.entity_id, str(int(entity.attributes.get("initial", 0))))


def _set_count(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
    low, high = _limits(entity)
    if not low <= data["value"] <= high:
        bound, limit = ("maximum", high) if data["value"] > high else ("minimum", low)
        raise Refused(f"Value {data['value']} for {entity.entity_id} exceeding the {bound} value of {limit:g}")
    home.update(entity.entity_id, str(data["value"]))


def _select(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
    options = entity.attributes.get("options") or ()
    if data["option"] not in options:
        listed = ", ".join(map(str, options))
        if entity.domain == "select":
            text = f"Option {data['option']} is not valid for entity {entity.entity_id}, valid options are: {listed}."
            raise Refused(text)
        raise Refused(f"Invalid option: {data['option']} (possible options: {listed})", "home_assistant_error")
    home.update(entity.entity_id, data["option"])


def _pick(index: int) -> Any:
    def handle(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
        options = entity.attributes.get("options") or ()
        if options:
            home.update(entity.entity_id, str(options[index]))

    return handle


def _move(step: int) -> Any:
    def handle(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
        options = list(entity.attributes.get("options") or ())
        if not options:
            return
        index = options.index(entity.state) + step if entity.state in options else 0
        if not data.get("cycle", True):
            index = max(0, min(len(options) - 1, index))
        home.update(entity.entity_id, str(options[index % len(options)]))

    return handle


def _set_options(home: SimHome, entity: EntityState, data: dict[str, Any]) -> None:
    options = data["options"]
    if not options or len(set(options)) != len(options):
        raise Refused(f"Duplicated options: {options}", "home_assistant_error")
    home.update(entity.entity_id, entity.state if entity.state in options else options[0], {"options": options})


_VALUE = {"value": Number()}
_SELECTING = {
    "select_option": Service(_select, {"option": Text()}, ("option",)),
    "select_next": Service(_move(1), {"cycle": Boolean()}),
    "select_previous": Service(_move(-1), {"cycle": Boolean()}),
    "select_first": Service(_pick(0)),
    "select_last": Service(_pick(-1)),
}
_RANGE = {"min": 0.0, "max": 100.0, "step": 1.0}

NUMBER = Domain(
    "number", "a number", {"set_value": Service(_set_number, _VALUE, ("value",))}, lambda spec: ("0.0", dict(_RANGE))
)
INPUT_NUMBER = Domain(
    "input_number",
    "a number",
    {
        "set_value": Service(_set_number, _VALUE, ("value",)),
        "increment": Service(_step_number(1)),
        "decrement": Service(_step_number(-1)),
    },
    lambda spec: ("0.0", {**_RANGE, "editable": True}),
)
COUNTER = Domain(
    "counter",
    "a whole number",
    {
        "increment": Service(_count(1)),
        "decrement": Service(_count(-1)),
        "reset": Service(_reset),
        "set_value": Service(_set_count, {"value": Number(0, integer=True)}, ("value",)),
    },
    lambda spec: ("0", {"initial": 0, "step": 1, "editable": True}),
)


def _first_option(spec: Any) -> tuple[str, dict[str, Any]]:
    options = spec.attributes.get("options") or ["unknown"]
    return str(options[0]), {"options": list(options)}


SELECT = Domain("select", "one of its `options`", _SELECTING, _first_option)
INPUT_SELECT = Domain(
    "input_select",
    "one of its `options`",
    {**_SELECTING, "set_options": Service(_set_options, {"options": Texts()}, ("options",))},
    _first_option,
)
INPUT_TEXT = Domain(
    "input_text",
    "a text",
    {
        "set_value": Service(
            lambda home, entity, data: home.update(entity.entity_id, data["value"][:255]), {"value": Text()}, ("value",)
        )
    },
    lambda spec: ("", {"editable": True, "min": 0, "max": 100}),
)
