"""PPO, GRPO and RLOO solve KeyDoor."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "key_door.py"


@pytest.mark.slow
@pytest.mark.behaviour
@pytest.mark.parametrize("recipe", ["ppo", "grpo", "rloo"])
def test_it_is_solved_on_unseen_tasks(monkeypatch: pytest.MonkeyPatch, recipe: str) -> None:
    """Measured over 3 seeds: 0.969 to 0.996 of 256 tasks after, 0.344 to 0.422 before."""
    spec = importlib.util.spec_from_file_location("key_door_benchmark", BENCHMARK)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    solved = module.solve(recipe, seed=0, tasks=128)
    assert solved.before["success"] < 0.5
    assert solved.after["success"] > 0.9
