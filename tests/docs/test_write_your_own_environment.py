"""The page "write your own environment": its code runs as it stands, the first block as the module it says it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "write_your_own_environment.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def _run(folder: Path, code: str) -> str:
    (folder / "shelf.py").write_text(BLOCKS[0], encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_environment_conforms(tmp_path: Path) -> None:
    output = _run(tmp_path, BLOCKS[1])
    assert output.strip() == "Shelf-v0: 25 passed, 0 failed, 0 skipped"
    assert output.strip() in PAGE.read_text(encoding="utf-8")


def test_it_registers_and_runs_in_two_processes(tmp_path: Path) -> None:
    output = _run(tmp_path, BLOCKS[2])
    assert output.count("On the shelf: ") == 2
    assert "'done'" in output


def test_it_is_under_sixty_lines_without_the_docstring() -> None:
    code = re.sub(r'""".*?"""', "", BLOCKS[0], flags=re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) < 60
