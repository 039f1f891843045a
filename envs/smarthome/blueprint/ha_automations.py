"""The automation cases of home-assistant-datasets as goals: rules that behave as the published solution does.

A case is a description in prose and a solution, an automation with inputs (Apache-2.0; the files are not part of
sandlot, and the tests that came with them are not in the data). Nothing else says what is expected, so the solution
does: it is tried out under events that fire its triggers, with and without what its conditions ask for, for a short
and for a long time. What it changes, and when, is the goal; any automation that does the same passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...core.errors import MissingData
from ..backend import EntityState
from ..ha_fixtures import load_blueprint, load_fixtures
from ..sim.home import SimHome
from ..spec import HomeSpec
from .goal import Always, At, Blueprint, Condition, Moment, State, Unchanged
from .ha_actions import Skipped
from .ha_cases import Case, changed_entity, read_yaml
from .run import Happening, Recorder

_MINUTE = 60.0
_PULSES = ((5.0, 6.0), (10.0, 11.0), (20.0, 50.0))
"""Minutes from and to which a trigger is in the state that fires it."""
_CONDITIONS_MET = 8.0
"""Minutes after which what conditions ask for holds."""
_HORIZON = 60.0 * _MINUTE
_TOLERANCE = 20.0


@dataclass(frozen=True)
class AutomationCase:
    """A case and the automation that its goal was made of."""

    case: Case
    solution: Mapping[str, Any]
    """In Home Assistant's form, its inputs filled."""


def load_automations(folder: str | Path) -> tuple[tuple[AutomationCase, ...], tuple[Skipped, ...]]:
    """The automation cases below a folder, and those that became none.

    Raises:
        MissingData: there is no such folder, or a file in it is broken.
        MissingExtra: PyYAML is not installed.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise MissingData(f"{folder} is no folder")
    cases: list[AutomationCase] = []
    skipped: list[Skipped] = []
    for text in sorted(folder.rglob("DESCRIPTION.md")):
        fixtures, solution = text.with_name("_fixtures.yaml"), text.with_name("solution.yaml")
        name, told = text.parent.relative_to(folder).as_posix(), text.read_text(encoding="utf-8")
        if fixtures.exists() and solution.exists():
            cases.append(_case(name, told, load_fixtures(fixtures), solution))
        elif fixtures.exists():
            skipped.append(Skipped(name, told.partition("\n")[0], "no solution is published, only a description"))
    return tuple(cases), tuple(skipped)


def _case(name: str, told: str, home: HomeSpec, path: Path) -> AutomationCase:
    inputs = _inputs(read_yaml(path)["blueprint"]["input"], home)
    solution = load_blueprint(path, inputs, "published")
    players = [entity for entity in _mentioned(inputs) if entity.startswith("media_player.")]
    quiet = {**dict.fromkeys(players, "idle"), **{entity: "off" for entity, _ in _fired(solution)}}
    lights = {entity: "off" for entity in _mentioned(inputs) if entity.startswith(("light.", "fan."))}
    vacuums = {entity: "docked" for entity in _mentioned(inputs) if entity.startswith("vacuum.")}
    begin = {**quiet, **lights, **vacuums}
    entities = tuple(
        changed_entity(item, {"state": begin[item.entity_id]}) if item.entity_id in begin else item
        for item in home.entities
    )
    home, world = replace(home, entities=entities), tuple(_events(solution))
    changes = _changes(home, solution, world)
    must: list[Condition] = []
    for entity, states in changes.items():
        must += _history(entity, states)
    goal = Blueprint((*must, Unchanged((*changes, "automation.*"))), horizon=_HORIZON)
    return AutomationCase(Case(name, (told,), home, goal, world=world), solution)


def _inputs(known: Mapping[str, Any], home: HomeSpec) -> dict[str, Any]:
    """Devices of the home for a blueprint's inputs; what has a default keeps it.

    They are of the domain asked for, and have a name like the input's or like those of the others chosen.
    """
    chosen: dict[str, Any] = {}
    words: set[str] = set()
    for name, field in known.items():
        selector = (field or {}).get("selector") or {}
        if "default" in (field or {}):
            continue
        words |= set(name.split("_"))
        domain = (selector.get("entity") or {}).get("domain", "media_player")
        options = [item.entity_id for item in home.entities if item.entity_id.startswith(f"{domain}.")]
        best = max(options, key=lambda entity: len(words & set(entity.partition(".")[2].split("_"))))
        words |= set(best.partition(".")[2].split("_")) - {"sensor"}
        media = {"entity_id": best, "media_content_id": "alert.mp3", "media_content_type": "music"}
        chosen[name] = media if "media" in selector else best
    return chosen


def _mentioned(inputs: Mapping[str, Any]) -> list[str]:
    return [value["entity_id"] if isinstance(value, Mapping) else value for value in inputs.values()]


def _fired(solution: Mapping[str, Any]) -> dict[tuple[str, str], None]:
    """The (entity, state) that its state triggers wait for, the state that is not "off"."""
    triggers = solution.get("triggers", solution.get("trigger")) or ()
    found = [(str(item["entity_id"]), str(item["to"])) for item in triggers if "to" in item]
    return dict.fromkeys(pair for pair in found if pair[1] != "off")


def _events(solution: Mapping[str, Any]) -> Iterator[Happening]:
    conditions = solution.get("conditions", solution.get("condition")) or ()
    met = [
        Happening(_CONDITIONS_MET * _MINUTE, str(c["entity_id"]), str(c["state"])) for c in conditions if "state" in c
    ]
    pulses = [
        Happening(minutes * _MINUTE, entity, state if begins else "off")
        for entity, state in _fired(solution)
        for pulse in _PULSES
        for minutes, begins in zip(pulse, (True, False), strict=True)
    ]
    yield from sorted((*met, *pulses), key=lambda item: item.seconds)


def _changes(
    home: HomeSpec, solution: Mapping[str, Any], world: tuple[Happening, ...]
) -> dict[str, list[tuple[float, str]]]:
    """Entity -> (seconds, state) from the start on, for what the solution makes different."""
    runs = []
    for rules in ((), (solution,)):
        sim = SimHome(home)
        for rule in rules:
            assert sim.add_automation(rule).ok
        recorder = Recorder(sim, world)
        recorder.advance(_HORIZON)
        runs.append((recorder.start, recorder.histories()))
    (_, without), (start, with_it) = runs
    return {
        entity: _told(states, start)
        for entity, states in with_it.items()
        if not entity.startswith("automation.") and _told(states, start) != _told(without.get(entity, []), start)
    }


def _told(states: list[EntityState], start: float) -> list[tuple[float, str]]:
    found: list[tuple[float, str]] = []
    for state in states:
        if not found or found[-1][1] != state.state:
            found.append((max(0.0, state.last_updated - start), state.state))
    return found


def _history(entity: str, states: list[tuple[float, str]]) -> Iterator[Condition]:
    """Each state from its time to the next one's, a little short of both; what is shorter must hold at some moment."""
    for index, (since, state) in enumerate(states):
        until = states[index + 1][0] if index + 1 < len(states) else _HORIZON
        first = since + _TOLERANCE if index else 0.0
        if until - first > 2 * _TOLERANCE:
            yield Always(State(entity, state), Moment("start", first), Moment("start", until - _TOLERANCE))
        else:
            yield At(Moment("start", (since + until) / 2), State(entity, state), _TOLERANCE)
