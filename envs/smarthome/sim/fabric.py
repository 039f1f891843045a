"""The fabric of a simulated home: states, what devices remember, what time is planned, and who hears of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from ...core.errors import InvalidArgument
from ..backend import UNAVAILABLE, Entity, EntityState, Registry
from ..frozen import FrozenDict
from ..spec import HomeSpec, OpeningSpec
from .clock import Clock
from .journal import Journal

if TYPE_CHECKING:
    from .air import Air, RoomState
    from .meters import Meters
    from .rules import Rules
    from .sensing import Sensing

_KEPT = ("friendly_name", "device_class", "supported_features", "unit_of_measurement", "icon")
_EMPTY: Mapping[str, Any] = FrozenDict()
_MISSING = object()
_WARNINGS = 200  # kept, at most


class Fabric:
    """What the parts of a simulation act on. `home.SimHome` puts the parts in and adds the protocol.

    Args:
        spec: the home, with every entity it has.
        registry: of these entities.
        states: their first states.
    """

    air: Air
    meters: Meters
    sensing: Sensing
    rules: Rules

    def __init__(self, spec: HomeSpec, registry: Registry, start: float, states: dict[str, EntityState]) -> None:
        self.spec = spec
        self.warnings: list[str] = []
        self.listeners: list[Callable[[str, Mapping[str, Any]], None]] = []
        """Called with every event on the bus ("state_changed" included); not part of snapshots."""
        self.timezone = timezone(timedelta(hours=spec.utc_offset))
        self.clock = Clock(start)
        self.journal = Journal()
        self.openings = {opening.id: opening.open for opening in spec.openings}
        self._params = {entity.entity_id: entity.params for entity in spec.entities}
        self._openings_of: dict[str, list[OpeningSpec]] = {}
        for opening in spec.openings:
            self._openings_of.setdefault(opening.room, []).append(opening)
        self._registry = registry
        self._states = states
        self._memory: dict[str, Mapping[str, Any]] = {}
        self._faults: dict[str, str] = {}
        self._cause = "home"
        self._happened: deque[tuple[str, Any, Any]] = deque()

    # -- reading -------------------------------------------------------------------------------------------------------

    def states(self) -> Mapping[str, EntityState]:
        """Every entity's state by id. Read only."""
        return self._states

    def state(self, entity_id: str) -> EntityState | None:
        """One entity's state, or None where there is no such entity."""
        return self._states.get(entity_id)

    def registry(self) -> Registry:
        """Floors, areas, devices and entities."""
        return self._registry

    @property
    def time(self) -> float:
        """Seconds since 1970 (UTC)."""
        return self.clock.now

    def now(self) -> datetime:
        """The home's local time, with its UTC offset."""
        return datetime.fromtimestamp(self.clock.now, self.timezone)

    def iso(self, time: float) -> str:
        """A time as Home Assistant writes it."""
        return datetime.fromtimestamp(time, self.timezone).isoformat()

    # -- for tests, tasks and the oracle -------------------------------------------------------------------------------

    def inject(
        self,
        entity_id: str,
        state: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        *,
        cause: str = "test",
    ) -> None:
        """Privileged: put an entity into a state, as if it had got there by itself; automations see the change.

        Raises:
            InvalidArgument: there is no such entity.
        """
        if entity_id not in self._states:
            raise InvalidArgument(f"no entity {entity_id!r} in home {self.spec.id!r}")
        self.cancel(entity_id)
        known = {key: value for key, value in self.memory(entity_id).items() if key not in ("position", "left")}
        brightness = (attributes or {}).get("brightness")
        self._memory[entity_id] = {**known, "brightness": brightness} if brightness is not None else known
        self.update(entity_id, state, attributes, cause=cause)
        self._settle()

    def set_opening(self, opening_id: str, is_open: bool) -> None:
        """Privileged: open or close a window or door by hand."""
        room = next(opening.room for opening in self.spec.openings if opening.id == opening_id)
        self.air.changed(room)
        self.openings[opening_id] = is_open
        self.sensing.entity_changed(opening_id)
        self._settle()

    def set_fault(self, entity_id: str, kind: str | None) -> None:
        """Privileged: break an entity (see `FaultSpec.kind`), or with None repair it."""
        before = self._faults.get(entity_id)
        if before == UNAVAILABLE and kind != UNAVAILABLE:
            del self._faults[entity_id]
            state, attributes = self.memory(entity_id)["hidden"]
            self.update(entity_id, state, dict(attributes), cause="fault")
        elif kind == UNAVAILABLE and before != UNAVAILABLE:
            now = self._states[entity_id]
            self.remember(entity_id, {"hidden": (now.state, now.attributes)})
            kept = FrozenDict({key: now.attributes[key] for key in _KEPT if key in now.attributes})
            self._put(replace(now, state=UNAVAILABLE, attributes=kept), "fault")
        self._faults.pop(entity_id, None)
        if kind is not None:
            self._faults[entity_id] = kind
        self._settle()

    def rooms(self) -> dict[str, RoomState]:
        """The air of every room now; looking changes nothing."""
        return self.air.at(self.time)

    def fire_event(self, event_type: str, data: Mapping[str, Any] | None = None) -> None:
        """Fire an event on the home's bus."""
        self.journal.events.append((self.time, event_type, dict(data or {})))
        self._happened.append((event_type, None, dict(data or {})))
        if self._cause == "home":
            self._settle()

    # -- changing ------------------------------------------------------------------------------------------------------

    def update(
        self,
        entity_id: str,
        state: str | None = None,
        changes: Mapping[str, Any] | None = None,
        *,
        cause: str | None = None,
        quiet: bool = False,
    ) -> None:
        """Give an entity another state or other attributes; nothing happens where nothing is new.

        `quiet` is for what the air reports about itself: it acts on no room.
        """
        old = self._states.get(entity_id)
        if old is None:
            return
        if self._faults.get(entity_id) == UNAVAILABLE:
            hidden, attributes = self.memory(entity_id)["hidden"]
            after = (hidden if state is None else state, FrozenDict({**attributes, **(changes or {})}))
            return self.remember(entity_id, {"hidden": after})
        attributes = old.attributes
        if changes and any(attributes.get(key, _MISSING) != value for key, value in changes.items()):
            attributes = FrozenDict({**attributes, **changes})
        state = old.state if state is None else state
        if state == old.state and attributes is old.attributes:
            return None
        changed = self.time if state != old.state else old.last_changed
        new = EntityState(entity_id, state, attributes, changed, self.time, cause or self._cause)
        return self._put(new, new.cause, quiet)

    def _put(self, new: EntityState, cause: str, quiet: bool = False) -> None:
        entity_id = new.entity_id
        old = self._states.get(entity_id)
        if old is not None and new.state != old.state and new.last_changed == old.last_changed:
            new = replace(new, last_changed=self.time, last_updated=self.time, cause=cause)
        if not quiet:
            self.air.changed(self.air.room_of.get(entity_id))
        self._states[entity_id] = new
        self.journal.states.append(new)
        if not quiet:
            if new.state == "off" and entity_id in self.air.powers:
                self.meters.set(entity_id, 0.0)
            self.meters.follow(entity_id)
            self.sensing.entity_changed(entity_id)
        if old is not None:
            self._happened.append(("state_changed", old, new))

    def create(self, entity_id: str, state: str, attributes: Mapping[str, Any], *, cause: str | None = None) -> None:
        """Add an entity that a service makes (a scene, an automation), or replace it."""
        name = str(attributes.get("friendly_name", entity_id))
        entities = {**self._registry.entities, entity_id: Entity(entity_id, name)}
        self._registry = replace(self._registry, entities=entities)
        now = self.time
        self._put(EntityState(entity_id, state, FrozenDict(attributes), now, now, cause or self._cause), "home")

    def delete(self, entity_id: str) -> None:
        """Remove such an entity."""
        entities = {key: value for key, value in self._registry.entities.items() if key != entity_id}
        self._registry = replace(self._registry, entities=entities)
        self._states.pop(entity_id, None)
        self._memory.pop(entity_id, None)

    def _free(self, entity_id: str) -> str:
        number, found = 2, entity_id
        while found in self._states:
            number, found = number + 1, f"{entity_id}_{number}"
        return found

    # -- what devices know and do --------------------------------------------------------------------------------------

    def params(self, entity_id: str) -> Mapping[str, Any]:
        """An entity's simulation parameters."""
        return self._params.get(entity_id, _EMPTY)

    def memory(self, entity_id: str) -> Mapping[str, Any]:
        """What a device knows besides its state."""
        return self._memory.get(entity_id, _EMPTY)

    def remember(self, entity_id: str, facts: Mapping[str, Any]) -> None:
        """Add to what a device knows."""
        self._memory[entity_id] = {**self._memory.get(entity_id, _EMPTY), **facts}

    def begin(self, entity_id: str, kind: str, seconds: float, *payload: Any) -> None:
        """Start what takes an entity some time; it replaces what the entity was doing."""
        self.clock.begin(entity_id, kind, seconds, *payload)

    def running(self, entity_id: str) -> tuple[Any, ...] | None:
        """The payload of what an entity is doing, or None."""
        event = self.clock.running(entity_id)
        return None if event is None else event.payload

    def cancel(self, entity_id: str) -> tuple[Any, ...] | None:
        """Stop what an entity is doing; returns its payload, or None."""
        event = self.clock.cancel(entity_id)
        return None if event is None else event.payload

    def fault(self, entity_id: str) -> str | None:
        """What is wrong with an entity, or None."""
        return self._faults.get(entity_id)

    def open_in(self, room: str) -> list[OpeningSpec]:
        """The open windows and doors of a room."""
        return [opening for opening in self._openings_of.get(room, ()) if self.openings[opening.id]]

    # -- who hears of it -----------------------------------------------------------------------------------------------

    def warn(self, text: str) -> None:
        """Note what Home Assistant would write to its log."""
        if len(self.warnings) < _WARNINGS:
            self.warnings.append(text)

    @contextmanager
    def acting(self, cause: str) -> Iterator[None]:
        """Changes inside are made by `cause`."""
        before, self._cause = self._cause, cause
        try:
            yield
        finally:
            self._cause = before

    def _settle(self) -> None:
        """Let automations and listeners see what has happened, and what that sets off."""
        happened = self._happened
        while happened:
            kind, old, new = happened.popleft()
            if kind == "state_changed":
                self.rules.on_change(old, new)
                data = {"entity_id": new.entity_id, "old_state": old, "new_state": new} if self.listeners else _EMPTY
            else:
                self.rules.on_event(kind, new)
                data = new
            for listener in self.listeners:
                listener(kind, data)
