"""The WebShop benchmark runs, and its promises hold: pages 30 times cheaper than the original's way, little memory."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("bs4", reason="the original's way to make pages needs beautifulsoup4")
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "webshop.py"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("webshop_benchmark", BENCHMARK)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_a_page_costs_a_thirtieth_of_the_originals(benchmark: ModuleType, tmp_path: Path) -> None:
    env = benchmark.environment(300, str(tmp_path))
    found = benchmark.pages(env, 25)
    theirs, ours = benchmark.originals_way(found), benchmark.our_way(found)
    assert theirs > 30 * ours
    steps = benchmark.walk(env, 1, 100)["step"]
    assert theirs > 10 * sum(steps) / len(steps)  # the whole step, searches and `info` included; 68 on a quiet machine


def test_environments_and_processes_are_small(benchmark: ModuleType, tmp_path: Path) -> None:
    results, ready = Box(), Ready()
    benchmark.work(300, str(tmp_path), 5, 40, results, ready)
    assert results.found["environment"] < 5  # MB
    assert results.found["speed"] > 500  # steps per second
    assert ready.waited


class Box:
    """What `work` puts its results into when it runs in this process."""

    found: dict[str, float]

    def put(self, found: dict[str, float]) -> None:
        self.found = found


class Ready:
    waited = False

    def wait(self) -> None:
        self.waited = True
