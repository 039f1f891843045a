"""Elo: ratings from the results of games, one by one or fitted to all of them at once. A draw is half a win."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..core.errors import InvalidArgument

START = 1500.0


class Result(NamedTuple):
    """What came of games between two players."""

    first: str
    second: str
    score: float
    """The first one's share of the points, in [0, 1]: 1 won, 0.5 drawn, 0 lost."""
    games: float = 1.0


def expected(first: float, second: float) -> float:
    """The points that a player rated `first` should make per game: 1 / (1 + 10^((second - first) / 400))."""
    return 1.0 / (1.0 + 10.0 ** ((second - first) / 400.0))


def update(ratings: Mapping[str, float], results: Iterable[Result], k: float = 20.0) -> dict[str, float]:
    """The ratings after `results`, taken in order: r += k games (score - expected). The sum of all never changes.

    Args:
        ratings: before; players who are not in it start at 1500.
        results: the games.
        k: points at stake per game. 20 is FIDE's for established players, 40 theirs for new ones.
    """
    new = dict(ratings)
    for first, second, score, games in results:
        _check(first, second, score)
        a, b = new.setdefault(first, START), new.setdefault(second, START)
        step = k * games * (score - expected(a, b))
        new[first], new[second] = a + step, b - step
    return new


def fit(results: Iterable[Result], *, prior: float = 1.0, rounds: int = 2000, mean: float = START) -> dict[str, float]:
    """The ratings that make all results most likely together, whatever their order (Bradley-Terry, draws as halves).

    Hunter's minorise-maximise iteration on strengths g = 10^(r/400): g_i = points_i / sum_j games_ij / (g_i + g_j).

    Args:
        results: the games.
        prior: drawn games of each player against an average one; above 0, so that ratings stay finite.
        rounds: iterations at most; ends earlier when no strength moves by more than 1e-10 of itself.
        mean: the mean of the ratings.
    """
    import math

    points: dict[str, float] = {}
    met: dict[str, dict[str, float]] = {}
    for first, second, score, games in results:
        _check(first, second, score)
        for name, other, share in ((first, second, score), (second, first, 1.0 - score)):
            points[name] = points.get(name, 0.0) + share * games
            row = met.setdefault(name, {})
            row[other] = row.get(other, 0.0) + games
    strength = dict.fromkeys(points, 1.0)
    for _ in range(rounds):
        new = {
            name: (points[name] + prior / 2)
            / (prior / (g + 1.0) + sum(games / (g + strength[other]) for other, games in met[name].items()))
            for name, g in strength.items()
        }
        moved = max((abs(new[name] / g - 1.0) for name, g in strength.items()), default=0.0)
        strength = new
        if moved < 1e-10:
            break
    ratings = {name: 400.0 * math.log10(g) for name, g in strength.items()}
    shift = mean - sum(ratings.values()) / max(len(ratings), 1)
    return {name: rating + shift for name, rating in ratings.items()}


def _check(first: str, second: str, score: float) -> None:
    if first == second or not 0.0 <= score <= 1.0:
        raise InvalidArgument(f"a result needs two players and a score in [0, 1], not {first!r}, {second!r}, {score!r}")
