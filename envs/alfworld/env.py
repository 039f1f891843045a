"""`sandlot/ALFWorld-v0`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from gymnasium.error import ResetNeeded

from ..core import InvalidArgument, Outcome, Task, TextEnv
from . import oracle
from .engine_fast import NOTHING, FastEngine, State
from .engine_textworld import TextWorldEngine
from .expert import Expert
from .game import TASK_TYPES, Game
from .sources import AlfworldTasks, load_file, load_game

_PUT = re.compile(r"(?:put|place|move) (.+?) (?:in/on|into|onto|in|on|to) (.+)")
_FLAGS = {TASK_TYPES[3]: "clean", TASK_TYPES[4]: "hot", TASK_TYPES[5]: "cool"}


class AlfworldEnv(TextEnv):
    """Household tasks in text: find an object, perhaps clean, heat or cool it, and put it where it belongs.

    ## Description
    ALFWorld (Shridhar et al., ICLR 2021) in its six task types over 120 rooms, on the benchmark's own games where the
    user has them, else on generated ones in the same format.

    ## Action Space
    One command as text, in any case: `go to R`, `open R`, `close R`, `take O from R`, `move O to R` (also
    `put O in/on R`), `clean O with R`, `heat O with R`, `cool O with R`, `use O`, `slice O with O`, `examine X`,
    `look`, `inventory`, `help`. An action that is not possible is answered "Nothing happens.".

    ## Observation Space
    The benchmark's text. The first observation lists the receptacles and ends with the task.

    ## Starting State
    The middle of the room, hands empty, everything closed, objects where the game file puts them.

    ## Rewards
    1.0 at the step that fulfils the task, else 0.

    ## Episode End
    Terminated when the task is fulfilled; truncated by the step limit (50 registered).

    ## Information
    The contract's keys. `instruction` is the task sentence; `admissible` lists every command that does something
    now, "help" excepted (the engine accepts it). `expert()` plays without privileges: it searches the likeliest
    receptacles and knows only what it has read; demonstrations for imitation should come from it.

    ## Privileged Information
    `oracle()` plans from any state with knowledge of where everything is; `hint()` says where the next object is;
    `verify()` and `info["progress"]` count sub-goals (found, prepared, placed).

    ## State Key
    Hash of the task and of the agent's place, hands, open receptacles, moved objects and their conditions.

    ## Arguments
    - `split`: `train`, `valid_seen`, `valid_unseen` or `test`.
    - `engine`: `fast` (pure Python) or `textworld` (the original; slower by a factor of some hundred).
    - `source`: `official` (needs the benchmark's data), `generated`, or `auto`: official if found.
    - `data`: the folder of the benchmark's data; None looks where the benchmark does: `$ALFWORLD_DATA`, else
      `~/.cache/alfworld`.
    - `task_types`: names or numbers 1 to 6. `rooms`: some of kitchen, livingroom, bedroom, bathroom.
    - `max_receptacles`: generated rooms with about so many receptacles (a curriculum), None for all.
    - `max_steps`, `render_mode`: see `TextEnv`.

    ## Source and Licence
    https://github.com/alfworld/alfworld (MIT). The tables are read from the installed `alfworld` package.

    ## Version History
    - v0: first version.
    """

    waits: ClassVar[bool] = False

    def __init__(
        self,
        split: str = "train",
        engine: str = "fast",
        source: str = "auto",
        data: str | Path | None = None,
        task_types: Sequence[str | int] | None = None,
        rooms: Sequence[str] | None = None,
        max_receptacles: int | None = None,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        if engine not in ("fast", "textworld"):
            raise InvalidArgument(f"engine must be 'fast' or 'textworld', not {engine!r}")
        tasks = AlfworldTasks(split, source, data, task_types, rooms, max_receptacles)
        super().__init__(tasks, max_steps=max_steps, render_mode=render_mode)
        self._engine: FastEngine | None = None
        # With the original engine the fast one runs along: it gives keys, sub-goals and plans; text, admissible
        # actions and success are the original's.
        self._original = TextWorldEngine() if engine == "textworld" else None
        self._history: tuple[str, ...] = ()
        self._expert: Expert | None = None

    @property
    def engine(self) -> FastEngine:
        """Privileged: the game being played."""
        if self._engine is None:
            raise ResetNeeded("call reset() first")
        return self._engine

    @property
    def game(self) -> Game:
        """Privileged: the game's data."""
        return self.engine.game

    def _reset(self, task: Task) -> str:
        self._engine = FastEngine(load_game(task))
        self._history, self._expert = (), None
        observation = self._engine.start()
        return self._original.start(load_file(task)) if self._original else observation

    def _step(self, action: str) -> Outcome:
        engine, original = self.engine, self._original
        command = self.canonical(action)
        if command not in (original.admissible() if original else engine.commands):
            return Outcome(NOTHING, valid=False)
        observation = engine.step(command)
        if original:
            observation = original.step(command)
            self._history = (*self._history, command)
        won = self._success()
        return Outcome(observation, float(won), won)

    def close(self) -> None:
        """Free what the original engine holds; the environment cannot be used afterwards."""
        if self._original:
            self._original.close()
        super().close()

    def canonical(self, action: str) -> str:
        """Lower case, single spaces, no full stop, and "put X in/on Y" as the game words it."""
        text = " ".join(action.lower().split()).removesuffix(".")
        match = _PUT.fullmatch(text)
        if match is None:
            return text
        words = self._engine.game.put_words if self._engine else "to"
        return f"{'move' if words == 'to' else 'put'} {match[1]} {words} {match[2]}"

    def _state(self) -> str:
        return self.engine.key()

    def _save(self) -> tuple[State, tuple[str, ...]]:
        return self.engine.state, self._history

    def _load(self, state: tuple[State, tuple[str, ...]]) -> None:
        where, history = state
        self._expert = None
        self.engine.set_state(where)
        if self._original:  # it cannot jump: it plays the actions again
            self._original.start(load_file(self.task))
            for command in history:
                self._original.step(command)
            self._history = history

    def _success(self) -> bool:
        return self._original.won if self._original else self.engine.won

    def _admissible(self) -> tuple[str, ...]:
        commands = self._original.admissible() if self._original else self.engine.admissible()
        return tuple(command for command in commands if command != "help")

    def _instruction(self) -> str:
        return self.game.instruction

    def _progress(self) -> float:
        criteria = self.verify()
        return sum(criteria.values()) / len(criteria)

    def oracle(self) -> Iterator[str]:
        """Privileged: a short plan from the current state."""
        return oracle.actions(self.engine)

    def expert(self) -> Iterator[str]:
        """Actions of the searching `Expert`, which sees what the agent sees; take one, step it, take the next.

        What it has seen is kept for the episode, so that a second call goes on searching where the first stopped.

        Raises:
            InvalidArgument: the task is in a person's own words, which the expert does not read.
        """
        if self._expert is None:
            self._expert = Expert(self._instruction())
        while not self._ended:
            yield self._expert.act(self._last[0], self._admissible())

    def hint(self) -> str:
        """Privileged: where the next object is, and the next action."""
        action = oracle.next_action(self.engine)
        if self.engine.won or action is None:
            return ""
        target = oracle.target(self.engine)
        names = self.game.names
        where = f"There is a {names[target[0]]} in or on the {names[target[1]]}. " if target else ""
        return f"{where}A good next action is: {action}"

    def verify(self) -> dict[str, float]:
        """Privileged: the task's sub-goals, 1.0 where met."""
        return {name: float(met) for name, met in _criteria(self.engine).items()}


def _criteria(engine: FastEngine) -> dict[str, bool]:
    """Sub-goals of which the last is met exactly when the game is won."""
    game, goal, state = engine.game, engine.game.goal, engine.state
    holding = state.held is not None and game.kind.get(state.held) == goal.object
    if goal.lamp:
        lit = any(flag == "on" and game.kind.get(item) == goal.lamp for flag, item in state.flags)
        return {"found": holding, "lamp on": lit, "under the lamp": engine.won}
    placed = max(
        (
            sum(game.kind.get(item) == goal.object for item in engine.contents(spot))
            for spot in game.receptacles
            if game.kind.get(spot) == goal.receptacle
        ),
        default=0,
    )
    if goal.count == 2:
        return {
            "first found": holding or placed >= 1,
            "first placed": placed >= 1,
            "second found": placed >= 2 or (placed == 1 and holding),
            "second placed": engine.won,
        }
    criteria = {"found": holding or placed >= 1}
    if goal.task_type in _FLAGS:
        word = _FLAGS[goal.task_type]
        criteria[word] = any(flag == word and game.kind.get(item) == goal.object for flag, item in state.flags)
    return {**criteria, "placed": engine.won}
