"""RockPaperScissors: find out how the opponent chooses, and beat it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..core.errors import InvalidArgument
from ..toys.tasks import NumberedTasks
from ..toys.toy import check_size
from .env import MatchEnv, opened
from .game import View
from .opponents import OpponentPool
from .pool_tasks import PoolTasks
from .rps import KINDS, MOVES, RepeatedRPS, RPSPlayer, beater, make_player

COUNT = 100_000  # matches against each player of a pool: numbers of what chance brings


class RockPaperScissors(MatchEnv):
    """Repeated rock-paper-scissors against an opponent whose mechanism has to be found out.

    ## Description
    The opponent follows one mechanism for the whole match: it favours a move, repeats a pattern, beats what you play
    most, copies you, or predicts you from what you did before; now and then it plays at random instead. Whoever
    reads it wins most rounds; whoever plays at random breaks even.

    ## Action Space
    Text: `rock`, `paper` or `scissors`.

    ## Observation Space
    Text. The last round, all moves so far, the count, and the round's number.

    ## Starting State
    The first round. A task is an opponent: its kind and the number that chooses its pattern, or a player of the pool
    and the number that decides its chance.

    ## Rewards
    1 / `rounds` for a round won, minus that for a round lost, 0 for a draw.

    ## Episode End
    Terminated after the last round. Registered limit: 20 steps, enough for `rounds` up to 20; pass a larger
    `max_episode_steps` to `gymnasium.make` for longer matches.

    ## Information
    `success`: the match is over and rounds won minus rounds lost are at least half of all rounds (uniformly random
    moves reach that about once in thirty matches of 12). `score`: the same as a number. `progress` is None.

    ## Privileged Information
    `oracle()`: what beats the opponent's next move. `hint()`: the opponent's mechanism. `opponent(task)`: the opponent.

    ## State Key
    The task and all moves.

    ## Arguments
    - `split`: "train", "valid_seen", "valid_unseen" or "test" (disjoint opponents, the same kinds).
    - `rounds` (12): rounds of the match, 4 to 100.
    - `kinds` (all): names of opponents' kinds: "fixed", "cyclic", "frequency", "copycat", "ngram", "noisy", "mixture".
      Pass other kinds for evaluation than for training to ask for unseen mechanisms.
    - `pool` (None): a pool of frozen opponents (`games.opponents.OpponentPool`), or its folder, to play against
      instead of `kinds`. Task ids then end with the opponent's name.

    ## Source and Licence
    Written for this project; Apache-2.0. Opponents after the usual ones of the game's computer tournaments.

    ## Version History
    - v0: first version.
    """

    def __init__(
        self,
        split: str = "train",
        *,
        rounds: int = 12,
        kinds: tuple[str, ...] | list[str] = KINDS,
        pool: OpponentPool | str | Path | None = None,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.kinds = tuple(kinds)
        if not self.kinds or set(self.kinds) - set(KINDS):
            raise InvalidArgument(f"kinds must be some of {', '.join(KINDS)}, not {kinds!r}")
        check_size("rounds", rounds, 4, 100)
        prefix = f"rps-{rounds}-{'all' if self.kinds == KINDS else '+'.join(self.kinds)}"
        if pool is None:
            tasks = NumberedTasks(prefix, 10_000 * len(self.kinds), self._build, split)
        else:
            tasks = PoolTasks(f"rps-{rounds}", COUNT, opened(pool), split)
        super().__init__(tasks, RepeatedRPS(rounds), 1, max_steps=max_steps, render_mode=render_mode)

    def _build(self, number: int) -> dict[str, object]:
        return {"opponent": (self.kinds[number % len(self.kinds)], number // len(self.kinds)), "deal": 0, "seat": 0}

    def _made(self, opponent: tuple[str, int]) -> RPSPlayer:
        return make_player(*opponent)

    def best(self) -> float:
        """All rounds."""
        return 1.0

    def _foresee(self) -> str:
        return beater(self.reply(replace(self.game.view(1), actions=MOVES), self.game.history, 0))

    def reply(self, view: View, history: tuple[str, ...], number: int) -> str:
        """What the opponent does; nothing in it follows from the agent's move of the same round."""
        return super().reply(view, history[: len(history) // 2 * 2], number)

    def _mechanism(self) -> str:
        player = self._made(self.task.params["opponent"])
        if player.kind in ("fixed", "cyclic", "noisy"):
            return f"The opponent repeats {' '.join(player.pattern)}, except for {player.noise:.0%} of its moves."
        means = {
            "frequency": "beats what you have played most often",
            "copycat": "plays what you played last",
            "ngram": "beats what followed the last time you had just played what you have just played",
            "mixture": "plays what you played last, and every other round beats what you have played most often",
        }
        return f"The opponent {means[player.kind]}, except for {player.noise:.0%} of its moves."

    def _instruction(self) -> str:
        return (
            "Play rock, paper, scissors against an opponent that follows a habit. Win as many more rounds than you "
            "lose as you can."
        )
