"""`sandlot train` and `compare`: what a person gets, what is left after Ctrl-C, one line for each mistake."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100"}


def sandlot(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sandlot.cli", *arguments]
    return subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=120)


def only(folder: Path) -> Path:
    (run,) = folder.iterdir()
    return run


def test_train_shows_the_table_and_leaves_the_run_folder(tmp_path: Path) -> None:
    done = sandlot("train", "--env", "Corridor", "--steps", "2", "--eval-tasks", "4", "--recipe", "ecpo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for word in ("random", "before", "after", "oracle", "report.html", "curve.png"):
        assert word in done.stdout
    run = only(tmp_path / "runs")
    assert {"config.toml", "metrics.jsonl", "curve.png", "report.html", "last.pt"} <= {p.name for p in run.iterdir()}
    assert 'recipe = "ecpo"' in (run / "config.toml").read_text()
    assert [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()] == [0, 1]


def test_compare_prints_one_row_per_recipe_and_plots(tmp_path: Path) -> None:
    options = ("--env", "Corridor", "--steps", "2", "--seeds", "2", "-s", "eval_tasks=4", "-r", "group_size=3")
    done = sandlot("compare", "grpo", "gigpo", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = only(tmp_path / "runs")
    assert (run / "compare.png").stat().st_size > 1000 and "gigpo" in (run / "report.html").read_text()
    assert len(list((run / "runs").iterdir())) == 4
    assert "48" in done.stdout, "2 steps x 8 groups x 3 members, the same for both"


def test_ctrl_c_keeps_episodes_and_checkpoint_and_the_run_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sandlot.cli", "train", "--env", "KeyDoor", "--steps", "500", "--eval-tasks", "2"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and not list(tmp_path.glob("runs/*/last.pt")):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err and "sandlot train --resume" in out
    run = only(tmp_path / "runs")
    assert (run / "calls" / "trajectories.jsonl").stat().st_size > 0
    steps = len((run / "metrics.jsonl").read_text().splitlines())
    config = run / "config.toml"
    config.write_text(config.read_text().replace("steps = 500", f"steps = {steps + 1}"))
    done = sandlot("train", "--resume", str(run), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    logged = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert logged == list(range(steps + 1))


def test_the_config_of_a_run_repeats_it(tmp_path: Path) -> None:
    model = ("--model", "tiny", "-s", "tiny={layers=1,d_model=32}", "--demonstrations", "8")
    options = ("--steps", "2", "--eval-tasks", "4", "-r", "groups=2", "-r", "group_size=3", "--seed", "3")
    first = sandlot("train", "--env", "Corridor", *model, *options, "--out", "first", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    run = only(tmp_path / "first")
    second = sandlot("train", "--config", str(run / "config.toml"), "--out", "second", cwd=tmp_path)
    assert second.returncode == 0, second.stderr
    again = only(tmp_path / "second")
    assert (again / "config.toml").read_text() == (run / "config.toml").read_text()
    rows = [
        [
            {name: value for name, value in json.loads(line).items() if not name.startswith("time/")}
            for line in (folder / "metrics.jsonl").read_text().splitlines()
        ]
        for folder in (run, again)
    ]
    assert rows[0] == rows[1] and len(rows[0]) == 2
    for model in ("warm", "model"):
        weights = [(folder / model / "model.safetensors").read_bytes() for folder in (run, again)]
        assert weights[0] == weights[1]
    assert (run / "model/model.safetensors").read_bytes() != (run / "warm/model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("train", "--env", "Corridr"), "did you mean"),
        (("train", "--env", "Corridor", "--recipe", "grop"), "did you mean grpo"),
        (("train", "--env", "Corridor", "-r", "learning_rate=1"), "learning_rate"),
        (("train", "--env", "Corridor", "-s", "step=1"), "the settings are"),
        (("train", "--env", "Corridor", "-k", "split=test"), "eval_split"),
        (("train", "--env", "Corridor", "-s", "recipe_kwargs={}"), "-r KEY=VALUE"),
        (("train", "--env", "Corridor", "-s", "recipe=rloo"), "--recipe NAME"),
        (("train", "--env", "Corridor", "--model", "no-such-model"), "no-such-model"),
        (("train", "--resume", "runs/none"), "there is no run folder"),
        (("train", "--config", "none.toml"), "none.toml"),
        (("train", "--config", "none.toml", "--steps", "3"), "give only --out"),
        (("train", "--env", "Corridor", "--out", "/proc/none"), "cannot write"),
        (("compare", "grpo", "nothing"), "no recipe"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_fix(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = sandlot(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1 and said in lines[0], done.stderr
    assert not list(tmp_path.glob("runs/*")) or "no-such-model" in arguments, (
        "nothing is left of a run that never began"
    )


def test_another_recipe_takes_over_the_presets_work_and_not_its_method() -> None:
    from sandlot.train import build_job

    own = build_job("ALFWorld", None, None)
    assert own.recipe_kwargs["std"] is False and own.recipe_kwargs["aggregation"] == "token"
    for recipe in ("rloo", "ppo", "gspo"):
        job = build_job("ALFWorld", None, recipe, recipe_pairs=("lr=0.001",))
        assert job.recipe == recipe
        assert {**own.recipe_kwargs, "lr": 0.001}.items() > job.recipe_kwargs.items()
        assert set(job.recipe_kwargs) == {"groups", "group_size", "minibatches", "lr", "warmup"}
    assert "std" not in build_job("ALFWorld", None, None, several=True).recipe_kwargs


def test_a_recipe_has_the_rate_that_was_found_for_it_and_not_beside_others() -> None:
    from sandlot.train import build_job

    assert build_job("ALFWorld", None, "ppo").recipe_kwargs["lr"] == 3e-4
    assert build_job("ALFWorld", None, "ppo", recipe_pairs=("lr=0.001",)).recipe_kwargs["lr"] == 1e-3
    assert build_job("ALFWorld", None, "rloo").recipe_kwargs["lr"] == 6e-4
    assert build_job("ALFWorld", None, "ppo", several=True).recipe_kwargs["lr"] == 6e-4  # on equal terms
    other = build_job("ALFWorld", "smollm2-135m", "ppo")  # another model has its own rate
    assert other.recipe_kwargs["lr"] == build_job("ALFWorld", "smollm2-135m", "rloo").recipe_kwargs["lr"]
