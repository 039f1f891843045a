"""The published test cases of home-assistant-datasets as goals: setup, expected changes, ignored changes, answers.

The files are Apache-2.0, from github.com/allenporter/home-assistant-datasets; none of them is part of sandlot. A case
says what a home is set to, what is said to it, and which entities then differ; everything else must be as before. The
evaluation that came with them looks at once; here a device has a minute to get there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ...core.errors import MissingData, MissingExtra
from ..ha_fixtures import load_fixtures
from ..sim.home import SimHome
from ..spec import EntitySpec, HomeSpec
from .evaluate import holds
from .goal import Attribute, Blueprint, Condition, Said, State, Unchanged, Within
from .run import Happening, Recorder

_MINUTE = 60.0
_RENAMED = {"native_value": "state", "hvac_mode": "state", "target_temperature": "temperature"}
_OPEN = {"open": 100, "closed": 0}


@dataclass(frozen=True)
class Case:
    """One test of one file."""

    id: str
    """File and number, e.g. "assist/home1-us/vacuum.yaml#3"."""
    sentences: tuple[str, ...]
    """Each asks for the same."""
    home: HomeSpec
    """With the test's setup."""
    goal: Blueprint
    expects_nothing: bool = False
    """What is expected is what the setup says: the right thing is to change nothing."""
    world: tuple[Happening, ...] = ()
    """What happens besides: what tries an automation out."""


def load_cases(folder: str | Path) -> tuple[Case, ...]:
    """Every case below a folder that says what it expects; files without expectations are passed over.

    Raises:
        MissingData: there is no such folder, or a file in it is broken.
        MissingExtra: PyYAML is not installed.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise MissingData(f"{folder} is no folder")
    return tuple(case for path in sorted(folder.rglob("*.yaml")) for case in _cases(path, folder))


def start(case: Case) -> SimHome:
    """The case's home."""
    return SimHome(case.home)


def _cases(path: Path, folder: Path) -> Iterator[Case]:
    fixtures = path.with_name("_fixtures.yaml")
    if path.name.startswith("_") or not fixtures.exists():
        return
    data = read_yaml(path)
    tests = data.get("tests") or [] if isinstance(data, Mapping) else []
    home = None
    for index, test in enumerate(tests):
        if not test.get("expect_changes") and not test.get("expect_response"):
            continue
        home = home or load_fixtures(fixtures)
        spec, conditions = _set_up(home, test), list[Condition]()
        for entity, change in (test.get("expect_changes") or {}).items():
            conditions += _expected(entity, change)
        conditions += [Said(re.escape(str(answer))) for answer in test.get("expect_response") or ()]
        begin = Recorder(SimHome(spec)).run()
        nothing = all(holds(condition, begin, begin) for condition in conditions)
        yield Case(
            f"{path.relative_to(folder).as_posix()}#{index + 1}",
            tuple(str(sentence) for sentence in test["sentences"]),
            spec,
            Blueprint((*conditions, _unchanged(test, nothing)), horizon=_MINUTE),
            nothing,
        )


def _expected(entity: str, change: Mapping[str, Any]) -> list[Condition]:
    found: list[Condition] = []
    if "state" in change:
        found.append(Within(_MINUTE, State(entity, _state(change["state"]))))
    for name, value in (change.get("attributes") or {}).items():
        value = tuple(value) if isinstance(value, list) else value
        found.append(Within(_MINUTE, Attribute(entity, name, "=", value, 1.0 if name == "brightness" else 0.0)))
    return found


def _unchanged(test: Mapping[str, Any], nothing: bool) -> Unchanged:
    changed = [] if nothing else list(test.get("expect_changes") or ())
    ignored = test.get("ignore_changes") or {}
    names = []
    for entity, what in ignored.items():
        listed = what.get("attributes", what) if isinstance(what, Mapping) else what
        names += [entity if name == "state" else f"{entity}.{name}" for name in listed]
    return Unchanged(tuple(dict.fromkeys((*changed, *names))))


def _set_up(spec: HomeSpec, test: Mapping[str, Any]) -> HomeSpec:
    setup = test.get("setup") or {}
    entities = tuple(changed_entity(entity, setup.get(entity.entity_id)) for entity in spec.entities)
    spec = replace(spec, entities=entities)
    if test.get("context_now"):
        spec = replace(spec, start=_local(test["context_now"]))
    for entity, change in setup.items():
        temperature = (change.get("attributes") or {}).get("native_temperature")
        if entity.startswith("weather.") and temperature is not None:
            spec = replace(spec, weather=(_weather(spec, change["attributes"]),))
    return spec


def _weather(spec: HomeSpec, given: Mapping[str, Any]) -> Any:
    celsius = float(given["native_temperature"])
    if "F" in str(given.get("native_temperature_unit", "")):
        celsius = (celsius - 32) / 1.8
    cloud = {"sunny": 0.1, "partlycloudy": 0.5}.get(str(given.get("condition")), 0.8)
    return replace(spec.weather[0], temperature=round(celsius, 1), cloud=cloud)


def changed_entity(entity: EntitySpec, change: Mapping[str, Any] | None) -> EntitySpec:
    """An entity with a test's setup ({"state": ..., "attributes": {...}})."""
    if change is None or entity.entity_id.startswith("weather."):
        return entity
    given = {_RENAMED.get(key, key): value for key, value in (change.get("attributes") or {}).items()}
    params = dict(entity.params)
    if "todo_items" in given:
        params["items"] = tuple(given.pop("todo_items"))
    if "events" in given:
        params["events"] = tuple(_event(event) for event in given.pop("events"))
    state = change.get("state", given.pop("state", entity.state))
    if state in _OPEN and "current_position" in entity.attributes:
        given.setdefault("current_position", _OPEN[state])
    if entity.entity_id.startswith("light.") and "rgb_color" in given:
        given.pop("color_mode", None)
    known = {key: value for key, value in given.items() if key != "events"}
    return replace(
        entity,
        state=None if state is None else _state(state),
        attributes={**entity.attributes, **known},
        params=params,
    )


def _event(event: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "summary": str(event.get("summary", "")),
        **{key: _local(event[key]) for key in ("start", "end") if key in event},
    }


def _local(time: Any) -> str:
    """A date or time without its offset: homes live in local time."""
    return datetime.fromisoformat(str(time)).replace(tzinfo=None).isoformat()


def _state(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def read_yaml(path: Path) -> Any:
    """A file of the project's; what its own tags name is passed over."""
    try:
        import yaml
    except ModuleNotFoundError:
        raise MissingExtra("pyyaml", "smarthome") from None

    class Loader(yaml.SafeLoader):
        """The safe loader; what the project's own tags name is passed over."""

    Loader.add_multi_constructor("!", lambda loader, suffix, node: suffix)
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader)
    except (OSError, yaml.YAMLError) as error:
        raise MissingData(f"{path} cannot be read: {error}") from None
