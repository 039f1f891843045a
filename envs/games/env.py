"""`MatchEnv`: a game of two seats as a single-agent environment, against a frozen opponent that the task names."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from ..core.errors import InvalidArgument
from ..core.tasks import Task, TaskSet
from ..core.text_env import Outcome, TextEnv
from .game import Game, Player, View, chance
from .opponents import OpponentPool, open_pool
from .pool_tasks import PoolTasks


class MatchEnv(TextEnv):
    """Plays `games` games of one match against the task's opponent, on alternating seats.

    The opponent's chance numbers come from a hash of the task and the moves, so that a state is the list of moves.
    Task parameters: "opponent" (what `opponent` needs), "deal" and "seat" (of the first game).
    """

    waits: ClassVar[bool] = False
    reward_range: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def __init__(
        self, tasks: TaskSet, game: Game, games: int, *, max_steps: int | None, render_mode: str | None
    ) -> None:
        super().__init__(tasks, max_steps=max_steps, render_mode=render_mode)
        self.game = game
        self.games = games
        self._done: tuple[tuple[str, ...], ...] = ()  # the moves of the finished games
        self._won = 0.0  # payoff of the finished games
        self._told = ""

    def opponent(self, task: Task) -> Player:
        """Who plays the other seat: a player of the pool, where there is one."""
        name = task.params["opponent"]
        return self.tasks.pool.get(name) if isinstance(self.tasks, PoolTasks) else self._made(name)

    @abstractmethod
    def _made(self, opponent: Any) -> Player:
        """The family's own player that a task's parameter "opponent" stands for."""

    @abstractmethod
    def best(self) -> float:
        """The most that could have been won in this match by one who knew everything."""

    @property
    def seat(self) -> int:
        """The agent's seat in the current game."""
        return (self.task.params["seat"] + len(self._done)) % 2

    @property
    def over(self) -> bool:
        """Whether the match has ended."""
        return len(self._done) == self.games

    def deal(self, number: int) -> int:
        """The deal of game `number` of the match."""
        return self.task.params["deal"] * self.games + number

    def reply(self, view: View, history: tuple[str, ...], number: int) -> str:
        """What the opponent does in game `number` after `history`."""
        seen = replace(view, text=self._entitled(view.text, number))
        return self.opponent(self.task).act(seen, chance("opponent", self.task.id, number, *history))

    def _entitled(self, text: str, number: int) -> str:
        return text if self.games == 1 else f"Hand {number + 1} of {self.games}.\n{text}"

    def _reset(self, task: Task) -> str:
        self._done, self._won, self._told = (), 0.0, ""
        self.game.start(self.deal(0))
        self._proceed()
        return self._describe()

    def _proceed(self) -> None:
        """The opponent moves, and finished games give way to new ones, until the agent has to move."""
        while not self.over and (mover := self.game.seat) != self.seat:
            if mover is not None:
                self.game.apply(self.reply(self.game.view(mover), self.game.history, len(self._done)))
                continue
            self._won += self.game.payoffs()[self.seat]
            self._told = self.game.summary(self.seat)
            self._done += (self.game.history,)
            if not self.over:
                self.game.start(self.deal(len(self._done)))

    def _describe(self) -> str:
        if self.over:
            return self._told if self.games == 1 else f"{self._told}\nThe match is over."
        text = self._entitled(self.game.view(self.seat).text, len(self._done))
        return f"{self._told}\n{text}" if self._told else text

    def _step(self, action: str) -> Outcome:
        chosen = self.canonical(action)
        actions = self.game.view(self.seat).actions
        if chosen not in actions:
            return Outcome(f"Choose from: {', '.join(actions)}.\n{self._describe()}", valid=False)
        before, self._told = self._total(), ""
        self.game.apply(chosen)
        self._proceed()
        return Outcome(self._describe(), self._total() - before, self.over)

    def _total(self) -> float:
        return self._won + (0.0 if self.over else self.game.payoffs()[self.seat])

    def canonical(self, action: str) -> str:
        """The action in lower case with single spaces."""
        return " ".join(action.lower().split())

    def _admissible(self) -> tuple[str, ...]:
        return () if self._ended or self.over else self.game.view(self.seat).actions

    def _state(self) -> str:
        return repr((self._done, self.game.history))

    def _save(self) -> Any:
        return self._done, self._won, self._told, self.game.deal, self.game.history

    def _load(self, state: Any) -> None:
        self._done, self._won, self._told, deal, history = state
        self.game.replay(deal, history)

    def _success(self) -> bool:
        if not self.over:
            return False
        best = self.best()
        return self._won >= (best / 2 if best > 0 else best) - 1e-9

    def verify(self) -> dict[str, float]:
        """Success, and the payoff of the match mapped from [-games, games] to [0, 1]."""
        return {"success": float(self._success()), "payoff": 0.5 + self._total() / (2 * self.games)}

    def oracle(self) -> Iterator[str]:
        """The move that is best against this opponent, whose every move it foresees."""
        while not self.over:
            yield self._foresee()

    @abstractmethod
    def _foresee(self) -> str: ...

    def hint(self) -> str:
        """The opponent, and what is best against it now."""
        if isinstance(self.tasks, PoolTasks):
            name = self.task.params["opponent"]
            return "" if self.over else f"The opponent is '{name}' of the pool; now {self._foresee()} is best."
        return "" if self.over else self._mechanism()

    @abstractmethod
    def _mechanism(self) -> str:
        """What there is to know of an opponent of the family's own."""


def opened(pool: OpponentPool | str | Path) -> OpponentPool:
    """The pool, which must not be empty."""
    found = open_pool(pool)
    if not len(found):
        raise InvalidArgument("the pool is empty: add an opponent first")
    return found
