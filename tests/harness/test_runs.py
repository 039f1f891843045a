"""Run folders and trajectory files: nothing lost, nothing half-written, read back exactly."""

from __future__ import annotations

import dataclasses
import json
import math
import threading
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs.core.errors import InvalidArgument, MissingData, UserError
from sandlot.envs.core.registry import make
from sandlot.harness.loop import EnvMaker, Rollout, play
from sandlot.harness.policies.scripted import RandomPolicy
from sandlot.harness.records import Call, Context, Message, StopReason, Task, Trajectory, Turn
from sandlot.harness.runs import RunFolder, plain
from sandlot.harness.trajectories import append_line, dumps, loads, read

# -- trajectories -------------------------------------------------------------------------------------------------


def same(a: Any, b: Any) -> bool:
    """Equality through dataclasses and arrays."""
    if dataclasses.is_dataclass(a):
        return type(a) is type(b) and all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return a == b


texts = st.text(st.characters(codec=None), max_size=12)  # any code point, lone surrogates included
ids = st.lists(st.integers(0, 50_000), max_size=6).map(tuple)
messages = st.builds(Message, st.sampled_from(["system", "user", "assistant"]), texts, st.none() | texts)
logprobs = st.lists(st.floats(-50, 0, width=32), min_size=1, max_size=5).map(lambda x: np.array(x, dtype=np.float32))
contexts = st.builds(
    Context,
    messages=st.lists(messages, max_size=4).map(tuple),
    admissible=st.none() | st.lists(texts, min_size=1, max_size=3).map(tuple),
    session=texts,
    role=st.sampled_from(["actor", "judge"]),
    state_key=texts,
    obs_key=texts,
)
calls = st.builds(
    Call,
    id=texts,
    context=contexts,
    text=texts,
    logprobs=logprobs,
    prompt_ids=ids,
    completion_ids=ids,
    allowed=st.none() | st.lists(ids, min_size=1, max_size=3).map(tuple),
    choices=st.none()
    | st.lists(texts, min_size=1, max_size=3).map(tuple)
    | st.lists(ids, min_size=1, max_size=2).map(tuple),
    choice=st.integers(-1, 3),
    spans=st.dictionaries(st.sampled_from(["action", "think"]), st.just(((0, 1), (2, 5))), max_size=2),
    temperature=st.sampled_from([0.0, 0.7, 1.0]),
    value=st.none() | st.floats(-1, 1),
    version=st.integers(0, 9),
    finish=st.sampled_from(["stop", "length", "choice"]),
    parent=st.none() | texts,
)
infos = st.fixed_dictionaries(
    {"valid": st.booleans(), "success": st.booleans(), "admissible": st.none() | st.lists(texts).map(tuple)}
)
turns = st.builds(Turn, calls, texts, texts, st.floats(-1, 1), infos, texts, texts, st.floats(0, 1))
trajectories = st.builds(
    Trajectory,
    id=texts,
    env_id=texts,
    task=st.builds(Task, texts, st.sampled_from(["train", "test"])),
    first_observation=texts,
    first_info=infos,
    turns=st.lists(turns, max_size=4),
    stop=st.sampled_from(StopReason),
    seed=st.integers(0, 2**63 - 1),
    mode=st.sampled_from(["explore", "hint"]),
    metrics=st.dictionaries(texts, st.floats(-1, 1), max_size=2),
    error=st.none() | texts,
    tries=st.integers(1, 3),
)


@settings(max_examples=40, deadline=None)
@given(trajectories)
def test_a_line_brings_everything_back(trajectory: Trajectory) -> None:
    line = dumps(trajectory)
    assert "\n" not in line
    assert same(loads(line), trajectory)


def test_growing_histories_take_linear_space() -> None:
    """Call t repeats the 2t messages and 100t ids before it; only what is new is stored."""

    def episode(length: int) -> Trajectory:
        history: list[Message] = [Message("user", "start " * 20)]
        prompt: list[int] = list(range(100))
        made = []
        for t in range(length):
            call = Call(f"c{t}", Context(tuple(history)), "go", np.zeros(2, np.float32), tuple(prompt), (7, 8))
            made.append(Turn(call, "go", "seen " * 20, 0.0, {"valid": True}, "s", "o"))
            history += [Message("assistant", "go", f"c{t}"), Message("user", "seen " * 20)]
            prompt += [7, 8, *range(98)]
        return Trajectory("t", "env", Task("a", "train"), "start", {}, made, StopReason.TERMINATED)

    short, long = len(dumps(episode(10))), len(dumps(episode(40)))
    assert long < 4.5 * short
    assert same(loads(dumps(episode(10))), episode(10))


def test_real_episodes_are_kept_and_filtered(tmp_path: Path) -> None:
    tasks = make("sandlot/NoisyAnchor-v0").tasks.first(20)
    path = tmp_path / "calls.jsonl"
    played = play(
        RandomPolicy(),
        tasks,
        Rollout(EnvMaker("sandlot/NoisyAnchor-v0")),
        on_trajectory=lambda t: append_line(path, dumps(t)),
    )
    back = {trajectory.id: trajectory for trajectory in read(path)}
    assert len(back) == 20
    for trajectory in played:
        found = back[trajectory.id]
        assert found.task.id == trajectory.task.id and found.success == trajectory.success
        found.task = trajectory.task  # the file names the task, the task set holds it
        assert same(found, trajectory)
    solved = list(read(path, keep=lambda trajectory: trajectory.success))
    assert len(solved) == sum(trajectory.success for trajectory in played)


def test_a_cut_line_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    one = Trajectory("one", "env", Task("a", "train"), "", {}, [], StopReason.TERMINATED)
    line = dumps(one)
    append_line(path, line)
    with path.open("a") as file:
        file.write(line[: len(line) // 2])  # the process died here
    append_line(path, line.replace("one", "two"))
    assert [trajectory.id for trajectory in read(path)] == ["one", "two"]


def test_no_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="no recorded trajectories at"):
        list(read(tmp_path / "none.jsonl"))


# -- run folders --------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Settings:
    lr: float = 0.1
    name: str | None = None
    sizes: tuple[int, ...] = (1, 2)


def test_folders_never_collide(tmp_path: Path) -> None:
    made: list[Path] = []
    threads = [
        threading.Thread(target=lambda: made.append(RunFolder.create("x", {}, root=tmp_path).folder)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8 == len(list(tmp_path.iterdir()))


def test_names_stay_inside_the_root(tmp_path: Path) -> None:
    run = RunFolder.create("../../etc/sandlot/x y\n", {}, root=tmp_path / "runs")
    assert run.folder.parent == tmp_path / "runs"
    assert run.folder.name.endswith("etc-sandlot-x-y")


def test_config_round_trip(tmp_path: Path) -> None:
    run = RunFolder.create("x", {"job": Settings(), "path": Path("a/b"), "n": np.int64(3), "none": None}, root=tmp_path)
    expected = {"job": {"lr": 0.1, "sizes": [1, 2]}, "path": "a/b", "n": 3}
    assert run.config() == expected
    assert tomllib.loads((run.folder / "config.toml").read_text()) == expected


def test_metrics_append_survive_a_crash_and_rewind(tmp_path: Path) -> None:
    run = RunFolder.create("x", {}, root=tmp_path)
    for step in range(4):
        run.log(step, {"loss": np.float32(0.5), "bad": math.nan})
    with (run.folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "lo')
    again = RunFolder(run.folder)
    again.log(5, {"loss": 1.0})
    rows = again.metrics()
    assert [row["step"] for row in rows] == [0, 1, 2, 3, 5]
    assert rows[0] == {"step": 0, "loss": 0.5, "bad": None}
    again.rewind(3)
    assert [row["step"] for row in again.metrics()] == [0, 1, 2]
    for line in (run.folder / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)  # strict JSON: no NaN


def test_files_are_replaced_whole(tmp_path: Path) -> None:
    run = RunFolder.create("x", {}, root=tmp_path)
    run.write("report.html", "old")
    run.write("report.html", "new \ud800")
    assert (run.folder / "report.html").read_text() == "new \\ud800"
    assert not list(run.folder.glob("*.part"))


def test_a_root_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match=r"cannot write .*file.*: .*; choose another folder"):
        RunFolder.create("x", {}, root=tmp_path / "file")
    with pytest.raises(UserError, match="no run folder"):
        RunFolder(tmp_path / "nowhere")


def test_a_folder_that_vanishes_is_one_clear_error(tmp_path: Path) -> None:
    run = RunFolder.create("x", {}, root=tmp_path)
    (run.folder / "config.toml").unlink()
    run.folder.rmdir()
    with pytest.raises(InvalidArgument, match="cannot write"):
        run.log(0, {})


def test_plain_values() -> None:
    assert plain({"a": {3, 1, 2}, "b": np.arange(2), "c": StopReason.CONTEXT, "d": np.bool_(True)}) == {
        "a": [1, 2, 3],
        "b": [0, 1],
        "c": "context",
        "d": True,
    }
