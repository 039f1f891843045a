"""Type-check the whole project with basedpyright.

The four floors lie at the repository's root but are imported as `sandlot.envs`, `sandlot.harness` …, which a type
checker cannot see. So they are copied to where their names say they are, checked there, and the paths mapped back.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLOORS = ("sandboxes", "envs", "harness", "trainers")
BESIDE = ("tests", "benchmarks", "scripts", "docs")


def lay_out(copy: Path) -> None:
    """Copy the code into the folder `copy` as a package tree, with the settings of pyproject.toml."""
    python_only = shutil.ignore_patterns("__pycache__", "*.json", "*.html", "*.jsonl", "*.png")
    shutil.copytree(ROOT / "sandlot", copy / "sandlot", ignore=python_only)
    for floor in FLOORS:
        shutil.copytree(ROOT / floor, copy / "sandlot" / floor, ignore=python_only)
    for folder in BESIDE:
        if (ROOT / folder).is_dir():
            shutil.copytree(ROOT / folder, copy / folder, ignore=python_only)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["basedpyright"]
    settings["include"] = ["."]
    (copy / "pyrightconfig.json").write_text(json.dumps(settings))


def mapped_back(text: str, copy: Path) -> str:
    """`text` with the copy's paths replaced by the originals'."""
    for floor in FLOORS:
        text = text.replace(f"{copy}/sandlot/{floor}", f"{ROOT}/{floor}")
    return text.replace(str(copy), str(ROOT))


def main() -> int:
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="typing-", dir=ROOT / "build") as folder:
        copy = Path(folder)
        lay_out(copy)
        command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--project", folder]
        command += sys.argv[1:]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        print(mapped_back(done.stdout, copy), end="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
