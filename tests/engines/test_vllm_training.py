"""`sandlot train` with vLLM as the player: in this process, and against a server with LoRA adapters."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from vllm_parts import serve

from sandlot.envs.core.registry import make
from sandlot.harness.policies.hf import HFPolicy
from sandlot.harness.policies.tiny import build_word_tokenizer, tiny_llama
from sandlot.harness.runs import RunFolder

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed here: `make test-vllm`"),
]


def train(folder: Path, *arguments: str) -> RunFolder:
    command = [
        sys.executable,
        "-m",
        "sandlot.cli",
        "train",
        "--env",
        "Corridor",
        "-k",
        "rooms=3",
        "--out",
        str(folder / "runs"),
    ]
    command += ["-r", "groups=4", "-r", "group_size=4", "-r", "lr=0.003", "-s", "eval_tasks=4", "-s", "threads=1"]
    command += arguments
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    (run,) = (folder / "runs").iterdir()
    return RunFolder(run)


def check(run: RunFolder, steps: int) -> None:
    metrics = run.metrics()
    assert len(metrics) == steps
    assert all(row["update/logprob_gap"] < 1e-3 for row in metrics if row["rollout/staleness"] == 0)
    assert any(row["update/grad_norm"] > 0 for row in metrics)
    assert run.config()["engine"] == "vllm"
    HFPolicy.load(run.folder / "model")


@pytest.mark.parametrize("recipe", ["grpo", "ppo"])
def test_two_steps_in_one_process(tmp_path: Path, recipe: str) -> None:
    arguments = ["--model", "tiny", "--recipe", recipe, "--steps", "2", "-s", "engine=vllm", "-s", "demonstrations=0"]
    arguments += ["-s", "vllm={eager=true}", "-s", "tiny={d_model=64,layers=2,heads=2}", "-s", "decode=trie"]
    check(train(tmp_path, *arguments), 2)


def test_evaluation_with_vllm(tmp_path: Path) -> None:
    env = make("sandlot/Corridor-v0", rooms=3)
    observation, info = env.reset(seed=0)
    tokenizer = build_word_tokenizer([observation, info["instruction"], " ".join(info["admissible"])])
    HFPolicy(tiny_llama(len(tokenizer), 64, 2, 2, max_context=512), tokenizer, device="cpu").save(tmp_path / "model")
    command = [sys.executable, "-m", "sandlot.cli", "eval", "Corridor", "--policy", f"vllm:{tmp_path / 'model'}"]
    command += ["--tasks", "3", "--out", str(tmp_path / "runs"), "-k", "rooms=3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    (run,) = (tmp_path / "runs").iterdir()
    assert len(list(RunFolder(run).trajectories())) == 3


def test_three_steps_against_a_server_with_adapters_ahead_of_the_learner(tmp_path: Path) -> None:
    env = make("sandlot/Corridor-v0", rooms=3)
    observation, info = env.reset(seed=0)
    tokenizer = build_word_tokenizer([observation, info["instruction"], " ".join(info["admissible"])])
    HFPolicy(tiny_llama(len(tokenizer), 64, 2, 2, max_context=512), tokenizer, device="cpu").save(tmp_path / "model")
    with serve(tmp_path / "model", "--enable-lora", "--max-lora-rank", "8") as url:
        arguments = ["--model", str(tmp_path / "model"), "--steps", "3", "-s", "engine=vllm", "-s", "demonstrations=0"]
        arguments += ["-s", f"vllm={{url='{url}',adapters=true}}", "-s", "lora=4", "-s", "mode=ahead"]
        run = train(tmp_path, *arguments)
    check(run, 3)
    assert max(row["rollout/staleness"] for row in run.metrics()) == 1
