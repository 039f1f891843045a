"""How a service call finds its service, its entities and its end, with Home Assistant's words for what goes wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..backend import UNAVAILABLE, ServiceCall, ServiceResult, entity_ids
from ..frozen import FrozenDict
from .domain import TARGETS, Refused, Service, flags
from .fields import too_deep
from .scenes import run_by_name

if TYPE_CHECKING:
    from .home import SimHome


def find(home: SimHome, domain: str, service: str) -> Service:
    """The service, with the scripts' own ones. Raises `Refused` where there is none."""
    known = home.domains[domain].services.get(service) if domain in home.domains else None
    if known is None and domain == "script":
        known = run_by_name(home, service)
    if known is None and domain == "notify" and service.removeprefix("mobile_app_") in home.people.specs:
        known = home.domains["notify"].services["mobile_app"]
    if known is None:
        raise Refused(f"Service {domain}.{service} not found.", "not_found")
    return known


def targets(home: SimHome, domain: str, chosen: Mapping[str, Any]) -> tuple[list[str], set[str]]:
    """(The entities of `domain` that a target means, sorted; those of them that it names one by one).

    What is named and not there is a warning, and in a strict home an error.
    """
    registry, states = home.registry(), home.states()
    named = entity_ids(chosen.get("entity_id"))
    if "all" in named:
        return sorted(entity for entity in states if entity.startswith(f"{domain}.")), set()
    found = {entity for entity in named if entity in states and entity.startswith(f"{domain}.")}
    missing = [entity for entity in named if entity not in found]
    indirect: set[str] = set()
    groups = (
        ("device_id", registry.devices, registry.of_device),
        ("area_id", registry.areas, registry.in_area),
        ("floor_id", registry.floors, registry.on_floor),
    )
    for key, known, members in groups:
        for group in entity_ids(chosen.get(key)):
            if group not in known:
                missing.append(f"{key.removesuffix('_id')} {group}")
            indirect |= {entity for entity in members(group) if entity.startswith(f"{domain}.") and entity in states}
    if missing:
        if home.strict:
            raise Refused(f"Not found: {', '.join(missing)}.", "not_found")
        home.warn(f"Referenced entities {', '.join(missing)} are missing or not currently available")
    if home.strict and not found and not indirect:
        raise Refused(f"No entity of the domain {domain} matches the target.", "not_found")
    return sorted(found | indirect), found


def call(
    home: SimHome, domain: str, service: str, data: Mapping[str, Any] | None, target: Any, cause: str
) -> ServiceResult:
    """Carry out a call at once; what it sets off later is the clock's business."""
    mark, heard = len(home.journal.states), len(home.warnings)
    chosen: list[str] = []
    error, code, response = None, None, None
    try:
        chosen, response = _carry_out(home, domain, service, _merge(data, target), cause)
    except Refused as refused:
        error, code = str(refused), refused.code
    logged = FrozenDict(data) if isinstance(data, Mapping) and not too_deep(data) else FrozenDict()
    home.journal.calls.append(ServiceCall(home.time, domain, service, logged, tuple(chosen), cause, error))
    changed = {state.entity_id: state for state in home.journal.states.since(mark) if state.cause == cause}
    return ServiceResult(tuple(changed.values()), error, code, response, tuple(home.warnings[heard:]))


def _merge(data: Any, target: Any) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for part in (data, target):
        if part is not None and not isinstance(part, Mapping):
            raise Refused("expected a dictionary", "invalid_format")
        merged |= part or {}
    if too_deep(merged):
        raise Refused("nested too deeply", "invalid_format")
    return merged


def _carry_out(home: SimHome, domain: str, service: str, data: dict[str, Any], cause: str) -> tuple[list[str], Any]:
    known = find(home, domain, service)
    if known.at_home is not None:
        checked = known.validate(_flat(home, known, data))
        before = home.snapshot()
        try:
            with home.acting(cause):
                known.at_home(home, checked)
        except Refused:
            home.restore(before)
            raise
        return entity_ids(checked.get("entity_id")), None
    chosen = {key: data[key] for key in TARGETS if data.get(key) is not None}
    for key, value in chosen.items():
        if not isinstance(value, str) and not (isinstance(value, Sequence) and all(isinstance(v, str) for v in value)):
            raise Refused(
                f"Entity ID {value} is an invalid entity ID for dictionary value @ data[{key!r}]", "invalid_format"
            )
    checked = known.validate({key: value for key, value in data.items() if key not in TARGETS})
    if not any(entity_ids(value) for value in chosen.values()):
        raise Refused(f"must contain at least one of {', '.join(TARGETS)}.", "invalid_format")
    found, named = targets(home, domain, chosen)
    ready = _able(home, known, found, named)
    if known.responds and not ready:
        raise Refused("Service call requested response data but did not match any entities", "home_assistant_error")
    answers = _handle(home, known, ready, checked, cause)
    return ready, answers if known.responds else None


def _flat(home: SimHome, service: Service, data: dict[str, Any]) -> dict[str, Any]:
    """Areas, floors and devices of a call to the whole home, as entity ids."""
    if "entity_id" not in service.fields:
        return data
    rest = {key: value for key, value in data.items() if key not in TARGETS}
    registry = home.registry()
    ids = entity_ids(data.get("entity_id"))
    members = {"device_id": registry.of_device, "area_id": registry.in_area, "floor_id": registry.on_floor}
    for key, of in members.items():
        for group in entity_ids(data.get(key)):
            ids += of(group)
    missing = [entity for entity in ids if entity not in home.states()]
    if missing and home.strict:
        raise Refused(f"Not found: {', '.join(missing)}.", "not_found")
    if ids:
        rest["entity_id"] = list(dict.fromkeys(ids))
    return rest


def _able(home: SimHome, service: Service, found: list[str], named: set[str]) -> list[str]:
    """Those that are available and have the features; one that is named and lacks them refuses the call."""
    ready = []
    for entity_id in found:
        entity = home.states()[entity_id]
        if entity.state == UNAVAILABLE:
            if home.strict and entity_id in named:
                raise Refused(f"Entity {entity_id} is unavailable.", "home_assistant_error")
            home.warn(f"Referenced entities {entity_id} are missing or not currently available")
            continue
        bits = flags(entity)
        if service.features and not any(bits & wanted == wanted for wanted in service.features):
            if entity_id in named:
                raise Refused(f"Entity {entity_id} does not support this service.", "home_assistant_error")
            continue
        ready.append(entity_id)
    return ready


def _handle(home: SimHome, service: Service, ready: list[str], data: dict[str, Any], cause: str) -> dict[str, Any]:
    """All or nothing: where the third entity refuses, the first two are as they were."""
    assert service.handle is not None
    before = home.snapshot() if len(ready) > 1 else None
    answers = {}
    try:
        with home.acting(cause):
            for entity_id in ready:
                if home.fault(entity_id) != "stuck":
                    answers[entity_id] = service.handle(home, home.states()[entity_id], data)
    except Refused:
        if before is not None:
            home.restore(before)
        raise
    return answers
