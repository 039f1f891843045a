"""Policies in a seat: they play, freeze, are rated, are kept in files, and are played against by environments."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from sandlot.envs import make
from sandlot.envs.core.errors import InvalidArgument, MissingData, UnknownTask
from sandlot.envs.core.testing import check_text_env
from sandlot.envs.games.game import Game, View, duplicate_match
from sandlot.envs.games.kinds import KINDS, register_player
from sandlot.envs.games.opponents import FILE, OpponentPool
from sandlot.envs.games.poker import PLAYERS, Poker
from sandlot.envs.games.rps import MOVES, RepeatedRPS, make_player
from sandlot.harness.context import History
from sandlot.harness.loop import EnvMaker, Rollout, play
from sandlot.harness.players import PolicyPlayer
from sandlot.harness.policies.bag import BagPolicy
from sandlot.harness.policies.hf import HFPolicy
from sandlot.harness.policies.scripted import EchoPolicy, RandomPolicy, ScriptedPolicy
from sandlot.harness.policies.tabular import TabularPolicy
from sandlot.harness.policies.tiny import build_word_tokenizer, tiny_llama
from sandlot.harness.policy import Sampling
from sandlot.harness.records import Context

RULES = "Play rock, paper, scissors."


def rps() -> Game:
    return RepeatedRPS(6)


def tiny(seed: int = 0) -> HFPolicy:
    """A language model of one small layer that has words for both games."""
    texts, game = [RULES], RepeatedRPS(6)
    game.replay(0, ("rock", "paper", "scissors", "scissors"))
    texts += [game.view(0).text, " ".join(MOVES), "You lose. You win. A draw."]
    texts.append("Your cards: Js Qs Ks Jh Qh Kh. Board: none yet. In the pot; to call: Betting: nothing yet, you fold")
    texts.append("they raise call fold raise call fold")
    tokenizer = build_word_tokenizer(texts)
    return HFPolicy(tiny_llama(len(tokenizer), d_model=32, layers=1, seed=seed), tokenizer)


def moves_of(player: PolicyPlayer, game: Game, chances: Sequence[float]) -> list[str]:
    return [player.act(game.view(0), chance) for chance in chances]


@pytest.mark.parametrize("name", ["leduc", "rps"])
def test_a_frozen_tiny_policy_plays_matches_and_can_be_kept(name: str, tmp_path: Path) -> None:
    if name == "leduc":
        pytest.importorskip("pyspiel", reason="open_spiel is not installed (extra: games)")
    game = (lambda: Poker("leduc")) if name == "leduc" else rps
    scripted = PLAYERS["rock"] if name == "leduc" else make_player("copycat", 0)
    pool = OpponentPool({"scripted": scripted, "tiny": PolicyPlayer(tiny(), RULES)})
    results = pool.tournament(game, range(4))
    assert results[0].games == 8 and sum(pool.ratings.values()) == pytest.approx(3000)
    again = OpponentPool.load(pool.save(tmp_path / "pool"))
    assert again.names == pool.names and again.ratings == pytest.approx(pool.ratings)
    assert again.tournament(game, range(4)) == results  # the same players, move by move


def test_its_answers_follow_the_chance_number_and_a_copy_is_frozen() -> None:
    policy, game = tiny(), rps()
    game.start(0)
    player = PolicyPlayer(policy, RULES)
    chances = [n / 20 for n in range(20)]
    said = moves_of(player, game, chances)
    assert said == moves_of(player, game, chances) and len(set(said)) > 1
    frozen = copy.deepcopy(player)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.mul_(-3.0)
    policy.version += 1
    assert moves_of(frozen, game, chances) == said != moves_of(player, game, chances)
    assert not policy.generator.recorded  # nothing of the finished calls is kept


def test_what_it_reads_is_what_an_environment_shows_and_no_answer_is_left_to_chance() -> None:
    seen: list[Context] = []

    def watch(context: Context) -> str:
        seen.append(context)
        return "  ROCK " if len(seen) == 1 else "I resign."

    player = PolicyPlayer(ScriptedPolicy(watch), RULES)
    env = make("RockPaperScissors", rounds=6)
    observation, _ = env.reset(seed=0)
    view = View(0, observation, MOVES)
    assert [player.act(view, chance) for chance in (0.9, 0.0, 0.4, 0.99)] == ["rock", *MOVES]
    assert [message.text for message in seen[0].messages] == [f"{RULES}\n\n{observation}"]
    assert seen[0].admissible == MOVES and seen[0].obs_key == env.reset(seed=0)[1]["obs_key"]
    listing = PolicyPlayer(ScriptedPolicy(watch), RULES, history=History(window=0, list_actions=True))
    listing.act(view, 0.0)
    assert seen[-1].messages[-1].text.endswith("Actions: rock; paper; scissors")


def test_elo_puts_the_trained_policy_above_what_it_came_from() -> None:
    """A table that has learned to beat the cyclic player by imitation of what beats it, and the same one before."""
    before = TabularPolicy(key="obs_key")
    after = copy.deepcopy(before)
    cyclic = make_player("cyclic", 3 + 9 * 2)  # rock, paper
    env = make("RockPaperScissors", rounds=6, pool=OpponentPool({"cyclic": cyclic}))
    with torch.no_grad():  # one step of imitation with a large rate
        for task in env.tasks.first(60):
            _, info = env.reset(options={"task": task.id})
            for action in env.oracle():
                key = Context((), obs_key=info["obs_key"])
                after.weights[after.features(key, action)] += 2.0
                *_, info = env.step(action)
    pool = OpponentPool({"before": PolicyPlayer(before), "after": PolicyPlayer(after), "cyclic": cyclic})
    pool.tournament(rps, range(30))
    assert pool.ratings["after"] > pool.ratings["before"] + 100
    assert pool.ratings["after"] > pool.ratings["cyclic"] + 100


def test_kept_tables_bags_and_chance_play_on_as_before(tmp_path: Path) -> None:
    game = rps()
    game.replay(0, ("rock", "paper"))
    table, bag = TabularPolicy(100, key="obs_key", critic=True), BagPolicy(2**8)
    context = PolicyPlayer(bag, RULES).history()
    context.start(game.view(0).text, {"instruction": RULES, "admissible": MOVES})
    with torch.no_grad():
        bag.weights.normal_(generator=torch.Generator().manual_seed(0))
        table.weights.normal_(generator=torch.Generator().manual_seed(1))
    players = {"table": PolicyPlayer(table), "bag": PolicyPlayer(bag, RULES), "chance": PolicyPlayer(RandomPolicy())}
    chances = [n / 30 for n in range(30)]
    said = {name: moves_of(player, game, chances) for name, player in players.items()}
    loaded = OpponentPool.load(OpponentPool(players).save(tmp_path / "pool"))
    for name in players:
        assert moves_of(loaded.get(name), game, chances) == said[name]  # type: ignore[arg-type]
    assert moves_of(pickle.loads(pickle.dumps(players["bag"])), game, chances) == said["bag"]
    with pytest.raises(InvalidArgument, match="EchoPolicy cannot be kept"):
        OpponentPool({"echo": PolicyPlayer(EchoPolicy())}).save(tmp_path / "pool")
    assert OpponentPool.load(tmp_path / "pool").names == tuple(players)  # the old one is still whole
    assert len(list((tmp_path / "pool").iterdir())) == 2


def test_an_environment_plays_against_a_pool(tmp_path: Path) -> None:
    pool = OpponentPool({"tiny": PolicyPlayer(tiny(), RULES), "copycat": make_player("copycat", 0)})
    folder = pool.save(tmp_path / "pool")
    rollout = Rollout(EnvMaker("RockPaperScissors", {"rounds": 6, "pool": str(folder)}), Sampling(decode="choice"))
    tasks = rollout.env.tasks()
    assert {task.id.partition("@")[2] for task in tasks.first(10)} == {"tiny", "copycat"}
    episodes = [play(RandomPolicy(), tasks.first(4), rollout, seed=seed) for seed in (1, 1)]
    assert [[turn.observation for turn in episode.turns] for episode in episodes[0]] == [
        [turn.observation for turn in episode.turns] for episode in episodes[1]
    ]
    live = make("RockPaperScissors", rounds=6, pool=pool)
    with pytest.raises(UnknownTask, match="opponents are tiny, copycat"):
        live.reset(options={"task": "rps-6-train-0@later"})
    pool.add("later", make_player("fixed", 1))
    assert live.reset(options={"task": "rps-6-train-0@later"})[1]["task_id"] == "rps-6-train-0@later"
    assert "'later'" in live.hint() and len(live.tasks) == 3 * 70_000  # 70 % of 100,000 deals


@pytest.mark.parametrize("name", ["RockPaperScissors", "Leduc"])
def test_the_contract_holds_against_a_pool(name: str, tmp_path: Path) -> None:
    if name == "Leduc":
        pytest.importorskip("pyspiel", reason="open_spiel is not installed (extra: games)")
    leduc = {"rock": PLAYERS["rock"], "chance": PolicyPlayer(RandomPolicy())}
    table = {"noisy": make_player("noisy", 5), "table": PolicyPlayer(TabularPolicy(500, key="obs_key"))}
    folder = OpponentPool(leduc if name == "Leduc" else table).save(tmp_path / "pool")
    kwargs: dict[str, Any] = {"rounds": 8} if name == "RockPaperScissors" else {"hands": 3}
    # Not that random actions fail: against a player that has learned nothing chance does break even.
    checks = ["splits_are_disjoint", "deterministic", "oracle_solves", "snapshots_restore", "everything_pickles"]
    checks += ["equal_keys_mean_equal_states", "privileged_calls_leave_no_trace", "spec_round_trip", "vector_sync"]
    checks += ["deterministic_across_processes"] if name == "Leduc" else []
    check_text_env(f"sandlot/{name}-v0", only=tuple(checks), pool=str(folder), **kwargs)


def test_bad_pools_are_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="holds no pool of opponents"):
        make("RockPaperScissors", pool=tmp_path)
    with pytest.raises(InvalidArgument, match="the pool is empty"):
        make("RockPaperScissors", pool=OpponentPool())
    pool = OpponentPool({"copycat": make_player("copycat", 0)})
    with pytest.raises(InvalidArgument, match="one line"):
        pool.add("two\nlines", make_player("copycat", 0))
    with pytest.raises(InvalidArgument, match="at least one deal"):
        pool.tournament(rps, [])
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    with pytest.raises(InvalidArgument, match="something else"):
        pool.save(tmp_path / "other")
    path = pool.save(tmp_path / "pool") / FILE
    good = json.loads(path.read_text())

    def spoil(**changes: object) -> None:
        path.write_text(json.dumps({**good, "players": [{**good["players"][0], **changes}]}))
        OpponentPool.load(tmp_path / "pool")

    with pytest.raises(InvalidArgument, match="no kind of player 'os'"):
        spoil(kind="os")
    with pytest.raises(InvalidArgument, match="no settings of a player of the kind 'rps'"):
        spoil(settings={"kind": "copycat", "wings": 2})
    with pytest.raises(InvalidArgument, match="outside of itself"):
        spoil(files="../other")
    for text in ("", "[]", '{"format": 2}', '{"format": 1}'):
        path.write_text(text)
        with pytest.raises(InvalidArgument, match=r"no pool of opponents|has the format"):
            OpponentPool.load(tmp_path / "pool")


class Stubborn:
    """A player of the user's own, with a file."""

    def __init__(self, move: str) -> None:
        self.move = move

    def act(self, view: View, chance: float) -> str:
        return self.move

    def keep(self, folder: Path) -> dict[str, str]:
        (folder / "move.txt").write_text(self.move)
        return {}

    @classmethod
    def bring(cls, folder: Path, settings: dict[str, str]) -> Stubborn:
        return cls((folder / "move.txt").read_text())


def test_players_of_ones_own_can_be_kept_once_they_are_registered(tmp_path: Path) -> None:
    pool = OpponentPool({"mule": Stubborn("paper")})
    with pytest.raises(InvalidArgument, match="register_player"):
        pool.save(tmp_path / "pool")
    register_player("stubborn", f"{__name__}:Stubborn")
    try:
        with pytest.raises(InvalidArgument, match="are already"):
            register_player("stubborn", "elsewhere:Stubborn")
        again = OpponentPool.load(pool.save(tmp_path / "pool"))
        match = duplicate_match(rps, again.get("mule"), make_player("fixed", 0), range(20))
        assert match.payoff > 0.5  # paper beats one who favours rock
    finally:
        del KINDS["stubborn"]
