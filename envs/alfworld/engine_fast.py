"""The fast engine: ALFWorld's rules in plain Python, the same text and commands as TextWorld, step for step.

A state is immutable and small (what differs from the game's start), so that snapshots cost nothing. The quirks of
the original are kept on purpose: only a held object can be examined, a lamp can only ever be turned on, "go to" a
receptacle at the current location is refused, and what was once taken out of a receptacle that shares its location
with another is listed as lying next to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from .game import TASK_TYPES, Game

NOTHING = "Nothing happens."
_EMPTY: Mapping[str, tuple[str, ...]] = MappingProxyType({})
_TOOLS = {
    "sinkbasin": ("clean", "cleanable"),
    "microwave": ("heat", "heatable"),
    "fridge": ("cool", "coolable"),
}
_KNIVES = ("knife", "butterknife")
_PLACING = {
    TASK_TYPES[3]: ("clean", "cleanable"),
    TASK_TYPES[4]: ("hot", "heatable"),
    TASK_TYPES[5]: ("cool", "coolable"),
}

Command = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class State:
    """Where things are, as differences from the game's start. Never changed in place."""

    location: str
    held: str | None
    opened: frozenset[str]
    flags: frozenset[tuple[str, str]]
    inside: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Receptacle -> objects in it, where that differs from the start."""
    places: dict[str, frozenset[str]] = field(default_factory=dict)
    """Object -> locations, where they differ from the start."""
    removed: frozenset[tuple[str, str]] = frozenset()
    """(object, receptacle) once taken out and not put back, where it can still be told: at shared locations."""


class FastEngine:
    """Plays one game; see `engine_textworld.TextWorldEngine` for the original behind the same methods."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.state = State("", None, frozenset(), frozenset())
        self._commands: dict[str, Command] | None = None
        self._won: bool | None = None

    def start(self) -> str:
        """Begin the game anew; returns the first observation."""
        game = self.game
        self.set_state(State(game.start, game.held, game.opened, game.flags))
        seen = _listing([f"a {game.names[receptacle]}" for receptacle in game.receptacles])
        return (
            "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, "
            f"you see {seen}.\n\nYour task is to: {game.instruction}"
        )

    def set_state(self, state: State) -> None:
        """Go to a state of this game."""
        self.state = state
        self._commands = None
        self._won = None

    @property
    def commands(self) -> Mapping[str, Command]:
        """Every command that does something now, with its meaning."""
        if self._commands is None:
            self._commands = self._list_commands()
        return self._commands

    def admissible(self) -> tuple[str, ...]:
        """The commands in alphabetical order, "help" included, as TextWorld lists them."""
        return tuple(sorted(self.commands))

    @property
    def won(self) -> bool:
        """Whether the goal holds."""
        if self._won is None:
            self._won = self._check()
        return self._won

    def contents(self, receptacle: str) -> tuple[str, ...]:
        """The objects in a receptacle, closed or not."""
        return self.state.inside.get(receptacle, self.game.inside[receptacle])

    def reachable(self, receptacle: str) -> bool:
        """Whether the receptacle is open or needs no opening."""
        return receptacle not in self.game.openable or receptacle in self.state.opened

    def here(self) -> tuple[str, ...]:
        """The receptacles at the agent's location."""
        return self.game.receptacles_at.get(self.state.location, ())

    def key(self) -> str:
        """The state in canonical form: equal for equal states however they were reached."""
        state, initial = self.state, self.game
        moved = [f"{name}<{','.join(items)}" for name, items in state.inside.items() if items != initial.inside[name]]
        strayed = [
            f"{name}@{','.join(sorted(where))}"
            for name, where in state.places.items()
            if where != initial.places.get(name, frozenset())
        ]
        parts = (
            state.location,
            state.held or "",
            *sorted(state.opened),
            *sorted(map("=".join, state.flags)),
            *sorted(moved),
            *sorted(strayed),
            *sorted(map("!".join, state.removed)),
        )
        return "\n".join(parts)

    def step(self, command: str) -> str:
        """Carry out a command; returns the observation. A command that is not listed changes nothing."""
        action = self.commands.get(command.strip())
        if action is None:
            return NOTHING
        game, state, names = self.game, self.state, self.game.names
        verb, *rest = action
        item = rest[0] if rest else ""
        match verb:
            case "go":
                self.set_state(replace(state, location=game.location[item]))
                return f"You arrive at {game.arrivals[item]}. {self._see(item)}"
            case "open":
                self.set_state(replace(state, opened=state.opened | {item}))
                return f"You open the {names[item]}. {self._see(item)}"
            case "close":
                self.set_state(replace(state, opened=state.opened - {item}))
                return f"You close the {names[item]}."
            case "take":
                self.set_state(self._taken(item, rest[1]))
                return f"You pick up the {names[item]} from the {names[rest[1]]}."
            case "put":
                self.set_state(self._placed(item, rest[1]))
                verb = "move" if game.put_words == "to" else "put"
                return f"You {verb} the {names[item]} {game.put_words} the {names[rest[1]]}."
            case "clean" | "heat" | "cool":
                self.set_state(replace(state, flags=_changed(state.flags, verb, item)))
                return f"You {verb} the {names[item]} using the {names[rest[1]]}."
            case "use":
                self.set_state(replace(state, flags=state.flags | {("on", item)}))
                return f"You turn on the {names[item]}."
            case "slice":
                self.set_state(replace(state, flags=state.flags | {("sliced", item)}))
                return f"You sliced the {names[item]} with the {names[rest[1]]}."
            case "examine receptacle":
                return self._see(item)
            case "examine object":
                return self._describe(item)
            case "inventory":
                return f"You are carrying: a {names[state.held]}." if state.held else "You are not carrying anything."
            case "look":
                return self._look()
            case _:
                return game.help

    def _list_commands(self) -> dict[str, Command]:
        game, state, names = self.game, self.state, self.game.names
        commands: dict[str, Command] = dict(game.go_commands)
        commands |= {"look": ("look",), "inventory": ("inventory",)}
        if game.help:
            commands["help"] = ("help",)
        held, here = state.held, self.here()
        put = ("move", "to") if game.put_words == "to" else ("put", game.put_words)
        for spot in here:
            name = names[spot]
            del commands[f"go to {name}"]
            commands[f"examine {name}"] = ("examine receptacle", spot)
            items = self.contents(spot)
            reachable = True
            if spot in game.openable:
                reachable = spot in state.opened
                verb = "close" if reachable else "open"
                commands[f"{verb} {name}"] = (verb, spot)
            if reachable and held is None:
                for item in items:
                    if item in game.pickupable:
                        commands[f"take {names[item]} from {name}"] = ("take", item, spot)
            for item in items:
                if item in game.toggleable:
                    commands[f"use {names[item]}"] = ("use", item)
            if held is None:
                continue
            kind = game.kind.get(spot, "")
            if reachable and (kind, game.kind.get(held)) in game.can_contain:
                commands[f"{put[0]} {names[held]} {put[1]} {name}"] = ("put", held, spot)
            if kind in _TOOLS:
                verb, able = _TOOLS[kind]
                if held in getattr(game, able):
                    commands[f"{verb} {names[held]} with {name}"] = (verb, held, spot)
        if held is not None:
            commands[f"examine {names[held]}"] = ("examine object", held)
            if game.kind.get(held) in _KNIVES:
                for item in game.sliceable:
                    if state.location in self._places(item):
                        commands[f"slice {names[item]} with {names[held]}"] = ("slice", item, held)
        return commands

    def _places(self, item: str) -> frozenset[str]:
        return self.state.places.get(item, self.game.places.get(item, frozenset()))

    def _taken(self, item: str, spot: str) -> State:
        state = self.state
        removed = state.removed
        if len(self.game.receptacles_at[state.location]) > 1:
            removed = removed | {(item, spot)}
        return replace(
            state,
            held=item,
            inside={**state.inside, spot: tuple(x for x in self.contents(spot) if x != item)},
            places={**state.places, item: self._places(item) - {state.location}},
            removed=removed,
        )

    def _placed(self, item: str, spot: str) -> State:
        state = self.state
        return replace(
            state,
            held=None,
            inside={**state.inside, spot: tuple(sorted({*self.contents(spot), item}))},
            places={**state.places, item: self._places(item) | {state.location}},
            removed=state.removed - {(item, spot)},
        )

    def _see(self, spot: str) -> str:
        names = self.game.names
        if not self.reachable(spot):
            return f"The {names[spot]} is closed."
        seen = _listing([f"a {names[item]}" for item in self.contents(spot)])
        if spot in self.game.openable:
            return f"The {names[spot]} is open. In it, you see {seen}."
        return f"On the {names[spot]}, you see {seen}."

    def _look(self) -> str:
        here, names = self.here(), self.game.names
        if not here:
            return "You are in the middle of a room. Looking quickly around you, you see nothing."
        beside = sorted(
            (item, spot)
            for item, spot in self.state.removed
            if spot in here and self.state.location in self._places(item)
        )
        seen = _listing([f"a {names[item]}" for item, _ in beside])
        return f"You are facing the {_listing([names[spot] for spot in here])}. Next to it, you see {seen}."

    def _describe(self, item: str) -> str:
        name, flags = self.game.names[item], self.state.flags
        if item in self.game.containers:
            inner = _listing([f"a {self.game.names[x]}" for x in self.game.containers[item]])
            return f"This is a normal {name}. In it, you see {inner}."
        clean, hot, cool, sliced = ((flag, item) in flags for flag in ("clean", "hot", "cool", "sliced"))
        words = ["hot"] if hot else ["cool"] if cool else []
        words += ["clean"] if clean else []
        if words == ["cool"] and not sliced:
            words = ["cold"]
        if words:
            return f"This is a {' and '.join(words)} {'sliced ' if sliced else ''}{name}."
        if item in self.game.toggleable and ("on", item) in flags:
            return f"This {name} is on."
        if item in self.game.sliceable and sliced:
            return f"This is a sliced {name}."
        return f"There's nothing special about {name}."

    def _check(self) -> bool:
        game, goal, state = self.game, self.game.goal, self.state
        if goal.lamp:
            return (
                state.held is not None
                and game.kind.get(state.held) == goal.object
                and any(
                    game.kind.get(item) == goal.lamp and item in game.toggleable and ("on", item) in state.flags
                    for spot in self.here()
                    for item in self.contents(spot)
                )
            )
        return any(
            sum(self.fulfils(item) for item in self.contents(spot)) >= goal.count
            for spot in game.receptacles
            if game.kind.get(spot) == goal.receptacle
        )

    def fulfils(self, item: str) -> bool:
        """Whether the object is of the wanted type and has been cleaned, heated or cooled where the task wants it."""
        game, goal = self.game, self.game.goal
        if game.kind.get(item) != goal.object:
            return False
        if goal.task_type not in _PLACING:
            return True
        flag, able = _PLACING[goal.task_type]
        return item in getattr(game, able) and (flag, item) in self.state.flags


def _changed(flags: frozenset[tuple[str, str]], verb: str, item: str) -> frozenset[tuple[str, str]]:
    if verb == "clean":
        return flags | {("clean", item)}
    new, old = ("hot", "cool") if verb == "heat" else ("cool", "hot")
    return (flags - {(old, item)}) | {(new, item)}


def _listing(words: Sequence[str]) -> str:
    if not words:
        return "nothing"
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])}, and {words[-1]}"
