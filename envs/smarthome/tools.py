"""The agent's tools. Each takes a session and checked arguments; what it refuses has changed nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from . import assist, resident
from .backend import EntityState, ServiceResult, entity_ids
from .blueprint.data import clock
from .blueprint.goal import REASONS
from .blueprint.run import Planned
from .calls import ToolCall
from .session import ASK_SECONDS, CALL_SECONDS, Session

_LINES = 150  # of a list, at most
_SHOWN = (  # attributes that lists show
    *("brightness", "color_temp_kelvin", "temperature", "current_temperature", "humidity", "percentage", "preset_mode"),
    *("current_position", "volume_level", "fan_mode", "battery_level", "fan_speed"),
)
_TARGET = ("entity_id", "area_id", "device_id", "floor_id")


@dataclass(frozen=True)
class Reply:
    """What a tool answers."""

    text: str
    valid: bool = True
    ended: bool = False


@dataclass(frozen=True)
class Tool:
    """A tool."""

    run: Callable[[Session, Mapping[str, Any]], Reply]
    help: str
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    free: bool = False
    """Whether any further argument is accepted (the fields of a service)."""


def use(session: Session, call: ToolCall) -> Reply:
    """Carry out a call."""
    tool = TOOLS.get(call.name)
    if tool is None:
        return Reply(f"There is no tool {call.name!r}. Tools: {', '.join(TOOLS)}.", valid=False)
    missing = [name for name in tool.required if call.args.get(name) in (None, "")]
    if missing:
        return Reply(f"{call.name} needs {missing[0]!r}. {tool.help}", valid=False)
    strange = [name for name in call.args if name not in (*tool.required, *tool.optional)]
    if strange and not tool.free:
        return Reply(f"{call.name} has no argument {strange[0]!r}. {tool.help}", valid=False)
    return tool.run(session, call.args)


# -- looking -------------------------------------------------------------------------------------------------------


def line(state: EntityState) -> str:
    """An entity in one line."""
    shown = [f"{key}={state.attributes[key]}" for key in _SHOWN if state.attributes.get(key) is not None]
    unit = state.attributes.get("unit_of_measurement")
    text = f"{state.entity_id} ({state.name}): {state.state}{f' {unit}' if unit else ''}"
    return f"{text} [{', '.join(shown)}]" if shown else text


def _list_areas(session: Session, args: Mapping[str, Any]) -> Reply:
    floors = {key: f", {floor.name}" for key, floor in session.home.registry().floors.items()}
    return Reply(
        "\n".join(f"{area.id} ({area.name}){floors.get(area.floor or '', '')}" for area in session.home.areas())
    )


def _list_entities(session: Session, args: Mapping[str, Any]) -> Reply:
    registry, found = session.home.registry(), []
    area, domain, name = (str(args.get(key) or "").lower() for key in ("area", "domain", "name"))
    known = {text.lower(): item.id for item in registry.areas.values() for text in (item.id, item.name, *item.aliases)}
    if area and area not in known:
        return Reply(f"There is no area {area!r}; list_areas() shows them.", valid=False)
    for entity_id in sorted(session.home.states()):
        state, entity = session.home.states()[entity_id], registry.entities.get(entity_id)
        fits = entity is not None and entity.exposed and (not domain or state.domain == domain)
        if fits and (not area or registry.area_of(entity_id) == known[area]) and name in state.name.lower():
            found.append(state)
    for state in found[:_LINES]:
        session.recorder.act("look", state.entity_id)
    more = f"\n[{len(found) - _LINES} more: say an area or a domain]" if len(found) > _LINES else ""
    return Reply("\n".join(map(line, found[:_LINES])) + more or "Nothing matches.")


def _get_state(session: Session, args: Mapping[str, Any]) -> Reply:
    state = session.home.state(str(args["entity_id"]))
    if state is None:
        return Reply(f"Entity not found: {str(args['entity_id'])[:80]}", valid=False)
    session.recorder.act("look", state.entity_id)
    shown = json.dumps(dict(state.attributes), ensure_ascii=False, default=str)
    changed = session.home.iso(state.last_changed)[:19]
    return Reply(f"{state.entity_id}: {state.state}, since {changed}\nattributes: {shown}")


def _get_history(session: Session, args: Mapping[str, Any]) -> Reply:
    entity = str(args["entity_id"])
    hours = _number(args.get("hours", 24))
    if session.home.state(entity) is None:
        return Reply(f"Entity not found: {entity[:80]}", valid=False)
    if hours is None or not 0 < hours <= 240:
        return Reply("hours is a number up to 240.", valid=False)
    session.recorder.act("look", entity)
    states = session.home.history(entity, session.home.now() - timedelta(hours=hours))
    rows = [f"{session.home.iso(state.last_updated)[:19]}  {line(state).partition('): ')[2]}" for state in states]
    return Reply("\n".join(([f"[{len(rows) - 60} earlier]"] if len(rows) > 60 else []) + rows[-60:]))


def _get_preferences(session: Session, args: Mapping[str, Any]) -> Reply:
    name = str(args["person"]).lower()
    found = next((who for who in session.task.home.residents if name in (who.id, who.name.lower())), None)
    if found is None:
        known = ", ".join(who.name for who in session.task.home.residents)
        return Reply(f"Nobody here is called {str(args['person'])[:40]!r}; there are {known}.", valid=False)
    session.recorder.act("look", f"person.{found.id}")
    return Reply(
        "\n".join(f"{key}: {value}" for key, value in sorted(found.preferences.items())) or "Nothing is known."
    )


def _live_context(session: Session, args: Mapping[str, Any]) -> Reply:
    return _list_entities(session, {})


def _list_automations(session: Session, args: Mapping[str, Any]) -> Reply:
    rows = [f"{key}: {json.dumps(config, default=str)}" for key, config in session.home.automations().items()]
    return Reply("\n".join(rows) or "There are none.")


# -- acting --------------------------------------------------------------------------------------------------------


def _call_service(session: Session, args: Mapping[str, Any]) -> Reply:
    domain, _, service = str(args["service"]).partition(".")
    data, target = _split(args)
    return _called(session, session.home.call_service(domain, service, data, target))


def _split(args: Mapping[str, Any], besides: tuple[str, ...] = ()) -> tuple[dict[str, Any], dict[str, Any]]:
    """A service's fields and its target, from a call's arguments."""
    nested = args.get("data")
    data = {**(nested if isinstance(nested, Mapping) else {})}
    skipped = ("service", "data", "target", *_TARGET, *besides)
    data |= {key: value for key, value in args.items() if key not in skipped}
    where = args.get("target")
    target = {key: where[key] for key in _TARGET if key in where} if isinstance(where, Mapping) else {}
    target |= {key: args[key] for key in _TARGET if key in args}
    return data, {key: entity_ids(value) for key, value in target.items() if isinstance(value, str | list)}


def _called(session: Session, result: ServiceResult) -> Reply:
    if result.error is not None:
        return Reply(f"Error: {result.error}", valid=False)
    changed = [line(state) for state in result.changed[:20]]
    response = [json.dumps(result.response, ensure_ascii=False, default=str)] if result.response else []
    session.pass_time(CALL_SECONDS)
    return Reply("\n".join([*changed, *response, *result.warnings[:5]]) or "Done; nothing changed.")


def _assisted(name: str) -> Callable[[Session, Mapping[str, Any]], Reply]:
    def run(session: Session, args: Mapping[str, Any]) -> Reply:
        found = assist.translate(session.home, name, args)
        if found.error is not None:
            return Reply(found.error, valid=False)
        before, replies = session.recorder.save(), []
        for domain, service, data, entities in found.calls:
            reply = _called(session, session.home.call_service(domain, service, data, {"entity_id": entities}))
            if not reply.valid:
                session.recorder.load(before)
                return reply
            replies.append(reply.text)
        return Reply("\n".join(replies))

    return run


def _schedule(session: Session, args: Mapping[str, Any]) -> Reply:
    time = _when(session, args)
    if isinstance(time, str):
        return Reply(time, valid=False)
    domain, _, service = str(args["service"]).partition(".")
    data, target = _split(args, ("at", "after"))
    before = session.recorder.save()
    result = session.home.call_service(domain, service, data, target)  # would it be accepted?
    session.recorder.load(before)
    if result.error is not None:
        return Reply(f"Error: {result.error}", valid=False)
    if len(session.recorder.planned) >= 50:
        return Reply("50 calls are planned already.", valid=False)
    session.recorder.plan(Planned(time, domain, service, data, target))
    return Reply(f"Planned: {domain}.{service} at {session.home.iso(time)[:19]}.")


def _when(session: Session, args: Mapping[str, Any]) -> float | str:
    now = session.home.now()
    if ("at" in args) == ("after" in args):
        return 'Say either at="HH:MM" (or a date and time) or after=minutes.'
    if "after" in args:
        minutes = _number(args["after"])
        if minutes is None or not 0 < minutes <= 10_080:
            return "after is a number of minutes, up to 10080."
        return session.home.time + minutes * 60
    text = str(args["at"])
    seconds = clock(text)
    if seconds is not None:
        time = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(seconds=seconds)
        return (time if time > now else time + timedelta(days=1)).timestamp()
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return f'at is "HH:MM" or "YYYY-MM-DDTHH:MM", not {text[:40]!r}.'
    time = time.replace(tzinfo=now.tzinfo) if time.tzinfo is None else time
    if not timedelta(0) < time - now <= timedelta(days=7):
        return "at must be in the next seven days."
    return time.timestamp()


def _create_automation(session: Session, args: Mapping[str, Any]) -> Reply:
    config: Any = args.get("config")
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except (ValueError, RecursionError) as error:
            return Reply(f"The configuration is not JSON: {error}", valid=False)
    result = session.home.add_automation(config)
    if result.error is not None:
        return Reply(f"Error: {result.error}", valid=False)
    session.pass_time(CALL_SECONDS)
    return Reply(f"Created {result.response['entity_id']}.")


def _delete_automation(session: Session, args: Mapping[str, Any]) -> Reply:
    result = session.home.remove_automation(str(args["id"]))
    if result.error is not None:
        return Reply(f"Error: {result.error}", valid=False)
    session.pass_time(CALL_SECONDS)
    return Reply("Deleted.")


def _wait(session: Session, args: Mapping[str, Any]) -> Reply:
    minutes = _number(args["minutes"])
    if minutes is None or not 0 < minutes <= 1440:
        return Reply("minutes is a number up to 1440.", valid=False)
    session.pass_time(minutes * 60)
    return Reply(f"It is {session.home.now():%A %H:%M:%S}.")


# -- talking -------------------------------------------------------------------------------------------------------


def _ask(session: Session, args: Mapping[str, Any]) -> Reply:
    slot = str(args.get("about") or resident.slot_of(str(args["question"])))
    if slot not in resident.SLOTS:
        return Reply(f"about is one of {', '.join(resident.SLOTS)}.", valid=False)
    session.recorder.act("ask", slot)
    session.pass_time(ASK_SECONDS)
    return Reply(f'They say: "{resident.answer(session.task.answers, slot)}"')


def _refuse(session: Session, args: Mapping[str, Any]) -> Reply:
    reason = str(args["reason"])
    if reason not in REASONS:
        known = ", ".join(f"{name} ({text})" for name, text in REASONS.items())
        return Reply(f"reason is one of: {known}.", valid=False)
    session.recorder.act("refuse", reason, str(args["about"]))
    return Reply("Noted. Do what else can be done, then finish.")


def _finish(session: Session, args: Mapping[str, Any]) -> Reply:
    if args.get("message"):
        session.recorder.act("say", str(args["message"]))
    session.pass_time(session.end - session.home.time)
    return Reply("The conversation is over.", ended=True)


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if abs(number) < 1e9 else None


_PLACE = "name=, area=, floor=, domain=, device_class="
TOOLS: Mapping[str, Tool] = {
    "list_areas": Tool(_list_areas, "list_areas(): the rooms"),
    "list_entities": Tool(
        _list_entities,
        "list_entities(area=, domain=, name=): devices with their states",
        optional=("area", "domain", "name"),
    ),
    "get_state": Tool(_get_state, "get_state(entity_id=): one in full", ("entity_id",)),
    "get_history": Tool(_get_history, "get_history(entity_id=, hours=): its past states", ("entity_id",), ("hours",)),
    "get_preferences": Tool(_get_preferences, "get_preferences(person=): what somebody likes", ("person",)),
    "GetLiveContext": Tool(_live_context, "GetLiveContext(): every device with its state"),
    "call_service": Tool(
        _call_service,
        "call_service(service=domain.service, entity_id= or area_id=, and the service's fields)",
        ("service",),
        free=True,
    ),
    **{
        name: Tool(_assisted(name), f"{name}({_PLACE})", optional=("name", "area", "floor", "domain", "device_class"))
        for name in assist.SWITCHES
    },
    **{
        name: Tool(_assisted(name), f"{name}({_PLACE}; {tool.help})" if tool.help else f"{name}({_PLACE})", free=True)
        for name, tool in assist.TOOLS.items()
    },
    "schedule": Tool(
        _schedule,
        'schedule(at="HH:MM" or after=minutes, service=, entity_id=, fields): one call, later',
        ("service",),
        free=True,
    ),
    "list_automations": Tool(_list_automations, "list_automations()"),
    "create_automation": Tool(
        _create_automation, 'create_automation(config={"alias", "triggers", "conditions", "actions"})', ("config",)
    ),
    "delete_automation": Tool(_delete_automation, "delete_automation(id=)", ("id",)),
    "wait": Tool(_wait, "wait(minutes=)", ("minutes",)),
    "ask": Tool(
        _ask, "ask(question=, about=which|value|time|confirm|other): ask the resident", ("question",), ("about",)
    ),
    "refuse": Tool(
        _refuse,
        f"refuse(reason={'|'.join(REASONS)}, about=what cannot be done)",
        ("reason", "about"),
    ),
    "finish": Tool(_finish, "finish(message=what you tell them): the last call", optional=("message",)),
}
