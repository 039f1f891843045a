"""`SimHome`: the simulated home behind `HomeBackend`. Deterministic; its snapshots are cheap."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from hashlib import blake2b
from struct import pack
from typing import Any

from ...core.errors import InvalidArgument
from ..backend import Area, EntityState, Registry, ServiceResult
from ..frozen import FrozenDict
from ..spec import HomeSpec
from . import beginning, calling, lists, people, readings, rules
from .air import STEP, Air
from .catalogue import DOMAINS
from .fabric import Fabric
from .fields import too_deep
from .journal import Journal
from .meters import Meters
from .people import People
from .rules import Rules
from .sensing import Sensing
from .sky import Sky
from .triggers import BadConfig

_METERED_LATER = ("climate.", "humidifier.", "water_heater.")  # by what the air and the water took


@dataclass(frozen=True)
class HomeSnapshot:
    """An exact point to go back to; picklable. Made by `SimHome.snapshot`."""

    clock: Any
    states: dict[str, EntityState]
    memory: dict[str, Mapping[str, Any]]
    openings: dict[str, bool]
    faults: dict[str, str]
    registry: Registry
    air: Any
    people: Any
    meters: Any
    rules: Any
    journal: Any
    happened: tuple[tuple[str, Any, Any], ...]


class SimHome(Fabric):
    """A simulated home.

    Args:
        spec: the home.
        strict: what Home Assistant passes over with a line in its log (an entity that does not exist or is not
            available) is an error of the call.

    Raises:
        InvalidArgument: the description does not fit together; the message names the first problem.
    """

    domains = DOMAINS

    def __init__(self, spec: HomeSpec, *, strict: bool = False) -> None:
        beginning.check(spec, DOMAINS)
        entities = beginning.all_entities(spec)
        offset = timezone(timedelta(hours=spec.utc_offset))
        self.start = datetime.fromisoformat(spec.start).replace(tzinfo=offset).timestamp()
        states = {
            entity.entity_id: beginning.first_state(entity, DOMAINS[entity.entity_id.partition(".")[0]], self.start)
            for entity in entities
        }
        full = replace(spec, entities=entities)
        super().__init__(full, beginning.registry_of(full, entities), self.start, states)
        self.strict = strict
        self.sky = Sky(full, self.start)
        self.meters = Meters(self)
        self.people = People(self)
        self.sensing = Sensing(self)
        self.air = Air(self)
        self.rules = Rules(self)
        self._begin()

    def _begin(self) -> None:
        for entity in self.spec.entities:
            beginning.remember_start(self, entity)
            if entity.entity_id.startswith(_METERED_LATER):
                self.meters.set(entity.entity_id, 0.0)
            self.meters.follow(entity.entity_id)
            if entity.entity_id.startswith(("todo.", "calendar.")):
                lists.start_items(self, entity.entity_id)
        for config in self.spec.automations:
            try:
                entity_id = beginning.automation_entity(config)
                self.rules.add(config, entity_id)
            except (BadConfig, KeyError) as error:
                raise InvalidArgument(f"automation {config.get('id')!r} of home {self.spec.id!r}: {error}") from None
            self.update(entity_id, None, {"id": str(config["id"])})
        self.people.start()
        self._show_sun()
        self.sensing.begin()
        for index, fault in enumerate(self.spec.faults):
            self.clock.at(self.start + fault.start, "fault", fault.entity, index, True)
            if fault.end is not None:
                self.clock.at(self.start + fault.end, "fault", fault.entity, index, False)
        self.clock.at(self.start // STEP * STEP + STEP, "tick")
        self.journal = Journal()
        for state in self._states.values():
            self.journal.states.append(state)
        self._happened.clear()
        self.advance(0.0)

    # -- HomeBackend ----------------------------------------------------------------------------------------------

    def call_service(
        self,
        domain: str,
        service: str,
        data: Mapping[str, Any] | None = None,
        target: Mapping[str, str | Sequence[str]] | None = None,
        *,
        cause: str = "agent",
    ) -> ServiceResult:
        """Call `domain.service`; a refused call changes nothing and says why in its `error`."""
        self.warnings.clear()
        result = calling.call(self, domain, service, data, target, cause)
        self._settle()
        return result

    def services(self) -> Mapping[str, Mapping[str, Any]]:
        """Domain -> service -> description in Home Assistant's form."""
        known = {
            name: {key: service.describe() for key, service in domain.services.items()}
            for name, domain in DOMAINS.items()
            if domain.services
        }
        scripts = [entity.partition(".")[2] for entity in self._states if entity.startswith("script.")]
        known["script"] |= {name: {"fields": {}} for name in scripts}
        known["notify"] |= {f"mobile_app_{name}": known["notify"]["mobile_app"] for name in self.people.specs}
        return known

    def areas(self) -> Sequence[Area]:
        """The areas, sorted by id."""
        return sorted(self._registry.areas.values(), key=lambda area: area.id)

    def advance(self, seconds: float) -> None:
        """Let time pass at once: what is planned happens, residents move, rooms warm up."""
        if not 0 <= seconds < float("inf"):
            raise InvalidArgument(f"advance takes seconds of at least 0, not {seconds}")
        self._settle()
        end = self.clock.now + seconds
        while (event := self.clock.pop(end, _BEGUN)) is not None:
            _EVENTS[event.kind](self, event.key, event.payload)
            self._settle()
        self.clock.now = end

    def history(self, entity_id: str, start: datetime | None = None, end: datetime | None = None) -> list[EntityState]:
        """An entity's states over a period, oldest first, beginning with the one that held at `start`."""
        first = self.start if start is None else start.timestamp()
        return self.journal.history(entity_id, first, self.time if end is None else end.timestamp())

    def automations(self) -> Mapping[str, Mapping[str, Any]]:
        """Automation id -> its configuration."""
        return {key: automation.config for key, automation in self.rules.automations.items()}

    def add_automation(self, config: Mapping[str, Any]) -> ServiceResult:
        """Create or replace the automation `config["id"]` (by default made from its alias)."""
        if not isinstance(config, Mapping) or too_deep(config):
            return ServiceResult(error="Message malformed: expected a dictionary", code="invalid_format")
        config = FrozenDict({"id": beginning.slug(str(config.get("alias", "automation"))), **deepcopy(dict(config))})
        old = self.rules.automations.get(str(config["id"]))
        entity_id = old.entity_id if old else self._free(beginning.automation_entity(config))
        try:
            self.rules.add(config, entity_id)
        except BadConfig as error:
            return ServiceResult(error=f"Message malformed: {error}", code="invalid_format")
        name = str(config.get("alias") or config["id"])
        if old is None:
            mode = config.get("mode", "single")
            shown = {"id": str(config["id"]), "last_triggered": None, "mode": mode, "current": 0, "friendly_name": name}
            self.create(entity_id, "on", shown, cause="agent")
        else:
            self.update(entity_id, None, {"friendly_name": name}, cause="agent")
        self._settle()
        return ServiceResult((self._states[entity_id],), response={"entity_id": entity_id})

    def remove_automation(self, automation_id: str) -> ServiceResult:
        """Delete an automation."""
        automation = self.rules.automations.get(automation_id)
        if automation is None:
            return ServiceResult(error="Resource not found", code="not_found")
        self.rules.remove(automation_id)
        self.delete(automation.entity_id)
        return ServiceResult()

    def snapshot(self) -> HomeSnapshot:
        """An exact point to go back to."""
        return HomeSnapshot(
            self.clock.save(),
            dict(self._states),
            dict(self._memory),
            dict(self.openings),
            dict(self._faults),
            self._registry,
            self.air.save(),
            self.people.save(),
            self.meters.save(),
            self.rules.save(),
            self.journal.save(),
            tuple(self._happened),
        )

    def restore(self, snapshot: HomeSnapshot) -> None:
        """Go back to a snapshot of this home (or of another instance of the same description)."""
        self.clock.load(snapshot.clock)
        self._states, self._memory = dict(snapshot.states), dict(snapshot.memory)
        self.openings, self._faults = dict(snapshot.openings), dict(snapshot.faults)
        self._registry = snapshot.registry
        self.air.load(snapshot.air)
        self.people.load(snapshot.people)
        self.meters.load(snapshot.meters)
        self.rules.load(snapshot.rules)
        self.journal.load(snapshot.journal)
        self._happened = deque(snapshot.happened)

    def close(self) -> None:
        """Nothing to release."""

    # -- for tests, tasks and the oracle --------------------------------------------------------------------------

    def key(self) -> bytes:
        """A hash of the full state: equal keys, same future for equal calls."""
        parts = blake2b(digest_size=16)
        states = [self._states[entity_id] for entity_id in sorted(self._states)]
        parts.update(b"".join([state.digest for state in states]))
        meters = [number for meter in self.meters.meters.values() for number in meter]
        numbers = [self.meters.cost, *(state.last_changed for state in states), *meters]
        parts.update(pack(f"{len(numbers)}d", *numbers))
        rest = (
            self.time,
            self.air.time,
            self.air.states,
            sorted(self.people.where.items()),
            self.openings,
            sorted(self._faults.items()),
            sorted((key, repr(value)) for key, value in self._memory.items()),
            self.clock.pending(),
            sorted((key, rule.version, rule.digest) for key, rule in self.rules.automations.items()),
            sorted(self.rules.runs.items()),
        )
        parts.update(repr(rest).encode("utf-8", "surrogatepass"))
        return parts.digest()

    # -- for the parts of the simulation --------------------------------------------------------------------------

    def weather_state(self) -> tuple[str, dict[str, Any]]:
        """The weather entity's state and attributes now."""
        return readings.weather_now(self)

    def call_inner(self, domain: str, service: str, data: Mapping[str, Any]) -> None:
        """A call that another call makes; its error is a warning."""
        result = calling.call(self, domain, service, data, None, self._cause)
        if result.error is not None:
            self.warn(result.error)

    def run_call(self, step: Mapping[str, Any], cause: str) -> None:
        """Carry out one action of an automation, script or routine: a service, a scene or an event."""
        with self.acting(cause):
            if "event" in step:
                self.fire_event(str(step["event"]), step.get("event_data"))
                return
            if "scene" in step:
                self.call_inner("scene", "turn_on", {"entity_id": step["scene"]})
                return
            domain, _, service = str(step.get("action", step.get("service", ""))).partition(".")
            target = step.get("target") or {}
            target = {"entity_id": target} if isinstance(target, str) else target
            named = {"entity_id": step["entity_id"]} if "entity_id" in step else {}
            self.call_inner(domain, service, {**(step.get("data") or {}), **named, **target})

    def _tick(self) -> None:
        self.air.advance(self.time)
        self.meters.settle()
        self.sensing.refresh()
        self.clock.at(self.time + STEP, "tick")

    def _show_sun(self) -> None:
        self.update("sun.sun", *readings.sun_now(self))
        edges = (self.sky.next_edge(self.time, edge) for edge in ("sunrise", "sunset"))
        self.clock.at(min(edges) + 1, "sun")


_EVENTS: dict[str, Callable[[SimHome, str, tuple[Any, ...]], None]] = {
    **{kind: event for domain in DOMAINS.values() for kind, event in domain.events.items()},
    **people.EVENTS,
    **rules.EVENTS,
    "tick": lambda home, key, payload: home._tick(),
    "sun": lambda home, key, payload: home._show_sun(),
    "still": lambda home, key, payload: home.update(key, "off"),
    "fault": lambda home, key, payload: home.set_fault(key, home.spec.faults[payload[0]].kind if payload[1] else None),
}
_ALONE = ("tick", "sun", "fault", "routine", "routine_day", "rule_time")
_BEGUN = frozenset(_EVENTS) - frozenset(_ALONE)
