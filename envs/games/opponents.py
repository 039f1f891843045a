"""Frozen opponents: a pool of named players with ratings, that grows by snapshots and is drawn from by strength."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Self

import numpy as np

from ..core.errors import InvalidArgument, MissingData, UserError
from ..core.text_env import printable
from .game import Game, Match, Player, duplicate_match
from .kinds import bring_player, keep_player
from .ratings import START, Result, fit

FILE = "opponents.json"
FORMAT = 1


class OpponentPool:
    """Named frozen players. `add` copies the player, so that what goes on learning does not change the pool.

    In a folder a pool is one JSON file, and a folder for each player that needs more than settings (a model's weights).
    """

    def __init__(self, players: Mapping[str, Player] | None = None) -> None:
        self._players: dict[str, Player] = {}
        self.ratings: dict[str, float] = {}
        for name, player in (players or {}).items():
            self.add(name, player)

    def __len__(self) -> int:
        return len(self._players)

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of their arrival."""
        return tuple(self._players)

    def add(self, name: str, player: Player, rating: float = START) -> None:
        """Freeze a copy of `player` under a new name: one line of at most 100 characters."""
        if not 1 <= len(name) <= 100 or printable(name) != name or " ".join(name.split()) != name:
            raise InvalidArgument(f"an opponent's name is one line of 1 to 100 characters, not {name!r:.120}")
        if name in self._players:
            raise InvalidArgument(f"the pool already has an opponent {name!r}: frozen opponents do not change")
        self._players[name] = copy.deepcopy(player)
        self.ratings[name] = float(rating)

    def get(self, name: str) -> Player:
        """The player of this name."""
        if name not in self._players:
            raise InvalidArgument(f"no opponent {name!r}; the pool has {', '.join(self._players)}")
        return self._players[name]

    def draw(self, rng: np.random.Generator, *, near: float | None = None, scale: float = 200.0) -> str:
        """A name: uniform, or with weight exp(-|rating - near| / scale) when `near` is a rating."""
        if not self._players:
            raise InvalidArgument("the pool is empty: add an opponent first")
        gaps = np.array([0.0 if near is None else abs(self.ratings[name] - near) for name in self._players])
        weights = np.exp(-(gaps - gaps.min()) / scale)
        return self.names[int(rng.choice(len(weights), p=weights / weights.sum()))]

    def tournament(
        self, make: Callable[[], Game], deals: Sequence[int], seed: int = 0, *, together: int = 0
    ) -> list[Result]:
        """Everybody against everybody in duplicate matches; sets `ratings` to the fitted Elo and returns the results.

        Args:
            make: makes the game.
            deals: the deals of each match, each played from both seats.
            seed: decides the players' chance numbers.
            together: so many deals are one rated match, which the sum of their payoffs decides: who wins few large
                pots is then above who wins many small ones. 0 rates every single game.
        """
        if not deals or together < 0:
            raise InvalidArgument("a tournament needs at least one deal, and together is 0 or a number of deals")
        results = []
        for i, first in enumerate(self.names):
            for second in self.names[i + 1 :]:
                pair = self._players[first], self._players[second]
                if not together:
                    results.append(as_result(first, second, duplicate_match(make, *pair, deals, seed)))
                    continue
                parts = [deals[at : at + together] for at in range(0, len(deals), together)]
                payoffs = [duplicate_match(make, *pair, part, seed).payoff for part in parts]
                points = sum(0.5 if abs(payoff) < 1e-9 else float(payoff > 0) for payoff in payoffs)
                results.append(Result(first, second, points / len(parts), len(parts)))
        self.ratings |= fit(results)
        return results

    def save(self, folder: str | Path) -> Path:
        """Write the pool. One that is there is replaced when the new one is whole; a crash leaves the old one.

        Raises:
            InvalidArgument: a player that cannot be kept (`kinds.register_player`), or another thing is in the way.
        """
        folder = Path(folder)
        if folder.exists() and not (folder / FILE).is_file() and (not folder.is_dir() or any(folder.iterdir())):
            raise InvalidArgument(f"{folder} is something else than a pool of opponents: choose another folder")
        folder.mkdir(parents=True, exist_ok=True)
        made = Path(mkdtemp(prefix="players-", dir=folder))  # every save has a folder of its own for its players
        rows = []
        try:
            for number, (name, player) in enumerate(self._players.items()):
                place = made / str(number)
                place.mkdir()
                kind, settings = keep_player(player, place)
                row = {"name": name, "rating": self.ratings[name], "kind": kind, "settings": settings}
                written = any(place.iterdir())
                rows.append({**row, "files": f"{made.name}/{number}" if written else ""})
                if not written:
                    place.rmdir()
            text = json.dumps({"format": FORMAT, "players": rows}, indent=1, ensure_ascii=False)
            (made / FILE).write_text(text + "\n", encoding="utf-8")
            (made / FILE).replace(folder / FILE)
        except BaseException:
            shutil.rmtree(made)
            raise
        for other in folder.glob("players-*"):
            if other != made:
                shutil.rmtree(other, ignore_errors=True)
        return folder

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The pool that `save` wrote.

        Raises:
            MissingData: there is none.
            InvalidArgument: it is damaged, or holds players of a kind that is not registered.
        """
        folder = Path(folder)
        if not (folder / FILE).is_file():
            raise MissingData(f"{folder} holds no pool of opponents ({FILE} is missing)")
        pool = cls()
        try:
            found = json.loads((folder / FILE).read_text(encoding="utf-8"))
            if found["format"] != FORMAT:
                raise InvalidArgument(f"{folder} has the format {found['format']!r}; this version reads {FORMAT}")
            for row in found["players"]:
                place = (folder / row["files"]).resolve()
                if not place.is_relative_to(folder.resolve()):
                    raise InvalidArgument(f"{folder} points to files outside of itself")
                name, player = row["name"], bring_player(row["kind"], row["settings"], place)
                pool._players[name], pool.ratings[name] = player, float(row["rating"])
        except UserError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidArgument(f"{folder / FILE} is no pool of opponents: {error!r}") from error
        return pool


def as_result(first: str, second: str, match: Match) -> Result:
    """A match as ratings count it: a game won is a point, a drawn one half."""
    games = match.wins + match.draws + match.losses
    return Result(first, second, (match.wins + match.draws / 2) / games, games)


def open_pool(pool: OpponentPool | str | Path) -> OpponentPool:
    """The pool itself, or the one of a folder, which is read once however many environments play against it."""
    if isinstance(pool, OpponentPool):
        return pool
    path = Path(pool).resolve()
    return _read(path, (path / FILE).stat().st_mtime_ns if (path / FILE).is_file() else 0)


@lru_cache(maxsize=4)
def _read(path: Path, _changed: int) -> OpponentPool:
    return OpponentPool.load(path)
