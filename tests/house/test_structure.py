"""The house rules that a machine can check: who imports whom, what an import costs, how long a file may be."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from tree import FLOORS, ROOT, code_lines, module_name, sources

HEAVY = ("torch", "transformers", "textworld", "alfworld", "selenium", "docker", "trl", "matplotlib", "pandas", "rich")


def imported(path: Path) -> set[str]:
    """Absolute names of everything that a file imports, wherever in the file."""
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            names.update(f"{stem}.{alias.name}" for alias in node.names)
    return names


@pytest.mark.parametrize("floor", FLOORS)
def test_imports_run_downwards_only(floor: str) -> None:
    allowed = FLOORS[: FLOORS.index(floor) + 1]
    for path in sources(floor):
        for name in imported(path):
            parts = name.split(".")
            if parts[0] == "sandlot":
                assert len(parts) > 1 and parts[1] in allowed, f"{path.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize("floor", FLOORS)
def test_floors_import_relatively(floor: str) -> None:
    for path in sources(floor):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names.append(node.module or "")
            for name in names:
                assert name.split(".")[0] != "sandlot", f"{path.relative_to(ROOT)} imports {name}: make it relative"


@pytest.mark.parametrize("module", ["sandlot.envs", "sandlot", "sandlot.cli", "sandlot.harness.loop"])
def test_import_pulls_in_nothing_heavy(module: str) -> None:
    allowed = {"rich"} if module == "sandlot.cli" else set()
    code = f"import {module}, sys; print(*(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= allowed


@pytest.mark.parametrize("module", ["sandlot.envs", "sandlot"])
def test_import_is_quick(module: str) -> None:
    """CPU time of ours on top of Gymnasium and NumPy, in fresh processes; the wall clock of a busy machine lies."""
    code = "import time, gymnasium, numpy; begin = time.process_time(); import {}; print(time.process_time() - begin)"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    run = partial(subprocess.run, capture_output=True, text=True, check=True, env=environment)
    seconds = []
    for _ in range(7):
        seconds.append(float(run([sys.executable, "-c", code.format(module)]).stdout))
        if seconds[-1] < 0.1:
            break
    assert min(seconds) < 0.1, seconds


def test_files_are_short() -> None:
    """An environment's file has at most 300 lines of code, a published system's and the training loop's at most 150."""
    limits = {path: 300 for path in sources("envs") if "core" not in path.relative_to(ROOT).parts}
    limits |= dict.fromkeys(sources("trainers/systems"), 150)
    limits[ROOT / "trainers" / "loop.py"] = 150
    assert not {str(path.relative_to(ROOT)): code_lines(path) for path in limits if code_lines(path) > limits[path]}


def test_no_grab_bags() -> None:
    names = {path.name for folder in (*FLOORS, "sandlot") for path in sources(folder)}
    assert not names & {"utils.py", "util.py", "helpers.py", "misc.py", "common.py"}


def test_nothing_is_left_open() -> None:
    for folder in (*FLOORS, "sandlot", "benchmarks", "scripts"):
        for path in sources(folder):
            text = path.read_text(encoding="utf-8")
            marks = re.search(r"#.*\b(TODO|FIXME|XXX)\b|\b(TODO|FIXME):|\bNotImplementedError\b", text)
            assert not marks, f"{marks[0]} in {path.relative_to(ROOT)}"


def test_code_lines_counts_code_only(tmp_path: Path) -> None:
    path = tmp_path / "sample.py"
    path.write_text(
        '"""Doc.\n\nMore.\n"""\n\n# comment\nx = 1  # code\n\n\ndef f():\n    """Doc."""\n    return """a\nb"""\n'
    )
    assert code_lines(path) == 4  # x = 1, def f, return and its second line
