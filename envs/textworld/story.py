"""A running game: the Z-machine that speaks, and textworld's logic that knows which actions there are.

The interpreter's text and the logical state are kept in step through the interpreter's own action trace. Only commands
from the game's list are ever carried out; other input is tried, read, and taken back.
"""

from __future__ import annotations

import re
import threading
import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..core import EnvironmentFault, MissingExtra

TEXTWORLD = threading.Lock()  # textworld's parsers keep global state while a game is loaded
_TRACE = re.compile(r"\[([^\[\]\n]+) - (succeeded|failed[^\[\]\n]*)\]\n?")
_STATUS = re.compile(r"\n?>?\s*-= [^\n]* =-(-?\d+)/-?\d+\s*$")  # the status line: room, score, turn
_FINAL_SCORE = re.compile(r"You scored (-?\d+) out of a possible -?\d+, in \d+ turns?\.")
_WON, _LOST = "*** The End ***", "*** You lost! ***"
_SEED = 1  # 0 would make the interpreter's generator depend on the clock


@dataclass(frozen=True)
class Reply:
    """What the interpreter answered to one command."""

    text: str
    accepted: bool
    """The command was one of the game's actions, or was understood as one. Otherwise nothing changed."""


@dataclass(frozen=True)
class StoryState:
    """A saved position."""

    machine: tuple[Any, ...]
    """The interpreter's memory and stack as bytes, and its registers."""
    actions: tuple[Any, ...]
    """The logical actions taken since the start."""
    score: int
    won: bool
    lost: bool


@lru_cache(maxsize=64)
def load_game(folder: Path) -> Any:
    """The `textworld.Game` of a compiled game; loaded once a process, read only.

    Raises:
        MissingExtra: textworld is not installed.
        EnvironmentFault: the cached file cannot be read.
    """
    try:
        from textworld.generator.game import Game
    except ImportError:
        raise MissingExtra("textworld", "textworld") from None
    with TEXTWORLD:
        try:
            return Game.load(str(folder / "game.json"))
        except (OSError, ValueError, KeyError) as error:
            raise EnvironmentFault(f"broken game in {folder} ({error}): delete that folder") from error


class Story:
    """One game being played. Not thread-safe; many may run side by side, each with its own interpreter."""

    def __init__(self, folder: Path) -> None:
        from textworld.generator.inform7 import Inform7Game

        self.folder = folder
        self.game = load_game(folder)
        self._names = Inform7Game(self.game)
        self._machine = _interpreter(folder / "game.z8")
        self._opening = self._machine.reset()[0]
        if "$$" not in self._opening:
            raise EnvironmentFault(f"broken game in {folder} (no opening): delete that folder")
        self._machine.step("tw-trace-actions")
        self._player = _first_number(self._machine.step("tw-print player id")[0])
        self._start = StoryState(self._memory(), (), 0, False, False)
        self.load(self._start)

    def start(self) -> str:
        """Go to the beginning; returns the opening text (objective and first room)."""
        self.load(self._start)
        opening = self._opening.rpartition("$$")[2]  # what follows the title drawn in dollar signs
        return _clean(_STATUS.sub("", opening)).lstrip("\\ \n")

    @property
    def ended(self) -> bool:
        """The game was won or lost."""
        return self.won or self.lost

    @property
    def max_score(self) -> int:
        """The points of a won game."""
        return max(1, self.game.max_score)

    @property
    def commands(self) -> dict[str, Any]:
        """The game's commands in this state, sorted, with their logical actions."""
        if self._commands is None:
            kb = self.game.kb
            actions = sorted(self._logic.all_applicable_actions(kb.rules.values(), kb.types.constants_mapping), key=str)
            self._commands = dict(sorted(zip(self._names.gen_commands_from_actions(actions), actions)))
        return self._commands

    def send(self, command: str) -> Reply:
        """Carry out `command` (not after the end), or answer why not."""
        if command in self.commands:
            return self._carry_out(command)
        before = self._machine.get_state()
        text, events = _untrace(self._ask(command))
        self._machine.set_state(before)
        meant = [name for event in events if (name := self._match(event)) is not None]
        if len(meant) == 1:
            return self._carry_out(meant[0])
        text = _clean(_STATUS.sub("", text))
        if len(meant) > 1:
            return Reply("One action at a time, please.", False)
        if events or not text:  # the parser was content, but the game has no such action
            text = f"{text}\nNothing changes: that is not one of this game's actions.".lstrip("\n")
        return Reply(text, False)

    def _carry_out(self, command: str) -> Reply:
        action, before = self.commands[command], self._machine.get_state()
        text, events = _untrace(self._ask(command))
        # A mere look (examine …) may be traced under another name of the thing, so any success will do for it.
        done = bool(events) if _looks(action) else command in map(self._match, events)
        if not done:  # the interpreter disagrees with the list: it has the last word
            self._machine.set_state(before)
            return Reply(_clean(_STATUS.sub("", text)), False)
        self.won, self.lost = _WON in text, _LOST in text
        score = _FINAL_SCORE.search(text) or _STATUS.search(text)
        if score is None:
            raise EnvironmentFault(f"the interpreter answered without a score: {text[-200:]!r}")
        self.score = int(score[1])
        self._logic.apply(action)
        self._commands = None
        self.actions += (action,)
        text = _FINAL_SCORE.sub("", _STATUS.sub("", text).partition("Would you like to RESTART")[0])
        return Reply(_clean(text), True)

    def _ask(self, command: str) -> str:
        text = self._machine.step(command)[0]
        if "Emulator halted" in text:
            raise EnvironmentFault(f"the interpreter halted on {command!r}")
        return text

    def _match(self, event: str) -> str | None:
        """The listed command whose trace this is."""
        action = self._names.detect_action(event, self.commands.values())
        return None if action is None else self._names.gen_commands_from_actions([action])[0]

    def plan(self) -> list[str]:
        """Commands that win from here, as far as textworld's own quest tracking knows; empty if it knows none."""
        policy = self._progression().winning_policy or ()
        return self._names.gen_commands_from_actions(policy)

    def _progression(self) -> Any:
        from textworld.generator.game import GameProgression

        progression = GameProgression(self.game, track_quests=True)
        for action in self.actions:
            progression.update(action)
        return progression

    def key(self) -> str:
        """The full state as text: the logical facts, and the order in which the interpreter will list things."""
        facts = sorted(map(str, self._logic.facts))
        return f"{facts}{_listing(self._machine.get_state()[0], self._player)}{self.score}{self.won}{self.lost}"

    def save(self) -> StoryState:
        """The position, independent of this object."""
        return StoryState(self._memory(), self.actions, self.score, self.won, self.lost)

    def _memory(self) -> tuple[Any, ...]:
        return tuple(part.tobytes() if isinstance(part, np.ndarray) else part for part in self._machine.get_state())

    def load(self, state: StoryState) -> None:
        """Go to a position saved from the same game."""
        ram, stack, *registers = state.machine
        self._machine.set_state((*(np.frombuffer(part, np.uint8).copy() for part in (ram, stack)), *registers))
        self.actions, self.score, self.won, self.lost = state.actions, state.score, state.won, state.lost
        self._commands: dict[str, Any] | None = None
        self._logic = self.game.world.state.copy()
        for action in self.actions:
            self._logic.apply(action)


def _looks(action: Any) -> bool:
    return set(action.preconditions) == set(action.postconditions)


def _interpreter(path: Path) -> Any:
    import jericho

    with TEXTWORLD, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "not fully supported": true of every generated game, and of no use
        return jericho.FrotzEnv(str(path), _SEED)


def _untrace(text: str) -> tuple[str, list[str]]:
    """The text without the action trace, and the actions that succeeded (those within others left out)."""
    ends = _TRACE.findall(text)
    for name in {name for name, _ in ends}:
        text = re.sub(rf"\[{re.escape(name)}( - [^\[\]\n]*)?\]\n?", "", text)
    return text, [name for name, result in ends if result == "succeeded" and "(" not in name]


def _clean(text: str) -> str:
    text = re.sub(r"^[ \t]{8,}|[ \t]+$", "", text, flags=re.MULTILINE)  # centred lines
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _first_number(text: str) -> int:
    found = re.search(r"^\d+$", text, re.MULTILINE)
    if found is None:
        raise EnvironmentFault(f"the interpreter did not say who the player is: {text[:200]!r}")
    return int(found[0])


def _listing(ram: Any, player: int) -> list[tuple[int, list[int]]]:
    """Who contains what, in listing order, from the Z-machine's object table (version 8: 14 bytes an object).

    The player is left out: where it stands among a room's contents shows nowhere.
    """

    def word(address: int) -> int:
        return int(ram[address]) << 8 | int(ram[address + 1])

    first = word(0x0A) + 2 * 63  # the table starts with 63 default properties
    count = (word(first + 12) - first) // 14  # the first object's properties follow the last object
    links = [[word(first + 14 * i + at) for at in (6, 8, 10)] for i in range(count)]  # parent, sibling, child
    contents = []
    for parent, (_, _, child) in enumerate(links, start=1):
        held = []
        while child:
            held.append(child)
            child = links[child - 1][1]
        contents.append((parent, [thing for thing in held if thing != player]))
    return contents
