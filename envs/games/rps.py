"""Repeated rock-paper-scissors, and opponents that can be read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .game import Game, View

MOVES = ("rock", "paper", "scissors")
KINDS = ("fixed", "cyclic", "frequency", "copycat", "ngram", "noisy", "mixture")


def beater(move: str) -> str:
    """What beats `move`."""
    return MOVES[(MOVES.index(move) + 1) % 3]


def outcome(mine: str, theirs: str) -> int:
    """1 where `mine` wins, 0 where both are the same, -1 where it loses."""
    return (0, 1, -1)[(MOVES.index(mine) - MOVES.index(theirs)) % 3]


class RepeatedRPS(Game):
    """`rounds` rounds; both moves of a round are shown when both are made. Payoff: (won - lost) / rounds."""

    def __init__(self, rounds: int = 12) -> None:
        self.rounds = rounds

    def start(self, deal: int) -> None:
        """There is nothing to deal."""
        self.deal, self.history = deal, ()

    @property
    def seat(self) -> int | None:
        """Seat 0 commits first; seat 1 does not see it."""
        return None if len(self.history) >= 2 * self.rounds else len(self.history) % 2

    def view(self, seat: int) -> View:
        """The finished rounds, from this seat."""
        done = len(self.history) // 2
        mine, theirs = self.history[seat : 2 * done : 2], self.history[1 - seat : 2 * done : 2]
        results = [outcome(*pair) for pair in zip(mine, theirs, strict=True)]
        lines = []
        if done:
            word = {1: "You win", 0: "A draw", -1: "You lose"}[results[-1]]
            lines.append(f"You played {mine[-1]}, your opponent {theirs[-1]}. {word}.")
            lines.append(f"Your moves so far: {' '.join(mine)}.\nTheir moves so far: {' '.join(theirs)}.")
        lines.append(f"Won {results.count(1)}, lost {results.count(-1)}, drawn {results.count(0)}.")
        lines.append(f"Round {done + 1} of {self.rounds}." if done < self.rounds else "The match is over.")
        actions = MOVES if self.seat == seat else ()
        return View(seat, "\n".join(lines), actions, {"mine": mine, "theirs": theirs})

    def apply(self, action: str) -> None:
        """One move."""
        self.check(action, MOVES if self.seat is not None else ())
        self.history += (action,)

    def payoffs(self) -> tuple[float, float]:
        """Of the finished rounds."""
        done = len(self.history) // 2 * 2
        net = sum(outcome(*pair) for pair in zip(self.history[0:done:2], self.history[1:done:2], strict=True))
        return net / self.rounds, -net / self.rounds


@dataclass(frozen=True)
class RPSPlayer:
    """An opponent with a mechanism that can be found out. `chance` decides what the mechanism leaves open."""

    kind: str
    """"fixed": mostly `pattern[0]`; "cyclic": repeats `pattern`; "frequency": beats the other's most frequent move;
    "copycat": repeats the other's last move; "ngram": predicts the other's next move from what followed its last
    `order` moves before, and beats it; "noisy": cyclic with more noise; "mixture": frequency and copycat by turns."""
    pattern: tuple[str, ...] = ("rock",)
    noise: float = 0.1
    """Share of moves that are drawn uniformly."""
    order: int = 2

    def act(self, view: View, chance: float) -> str:
        """The move that the mechanism says, or a uniform one with probability `noise`."""
        if chance < self.noise:
            return MOVES[min(int(chance / self.noise * 3), 2)]
        own, other = view.facts["mine"], view.facts["theirs"]
        rest = (chance - self.noise) / (1.0 - self.noise)
        return self._move(len(own), other, MOVES[min(int(rest * 3), 2)])

    def _move(self, round_: int, other: tuple[str, ...], any_: str) -> str:
        kind = self.kind
        if kind == "mixture":
            kind = ("frequency", "copycat")[round_ % 2]
        if kind in ("fixed", "cyclic", "noisy"):
            return self.pattern[round_ % len(self.pattern)]
        if not other:
            return any_
        if kind == "copycat":
            return other[-1]
        if kind == "ngram":
            for n in range(min(self.order, len(other) - 1), 0, -1):
                following = [other[i + n] for i in range(len(other) - n) if other[i : i + n] == other[-n:]]
                if following:
                    return beater(Counter(following).most_common(1)[0][0])
        return beater(Counter(other).most_common(1)[0][0])


def make_player(kind: str, number: int) -> RPSPlayer:
    """The opponent of this kind with this number: the number chooses its pattern and its order."""
    if kind == "fixed":
        return RPSPlayer(kind, (MOVES[number % 3],), noise=0.15)
    if kind in ("cyclic", "noisy"):
        length = 2 + number // 27 % 2 if kind == "noisy" else 2 + number // 81 % 3
        pattern = tuple(MOVES[number // 3**i % 3] for i in range(length))
        return RPSPlayer(kind, pattern, noise=0.3 if kind == "noisy" else 0.05)
    return RPSPlayer(kind, order=1 + number % 2)
