"""Trajectory files: exact round trips, crashes, threads, Parquet, and the export to ATIF."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs.core.errors import MissingData
from sandlot.harness.records import Call, Context, Message, StopReason, Task, Trajectory, Turn
from sandlot.harness.stores.atif import export_atif
from sandlot.harness.stores.files import TrajectoryWriter, read, to_parquet

ADMISSIBLE = ("go to desk 1", "look", "take mug 1 from desk 1")


def make_trajectory(seed: int = 0, turns: int = 3, decode: str = "free", text: str = "You see a desk.") -> Trajectory:
    rng = np.random.default_rng(seed)
    session = f"episode-{seed}"
    messages: tuple[Message, ...] = (Message("system", "Play."), Message("user", text))
    ids = tuple(int(x) for x in rng.integers(0, 400, 6))
    done: list[Turn] = []
    info = {"task_id": "t", "admissible": ADMISSIBLE, "valid": True, "success": False, "score": 0.25, "progress": None}
    for turn in range(turns):
        completion = tuple(int(x) for x in rng.integers(0, 400, 4))
        call = Call(
            id=f"{session}#{turn}",
            context=Context(messages, ADMISSIBLE, session, "actor", f"s{turn}", f"o{turn}"),
            text=f"look {text}",
            logprobs=rng.normal(-1, 1, 4).astype(np.float32),
            prompt_ids=ids,
            completion_ids=completion,
            spans={"think": ((0, 1), (2, 3)), "action": ((3, 4),)},
            temperature=0.7,
            value=float(rng.normal()) if turn else None,
            version=seed,
            finish="length",
            parent=None if turn else "planner#1",
        )
        if decode == "trie":
            call.allowed = tuple((token, 7) for token in completion)
        if decode == "choice":
            call.choices, call.choice, call.finish = ((1, 2), completion), 1, "choice"
            call.logprobs = call.logprobs[:1]
        if decode == "text":
            call.choices, call.choice = ADMISSIBLE, 1
            call.prompt_ids, call.completion_ids, call.logprobs = (), (), call.logprobs[:1]
        end = {**info, "success": turn == turns - 1 and seed % 2 == 0, "valid": turn != 1}
        done.append(Turn(call, "look", f"{text} {turn}", float(rng.normal()), end, f"s{turn}", f"o{turn}", 0.001))
        messages = (*messages, Message("assistant", call.text, call.id), Message("user", done[-1].observation))
        ids = ids + completion + (5, 6)
    return Trajectory(
        id=session,
        env_id="sandlot/Test-v0",
        task=Task("t", "train"),
        first_observation=text,
        first_info=info,
        turns=done,
        stop=StopReason.STEP_LIMIT,
        seed=seed,
        mode="hint",
        metrics={"seconds": 0.5},
        error=None if turns else "lost server",
        tries=2,
    )


def plain(value: Any) -> Any:
    """Everything in a record, arrays by type and bytes, so that == means equal to the last bit."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return value


VARIETY = [
    make_trajectory(0),
    make_trajectory(1, decode="trie"),
    make_trajectory(2, decode="choice"),
    make_trajectory(3, decode="text"),
    make_trajectory(4, turns=0),
    make_trajectory(5, turns=1, text='line\none\t\u2028 \x00 \ud800 \N{DOG FACE} "quoted"'),
]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_round_trip_is_exact(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "calls" / f"file{suffix}"
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
        assert to_parquet(iter(VARIETY), path) == len(VARIETY)
    else:
        write = TrajectoryWriter(path)
        for trajectory in VARIETY:
            write(trajectory)
        assert write.written == len(VARIETY)
        assert path.read_bytes().count(b"\n") == len(VARIETY)
    back = list(read(path))
    assert [plain(trajectory) for trajectory in back] == [plain(trajectory) for trajectory in VARIETY]
    assert back[0].turns[0].call.logprobs.dtype == np.float32


def test_a_rewritten_history_comes_back_too(tmp_path: Path) -> None:
    trajectory = make_trajectory(0)
    middle = trajectory.turns[1].call
    middle.context = dataclasses.replace(middle.context, messages=(Message("user", "summary"),), admissible=None)
    middle.prompt_ids = (9, 9)
    TrajectoryWriter(tmp_path / "a.jsonl")(trajectory)
    assert [plain(t) for t in read(tmp_path / "a.jsonl")] == [plain(trajectory)]


@settings(max_examples=40, deadline=None)
@given(
    text=st.text(st.characters(codec=None, exclude_categories=())),
    logprobs=st.lists(st.floats(width=32, allow_nan=True)),
    reward=st.floats(allow_nan=False),
    ids=st.lists(st.integers(0, 2**31)).map(tuple),
)
def test_hostile_values_round_trip(tmp_path_factory, text: str, logprobs: list[float], reward: float, ids) -> None:
    trajectory = make_trajectory(0, turns=2, text=text)
    turn = trajectory.turns[1]
    turn.reward, turn.action = reward, text
    turn.call.logprobs = np.array(logprobs, dtype=np.float32)
    turn.call.prompt_ids = turn.call.completion_ids = ids
    path = tmp_path_factory.mktemp("hostile") / "a.jsonl"
    TrajectoryWriter(path)(trajectory)
    (back,) = read(path)
    np.testing.assert_array_equal(back.turns[1].call.logprobs, turn.call.logprobs)  # NaN payloads may differ
    back.turns[1].call.logprobs = turn.call.logprobs
    assert plain(back) == plain(trajectory)


def test_a_growing_history_takes_linear_space(tmp_path: Path) -> None:
    sizes = []
    for turns in (10, 40):
        path = tmp_path / f"{turns}.jsonl"
        TrajectoryWriter(path)(make_trajectory(0, turns=turns))
        sizes.append(path.stat().st_size)
    assert sizes[1] < 4.5 * sizes[0]


def test_reading_filters_and_streams(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write = TrajectoryWriter(path, keep=lambda trajectory: bool(trajectory.turns))
    for trajectory in VARIETY:
        write(trajectory)
    assert write.written == 5
    assert [t.id for t in read(path, where=lambda t: t.success)] == ["episode-0", "episode-2"]
    assert next(read(path)).id == "episode-0"


def test_a_line_torn_by_a_crash_is_skipped_and_the_file_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write = TrajectoryWriter(path)
    write(VARIETY[0])
    write(VARIETY[1])
    os.truncate(path, path.stat().st_size - 40)
    assert [t.id for t in read(path)] == ["episode-0"]
    TrajectoryWriter(path)(VARIETY[2])
    assert [t.id for t in read(path)] == ["episode-0", "episode-2"]


def test_what_was_written_survives_a_kill(tmp_path: Path) -> None:
    script = """
import os, sys
sys.path.insert(0, sys.argv[2])
from test_stores import TrajectoryWriter, VARIETY
write = TrajectoryWriter(sys.argv[1])
write(VARIETY[0])
os._exit(9)
"""
    path = tmp_path / "a.jsonl"
    done = subprocess.run([sys.executable, "-c", script, str(path), str(Path(__file__).parent)], capture_output=True)
    assert done.returncode == 9, done.stderr.decode()
    assert [plain(t) for t in read(path)] == [plain(VARIETY[0])]


def test_many_threads_write_whole_lines(tmp_path: Path) -> None:
    write = TrajectoryWriter(tmp_path / "a.jsonl")
    ready = threading.Barrier(8)

    def work(worker: int) -> None:
        ready.wait()
        for number in range(10):
            write(make_trajectory(worker * 10 + number, turns=20))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert sorted(t.seed for t in read(write.path)) == list(range(80))


@pytest.mark.parametrize("name", ["absent.jsonl", "absent.parquet"])
def test_missing_files_are_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(MissingData, match=name):
        list(read(tmp_path / name))


def test_parquet_that_is_none_is_named(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(MissingData, match=r"a\.parquet"):
        list(read(tmp_path / "a.parquet"))


def test_parquet_columns_can_be_filtered_without_us(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    to_parquet([make_trajectory(seed) for seed in range(6)], path)
    table = parquet.read_table(path, columns=["id", "success", "turns"], filters=[("success", "=", True)])
    assert table.to_pydict() == {"id": ["episode-0", "episode-2", "episode-4"], "success": [True] * 3, "turns": [3] * 3}
    assert path.stat().st_size > 0 and not list(tmp_path.glob("*.part"))


# -- ATIF -------------------------------------------------------------------------------------------------------------


def test_atif_says_what_happened() -> None:
    trajectory = make_trajectory(0, turns=2)
    document = export_atif(trajectory, model="tiny")
    assert document["schema_version"] == "ATIF-v1.7"
    assert document["agent"]["model_name"] == "tiny"
    steps = document["steps"]
    assert [step["step_id"] for step in steps] == [1, 2, 3, 4]
    assert [step["source"] for step in steps] == ["system", "user", "agent", "agent"]
    assert [step["message"] for step in steps[:2]] == ["Play.", "You see a desk."]
    call = trajectory.turns[1].call
    assert steps[3]["metrics"]["completion_token_ids"] == list(call.completion_ids)
    assert steps[3]["metrics"]["prompt_token_ids"] == list(call.prompt_ids)
    assert steps[3]["metrics"]["logprobs"] == [float(x) for x in call.logprobs]
    assert steps[3]["tool_calls"][0]["arguments"] == {"action": "look"}
    assert steps[3]["observation"]["results"][0]["content"] == "You see a desk. 1"
    # Prompts of 6 and 6 + 4 + 2 tokens, completions of 4 and 4.
    assert document["final_metrics"]["total_prompt_tokens"] == 18
    assert document["final_metrics"]["total_completion_tokens"] == 8
    assert document["final_metrics"]["extra"]["reward"] == trajectory.reward


# The rules of Harbor's models: (field, type) and which are required.
STEP = {"step_id": int, "source": str, "message": str, "tool_calls": list, "observation": dict, "metrics": dict}
STEP |= {"llm_call_count": int, "extra": dict}
METRICS = {"prompt_tokens": int, "completion_tokens": int, "prompt_token_ids": list, "completion_token_ids": list}
METRICS |= {"logprobs": list, "extra": dict}


@pytest.mark.parametrize("trajectory", VARIETY, ids=lambda t: t.id)
def test_atif_keeps_the_formats_rules(trajectory: Trajectory) -> None:
    document = export_atif(trajectory)
    json.dumps(document, allow_nan=False)
    assert set(document) <= {
        *("schema_version", "session_id", "trajectory_id", "agent", "steps", "notes", "final_metrics", "extra")
    }
    assert {"name", "version"} <= set(document["agent"]) and document["steps"]
    for number, step in enumerate(document["steps"], 1):
        assert step["step_id"] == number
        assert all(isinstance(value, STEP[name]) for name, value in step.items())
        if step["source"] != "agent":
            assert set(step) == {"step_id", "source", "message"}
            continue
        ids = {call["tool_call_id"] for call in step["tool_calls"]}
        assert all(result["source_call_id"] in ids for result in step["observation"]["results"])
        assert step["llm_call_count"] or "metrics" not in step
        metrics = step.get("metrics", {})
        assert all(isinstance(value, METRICS[name]) for name, value in metrics.items())
        if "logprobs" in metrics:
            assert len(metrics["logprobs"]) == metrics["completion_tokens"]


def test_atif_validates_under_harbors_own_models() -> None:
    harbor = pytest.importorskip("harbor.models.trajectories")
    for trajectory in VARIETY[:5]:  # pydantic takes no lone surrogates
        document = export_atif(trajectory)
        assert harbor.Trajectory.model_validate(document).to_json_dict()["steps"] == document["steps"]
