"""Two-seat games: rules, secrets, duplicate matches, opponents, ratings and frozen pools."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs import make
from sandlot.envs.core.errors import InvalidArgument, MissingExtra
from sandlot.envs.games import poker
from sandlot.envs.games.game import View, duplicate_match, play
from sandlot.envs.games.opponents import OpponentPool
from sandlot.envs.games.poker import PLAYERS, Poker, PokerPlayer, strength
from sandlot.envs.games.ratings import Result, expected, fit, update
from sandlot.envs.games.rps import MOVES, RepeatedRPS, RPSPlayer, make_player, outcome

few = settings(max_examples=25, deadline=None)


class Chance:
    """Plays uniformly."""

    def act(self, view: View, chance: float) -> str:
        return view.actions[int(chance * len(view.actions))]


def view_of(mine: str, theirs: str) -> View:
    names = dict(zip("rps", MOVES, strict=True))
    return View(1, "", MOVES, {"mine": tuple(names[m] for m in mine), "theirs": tuple(names[m] for m in theirs)})


@pytest.mark.parametrize(
    ("kind", "mine", "theirs", "expected_move"),
    [
        ("copycat", "rr", "ps", "scissors"),
        ("frequency", "rrr", "pps", "scissors"),  # paper is most frequent; scissors beat it
        ("mixture", "rrr", "pps", "scissors"),  # odd round: copycat
        ("mixture", "rrrr", "ppss", "scissors"),  # even round: paper leads (first of equals); scissors beat it
        # The last two were (p, s); before, (p, s) was followed by r, which paper beats.
        ("ngram", "rrrrr", "psrps", "paper"),
    ],
)
def test_mechanisms_by_hand(kind: str, mine: str, theirs: str, expected_move: str) -> None:
    player = RPSPlayer(kind, noise=0.0)
    assert player.act(view_of(mine, theirs), 0.9) == expected_move


def test_patterns_and_noise() -> None:
    player = RPSPlayer("cyclic", ("rock", "paper"), noise=0.3)
    assert [player.act(view_of("r" * n, "r" * n), 0.5) for n in range(3)] == ["rock", "paper", "rock"]
    assert [player.act(view_of("", ""), chance) for chance in (0.05, 0.15, 0.25)] == list(MOVES)
    kinds = [make_player("cyclic", n).pattern for n in range(243)]
    assert {len(pattern) for pattern in kinds} == {2, 3, 4} and len(set(kinds)) > 60


@given(moves=st.lists(st.sampled_from(MOVES), min_size=24, max_size=24))
@few
def test_rps_is_zero_sum_and_hides_the_open_move(moves: list[str]) -> None:
    game = RepeatedRPS(12)
    game.start(0)
    for n, move in enumerate(moves):
        before = game.view(1 - n % 2)
        game.apply(move)
        if n % 2 == 0:  # seat 0 has committed: seat 1 knows no more than before
            assert (game.view(1).text, game.view(1).facts) == (before.text, before.facts)
    assert game.seat is None and sum(game.payoffs()) == 0
    assert game.payoffs()[0] == pytest.approx(sum(outcome(a, b) for a, b in zip(moves[::2], moves[1::2])) / 12)
    with pytest.raises(InvalidArgument, match="not possible"):
        game.apply("rock")


def test_reading_a_copycat_beats_chance() -> None:
    class Reader:
        def act(self, view: View, chance: float) -> str:
            last = view.facts["mine"][-1] if view.facts["mine"] else "rock"
            return MOVES[(MOVES.index(last) + 1) % 3]

    pool = OpponentPool({"reader": Reader(), "chance": Chance(), "copycat": make_player("copycat", 0)})
    pool.tournament(lambda: RepeatedRPS(12), range(6))
    assert pool.ratings["reader"] > pool.ratings["copycat"] + 200
    assert sum(pool.ratings.values()) == pytest.approx(3 * 1500)


# -- poker ------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["leduc", "holdem"])
def kind(request: pytest.FixtureRequest) -> str:
    pytest.importorskip("pyspiel", reason="open_spiel is not installed (extra: games)")
    return request.param


def deal_with(game: Poker, cards: str) -> int:
    """The first deal in which seat 0, seat 1 and the board hold these ranks."""
    for deal in range(500):
        game.start(deal)
        if "".join(game.card(number)[0] for number in game._deck[: len(cards)]) == cards:
            return deal
    raise AssertionError(cards)


def test_leduc_hand_by_hand() -> None:
    pytest.importorskip("pyspiel", reason="open_spiel is not installed (extra: games)")
    game = Poker("leduc")
    game.start(deal_with(game, "QKQ"))
    # Antes 1 and 1; bet 2, raise to 4, call: 5 each. The board pairs seat 0: bet 4, call: 9 each. Seat 0 wins 9 of 13.
    for action, to_call in zip(("raise", "raise", "call", "raise", "call"), (0, 2, 2, 0, 4)):
        assert game.seat is not None and game.view(game.seat).facts["to_call"] == to_call
        game.apply(action)
    assert game.payoffs() == pytest.approx((9 / 13, -9 / 13))
    assert game.summary(1).endswith("you lose 9.") and "They show Q" in game.summary(1)


def test_holdem_blinds_and_order() -> None:
    pytest.importorskip("pyspiel", reason="open_spiel is not installed (extra: games)")
    game = Poker("holdem")
    game.start(3)
    assert game.seat == 1 and game.view(1).facts["to_call"] == 1 and game.view(1).facts["pot"] == 3
    game.apply("call")
    game.apply("call")
    assert game.seat == 0 and len(game.board) == 3  # the big blind acts first after the board
    game.apply("raise")
    game.apply("fold")
    assert game.payoffs() == pytest.approx((2 / 48, -2 / 48))
    assert game.summary(0) == "They fold: you win 2."


@given(deal=st.integers(0, 10**6), choices=st.lists(st.integers(0, 2), min_size=40, max_size=40))
@settings(max_examples=15, deadline=None)
@pytest.mark.parametrize("rules", ["leduc", "holdem"])
def test_a_view_never_depends_on_the_others_cards(rules: str, deal: int, choices: list[int]) -> None:
    pytest.importorskip("pyspiel", reason="open_spiel is not installed (extra: games)")
    game, other = Poker(rules), Poker(rules)
    game.start(deal)
    each = 1 if rules == "leduc" else 2
    other.start(deal)
    deck = list(game._deck)  # the same deck, but seat 1 holds other cards, from the undealt rest
    deck[each : 2 * each], deck[-each:] = deck[-each:], deck[each : 2 * each]
    other._deck = deck
    other._state, other._dealt = other._game.new_initial_state(), 0
    other._chance()
    for choice in choices:
        if game.seat is None:  # the cards are on the table
            break
        assert game.view(0) == other.view(0)
        action = game.actions()[choice % len(game.actions())]
        game.apply(action)
        other.apply(action)
    assert sum(game.payoffs()) == pytest.approx(0)


def test_duplicate_matches_cancel_the_cards(kind: str) -> None:
    make_game = lambda: Poker(kind)  # noqa: E731
    for player in (PLAYERS["rock"], PLAYERS["caller"]):
        # Both seats are played by the same rule, so that each deal's two games have opposite payoffs.
        assert duplicate_match(make_game, player, player, range(20)).payoff == 0
    a, b = PokerPlayer(0.8, 0.5), PokerPlayer(2.0, 2.0)  # folds whenever it can
    assert duplicate_match(make_game, a, b, range(20)).payoff > 0


def test_mirrored_task_is_the_same_hand_from_the_other_seat(kind: str) -> None:
    name = {"leduc": "Leduc", "holdem": "Holdem"}[kind]
    env, mirror = make(name), make(name, mirror=True)
    env.reset(seed=1, options={"task": env.tasks.at(5).id})
    mirror.reset(seed=1, options={"task": mirror.tasks.at(5).id})
    assert env.deal(0) == mirror.deal(0) and env.seat != mirror.seat  # type: ignore[attr-defined]


def test_replay_reaches_the_same_position(kind: str) -> None:
    game, again = Poker(kind), Poker(kind)
    play(game, (Chance(), Chance()), deal=11)
    again.replay(11, game.history)
    assert again.payoffs() == game.payoffs() and again.summary(0) == game.summary(0)


def test_what_strength_says() -> None:
    assert strength(("Ks",), ("Kh",)) == 1 and strength(("Js",), ("Kh",)) < strength(("Qs",), ())
    assert strength(("As", "Ah"), ()) == 1 and strength(("2s", "7h"), ()) < 0.4
    assert strength(("5s", "6s"), ("7s", "8h", "9d")) == strength(("2s", "9s"), ("Ks", "4s", "6s")) == 0.95


def test_without_open_spiel_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    poker._load.cache_clear()
    with pytest.raises(MissingExtra, match=r"sandlot\[games\]"):
        Poker("leduc")
    poker._load.cache_clear()


# -- ratings and pools ------------------------------------------------------------------------------------------------


def test_one_game_by_hand() -> None:
    # 1 / (1 + 10^(-200/400)) = .759747; winning brings 20 * .240253 = 4.80506, drawing costs 20 * .259747 = 5.19494.
    assert expected(1700, 1500) == pytest.approx(0.759747, abs=1e-6)
    ratings = {"a": 1700.0, "b": 1500.0}
    assert update(ratings, [Result("a", "b", 1.0)]) == pytest.approx({"a": 1704.80506, "b": 1495.19494})
    assert update(ratings, [Result("a", "b", 0.5)]) == pytest.approx({"a": 1694.80506, "b": 1505.19494})
    with pytest.raises(InvalidArgument, match="two players"):
        update(ratings, [Result("a", "a", 1.0)])


def test_fit_by_hand() -> None:
    # 3 of 4 points: odds 3, so the difference is 400 log10 3 = 190.85 when nothing pulls the ratings together.
    ratings = fit([Result("a", "b", 0.75, 4)], prior=1e-9)
    assert ratings["a"] - ratings["b"] == pytest.approx(400 * math.log10(3), abs=0.01)
    assert sum(ratings.values()) == pytest.approx(3000)
    draws = fit([Result("a", "b", 0.5, 10), Result("b", "c", 0.5, 2)])
    assert list(draws.values()) == pytest.approx([1500] * 3)


results = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from("cde"), st.sampled_from([0, 0.5, 1]), st.integers(1, 3)),
    min_size=1,
    max_size=8,
)


@given(played=results)
@few
def test_ratings_keep_their_sum_and_fits_ignore_the_order(played: list[tuple[str, str, float, int]]) -> None:
    games = [Result(*row) for row in played]
    ratings = update({}, games)
    assert sum(ratings.values()) == pytest.approx(1500 * len(ratings))
    assert fit(games) == pytest.approx(fit(games[::-1]), abs=0.1)


def test_frozen_opponents_do_not_change_and_are_drawn_by_strength() -> None:
    class Learner:
        move = "rock"

        def act(self, view: View, chance: float) -> str:
            return self.move

    learner, pool = Learner(), OpponentPool()
    with pytest.raises(InvalidArgument, match="empty"):
        pool.draw(np.random.default_rng(0))
    pool.add("v1", learner, 1300)
    learner.move = "paper"
    pool.add("v2", learner, 1700)
    assert [pool.get(name).act(view_of("", ""), 0.0) for name in pool.names] == ["rock", "paper"]
    drawn = [pool.draw(np.random.default_rng(seed), near=1700) for seed in range(200)]
    # weights 1 and exp(-400/200) = .135: v2 in 88 %
    assert 0.8 < drawn.count("v2") / 200 < 0.96
    with pytest.raises(InvalidArgument, match="already has"):
        pool.add("v1", learner)
    with pytest.raises(InvalidArgument, match="no opponent"):
        pool.get("v3")


def test_observations_tell_nothing_about_the_opponent() -> None:
    env = make("RockPaperScissors")
    texts = {env.reset(options={"task": task.id})[0] for task in env.tasks.first(20)}
    assert len(texts) == 1  # all opponents look alike before the first round
    with pytest.raises(InvalidArgument, match="kinds must be some of"):
        make("RockPaperScissors", kinds=("telepath",))
