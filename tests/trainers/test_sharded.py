"""Two processes give the numbers of one: the same episodes, losses and gradient norms, also after a resume."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandlot.envs.core.errors import InvalidArgument
from sandlot.harness.policies.tabular import TabularPolicy
from sandlot.trainers.sharded import Ranks, ShardedPolicy, ranks

SCRIPT = Path(__file__).parent / "sharded_run.py"


def history(folder: Path, *launcher: str) -> dict[str, list[dict[str, float]]]:
    folder.mkdir()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, *launcher, str(SCRIPT), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / "history.json").read_text())


def test_two_processes_give_the_numbers_of_one(tmp_path: Path) -> None:
    alone = history(tmp_path / "one")
    both = history(tmp_path / "two", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    for name, steps in alone.items():
        assert len(steps) == 3
        # in bfloat16 the sums of two halves are rounded twice, and later steps play other episodes
        relative, absolute = (0.05, 5e-3) if name == "coarse" else (1e-3, 2e-5)
        steps = steps[:1] if name == "coarse" else steps
        for one, two in zip(steps, both[name], strict=name != "coarse"):
            for key, value in one.items():
                if not key.startswith("time/"):
                    assert two[key] == pytest.approx(value, rel=relative, abs=absolute), (name, key)
        assert steps[0]["update/grad_norm"] > 0 and steps[0]["rollout/episodes"] == 12


def test_alone_is_alone() -> None:
    assert ranks() == Ranks(0, 1)
    assert Ranks().gather("x") == ["x"] and Ranks().mine([1, 2, 3]) == [1, 2, 3]
    assert Ranks(1, 2).mine([1, 2, 3]) == [2]
    with pytest.raises(InvalidArgument, match="need a language model"):
        ShardedPolicy(TabularPolicy())


@pytest.mark.slow
def test_the_command_line_runs_in_two_processes(tmp_path: Path) -> None:
    """One folder, one voice; episodes of both processes are kept; the model can be loaded."""
    from sandlot.harness.policies.hf import HFPolicy
    from sandlot.harness.runs import RunFolder
    from sandlot.harness.trajectories import read

    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    settings = ("steps=1", "demonstrations=8", "eval_tasks=4", "tiny={d_model = 16, layers = 1}", "threads=1")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "sandlot.cli", "train", "--env", "Corridor", "--model", "tiny", "--out", str(tmp_path)]
    command += [part for setting in settings for part in ("-s", setting)]
    command += ["-r", "groups=2", "-r", "group_size=3"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=280, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    (folder,) = [path for path in tmp_path.iterdir() if path.name.endswith("Corridor-v0")]
    run = RunFolder(folder)
    assert len(run.metrics()) == 1
    assert len(list(run.trajectories())) == len(list(read(folder / "calls" / "trajectories.rank1.jsonl"))) == 3
    assert (folder / "report.html").is_file()
    HFPolicy.load(folder / "model")
    assert done.stdout.count("report   ") == 1
