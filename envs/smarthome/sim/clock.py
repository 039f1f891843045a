"""The virtual clock: an event heap. Events are plain data, so that a snapshot is a copy of the heap."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any, NamedTuple


class Event(NamedTuple):
    """Something that will happen."""

    time: float
    """Seconds since 1970 (UTC)."""
    number: int
    """Breaks ties: what was planned first happens first."""
    kind: str
    key: str
    """What it is about, e.g. an entity's id."""
    payload: tuple[Any, ...]


class ClockState(NamedTuple):
    """A clock to go back to."""

    now: float
    planned: int
    heap: tuple[Event, ...]
    running: dict[str, Event]


class Clock:
    """Time, and what will happen when.

    An event of `begin` is the only one of its key: beginning another replaces it, and it can be cancelled. Events of
    `at` stand alone.
    """

    def __init__(self, now: float) -> None:
        self.now = now
        self._count = 0
        self._heap: list[Event] = []
        self._running: dict[str, Event] = {}

    def at(self, time: float, kind: str, key: str = "", *payload: Any) -> None:
        """Plan an event that stands alone."""
        self._count += 1
        heappush(self._heap, Event(time, self._count, kind, key, payload))

    def begin(self, key: str, kind: str, seconds: float, *payload: Any) -> None:
        """Plan the one event of `key`, instead of the one that was planned."""
        self._count += 1
        event = Event(self.now + seconds, self._count, kind, key, payload)
        self._running[key] = event
        heappush(self._heap, event)

    def running(self, key: str) -> Event | None:
        """The event of `begin` that is to come for `key`."""
        return self._running.get(key)

    def cancel(self, key: str) -> Event | None:
        """Forget the event of `key` and return it."""
        return self._running.pop(key, None)

    def pop(self, until: float, begun: frozenset[str]) -> Event | None:
        """The next event up to `until`, with the clock set to its time; None (and the clock unmoved) where none is.

        Args:
            until: seconds since 1970.
            begun: the kinds that `begin` plans: those that were replaced or cancelled are skipped.
        """
        heap = self._heap
        while heap and heap[0].time <= until:
            event = heappop(heap)
            if event.kind in begun:
                if self._running.get(event.key) is not event:
                    continue
                del self._running[event.key]
            self.now = max(self.now, event.time)
            return event
        return None

    def save(self) -> ClockState:
        """A copy of everything."""
        return ClockState(self.now, self._count, tuple(self._heap), dict(self._running))

    def load(self, state: ClockState) -> None:
        """Go back to `state`."""
        self.now, self._count = state.now, state.planned
        self._heap, self._running = list(state.heap), dict(state.running)

    def pending(self) -> list[tuple[float, str, str, tuple[Any, ...]]]:
        """What is to come, in order, without what was cancelled: part of a home's key."""
        live = [event for event in self._heap if self._running.get(event.key, event) is event]
        return [(event.time, event.kind, event.key, event.payload) for event in sorted(live)]
