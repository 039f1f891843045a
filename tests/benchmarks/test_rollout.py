"""The rollout benchmark runs, and waiting environments really wait at the same time."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "rollout.py"


def test_the_benchmark_measures_and_sleeping_environments_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("rollout_benchmark", BENCHMARK)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    found = module.measure(repeats=1)
    assert all(found[path] > 0 for path in ("bare", "vector", "inline", "threaded"))
    # One after the other: 64 * 20 ms = 1.28 s per round. A busy machine may take several steps' time, not a quarter.
    assert 0.020 <= found["round"] < 0.32
