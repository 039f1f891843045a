"""Leduc and limit hold'em for two, on OpenSpiel's rules; and opponents of several temperaments."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..core.errors import InvalidArgument, MissingExtra
from ..toys.tasks import shuffled
from .game import Game, View

RANKS = "23456789TJQKA"
LIMIT = (
    "universal_poker(betting=limit,numPlayers=2,numRounds=4,blind=2 1,raiseSize=2 2 4 4,firstPlayer=2 1 1 1,"
    "numSuits=4,numRanks=13,numHoleCards=2,numBoardCards=0 3 1 1,maxRaises=3 4 4 4)"
)
GAMES = {"leduc": "leduc_poker", "holdem": LIMIT}
VERBS = ("fold", "call", "raise")  # OpenSpiel's actions 0, 1, 2 in both games


@cache
def _load(kind: str) -> Any:
    try:
        import pyspiel
    except ImportError:
        raise MissingExtra("open_spiel", "games") from None
    if kind not in GAMES:
        raise InvalidArgument(f"no poker game {kind!r}; choose from {', '.join(GAMES)}")
    return pyspiel.load_game(GAMES[kind])


class Poker(Game):
    """One hand. The deal is a whole deck: the same deal from the other seat is the same hand with seats swapped.

    Leduc: six cards (J, Q, K twice), one each, one on the board, bets of 2 and 4, two raises per round. Hold'em: blinds
    1 and 2, bets of 2 and 4, four bets per round; seat 0 has the big blind, so seat 1 begins and then acts last.
    Payoffs are chips over the most that can be lost in one hand (Leduc 13, hold'em 48).

    Args:
        kind: "leduc" or "holdem".

    Raises:
        MissingExtra: OpenSpiel is not installed.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._game = _load(kind)
        self.most = float(self._game.max_utility())
        self._state: Any = None

    def start(self, deal: int) -> None:
        """Shuffle by the deal's number and give the cards."""
        self.deal, self.history = deal, ()
        self._deck = shuffled(range(6 if self.kind == "leduc" else 52), "poker", self.kind, deal)
        self._dealt = 0
        self._seats: tuple[int, ...] = ()  # who made each move of the history
        self._state = self._game.new_initial_state()
        self._chance()
        self._bank = self._money()[0] + (1 if self.kind == "leduc" else 2)  # seat 0 has paid its ante or big blind

    def copy(self) -> Poker:
        """The same position, to go on from independently."""
        twin = object.__new__(Poker)
        vars(twin).update(vars(self))
        twin._state = self._state.clone()
        return twin

    def _chance(self) -> None:
        while self._state.is_chance_node():
            self._state.apply_action(self._deck[self._dealt])
            self._dealt += 1

    def _money(self) -> tuple[int, int]:
        found = re.search(r"\[Money: (\d+) (\d+)\]", self._state.information_state_string(0))
        assert found, "OpenSpiel's text has changed"
        return int(found[1]), int(found[2])

    @property
    def seat(self) -> int | None:
        """Who has to act."""
        return None if self._state.is_terminal() else int(self._state.current_player())

    @property
    def board(self) -> tuple[str, ...]:
        """The cards that both see."""
        return tuple(map(self.card, self._deck[2 if self.kind == "leduc" else 4 : self._dealt]))

    def hand(self, seat: int) -> tuple[str, ...]:
        """The cards that one seat holds."""
        each = 1 if self.kind == "leduc" else 2
        return tuple(map(self.card, self._deck[seat * each : (seat + 1) * each]))

    def actions(self) -> tuple[str, ...]:
        """Of the seat that has to act."""
        return () if self.seat is None else tuple(VERBS[action] for action in self._state.legal_actions())

    def card(self, number: int) -> str:
        """A card's name: rank and suit."""
        if self.kind == "leduc":
            return "JQK"[number // 2] + "sh"[number % 2]
        return RANKS[number // 4] + "cdhs"[number % 4]

    def view(self, seat: int) -> View:
        """The seat's cards, the board, the money in the pot and the betting."""
        paid = [self._bank - money for money in self._money()]
        facts = {
            "cards": self.hand(seat),
            "board": self.board,
            "pot": sum(paid),
            "to_call": max(paid) - paid[seat],
        }
        acts = [f"{'you' if who == seat else 'they'} {verb}" for who, verb in zip(self._seats, self.history)]
        text = (
            f"Your cards: {' '.join(facts['cards'])}. Board: {' '.join(facts['board']) or 'none yet'}.\n"
            f"In the pot: {facts['pot']} chips; to call: {facts['to_call']}.\n"
            f"Betting: {', '.join(acts) or 'nothing yet'}."
        )
        return View(seat, text, self.actions() if self.seat == seat else (), facts)

    def apply(self, action: str) -> None:
        """Fold, call (also a check) or raise (also a bet)."""
        self.check(action, self.actions())
        self._seats += (self.seat or 0,)
        self.history += (action,)
        self._state.apply_action(VERBS.index(action))
        self._chance()

    def payoffs(self) -> tuple[float, float]:
        """Zero until the hand is over."""
        if self.seat is not None:
            return 0.0, 0.0
        first, second = self._state.returns()
        return first / self.most, second / self.most

    def summary(self, seat: int) -> str:
        """Who won how much, and the other's cards where they were shown."""
        chips = round(self.payoffs()[seat] * self.most)
        won = f"you win {chips}" if chips > 0 else f"you lose {-chips}" if chips else "nobody wins"
        if self.history[-1] == "fold":
            return f"{'You' if self._seats[-1] == seat else 'They'} fold: {won}."
        board = " ".join(self.board)
        return f"Board: {board}. They show {' '.join(self.hand(1 - seat))}, you {' '.join(self.hand(seat))}: {won}."


def strength(cards: tuple[str, ...], board: tuple[str, ...]) -> float:
    """A rough guess in [0, 1] of how good a hand is, for the opponents' rules; it is no evaluation of showdowns."""
    ranks = [RANKS.index(card[0]) / 12 for card in cards]
    high = max(ranks)
    if len(cards) == 1:  # Leduc: J, Q, K are .75, .83, .92 of the ranks
        return 1.0 if board and board[0][0] == cards[0][0] else {"J": 0.15, "Q": 0.5, "K": 0.85}[cards[0][0]]
    if not board:
        pair = cards[0][0] == cards[1][0]
        suited = cards[0][1] == cards[1][1]
        return min(1.0, 0.55 + 0.45 * high) if pair else 0.55 * high + 0.25 * min(ranks) + 0.08 * suited
    everything = cards + board
    counts = Counter(card[0] for card in everything)
    own = sorted((counts[rank] for rank in {card[0] for card in cards}), reverse=True)
    suit = max(Counter(card[1] for card in everything).values())
    values = {RANKS.index(card[0]) for card in everything}
    straight = any(all(v + i in values for i in range(5)) for v in values)
    if own[0] >= 3 or suit >= 5 or straight or own == [2, 2]:
        return 0.95
    return 0.55 + 0.3 * high if own[0] == 2 else 0.4 * high + (0.15 if suit == 4 else 0.0)


@dataclass(frozen=True)
class PokerPlayer:
    """An opponent that raises, calls or folds by how strong its hand looks."""

    raise_at: float
    """Strength from which it raises."""
    call_at: float
    """Strength from which it pays to stay."""
    bluff: float = 0.0
    """Probability of raising a weak hand."""
    slow: float = 0.0
    """Probability of only calling a strong hand."""

    def act(self, view: View, chance: float) -> str:
        """Raise, call or fold; never folds where checking is free."""
        value = strength(view.facts["cards"], view.facts["board"])
        if value >= self.raise_at:
            wish = "call" if chance < self.slow else "raise"
        elif chance < self.bluff:
            wish = "raise"
        else:
            wish = "call" if value >= self.call_at or not view.facts["to_call"] else "fold"
        return wish if wish in view.actions else "call"


PLAYERS = {
    "caller": PokerPlayer(2.0, 0.0),
    "maniac": PokerPlayer(0.0, 0.0, slow=0.15),
    "rock": PokerPlayer(0.8, 0.5),
    "trapper": PokerPlayer(0.75, 0.4, slow=0.7),
    "bluffer": PokerPlayer(0.75, 0.45, bluff=0.35),
    "loose": PokerPlayer(0.6, 0.2, bluff=0.05),
}
