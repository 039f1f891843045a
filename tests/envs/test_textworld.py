"""The TextWorld families: real games, made by textworld's generators and played in its interpreter."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("textworld", reason="needs textworld")

from sandlot.envs.core.errors import EnvironmentFault, InvalidArgument, UnknownTask
from sandlot.envs.core.testing import check_text_env
from sandlot.envs.textworld import cooking
from sandlot.envs.textworld.coin import TextWorldCoin
from sandlot.envs.textworld.cooking import TextWorldCooking
from sandlot.envs.textworld.env import TextWorldEnv
from sandlot.envs.textworld.games import GameCache
from sandlot.envs.textworld.treasure import TextWorldTreasure

FAMILIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "coin": (TextWorldCoin, {"level": 3}),
    "treasure": (TextWorldTreasure, {"level": 12}),
    "cooking": (TextWorldCooking, {}),
}
META = (
    "save",
    "restore",
    "restart",
    "quit",
    "undo",
    "script",
    "print_state",
    "goal",
    "tw-print max_score",
    "again",
    "verbose",
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the first game of each family, built by three child processes at once."""
    root = tmp_path_factory.mktemp("games")
    builders = [
        threading.Thread(target=cls(cache=root, games=1, **kwargs).prepare) for cls, kwargs in FAMILIES.values()
    ]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()
    return root


@pytest.fixture(params=list(FAMILIES))
def env(request: pytest.FixtureRequest, cache: Path) -> Iterator[TextWorldEnv]:
    cls, kwargs = FAMILIES[request.param]
    made = cls(cache=cache, games=1, **kwargs)
    yield made
    made.close()


def play(env: TextWorldEnv, actions: list[str]) -> list[tuple[Any, ...]]:
    return [env.step(action) for action in actions]


def test_oracle_wins_and_rewards_sum_to_one(env: TextWorldEnv) -> None:
    observation, info = env.reset(seed=0)
    assert info["instruction"] in " ".join(observation.split())
    assert "$$" not in observation and "TextWorld\n" not in observation
    total, terminated = 0.0, False
    for action in env.oracle():
        assert action in info["admissible"]
        observation, reward, terminated, _, info = env.step(action)
        assert info["valid"]
        total += reward
    assert (terminated, info["success"], info["score"], info["progress"]) == (True, True, 1.0, 1.0)
    assert total == pytest.approx(1.0)
    assert "[" not in observation and "RESTART" not in observation
    assert info["admissible"] == ()


def test_oracle_starts_from_where_the_game_is(env: TextWorldEnv) -> None:
    rng = np.random.default_rng(0)
    for _ in range(4):
        _, info = env.reset(seed=0)
        terminated = False
        for _ in range(12):
            here = env.snapshot()
            _, _, terminated, _, info = env.step(str(rng.choice(info["admissible"])))
            if terminated:
                _, info = env.restore(here)
                break
        terminated = False
        for steps, action in enumerate(env.oracle()):
            _, _, terminated, _, info = env.step(action)
            assert steps < 100
        assert info["success"] and terminated


def test_oracle_can_be_listed_without_playing_and_notices_detours(env: TextWorldEnv) -> None:
    _, info = env.reset(seed=0)
    before = env.snapshot()
    plan = list(env.oracle())
    assert plan and env.snapshot() == before
    oracle = env.oracle()
    assert next(oracle) == plan[0]
    env.step(next(action for action in info["admissible"] if action.startswith("go")))
    for action in oracle:
        info = env.step(action)[4]
    assert info["success"]


@pytest.mark.parametrize(
    "action", [*META, "", "xyzzy plugh", "look. look", "take all", "go", "take it", "é", "look\nlook", "a" * 500]
)
def test_other_input_changes_nothing_and_is_answered(env: TextWorldEnv, action: str, tmp_path: Path) -> None:
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        _, before = env.reset(seed=0)
        held = env.snapshot()
        observation, reward, terminated, _, info = env.step(action)
    finally:
        os.chdir(here)
    assert (reward, terminated, info["valid"]) == (0.0, False, False)
    assert observation.strip()
    assert {**info, "valid": True, "obs_key": before["obs_key"]} == before
    assert env.snapshot().state == held.state  # the interpreter's memory too
    assert not list(tmp_path.iterdir())  # "save" and "script" write no files


def test_the_parser_says_why(cache: Path) -> None:
    env = TextWorldCooking(cache=cache, games=1)
    env.reset(seed=0)
    answers = {action: env.step(action)[0] for action in ("take moon", "eat", "jump", "dance", "inventory")}
    assert answers["take moon"] == "You can't see any such thing."
    assert answers["dance"] == "That's not a verb I recognise."
    assert answers["jump"].startswith("You jump on the spot.\nNothing changes")
    assert answers["inventory"].startswith("You are carrying")
    env.close()


def test_other_wordings_do_what_the_listed_action_does(env: TextWorldEnv) -> None:
    _, info = env.reset(seed=0)
    way = next(action for action in info["admissible"] if action.startswith("go")).removeprefix("go ")
    ends = []
    for action in (f"go {way}", way, way[0], f"GO   {way.upper()}", f"walk {way}"):
        env.reset(seed=0)
        observation, _, _, _, info = env.step(action)
        assert info["valid"], (action, observation)
        ends.append((observation, info["state_key"]))
    assert len(set(ends)) == 1
    assert env.canonical(f" {way[0]} ") == f"go {way}"
    assert env.canonical("X the Table") == "examine table"


def test_state_key_knows_the_order_in_which_things_are_listed(cache: Path) -> None:
    env = TextWorldCooking(cache=cache, games=1)
    env.reset(seed=0)
    drops: list[str] = []
    for action in env.oracle():  # until two things are in the hands
        info = env.step(action)[4]
        drops = [action for action in info["admissible"] if action.startswith("drop")]
        if len(drops) >= 2:
            break
    here, seen = env.snapshot(), []
    for order in (drops[:2], drops[1::-1], drops[:2]):
        env.restore(here)
        play(env, order)
        observation, _, _, _, info = env.step("look")
        seen.append((observation, info["state_key"]))
    assert seen[0] == seen[2]
    assert seen[0][0] != seen[1][0]  # "a knife and an apple", "an apple and a knife"
    assert seen[0][1] != seen[1][1]
    env.close()


def test_snapshots_travel(env: TextWorldEnv, cache: Path) -> None:
    _, info = env.reset(seed=0)
    plan = list(env.oracle())
    env.step(plan[0])
    snapshot = pickle.loads(pickle.dumps(env.snapshot()))
    future = play(env, plan[1:])
    cls: Any = type(env)
    other = cls(cache=cache, games=1)
    assert other.restore(snapshot)[1]["task_id"] == info["task_id"]
    assert play(other, plan[1:]) == future
    env.close()  # a closed environment can be used again
    env.restore(snapshot)
    assert play(env, plan[1:]) == future
    other.close()
    other.close()


def test_the_same_in_another_process(cache: Path) -> None:
    """Another hash seed, another working directory, and the game built again from nothing."""
    script = (
        "import sys, json\n"
        "from sandlot.envs.textworld.coin import TextWorldCoin\n"
        "env = TextWorldCoin(level=3, games=1, cache=sys.argv[1])\n"
        "out = [env.reset(seed=0)]\n"
        "out += [env.step(a) for a in ['look', 'save', 'e', 'n', 's', 'w', 'look']]\n"
        "print(json.dumps(out))\n"
    )
    env = TextWorldCoin(level=3, games=1, cache=cache)
    expected = [env.reset(seed=0), *play(env, ["look", "save", "e", "n", "s", "w", "look"])]
    env.close()
    other = {**os.environ, "PYTHONHASHSEED": "7", "HOME": str(cache)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, str(cache / "again")],
        capture_output=True, text=True, env=other, cwd=cache, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(json.dumps(expected))
    assert not (cache / "Inform").exists()  # the compiler writes into the home folder, which must not be the user's


def test_cache_holds_finished_games_only(cache: Path) -> None:
    files = {path.name for path in cache.rglob("*") if path.is_file()}
    assert {name for name in files if not name.startswith(".lock")} == {"game.json", "game.z8"}
    assert not [path for path in cache.rglob(".building*")]


def test_a_cached_game_is_not_built_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: pytest.fail("a build was started"))
    env = TextWorldCoin(level=3, games=1, cache=cache)
    env.reset(seed=0)
    env.prepare()
    env.close()


def test_failed_builds_are_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(EnvironmentFault, match="could not build coin-level3-0"):
        TextWorldCoin(level=3, games=1, cache=tmp_path).reset(seed=0)
    assert not [path for path in tmp_path.rglob("*") if not path.name.startswith(".lock") and path.is_file()]


def test_a_cache_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="pass cache="):
        TextWorldCoin(cache=tmp_path / "file").reset(seed=0)


def test_tasks_and_splits(tmp_path: Path) -> None:
    seen: dict[str, str] = {}
    for split in ("train", "valid_seen", "valid_unseen", "test"):
        for cls in (TextWorldCoin, TextWorldCooking, TextWorldTreasure):
            tasks = cls(split, games=30, cache=tmp_path).tasks
            for task in tasks:
                assert seen.setdefault(task.id, split) == split == task.split
                assert tasks.get(task.id) == task
                if cls is TextWorldCooking:
                    assert task.params["settings"]["split"] == cooking.FOODS[split]
    assert len(seen) == 4 * 3 * 30
    tasks = TextWorldCoin(level=110, cache=tmp_path).tasks
    other = tasks.get("coin-level7-3000004")  # other settings, other split
    assert (other.split, other.params["settings"], other.params["seed"]) == ("test", {"level": 7}, 3_000_004)
    for wrong in ("coin-level7-4000000", "coin-level0-1", "coin-level7-01", "cooking-level7-1", "coin-level7", "../x"):
        with pytest.raises(UnknownTask, match="coin"):
            tasks.get(wrong)


@pytest.mark.parametrize(
    ("cls", "wrong"),
    [
        (TextWorldCoin, {"level": 0}),
        (TextWorldCoin, {"level": 151}),
        (TextWorldTreasure, {"level": 31}),
        (TextWorldCooking, {"recipe": 6}),
        (TextWorldCooking, {"take": 2}),
        (TextWorldCooking, {"go": 7}),
        (TextWorldCoin, {"games": 0}),
        (TextWorldCoin, {"split": "dev"}),
    ],
)
def test_wrong_settings(cls: type[TextWorldEnv], wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises((InvalidArgument, UnknownTask)):
        cls(cache=tmp_path, **wrong)


def test_many_interpreters_live_and_die(cache: Path) -> None:
    """Sixty made and freed, eight at a time on threads of their own, give the same answers."""
    folder = GameCache(cache).root
    plans: list[list[tuple[Any, ...]]] = []

    def run() -> None:
        for _ in range(8):
            env = TextWorldCoin(level=3, games=1, cache=cache)
            env.reset(seed=0)
            plans.append(play(env, list(env.oracle())))
            env.close()

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert folder.is_dir()
    assert len(plans) == 64
    assert all(plan == plans[0] for plan in plans)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Coin", "Cooking", "Treasure"])
def test_contract_on_the_registered_settings(name: str, tmp_path: Path) -> None:
    check_text_env(f"sandlot/TextWorld{name}-v0", episodes=4, games=3, cache=str(tmp_path))
