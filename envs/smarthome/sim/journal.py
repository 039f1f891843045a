"""What happened in a home: every state, every service call and every event, in order; cheap to copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from ..backend import EntityState, ServiceCall

T = TypeVar("T")
_CHUNK = 256


class Log(Generic[T]):
    """A list that only grows, in frozen chunks that snapshots share."""

    def __init__(self) -> None:
        self._chunks: tuple[tuple[T, ...], ...] = ()
        self._open: list[T] = []

    def append(self, item: T) -> None:
        """Add at the end."""
        self._open.append(item)
        if len(self._open) == _CHUNK:
            self._chunks = (*self._chunks, tuple(self._open))
            self._open = []

    def __len__(self) -> int:
        return len(self._chunks) * _CHUNK + len(self._open)

    def __iter__(self) -> Iterator[T]:
        for chunk in self._chunks:
            yield from chunk
        yield from list(self._open)

    def since(self, mark: int) -> list[T]:
        """The items from number `mark` on."""
        first, rest = divmod(mark, _CHUNK)
        items = [item for chunk in self._chunks[first:] for item in chunk] + self._open
        return items[rest:]

    def save(self) -> tuple[tuple[tuple[T, ...], ...], tuple[T, ...]]:
        """A copy."""
        return self._chunks, tuple(self._open)

    def load(self, state: tuple[tuple[tuple[T, ...], ...], tuple[T, ...]]) -> None:
        """Go back."""
        self._chunks, self._open = state[0], list(state[1])


class Journal:
    """The logs of one home."""

    def __init__(self) -> None:
        self.states: Log[EntityState] = Log()
        self.calls: Log[ServiceCall] = Log()
        self.events: Log[tuple[float, str, dict[str, object]]] = Log()

    def history(self, entity_id: str, start: float, end: float) -> list[EntityState]:
        """An entity's states in [start, end], beginning with the one that held at `start`."""
        found: list[EntityState] = []
        for state in self.states:
            if state.entity_id == entity_id and state.last_updated <= end:
                if state.last_updated <= start:
                    found = [state]
                else:
                    found.append(state)
        return found

    def save(self) -> tuple[object, object, object]:
        """A copy."""
        return self.states.save(), self.calls.save(), self.events.save()

    def load(self, state: tuple) -> None:
        """Go back."""
        self.states.load(state[0])
        self.calls.load(state[1])
        self.events.load(state[2])
