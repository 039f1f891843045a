"""The sandbox benchmark measures, and finds nothing left."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from sandlot.sandboxes import HostImage, SandboxSpec
from sandlot.sandboxes.choose import make_sandbox, probe

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "sandboxes.py"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("sandbox_benchmark", BENCHMARK)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "COMMANDS", 5)
    return module


@pytest.mark.parametrize(("name", "backend"), [("namespace", "namespace"), ("oci (crun)", "oci")])
def test_rounds_traces_and_memory(
    benchmark: ModuleType, name: str, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (found := probe(backend)).works:
        pytest.skip(f"{found.reason} {found.fix}")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    times = asyncio.run(benchmark.one_round(make_sandbox(backend, SandboxSpec())))
    assert set(times) == {"start", "command", "in a shell", "reset", "close"} and all(
        time > 0 for time in times.values()
    )
    before, after, seconds = asyncio.run(benchmark.open_and_close(name, HostImage(), 5))
    # Earlier tests' processes may still be ending, so that fewer are there afterwards; never more.
    assert benchmark.left_over(before, after) == {} and after["control groups"] == 0 and seconds > 0
    assert benchmark.left_over(after, {**after, "mounts": after["mounts"] + 2}) == {"mounts": 2}
    memory, _ = asyncio.run(benchmark.live_at_once(name, HostImage(), 4))
    assert 0 < memory < 10  # MB, each
