"""To-do lists and calendars. Their items live in the home's memory, as in Home Assistant they are not attributes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from ..backend import EntityState
from .domain import Domain, Refused, Service
from .fields import Choice, Duration, Moment, Text, Texts

if TYPE_CHECKING:
    from .home import SimHome

CREATE_ITEM, DELETE_ITEM, UPDATE_ITEM, MOVE_ITEM, DUE_DATE, DUE_DATETIME, DESCRIPTION = 1, 2, 4, 8, 16, 32, 64
CREATE_EVENT, DELETE_EVENT, UPDATE_EVENT = 1, 2, 4
_STATUS = ("needs_action", "completed")
_ITEM = {"due_date": Moment(day=True), "due_datetime": Moment(), "description": Text()}


def _items(home: SimHome, todo: EntityState) -> tuple[dict[str, Any], ...]:
    return home.memory(todo.entity_id).get("items", ())


def _store(home: SimHome, todo: EntityState, items: tuple[dict[str, Any], ...]) -> None:
    home.remember(todo.entity_id, {"items": items})
    home.update(todo.entity_id, str(sum(item["status"] == "needs_action" for item in items)))


def _details(data: dict[str, Any]) -> dict[str, Any]:
    details = {"due": data.get("due_datetime", data.get("due_date")), "description": data.get("description")}
    return {key: value for key, value in details.items() if value is not None}


def _add(home: SimHome, todo: EntityState, data: dict[str, Any]) -> None:
    items = _items(home, todo)
    number = 1 + max((int(item["uid"]) for item in items), default=0)
    item = {"uid": str(number), "summary": data["item"], "status": "needs_action", **_details(data)}
    _store(home, todo, (*items, item))


def _find(items: tuple[dict[str, Any], ...], wanted: str) -> int:
    for index, item in enumerate(items):
        if wanted in (item["uid"], item["summary"]):
            return index
    raise Refused(f"Unable to find To-do item '{wanted}'")


def _update(home: SimHome, todo: EntityState, data: dict[str, Any]) -> None:
    items = _items(home, todo)
    index = _find(items, data["item"])
    changes = _details(data)
    if "rename" in data:
        changes["summary"] = data["rename"]
    if "status" in data:
        changes["status"] = data["status"]
    _store(home, todo, (*items[:index], {**items[index], **changes}, *items[index + 1 :]))


def _remove(home: SimHome, todo: EntityState, data: dict[str, Any]) -> None:
    items = _items(home, todo)
    gone = {_find(items, wanted) for wanted in data["item"]}
    _store(home, todo, tuple(item for index, item in enumerate(items) if index not in gone))


def _remove_completed(home: SimHome, todo: EntityState, data: dict[str, Any]) -> None:
    _store(home, todo, tuple(item for item in _items(home, todo) if item["status"] != "completed"))


def _get_items(home: SimHome, todo: EntityState, data: dict[str, Any]) -> dict[str, Any]:
    wanted = data.get("status", _STATUS)
    return {"items": [dict(item) for item in _items(home, todo) if item["status"] in wanted]}


class _Statuses(Texts):
    """One status or several."""

    def check(self, value: Any) -> list[str]:
        """The statuses as a list."""
        return [Choice(_STATUS).check(item) for item in super().check(value)]


def start_items(home: SimHome, entity_id: str) -> None:
    """Fill the list or calendar with what its parameters say (on the home's first day)."""
    params = home.params(entity_id)
    todo = home.states()[entity_id]
    if todo.domain == "todo":
        items = tuple(
            {"uid": str(number), "status": "needs_action", **({"summary": item} if isinstance(item, str) else item)}
            for number, item in enumerate(params.get("items", ()), 1)
        )
        _store(home, todo, items)
    else:
        home.remember(entity_id, {"events": tuple(dict(event) for event in params.get("events", ()))})
        refresh_calendar(home, entity_id)


TODO = Domain(
    "todo",
    "the number of open items",
    {
        "get_items": Service(_get_items, {"status": _Statuses()}, responds=True),
        "add_item": Service(_add, {"item": Text(), **_ITEM}, ("item",), (CREATE_ITEM,)),
        "update_item": Service(
            _update,
            {"item": Text(), "rename": Text(), "status": Choice(_STATUS), **_ITEM},
            ("item",),
            (UPDATE_ITEM,),
            at_least=("rename", "status", "due_date", "due_datetime", "description"),
        ),
        "remove_item": Service(_remove, {"item": Texts()}, ("item",), (DELETE_ITEM,)),
        "remove_completed_items": Service(_remove_completed, features=(DELETE_ITEM,)),
    },
    lambda spec: (
        "0",
        {"supported_features": CREATE_ITEM | DELETE_ITEM | UPDATE_ITEM | DUE_DATE | DUE_DATETIME | DESCRIPTION},
    ),
    {
        "CREATE_TODO_ITEM": CREATE_ITEM,
        "DELETE_TODO_ITEM": DELETE_ITEM,
        "UPDATE_TODO_ITEM": UPDATE_ITEM,
        "MOVE_TODO_ITEM": MOVE_ITEM,
        "SET_DUE_DATE_ON_ITEM": DUE_DATE,
        "SET_DUE_DATETIME_ON_ITEM": DUE_DATETIME,
        "SET_DESCRIPTION_ON_ITEM": DESCRIPTION,
    },
)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _create_event(home: SimHome, calendar: EntityState, data: dict[str, Any]) -> None:
    if "start_date_time" in data and "end_date_time" in data:
        start, end = data["start_date_time"], data["end_date_time"]
    elif "start_date" in data and "end_date" in data:
        start, end = data["start_date"], data["end_date"]
    else:
        raise Refused("Missing required fields to set start or end date/datetime", "invalid_format")
    if _moment(end) <= _moment(start):
        raise Refused(
            f"Failed to validate CalendarEvent: start {start} is not before end {end}", "home_assistant_error"
        )
    event = {"start": start, "end": end, "summary": data["summary"]}
    event |= {key: data[key] for key in ("description", "location") if key in data}
    events = (*home.memory(calendar.entity_id).get("events", ()), event)
    home.remember(calendar.entity_id, {"events": tuple(sorted(events, key=lambda item: item["start"]))})
    refresh_calendar(home, calendar.entity_id)


def refresh_calendar(home: SimHome, entity_id: str) -> None:
    """Show the running or next event, and wake at its start or end."""
    now = home.now().replace(tzinfo=None)
    events = [event for event in home.memory(entity_id).get("events", ()) if _moment(event["end"]) > now]
    if not events:
        home.cancel(entity_id)
        return home.update(entity_id, "off", dict.fromkeys(("message", "start_time", "end_time")))
    event = min(events, key=lambda item: item["start"])
    running = _moment(event["start"]) <= now
    change = _moment(event["end"] if running else event["start"])
    home.begin(entity_id, "calendar", (change - now).total_seconds())
    shown = {"message": event["summary"], "start_time": event["start"], "end_time": event["end"]}
    return home.update(entity_id, "on" if running else "off", shown)


def _get_events(home: SimHome, calendar: EntityState, data: dict[str, Any]) -> dict[str, Any]:
    start = _moment(data["start_date_time"]) if "start_date_time" in data else home.now().replace(tzinfo=None)
    end = start + timedelta(seconds=data["duration"]) if "duration" in data else _moment(data["end_date_time"])
    events = home.memory(calendar.entity_id).get("events", ())
    return {"events": [dict(item) for item in events if _moment(item["end"]) > start and _moment(item["start"]) < end]}


CALENDAR = Domain(
    "calendar",
    "on while an event runs, off",
    {
        "create_event": Service(
            _create_event,
            {
                "summary": Text(),
                "description": Text(),
                "location": Text(),
                "start_date_time": Moment(),
                "end_date_time": Moment(),
                "start_date": Moment(day=True),
                "end_date": Moment(day=True),
            },
            ("summary",),
            (CREATE_EVENT,),
        ),
        "get_events": Service(
            _get_events,
            {"start_date_time": Moment(), "end_date_time": Moment(), "duration": Duration()},
            exclusive=(("end_date_time", "duration"),),
            at_least=("end_date_time", "duration"),
            responds=True,
        ),
    },
    lambda spec: ("off", {"supported_features": CREATE_EVENT | DELETE_EVENT, "message": None}),
    {"CREATE_EVENT": CREATE_EVENT, "DELETE_EVENT": DELETE_EVENT, "UPDATE_EVENT": UPDATE_EVENT},
    {"calendar": lambda home, entity_id, payload: refresh_calendar(home, entity_id)},
    timing="turns on and off with its events",
)
