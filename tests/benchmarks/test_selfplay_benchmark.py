"""The benchmark of self-play measures, and finds nothing left."""

from __future__ import annotations

import runpy
import tempfile
from pathlib import Path

import pytest

from sandlot.sandboxes.choose import probe
from sandlot.sandboxes.docker.daemon import PrivateDaemon

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "selfplay.py"


def test_it_measures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # what others leave in the usual one is no trace of ours
    if not probe("namespace").works:
        pytest.skip("no namespace sandbox here")
    parts = runpy.run_path(str(BENCHMARK))
    speeds = parts["speeds"]("namespace", 1, 0.02)
    assert len(speeds) == 5 and speeds["in this process"] > speeds["container (namespace), a command each step"] > 0
    found = parts["live"]("namespace", 3, 60)
    assert found["left"] == "nothing" and found["processes"] >= 3 and 0 < found["MB each"] < 64


@pytest.mark.docker
@pytest.mark.slow
def test_it_measures_docker_beside_its_own_package(docker_url: str, base_rootfs: Path) -> None:
    parts = runpy.run_path(str(BENCHMARK))
    speeds = parts["speeds"]("docker", 1, 0.02)
    assert len(speeds) == 6 and 0 < speeds[parts["PLAIN"]] < speeds["sandbox (docker), runner"]
    assert parts["starts"]("docker", 1)[parts["PLAIN"]] > 0


def test_without_docker_it_says_why_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    monkeypatch.setattr(PrivateDaemon, "why_not", staticmethod(lambda: "starting a Docker daemon needs root"))
    report = runpy.run_path(str(BENCHMARK))["main"](["--backends", "docker"])
    assert list(report["docker"]) == ["left out"] and "left out:" in capsys.readouterr().out
