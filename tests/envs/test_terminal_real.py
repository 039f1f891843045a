"""The real Terminal-Bench tasks, unmodified, and generated ones: oracle 1 and no-op 0 on every backend."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandlot.envs.terminal.env import TerminalEnv
from sandlot.envs.terminal.export import export
from sandlot.envs.terminal.generator import generate
from sandlot.sandboxes.errors import SandboxUnavailable

CONFIGURED = os.environ.get("SANDLOT_TEST_DATA")
DATA = Path(CONFIGURED) if CONFIGURED else Path(__file__).parents[3] / "shared" / "data"
REAL = DATA / "terminal" / "tb1"
BACKENDS = ["namespace", "oci", pytest.param("docker", marks=pytest.mark.docker)]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "docker":
        monkeypatch.setenv("DOCKER_HOST", request.getfixturevalue("docker_url"))
    return request.param


@pytest.fixture
def make(backend: str, base_rootfs: Path) -> Iterator[object]:
    made: list[TerminalEnv] = []

    def build(**arguments: object) -> TerminalEnv:
        env = TerminalEnv(backend=backend, image=str(base_rootfs), max_steps=40, timeout=120, **arguments)  # type: ignore[arg-type]
        made.append(env)
        try:
            env.reset(seed=0)
        except SandboxUnavailable as error:
            pytest.skip(f"no {backend} backend here: {error}")
        return env

    yield build
    for env in made:
        env.close()


def both_ways(env: TerminalEnv, task: str) -> tuple[float, float]:
    """Scores of the oracle and of doing nothing."""
    env.reset(options={"task": task})
    nothing = env.step("submit")[4]["score"]
    env.reset(options={"task": task})
    info = {"score": -1.0}
    for action in env.oracle():
        info = env.step(action)[4]
    return info["score"], nothing


@pytest.mark.skipif(not REAL.is_dir(), reason=f"no Terminal-Bench tasks in {REAL} (SANDLOT_TEST_DATA)")
def test_real_tasks_score_one_and_zero(make) -> None:
    env = make(source=REAL, split="test")
    assert len(env.tasks) >= 4
    assert {task.id: both_ways(env, task.id) for task in env.tasks} == {task.id: (1.0, 0.0) for task in env.tasks}


def test_generated_and_exported_tasks_score_the_same(make, tmp_path: Path) -> None:
    env = make()
    for family, level in (("permissions", 1), ("git", 3)):
        assert both_ways(env, f"terminal/gen1/test/{family}-{level}/3") == (1.0, 0.0), family
    export(generate("sqlite", 1, 2), tmp_path / "harbor", "harbor")
    folders = make(source=tmp_path, split="test")
    for task in folders.tasks:
        assert both_ways(folders, task.id) == (1.0, 0.0), task.id


def test_state_keys_and_snapshots(make) -> None:
    env = make(family="permissions", level=1)
    key = env.step("mkdir -p /tmp/x && cd /tmp/x && echo hi > y && X=3")[4]["state_key"]
    branch = env.snapshot()
    expected = env.step("pwd; cat y; echo $X")
    env.step("rm -rf /tmp/x")
    assert env.restore(branch)[1]["state_key"] == key
    assert env.step("pwd; cat y; echo $X") == expected
    assert expected[0] == "/tmp/x\nhi\n3"
