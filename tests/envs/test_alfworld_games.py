"""Generated and official ALFWorld games: format, splits, solvability, the writer, ids in other processes, bad data."""

from __future__ import annotations

import json
import os
import pickle
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sandlot.envs import make
from sandlot.envs.alfworld import generator, scenes, wheel, writer
from sandlot.envs.alfworld.engine_fast import FastEngine
from sandlot.envs.alfworld.game import TASK_TYPES, Game, parse_game
from sandlot.envs.alfworld.generator import Recipe
from sandlot.envs.alfworld.official import OfficialTasks, data_folder
from sandlot.envs.alfworld.sources import load_game
from sandlot.envs.alfworld.tasks import GeneratedTasks
from sandlot.envs.core import SPLITS, InvalidArgument, MissingData, MissingExtra, Task, TextEnv, UnknownTask

DATA = Path(os.environ.get("SANDLOT_TEST_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data"))


def games(split: str, n: int, **filters: object) -> list[tuple[Task, Game]]:
    tasks = GeneratedTasks(split, **filters).first(n)  # type: ignore[arg-type]
    return [(task, generator.game(generator.draft(task.params["recipe"]))) for task in tasks]


@pytest.mark.parametrize("max_receptacles", [None, 1, 6])
def test_games_of_every_type_are_solved_and_not_won_at_the_start(max_receptacles: int | None) -> None:
    for split in SPLITS:
        for task, game in games(split, 48, max_receptacles=max_receptacles):
            engine = FastEngine(game)
            engine.start()
            assert not engine.won
            made = generator.draft(task.params["recipe"])
            solution = writer.walkthrough(made)
            assert 0 < len(solution) <= 15, task.id
            for action in solution:
                engine.step(action)
            assert engine.won


def test_every_scene_has_games_and_splits_share_no_scene_but_training_ones() -> None:
    used = {split: set() for split in SPLITS}
    for split in SPLITS:
        for number in scenes.scene_numbers(split):
            kinds = [kind for kind in TASK_TYPES.values() if scenes.combos(number, kind)]
            assert "pick_and_place_simple" in kinds
            used[split].add(number)
    assert used["train"] == used["valid_seen"]
    assert len(used["train"]) == 108
    assert used["valid_unseen"] == {10, 219, 308, 424}
    assert used["train"] | used["valid_unseen"] | used["test"] == {
        *range(1, 31),
        *range(201, 231),
        *range(301, 331),
        *range(401, 431),
    }
    assert not used["train"] & used["valid_unseen"] and not used["test"] & (used["train"] | used["valid_unseen"])


def test_games_of_the_same_name_differ_between_splits_and_seeds() -> None:
    task = GeneratedTasks("train").at(5)
    combo = task.params["recipe"].combo
    drafts = [generator.draft(Recipe(combo, split, seed)) for split in ("train", "valid_seen") for seed in (0, 1)]
    assert len({tuple(made.objects.items()) for made in drafts}) == 4
    assert len({made.trial for made in drafts}) == 4


def test_numbering_is_balanced_and_every_index_has_its_own_task() -> None:
    tasks = GeneratedTasks("train")
    assert len(tasks) > 5_000_000
    rng = np.random.default_rng(0)
    drawn = [tasks.sample(rng) for _ in range(1200)]
    shares = np.bincount([list(TASK_TYPES.values()).index(task.params["recipe"].combo.task_type) for task in drawn])
    assert shares.min() > 150  # 200 expected, standard deviation 13
    assert len({task.id for task in drawn}) > 1195
    edges = [0, 1, len(tasks) - 1, *range(999_000, 1_001_000, 97)]
    assert len({tasks.at(index).id for index in edges}) == len(set(edges))
    for index in (-1, len(tasks)):
        with pytest.raises(IndexError):
            tasks.at(index)


def test_filters_keep_what_they_say_and_refuse_the_rest() -> None:
    small = GeneratedTasks(
        "valid_unseen", task_types=["pick_heat_then_place_in_recep", 1], rooms=["kitchen"], max_receptacles=5
    )
    for task in small.first(20):
        recipe = task.params["recipe"]
        assert recipe.combo.scene == 10
        assert recipe.combo.task_type in (TASK_TYPES[1], TASK_TYPES[4])
        assert len(generator.draft(recipe).receptacles) == 5
        assert task.id.startswith("alfworld/gen1r5/valid_unseen/")
    for wrong in ([7], ["cook"], []):
        with pytest.raises(InvalidArgument, match="task"):
            GeneratedTasks("train", task_types=wrong)
    with pytest.raises(InvalidArgument, match="kitchen"):
        GeneratedTasks("train", rooms=["attic"])
    with pytest.raises(InvalidArgument, match="no games of"):
        GeneratedTasks("train", task_types=[4], rooms=["bathroom"])
    with pytest.raises(InvalidArgument, match="max_receptacles"):
        GeneratedTasks("train", max_receptacles=0)
    with pytest.raises(UnknownTask, match="train"):
        GeneratedTasks("training")


def test_ids_name_tasks_of_any_split_and_refuse_everything_else() -> None:
    tasks = GeneratedTasks("train", rooms=["bathroom"])
    for split in SPLITS:
        for task in GeneratedTasks(split).first(12):
            assert tasks.get(task.id) == task
            assert task.split == split
            assert pickle.loads(pickle.dumps(task)) == task
    good = "alfworld/gen1/train/pick_and_place_simple-AlarmClock-None-Desk-301/7"
    assert tasks.get(good).params["recipe"].seed == 7
    for bad in (
        "",
        "x",
        good + "/",
        good.replace("gen1", "gen9"),
        good.replace("301", "308"),  # an unseen scene
        good.replace("301", "9999"),
        good.replace("train", "nowhere"),
        good.replace("Desk", "Fridge"),
        good.replace("/7", "/1000000"),
        good * 100,
    ):
        with pytest.raises(UnknownTask):
            tasks.get(bad)


def test_the_written_problem_says_the_same_as_the_built_game() -> None:
    for task, game in games("train", 24):
        parsed = parse_game(generator.game_file(generator.draft(task.params["recipe"])))
        for name in Game.__slots__:
            assert getattr(parsed, name) == getattr(game, name), name


def test_generation_is_the_same_in_any_process() -> None:
    code = (
        "from sandlot.envs import make\n"
        "env = make('ALFWorld', split='valid_seen', source='generated')\n"
        "for task in env.tasks.first(6):\n"
        "    observation, info = env.reset(options={'task': task.id})\n"
        "    for action in env.oracle():\n"
        "        observation, *_, info = env.step(action)\n"
        "        print(info['task_id'], info['state_key'], info['obs_key'], info['admissible'])\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "77")
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0].count("\n") > 20


def test_reading_the_wheel_has_no_side_effects(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "from sandlot.envs import make\n"
        "observation, info = make('ALFWorld').reset(seed=0)\n"
        "assert info['task_id'].startswith('alfworld/gen1/train/')\n"
        "assert 'ALFWORLD_DATA' not in os.environ\n"
        "assert not {'alfworld', 'textworld', 'torch'} & set(sys.modules), sys.modules\n"
    )
    environment = {key: value for key, value in os.environ.items() if key != "ALFWORLD_DATA"}
    subprocess.run([sys.executable, "-c", code], env={**environment, "HOME": str(tmp_path)}, check=True)
    assert not (tmp_path / ".cache" / "alfworld").exists()


def test_a_missing_wheel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel.importlib.util, "find_spec", lambda name: None)
    wheel.folder.cache_clear()
    with pytest.raises(MissingExtra, match=re.escape("sandlot[alfworld]")):
        wheel.folder()


def _names(file: str) -> set[str]:
    path = DATA / "alfworld" / file
    if not path.is_file():
        pytest.skip(f"no {path}")
    content = json.loads(path.read_text())
    if isinstance(content, dict):
        return {entry.split("/")[2] for entries in content.values() for entry in entries}
    return {entry["task_type"] for entry in content}


@pytest.mark.parametrize(
    ("file", "split", "count"),
    [
        ("mappings_train.json", "train", 1297),
        ("mappings_test.json", "train", 200),
        ("agentbench_std.json", "valid_unseen", 17),
    ],
)
def test_official_task_names_are_among_the_generated(file: str, split: str, count: int) -> None:
    names = _names(file)
    assert len(names) == count
    reachable = {
        combo.name
        for number in scenes.scene_numbers(split)
        for kind in TASK_TYPES.values()
        for combo in scenes.combos(number, kind)
    }
    assert names <= reachable, sorted(names - reachable)[:5]


# -- games on disk ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("alfworld")
    for split, n in (("train", 12), ("valid_seen", 2), ("valid_unseen", 2)):
        assert len(writer.write_games(root, split, n, max_receptacles=6)) == n
    return root


def test_written_games_are_official_games(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = make("ALFWorld", data=written)
    assert len(env.tasks) == 12
    assert [task.split for task in env.tasks] == ["train"] * 12
    seen = set()
    for task in env.tasks:
        observation, info = env.reset(options={"task": task.id})
        assert info["instruction"] in observation and info["task_id"] == task.id
        seen.add(info["state_key"])
        walkthrough = json.loads(Path(task.params["file"]).read_text())["walkthrough"]
        for action in walkthrough:
            *_, info = env.step(action)
        assert info["success"]
    assert len(seen) == 12
    monkeypatch.setenv("HOME", str(written.parent))
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    assert make("ALFWorld").tasks.at(0).id.startswith("alfworld/gen1/")
    monkeypatch.setenv("ALFWORLD_DATA", str(written))
    unseen = make("ALFWorld", split="valid_unseen", source="official").tasks.at(0)
    assert make("ALFWorld").tasks.get(unseen.id) == unseen
    assert make("ALFWorld", source="generated").tasks.get(unseen.id) == unseen
    heating = make("ALFWorld", task_types=[4], rooms="kitchen").tasks
    assert len(heating) == 2 and all("pick_heat" in task.id for task in heating)


def test_a_new_game_in_the_folder_is_found(tmp_path: Path) -> None:
    writer.write_games(tmp_path, "train", 2, max_receptacles=5)
    assert len(make("ALFWorld", data=tmp_path).tasks) == 2
    folder = tmp_path / writer.FOLDER / "train"
    os.utime(folder, ns=(0, 0))
    writer.write_games(tmp_path, "train", 3, max_receptacles=5)
    assert len(make("ALFWorld", data=tmp_path).tasks) > 2


def test_games_that_the_benchmark_skips_are_skipped(tmp_path: Path) -> None:
    paths = writer.write_games(tmp_path, "train", 3, max_receptacles=5)
    unsolved = json.loads(paths[0].read_text())
    paths[0].write_text(json.dumps({**unsolved, "solvable": False}))
    sliced = paths[1].parents[1]
    sliced.rename(sliced.with_name(sliced.name.replace("-None-", "Sliced-None-")))
    (paths[2].parents[1] / "trial_without_a_game").mkdir()
    tasks = OfficialTasks(tmp_path / writer.FOLDER, "train")
    assert [task.params["file"] for task in tasks] == [str(paths[2])]


def test_bad_data_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    with pytest.raises(MissingData, match="ALFWORLD_DATA"):
        make("ALFWorld", source="official")
    with pytest.raises(MissingData, match="alfworld-download"):
        make("ALFWorld", data=tmp_path)
    paths = writer.write_games(tmp_path, "train", 2, max_receptacles=5)
    with pytest.raises(MissingData, match="valid_seen"):
        make("ALFWorld", split="valid_seen", data=tmp_path)
    with pytest.raises(InvalidArgument, match="max_receptacles"):
        make("ALFWorld", data=tmp_path, max_receptacles=4)
    env = make("ALFWorld", data=tmp_path)
    task = next(task for task in env.tasks if task.params["file"] == str(paths[0]))
    with pytest.raises(UnknownTask):
        env.reset(options={"task": task.id[:-1] + "x"})
    good = paths[0].read_text()
    for content, words in (
        (good.replace("isHot", "isGreen").replace("receptacleType", "receptacleKind"), "broken game file"),
        ("[]", "broken game file"),
        ("{}", "broken game file"),
        (good[:5000], "not JSON"),
    ):
        paths[0].write_text(content)
        with pytest.raises(MissingData, match=words) as error:
            env.reset(options={"task": task.id})
        assert str(paths[0]) in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(MissingData, match="not JSON"):  # found at the start too, not in the middle of a run
        os.utime(tmp_path / writer.FOLDER / "train", ns=(1, 1))
        make("ALFWorld", data=tmp_path)
    paths[0].unlink()
    with pytest.raises(MissingData, match="cannot read"):
        load_game(task)
    (tmp_path / "file").write_text("")
    with pytest.raises(MissingData, match="cannot write"):
        writer.write_games(tmp_path / "file", "train", 1)


def test_the_real_game(monkeypatch: pytest.MonkeyPatch) -> None:
    root = DATA / "alfworld" / "real_single"
    if not root.is_dir():
        pytest.skip(f"no {root}")
    env = make("ALFWorld", data=root)
    observation, info = env.reset(seed=0)
    assert info["task_id"].startswith("alfworld/official/train/pick_heat_then_place_in_recep-Potato-None-SinkBasin-14/")
    assert info["instruction"] == "put a hot potato in sinkbasin."
    assert observation.endswith("Your task is to: put a hot potato in sinkbasin.")
    actions = list(_played(env, "oracle"))
    assert env.verify() == {"found": 1.0, "hot": 1.0, "placed": 1.0}
    assert len(actions) <= 8
    env.reset(seed=0)
    assert len(list(_played(env, "expert"))) <= 40
    assert env.verify()["placed"] == 1.0
    assert data_folder(root) == root / "json_2.1.1"


def _played(env: TextEnv, who: str) -> Iterator[str]:
    for action in getattr(env, who)():
        env.step(action)
        yield action


def test_the_benchmarks_own_environment_plays_written_games(written: Path, tmp_path: Path) -> None:
    pytest.importorskip("fast_downward")
    pytest.importorskip("textworld")
    code = """
import json, sys
from alfworld.agents.environment import get_environment
root = sys.argv[1]
config = {
    "env": {
        "goal_desc_human_anns_prob": 0,
        "task_types": [1, 2, 3, 4, 5, 6],
        "domain_randomization": False,
        "expert_type": "handcoded",
    },
    "dataset": {"data_path": root + "/json_2.1.1/train", "num_train_games": 2, "num_eval_games": -1},
    "general": {"training_method": "dqn"},
    "rl": {"training": {"max_nb_steps_per_episode": 50}},
}
env = get_environment("AlfredTWEnv")(config, train_eval="train")
found = len(env.game_files)
env = env.init_env(batch_size=1)
won = []
for _ in range(2):
    observations, infos = env.reset()
    game = json.load(open(infos["extra.gamefile"][0]))
    for action in game["walkthrough"]:
        assert action in infos["admissible_commands"][0], action
        observations, scores, dones, infos = env.step([action])
    won.append(bool(infos["won"][0]))
env.close()
print("FOUND", found, "WON", won)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(written)],
        env={**os.environ, "HOME": str(tmp_path), "ALFWORLD_DATA": str(written)},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert "FOUND 2 WON [True, True]" in done.stdout, done.stdout + done.stderr


def test_seeds_do_not_touch_the_global_generator() -> None:
    random.seed(5)
    expected = random.Random(5).random()
    games("train", 2)
    assert random.random() == expected
