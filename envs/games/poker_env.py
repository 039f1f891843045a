"""Leduc and limit hold'em against an opponent of some temperament."""

from __future__ import annotations

from pathlib import Path

from ..core.errors import InvalidArgument
from ..toys.tasks import NumberedTasks, pick
from ..toys.toy import check_size
from .env import MatchEnv, opened
from .opponents import OpponentPool
from .poker import PLAYERS, Poker, PokerPlayer
from .pool_tasks import PoolTasks

COUNT = 100_000  # tasks: numbers of deals


class PokerEnv(MatchEnv):
    """What both poker environments share; the rules are the only difference."""

    def __init__(
        self,
        kind: str,
        split: str,
        hands: int,
        opponents: tuple[str, ...] | list[str],
        mirror: bool,
        pool: OpponentPool | str | Path | None,
        max_steps: int | None,
        render_mode: str | None,
    ) -> None:
        check_size("hands", hands, 1, 1000)
        self.opponents = tuple(opponents)
        if not self.opponents or set(self.opponents) - set(PLAYERS):
            raise InvalidArgument(f"opponents must be some of {', '.join(PLAYERS)}, not {opponents!r}")
        self.mirror = mirror
        names = "all" if self.opponents == tuple(PLAYERS) else "+".join(self.opponents)
        end = "-mirror" if mirror else ""
        if pool is None:
            tasks = NumberedTasks(f"{kind}-{hands}-{names}{end}", COUNT, self._build, split)
        else:
            tasks = PoolTasks(f"{kind}-{hands}{end}", COUNT, opened(pool), split, int(mirror))
        super().__init__(tasks, Poker(kind), hands, max_steps=max_steps, render_mode=render_mode)
        # what was found of the last task that was looked into, by hand and moves
        self._found: tuple[str, dict[tuple[int, tuple[str, ...]], tuple[float, str]]] = ("", {})

    def _build(self, number: int) -> dict[str, object]:
        name = self.opponents[pick(len(self.opponents), "temperament", number)]
        return {"opponent": name, "deal": number, "seat": (number + self.mirror) % 2}

    def _made(self, opponent: str) -> PokerPlayer:
        return PLAYERS[opponent]

    def best(self) -> float:
        """Hand by hand the best against the opponent's moves, all cards known."""
        total, seat = 0.0, self.task.params["seat"]
        game = Poker(self.game.kind)  # pyright: ignore[reportAttributeAccessIssue]
        for number in range(self.games):
            game.start(self.deal(number))
            total += self._value(game, (seat + number) % 2, number)[0]
        return total

    def _value(self, game: Poker, seat: int, number: int) -> tuple[float, str]:
        """The best payoff that `seat` can reach from here, and the first move towards it; leaves `game` as it was."""
        if self._found[0] != self.task.id:
            self._found = self.task.id, {}
        known, key = self._found[1], (number, game.history)
        if key not in known:
            known[key] = self._search(game, seat, number)
        return known[key]

    def _search(self, game: Poker, seat: int, number: int) -> tuple[float, str]:
        game = game.copy()
        while game.seat is not None and game.seat != seat:
            game.apply(self.reply(game.view(game.seat), game.history, number))
        if game.seat is None:
            return game.payoffs()[seat], ""
        found: list[tuple[float, str]] = []
        for action in game.actions():
            branch = game.copy()
            branch.apply(action)
            found.append((self._value(branch, seat, number)[0], action))
        return max(found, key=lambda pair: pair[0])

    def _foresee(self) -> str:
        assert isinstance(self.game, Poker)
        return self._value(self.game, self.seat, len(self._done))[1]

    def _mechanism(self) -> str:
        assert isinstance(self.game, Poker)
        cards = " ".join(self.game.hand(1 - self.seat))
        return f"The opponent holds {cards} and is of the kind '{self.task.params['opponent']}'."


class Leduc(PokerEnv):
    """Leduc poker for two: six cards, two rounds of betting.

    ## Description
    Each player gets one of six cards (two jacks, queens and kings) and pays 1. After a round of betting one card is
    turned up, and a second round follows. Who has the same rank as the board wins, else the higher card. Bets are 2
    chips in the first round and 4 in the second, at most two raises per round. The opponent has a temperament: one
    calls everything, one raises everything, one waits for good cards, one bluffs.

    ## Action Space
    Text: `fold`, `call` (checks where there is nothing to pay) and `raise` (bets where nobody has), as far as the rules
    allow them.

    ## Observation Space
    Text. How the last hand ended (with the opponent's card where it was shown), the hand's number, your card, the
    board, the pot and the betting.

    ## Starting State
    A fresh hand. A task is an opponent and the decks of all hands; the seats alternate from hand to hand.

    ## Rewards
    Chips won in a hand / 13 (the most that one hand can cost) when it ends, negative for chips lost.

    ## Episode End
    Terminated after the last hand. Registered limit: 64 steps, enough for 8 hands.

    ## Information
    `success`: the match is over and at least half of the chips are won that one would win who knew all cards and
    foresaw the opponent's moves (all of them where that sum is not positive). `score`: the same as a number.
    `progress` is None.

    ## Privileged Information
    `oracle()`: the best moves, by search with all cards known. `hint()`: the opponent's card and temperament.

    ## State Key
    The task and all moves.

    ## Arguments
    - `split`: "train", "valid_seen", "valid_unseen" or "test" (disjoint deals, the same temperaments).
    - `hands` (8): hands of the match, 1 to 1000.
    - `opponents` (all): temperaments: "caller", "maniac", "rock", "trapper", "bluffer", "loose".
    - `mirror` (False): the same tasks from the other seat. A duplicate match plays a task both ways, which takes the
      luck out of the cards.
    - `pool` (None): a pool of frozen opponents (`games.opponents.OpponentPool`), or its folder, to play against
      instead of `opponents`. Task ids then end with the opponent's name.

    ## Source and Licence
    Rules of OpenSpiel's `leduc_poker` (Apache-2.0; extra `games`). Game: Southey et al. 2005, arXiv 1207.1411.

    ## Version History
    - v0: first version.
    """

    def __init__(
        self,
        split: str = "train",
        *,
        hands: int = 8,
        opponents: tuple[str, ...] | list[str] = tuple(PLAYERS),
        mirror: bool = False,
        pool: OpponentPool | str | Path | None = None,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        super().__init__("leduc", split, hands, opponents, mirror, pool, max_steps, render_mode)

    def _instruction(self) -> str:
        return f"Play {self.games} hands of Leduc poker. Win as many chips from this opponent as you can."


class Holdem(PokerEnv):
    """Limit Texas hold'em for two.

    ## Description
    Two cards each, three cards on the board, then a fourth and a fifth, with betting before and after each. Blinds are
    1 and 2 chips, bets 2 in the first two rounds and 4 in the last two, at most four bets per round. The small
    blind acts first before the board and last afterwards. The opponent has a temperament, as in Leduc.

    ## Action Space
    Text: `fold`, `call` (checks where there is nothing to pay) and `raise` (bets where nobody has), as far as the rules
    allow them.

    ## Observation Space
    Text. How the last hand ended (with the opponent's cards where they were shown), the hand's number, your
    cards (rank and suit: `Th` is the ten of hearts), the board, the pot and the betting.

    ## Starting State
    A fresh hand. A task is an opponent and the decks of all hands; the seats alternate from hand to hand.

    ## Rewards
    Chips won in a hand / 48 (the most that one hand can cost) when it ends, negative for chips lost.

    ## Episode End
    Terminated after the last hand. Registered limit: 80 steps, enough for 6 hands.

    ## Information
    `success`: the match is over and at least half of the chips are won that one would win who knew all cards and
    foresaw the opponent's moves (all of them where that sum is not positive). `score`: the same as a number.
    `progress` is None.

    ## Privileged Information
    `oracle()`: the best moves, by search with all cards known. `hint()`: the opponent's cards and temperament.

    ## State Key
    The task and all moves.

    ## Arguments
    - `split`: "train", "valid_seen", "valid_unseen" or "test" (disjoint deals, the same temperaments).
    - `hands` (6): hands of the match, 1 to 1000.
    - `opponents` (all): temperaments: "caller", "maniac", "rock", "trapper", "bluffer", "loose".
    - `mirror` (False): the same tasks from the other seat, for duplicate matches.
    - `pool` (None): as in Leduc. To judge a match, all moves of the hand are searched: against a language model
      that is thousands of calls a hand.

    ## Source and Licence
    Rules of OpenSpiel's `universal_poker` (Apache-2.0; extra `games`).

    ## Version History
    - v0: first version.
    """

    def __init__(
        self,
        split: str = "train",
        *,
        hands: int = 6,
        opponents: tuple[str, ...] | list[str] = tuple(PLAYERS),
        mirror: bool = False,
        pool: OpponentPool | str | Path | None = None,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        super().__init__("holdem", split, hands, opponents, mirror, pool, max_steps, render_mode)

    def _instruction(self) -> str:
        return f"Play {self.games} hands of limit hold'em. Win as many chips from this opponent as you can."
