"""The oracle: tool calls that reach a task's goal from where a session stands.

Conditions about devices are regressed over the effects of services; conditions about rooms are met by simulating what
the room's devices would do; times become planned calls, events become automations; what is to be said, asked or refused
is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from ..blueprint.evaluate import holds, members, moment
from ..blueprint.goal import (
    After,
    And,
    Asked,
    At,
    Attribute,
    Called,
    Condition,
    Each,
    HoldsFor,
    Looked,
    Never,
    Or,
    Refused,
    Room,
    State,
    Unchanged,
    about,
    atoms,
)
from ..calls import ToolCall
from ..session import Session
from ..tools import use
from .regress import Call, calls_for

_MOVING = ("opening", "closing", "locking", "unlocking", "arming", "returning")
_QUESTIONS = {
    "which": "Which one do you mean?",
    "value": "What value should I set?",
    "time": "At what time?",
    "confirm": "Should I really do that?",
    "other": "Is there anything else I should know?",
}


def plan(session: Session) -> list[ToolCall]:
    """The calls, `finish` included."""
    goal, run = session.task.goal, session.recorder.run()
    wanted = [part for item in goal.must for part in _conjuncts(item)]
    missing = [part for part in wanted if not isinstance(part, Never | Unchanged) and not _met(part, session, run)]
    timed = {atom for part in wanted if isinstance(part, HoldsFor | After) for atom in atoms(part)}
    found = [
        ToolCall("get_state", {"entity_id": part.entity})
        for part in missing
        if isinstance(part, Looked) and _is_state(session, part.entity)
    ]
    for part in missing:
        if isinstance(part, Looked) and not _is_state(session, part.entity):
            found.append(ToolCall("get_preferences", {"person": part.entity.partition(".")[2]}))
    found += [
        ToolCall("ask", {"question": _QUESTIONS[part.slot], "about": part.slot})
        for part in missing
        if isinstance(part, Asked)
    ]
    found += [_tool(call) for call in _now(session, missing, timed)]
    found += _rooms(session, [part for part in missing if isinstance(part, Room)])
    for part in missing:
        if isinstance(part, Refused):
            found.append(ToolCall("refuse", {"reason": part.reason, "about": session.task.about}))
        elif isinstance(part, At):
            found += _planned(session, [part.of], moment(part.time, run) - session.home.time)
        elif isinstance(part, After):
            found.append(_rule(session, part, len(found)))
        elif isinstance(part, HoldsFor):
            found += _until_later(session, part, wanted)
    return [*found, ToolCall("finish", {"message": session.task.answer} if session.task.answer else {})]


def carry_out(session: Session) -> int:
    """Follow the plan in the session; returns the number of calls."""
    calls = plan(session)
    for call in calls:
        use(session, call)
    return len(calls)


def actions(session: Session) -> Iterator[ToolCall]:
    """The next calls, planned again from where the session stands each time one is taken."""
    while True:
        calls = plan(session)
        yield calls[0]
        if calls[0].name == "finish":
            return


def _conjuncts(condition: Condition) -> Iterator[Condition]:
    if isinstance(condition, And):
        for part in condition.of:
            yield from _conjuncts(part)
    else:
        yield condition


def _is_state(session: Session, entity: str) -> bool:
    return session.home.state(entity) is not None and not entity.startswith("person.")


def _met(part: Condition, session: Session, run: Any) -> bool:
    """Whether nothing has to be done for a condition any more."""
    if isinstance(part, At):
        return any(_same(item, session, part.of) for item in session.recorder.planned) or holds(
            part, run, session.alone
        )
    if isinstance(part, After):
        return any(name.startswith("oracle_") for name in session.home.automations())
    if isinstance(part, HoldsFor):
        on = holds(part.of, run, session.alone)
        return on and bool(session.recorder.planned)
    if isinstance(part, Refused):
        return any(act.kind == "refuse" and act.what == part.reason for act in run.acts)
    return holds(part, run, session.alone)


def _same(item: Any, session: Session, of: Condition) -> bool:
    entities = {atom.entity for atom in atoms(of) if isinstance(atom, State | Attribute)}
    return bool(entities & set(item.target.get("entity_id", ())))


def _now(session: Session, missing: Sequence[Condition], timed: set[Condition]) -> list[Call]:
    """What can be done at once: regression; of alternatives the first that a call can make true."""
    run, conditions = session.recorder.run(), list[Condition]()
    held = {
        atom.entity
        for part in session.task.goal.must
        if isinstance(part, HoldsFor)
        for atom in atoms(part)
        if isinstance(atom, State)
    }
    calls: list[Call] = []
    for part in missing:
        match part:
            case State(entity, value):
                if (entity not in held) and part not in timed:
                    conditions.append(State(entity, "locked") if value == "jammed" else part)
            case Attribute():
                conditions.append(part)
            case Each(_, selector, of):
                conditions += [
                    about(of, entity) for entity in members(selector, run) if not holds(about(of, entity), run, run)
                ]
            case HoldsFor(_, of):
                if not holds(of, run, session.alone):
                    conditions.append(of)
            case Or(of) if isinstance(of[0], Called) and of[0].entity:
                calls.append(Call(of[0].service, (of[0].entity,)))
    later = {atom for part in session.task.goal.must if isinstance(part, At) for atom in atoms(part)}
    found = calls_for(session.home, [item for item in conditions if item not in later])
    return [*calls, *(call for call in map(partial(_not_under_way, session), found or []) if call.entities)]


def _not_under_way(session: Session, call: Call) -> Call:
    """The call without the devices that are still doing just that, as the agent told them last."""
    domain, _, service = call.service.partition(".")
    last = {entity: done for done in session.recorder.run().calls for entity in done.entities}

    def doing(entity: str) -> bool:
        state, done = session.home.states()[entity].state, last.get(entity)
        told = done is not None and (done.domain, done.service) == (domain, service)
        data = {key: value for key, value in done.data.items() if key != "entity_id"} if done else {}
        return told and state in _MOVING and data == dict(call.data)

    return Call(call.service, tuple(entity for entity in call.entities if not doing(entity)), call.data)


def _tool(call: Call) -> ToolCall:
    named = {"entity_id": call.entities[0] if len(call.entities) == 1 else list(call.entities)}
    return ToolCall("call_service", {"service": call.service, **named, **call.data})


def _planned(session: Session, conditions: list[Condition], delay: float) -> list[ToolCall]:
    calls = calls_for(session.home, conditions) or []
    minutes = round(max(delay, 1.0) / 60, 3)
    return [ToolCall("schedule", {"after": minutes, **_tool(call).args}) for call in calls]


def _until_later(session: Session, part: HoldsFor, wanted: list[Condition]) -> list[ToolCall]:
    """The end of what is to hold for a while: the state that the goal wants of the same device at its end."""
    entities = {atom.entity: atom.value for atom in atoms(part) if isinstance(atom, State)}
    for item in wanted:
        if isinstance(item, State) and item.entity in entities:
            service = "turn_on" if item.value == "on" else "turn_off"
            domain = item.entity.partition(".")[0]
            after = round(part.seconds / 60 + 2, 3)
            return [ToolCall("schedule", {"after": after, "service": f"{domain}.{service}", "entity_id": item.entity})]
    return []


def _rule(session: Session, part: After, number: int) -> ToolCall:
    event = next(atom for atom in atoms(part.event) if isinstance(atom, State))
    actions: list[dict[str, Any]] = [{"delay": {"seconds": int(part.delay)}}] if part.delay else []
    for call in calls_for(session.home, [part.of]) or []:
        actions.append({"action": call.service, "target": {"entity_id": list(call.entities)}, "data": dict(call.data)})
    config = {
        "id": f"oracle_{number}",
        "alias": f"Rule {number}",
        "triggers": [{"trigger": "state", "entity_id": event.entity, "to": event.value}],
        "actions": actions,
    }
    return ToolCall("create_automation", {"config": config})


def _rooms(session: Session, wanted: list[Room]) -> list[ToolCall]:
    """Simulate-and-search: one or two of the room's devices, set so that the room gets there by the horizon."""
    if not wanted:
        return []
    options = [option for room in wanted for option in _options(session, room)]
    for size in (0, 1, 2):  # what has been done may be enough
        for chosen in combinations(options, size):
            before = session.recorder.save()
            calls = [call for option in chosen for call in option]
            fine = all(call.make(session.home) is None for call in calls)
            session.recorder.advance(max(0.0, session.end - session.home.time))
            run = session.recorder.run()
            reached = fine and all(holds(room, run, session.alone) for room in wanted)
            reached = reached and not session.verdict().side_effects
            session.recorder.load(before)
            if reached:
                return [_tool(call) for call in calls]
    return []


def _options(session: Session, room: Room) -> list[list[Call]]:
    """What each device of a room can do for a quantity, the gentlest first."""
    home, up, found = session.home, room.op in (">", ">="), list[list[Call]]()
    for entity in home.registry().in_area(room.room):
        state = home.states()[entity]
        role, domain = home.params(entity).get("role"), state.domain
        if room.quantity == "temperature" and domain == "climate":
            modes = state.attributes.get("hvac_modes", ())
            mode = "heat" if up else "cool"
            if mode in modes:
                top = state.attributes.get("max_temp" if up else "min_temp", 30)
                first = [] if state.state == mode else [Call("climate.set_hvac_mode", (entity,), {"hvac_mode": mode})]
                for step in (0.5, 1.5, 3.0):
                    target = min(top, room.value + step) if up else max(top, room.value - step)
                    target = round(target * 2) / 2
                    found.append([*first, Call("climate.set_temperature", (entity,), {"temperature": target})])
        elif room.quantity == "illuminance" and domain == "light":
            found.append([Call("light.turn_on" if up else "light.turn_off", (entity,))])
            if up and state.attributes.get("supported_color_modes") != ["onoff"]:
                found.append([Call("light.turn_on", (entity,), {"brightness": 255})])
        elif room.quantity == "illuminance" and domain == "cover":
            found.append([Call("cover.open_cover" if up else "cover.close_cover", (entity,))])
        elif domain == "fan" and not up and (role == "exhaust" or (role == "purifier" and room.quantity == "pm25")):
            found.append([Call("fan.turn_on", (entity,), {"percentage": 100})])
        elif domain == "humidifier" and room.quantity == "humidity":
            drier = state.attributes.get("device_class") == "dehumidifier"
            if drier != up:
                target = max(30, min(80, int(room.value) + (5 if up else -5)))
                first = [] if state.state == "on" else [Call("humidifier.turn_on", (entity,))]
                found.append([*first, Call("humidifier.set_humidity", (entity,), {"humidity": target})])
    return found
