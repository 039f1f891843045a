"""The smart home's learning benchmark, very small: imitation, reinforcement, the control, the table and the figure."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "smarthome_learning.py"


@pytest.mark.slow
def test_every_part_runs_on_the_same_held_out_tasks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("smarthome_learning_benchmark", BENCHMARK)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    whole = module.job

    def small(seed: int):
        job = whole(seed)
        sizes = {"demonstrations": 6, "eval_tasks": 8, "steps": 2, "tiny": {"d_model": 16, "layers": 1, "heads": 2}}
        return replace(job, **sizes, recipe_kwargs={**job.recipe_kwargs, "groups": 2})

    monkeypatch.setattr(module, "job", small)
    module.train(tmp_path, 3)
    folder = module.run_of(tmp_path, 3)
    assert folder is not None and module.run_of(tmp_path, 4) is None
    module.more(folder, 3)
    arms = module.outcomes(folder)
    assert set(arms) == {"before", "after", "more"} and {len(solved) for solved in arms.values()} == {8}
    results = json.loads((folder / "results.json").read_text())
    assert sum(arms["after"]) - sum(arms["before"]) == results["gain"]["won"] - results["gain"]["lost"]
    assert sum(arms["before"]) / 8 == results["results"]["before"]["success"]
    assert module.table({3: folder}).row_count == 2
    module.figure({3: folder}, tmp_path / "learning.png")
    assert (tmp_path / "learning.png").read_bytes().startswith(b"\x89PNG")
