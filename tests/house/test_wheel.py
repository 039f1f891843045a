"""What is shipped: the wheel holds every module, and each of them can be imported from it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from tree import FLOORS, ROOT, module_name, sources

# Modules may be skipped for want of these only; everything else is installed wherever the tests run.
OPTIONAL = {"vllm", "ray"}

IMPORT_ALL = """
import importlib, json, pkgutil, sandlot
found, missing, broken = [], {}, {}
for module in pkgutil.walk_packages(sandlot.__path__, "sandlot."):
    found.append(module.name)
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        missing[module.name] = error.name
    except BaseException as error:
        broken[module.name] = repr(error)
print(json.dumps({"where": sandlot.__file__, "found": found, "missing": missing, "broken": broken}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing appears in the checkout."""
    copy = tmp_path_factory.mktemp("source")
    for folder in (*FLOORS, "sandlot"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    out = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(out),
        str(copy),
    ]
    subprocess.run(command, check=True)
    return next(out.glob("sandlot-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh venv with the wheel, which borrows its dependencies from this one (but not its sandlot)."""
    venv = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    python = venv / "bin" / "python"
    install = [
        sys.executable,
        "-m",
        "pip",
        f"--python={python}",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        str(wheel),
    ]
    subprocess.run(install, check=True)
    site = Path(
        subprocess.check_output(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
        ).strip()
    )
    # A path on a line of its own is searched, but its .pth files, the editable install among them, are not read.
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def run(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONNOUSERSITE": "1", "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None)
    return subprocess.run(
        [python, *arguments], capture_output=True, text=True, cwd=python.parent, env=environment, check=False
    )


def test_wheel_holds_every_module_and_nothing_else(wheel: Path) -> None:
    expected = {module_name(path) for folder in (*FLOORS, "sandlot") for path in sources(folder)}
    names = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".py")]
    shipped = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in names}
    assert shipped == expected
    assert "sandlot/py.typed" in zipfile.ZipFile(wheel).namelist()


def test_every_module_imports_from_the_wheel(installed: Path) -> None:
    done = run(installed, "-c", IMPORT_ALL)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert Path(result["where"]).is_relative_to(installed.parent.parent)
    assert result["broken"] == {}
    assert {name.split(".")[0] for name in result["missing"].values()} <= OPTIONAL, result["missing"]
    assert len(result["found"]) > 30


def test_command_and_gymnasium_work_from_the_wheel(installed: Path) -> None:
    listed = run(installed.parent / "python", str(installed.parent / "sandlot"), "list", "--json")
    assert listed.returncode == 0, listed.stderr
    assert "sandlot/Corridor-v0" in {row["id"] for row in json.loads(listed.stdout)}
    made = run(
        installed, "-c", "import gymnasium; print(gymnasium.make('sandlot:sandlot/Corridor-v0').reset(seed=0)[0])"
    )
    assert made.stdout.startswith("You are in room 1"), made.stderr
