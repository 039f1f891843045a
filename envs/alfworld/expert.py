"""A searching expert without privileges: it knows what it has read, and where the benchmark says such things may be.

It looks through receptacles in order of plausibility until it has seen what it needs. Every decision is made afresh
from its memory and the current observation, so it carries on from any state (other actions may come in between).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from ..core.errors import InvalidArgument
from . import wheel
from .scenes import LAMP_HOLDERS, static_kinds

_SENTENCES = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?P<how>clean|heat|cool) some (?P<object>\w+) and put it in (?P<place>\w+)\.?",
        r"put a (?P<how>clean|hot|cool) (?P<object>\w+) in (?P<place>\w+)\.?",
        r"(?:put|find) (?P<two>two) (?P<object>\w+) (?:and put them )?in (?P<place>\w+)\.?",
        r"put (?:a|some) (?P<object>\w+) (?:in|on) (?P<place>\w+)\.?",
        r"(?:look at|examine the) (?P<object>\w+) (?:under|with) the (?P<lamp>\w+)\.?",
    )
)
_SEEN = re.compile(r"(?:On the |The )(?P<place>[a-z]+ \d+)(?: is open\. In it)?, you see (?P<items>[^.]*)\.")
_PREPARED = re.compile(r"You (?:clean|heat|cool) the (?P<item>[a-z]+ \d+) using")
_MOVED = re.compile(r"You (?:move|put) the (?P<item>[a-z]+ \d+) (?:to|in/on) the (?P<place>[a-z]+ \d+)\.")
_NAME = re.compile(r"[a-z]+ \d+")
_TOOLS = {
    "clean": ("clean", "sinkbasin"),
    "hot": ("heat", "microwave"),
    "heat": ("heat", "microwave"),
    "cool": ("cool", "fridge"),
}


class Expert:
    """Plays one episode from what an agent sees.

    Args:
        instruction: the task sentence, as `info["instruction"]` gives it.

    Raises:
        InvalidArgument: the sentence is none of the benchmark's templates (people's own words are not read).
    """

    def __init__(self, instruction: str) -> None:
        match = next((found for pattern in _SENTENCES if (found := pattern.fullmatch(instruction))), None)
        if match is None:
            raise InvalidArgument(f"the expert reads the benchmark's own sentences only, not {instruction!r}")
        words = match.groupdict()
        self._object: str = words["object"]
        self._place: str = words.get("place") or ""
        self._lamp: str = words.get("lamp") or ""
        self._two = bool(words.get("two"))
        self._tool = _TOOLS.get(words.get("how") or "")
        self._receptacles: set[str] = set()
        self._seen: dict[str, set[str]] = {}  # receptacle -> what was last seen in it
        self._prepared: set[str] = set()

    def act(self, observation: str, admissible: Sequence[str]) -> str:
        """The next action, given the last observation and the actions that are possible now."""
        self._remember(observation, admissible)
        held = self._held(admissible)
        if held is None:
            action = self._fetch(admissible)
        elif _kind(held) != self._object:
            action = self._put_down(held, admissible)
        elif self._lamp:
            action = self._light(admissible)
        elif self._tool and held not in self._prepared:
            verb, tool = self._tool
            action = _starting(f"{verb} {held} with ", admissible) or self._visit(self._of_kind(tool), admissible)
        else:
            action = self._deliver(held, admissible)
        return action if action in admissible else "look"

    def _remember(self, observation: str, admissible: Sequence[str]) -> None:
        for match in _SEEN.finditer(observation):
            self._seen[match["place"]] = set(_NAME.findall(match["items"]))
        for match in _PREPARED.finditer(observation):
            self._prepared.add(match["item"])
        for match in _MOVED.finditer(observation):
            self._seen.setdefault(match["place"], set()).add(match["item"])
        self._receptacles |= {command.removeprefix("go to ") for command in admissible if command.startswith("go to ")}
        self._here = [name for name in _examined(admissible) if _kind(name) in _static()]
        self._receptacles |= set(self._here)
        held = self._held(admissible)
        for name in self._seen:
            self._seen[name].discard(held or "")
        if held is None:
            for name in self._here:
                takeable = {match[1] for c in admissible if (match := re.fullmatch(f"take (.+) from {name}", c))}
                fixed = {item for item in self._seen.get(name, ()) if _kind(item) == self._lamp}
                if takeable or name in self._seen:
                    self._seen[name] = takeable | fixed

    def _held(self, admissible: Sequence[str]) -> str | None:
        return next((name for name in _examined(admissible) if _kind(name) not in _static()), None)

    def _fetch(self, admissible: Sequence[str]) -> str:
        done = self._destination() if self._two else None
        for place in sorted(self._seen, key=lambda name: (name not in self._here, name)):
            if place == done or (not self._tool and not self._two and _kind(place) == self._place):
                continue
            items = sorted(item for item in self._seen[place] if _kind(item) == self._object)
            if items:
                prepared = sorted(items, key=lambda item: item not in self._prepared)[0]
                return self._reach(place, f"take {prepared} from {place}", admissible)
        return self._search(self._object, admissible)

    def _light(self, admissible: Sequence[str]) -> str:
        lit = _starting(f"use {self._lamp} ", admissible)
        if lit:
            return lit
        known = [name for name, items in self._seen.items() if any(_kind(item) == self._lamp for item in items)]
        return self._visit(sorted(known), admissible) if known else self._search(self._lamp, admissible)

    def _deliver(self, held: str, admissible: Sequence[str]) -> str:
        place = self._destination()
        if place is None:
            return "look"
        return self._reach(place, _putting(held, place, admissible), admissible)

    def _destination(self) -> str | None:
        """Where things go: for two objects, where one already is."""
        places = self._of_kind(self._place)
        wanted = {name: sum(_kind(item) == self._object for item in self._seen.get(name, ())) for name in places}
        key = (
            (lambda name: (-wanted[name], name not in self._here))
            if self._two
            else (lambda name: name not in self._here)
        )
        return min(places, key=key, default=None)

    def _put_down(self, held: str, admissible: Sequence[str]) -> str:
        for verb in ("move", "put"):
            free = _starting(f"{verb} {held} ", admissible)
            if free:
                return free
        places = [name for name in sorted(self._receptacles) if _kind(held) in _table().get(_kind(name), ())]
        places.sort(key=lambda name: (name not in self._here, _kind(name) in _openable()))
        return self._reach(places[0], "", admissible) if places else "look"

    def _search(self, kind: str, admissible: Sequence[str]) -> str:
        """Go on to the most plausible receptacle whose contents have not been seen."""
        closed = [name for name in self._here if f"open {name}" in admissible and name not in self._seen]
        if closed and self._likely(kind, closed[0]):
            return f"open {closed[0]}"
        left = [name for name in self._receptacles if name not in self._seen]
        if not left:
            self._seen.clear()  # something was moved unseen: look everywhere again
            left = list(self._receptacles)
        left.sort(key=lambda name: (not self._likely(kind, name), _kind(name) in _openable(), name))
        return self._reach(left[0], f"examine {left[0]}", admissible)

    def _likely(self, kind: str, place: str) -> bool:
        if kind == self._lamp:
            return _kind(place) in {name.lower() for name in LAMP_HOLDERS}
        return kind in _table().get(_kind(place), ())

    def _reach(self, place: str, action: str, admissible: Sequence[str]) -> str:
        if place not in self._here:
            return f"go to {place}"
        return f"open {place}" if f"open {place}" in admissible else action

    def _visit(self, places: Sequence[str], admissible: Sequence[str]) -> str:
        return next((f"go to {place}" for place in places if f"go to {place}" in admissible), "look")

    def _of_kind(self, kind: str) -> list[str]:
        return sorted(name for name in self._receptacles if _kind(name) == kind)


def _kind(name: str) -> str:
    return name.split(" ", 1)[0]


def _examined(admissible: Sequence[str]) -> list[str]:
    return [command.removeprefix("examine ") for command in admissible if command.startswith("examine ")]


def _starting(prefix: str, admissible: Sequence[str]) -> str | None:
    return next((command for command in admissible if command.startswith(prefix)), None)


def _putting(held: str, place: str, admissible: Sequence[str]) -> str:
    return next((c for c in (f"move {held} to {place}", f"put {held} in/on {place}") if c in admissible), "look")


@lru_cache(1)
def _static() -> frozenset[str]:
    return frozenset(kind.lower() for kind in static_kinds())


@lru_cache(1)
def _openable() -> frozenset[str]:
    return frozenset(kind.lower() for kind in wheel.constants().OPENABLE_CLASS_SET)


@lru_cache(1)
def _table() -> dict[str, frozenset[str]]:
    """Receptacle kind -> the kinds of objects that the benchmark allows in it; lower case."""
    table = wheel.constants().VAL_RECEPTACLE_OBJECTS
    return {place.lower(): frozenset(item.lower() for item in items) for place, items in table.items()}
