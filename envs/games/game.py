"""`Game`: a turn-based game of two seats, each of which sees only its own side; and matches between players."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ..core.errors import InvalidArgument
from ..core.text_env import text_key


@dataclass(frozen=True)
class View:
    """What one seat knows when it has to move."""

    seat: int
    text: str
    """The observation: public facts and the seat's own secrets, in words."""
    actions: tuple[str, ...]
    """The admissible actions, in a stable order."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The same facts as values, for players that are rules. Holds nothing that the seat may not know."""


class Player(Protocol):
    """Chooses moves. Frozen: what it does is a function of the view and the chance number alone."""

    def act(self, view: View, chance: float) -> str:
        """One of `view.actions`; `chance` is uniform in [0, 1) and the only randomness allowed."""
        ...


class Game(ABC):
    """A game of two seats that move in turn; moves made at the same time are asked for one after the other, unseen.

    A position is the deal (what chance brought, a number) and the moves so far: `history` replayed after `start(deal)`
    gives the same position in any process.
    """

    deal: int = 0
    history: tuple[str, ...] = ()

    @abstractmethod
    def start(self, deal: int) -> None:
        """Begin the game that the number `deal` decides."""

    @property
    @abstractmethod
    def seat(self) -> int | None:
        """Who has to move, or None when the game is over."""

    @abstractmethod
    def view(self, seat: int) -> View:
        """What `seat` knows now; `actions` is empty where the other seat has to move."""

    @abstractmethod
    def apply(self, action: str) -> None:
        """Carry out an admissible action of the seat that has to move.

        Raises:
            InvalidArgument: the action is not admissible.
        """

    @abstractmethod
    def payoffs(self) -> tuple[float, float]:
        """What each seat has won so far, in [-1, 1] with sum zero."""

    def summary(self, seat: int) -> str:
        """What `seat` is told when the game is over."""
        return self.view(seat).text

    def replay(self, deal: int, history: Sequence[str]) -> None:
        """Go to the position after `history`."""
        self.start(deal)
        for action in history:
            self.apply(action)

    def check(self, action: str, actions: tuple[str, ...]) -> None:
        """Raises `InvalidArgument` where `action` is not one of `actions`."""
        if action not in actions:
            raise InvalidArgument(f"{action!r} is not possible; choose from {', '.join(actions) or 'nothing'}")


def chance(*path: str | int) -> float:
    """A number in [0, 1) that depends on `path` only, the same in every process."""
    return int(text_key(*map(str, path)), 16) / 2**64


class Match(NamedTuple):
    """The outcome of a match between players a and b."""

    wins: int
    """Games in which a won more than b."""
    draws: int
    losses: int
    payoff: float
    """Mean payoff of a per game."""


def play(game: Game, players: tuple[Player, Player], deal: int, seed: int = 0) -> tuple[float, float]:
    """One game; returns the payoffs by seat. The seed decides the players' chance numbers."""
    game.start(deal)
    while (seat := game.seat) is not None:
        view = game.view(seat)
        action = players[seat].act(view, chance("play", seed, deal, seat, *game.history))
        game.apply(action)
    return game.payoffs()


def duplicate_match(make: Callable[[], Game], a: Player, b: Player, deals: Sequence[int], seed: int = 0) -> Match:
    """Every deal twice with the seats swapped, so that the luck of the cards cancels: equal players get exactly 0."""
    game, results = make(), []
    for deal in deals:
        results += [play(game, (a, b), deal, seed)[0], play(game, (b, a), deal, seed)[1]]
    wins, losses = sum(result > 0 for result in results), sum(result < 0 for result in results)
    return Match(wins, len(results) - wins - losses, losses, sum(results) / max(len(results), 1))
