"""What the documentation promises: its commands and programs run, its tables are current, its links lead somewhere."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandlot.envs.core.registry import REGISTRY
from sandlot.trainers.methods import recipe_names

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = [
    ROOT / "README.md",
    ROOT / "docs" / "index.md",
    ROOT / "docs" / "quickstart.md",
    ROOT / "docs" / "training.md",
    ROOT / "docs" / "objectives.md",
    ROOT / "docs" / "scaling.md",
    ROOT / "docs" / "engines.md",
    ROOT / "docs" / "sandboxes.md",
    ROOT / "docs" / "webshop.md",
    ROOT / "docs" / "write_your_own_recipe.md",
    ROOT / "docs" / "terminal.md",
    ROOT / "docs" / "write_a_terminal_task.md",
    ROOT / "docs" / "smarthome_engine.md",
    ROOT / "docs" / "smarthome_tasks.md",
    ROOT / "docs" / "games.md",
    ROOT / "docs" / "selfplay.md",
    ROOT / "docs" / "sql.md",
    ROOT / "docs" / "sql_scoring.md",
]
HEADINGS = (
    "Description",
    "Action Space",
    "Observation Space",
    "Starting State",
    "Rewards",
    "Episode End",
    "Information",
    "Privileged Information",
    "State Key",
    "Arguments",
    "Source and Licence",
    "Version History",
)


@dataclass
class Block:
    page: Path
    language: str
    code: str
    skipped: bool
    file: str
    """Where the page says that the block belongs, from the root of a checkout; "" for what is run."""


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    mark = r"(?:<!-- (?:(not run by the tests:)[^>]*|file: (\S+)) -->\n)?"
    found = re.finditer(mark + r"```(\w+)\n(.*?)```", text, re.DOTALL)
    return [Block(page, match[3], match[4], bool(match[1]), match[2] or "") for match in found]


def lay_out(checkout: Path) -> None:
    """A checkout whose trainers and their tests can be added to: copies of these, and links to the rest."""
    shutil.copytree(ROOT / "trainers", checkout / "trainers")
    (checkout / "tests" / "trainers" / "systems").mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "trainers" / "conftest.py", checkout / "tests" / "trainers")
    (checkout / "sandlot").mkdir()
    for path in [*(ROOT / "sandlot").iterdir(), *(ROOT / name for name in ("sandboxes", "envs", "harness"))]:
        (checkout / "sandlot" / path.name).symlink_to(path)
    (checkout / "sandlot" / "trainers").symlink_to(checkout / "trainers")


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_commands_and_programs_run(page: Path, tmp_path: Path) -> None:
    """In the order of the page, in one fresh folder, as the reader would."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    if any(block.file for block in blocks(page)):
        lay_out(tmp_path)
        environment["PYTHONPATH"] = str(tmp_path)
    for block in blocks(page):
        if block.file:
            (tmp_path / block.file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / block.file).write_text(block.code, encoding="utf-8")
            continue
        if block.skipped or block.language not in ("bash", "python"):
            continue
        lines = block.code.splitlines() if block.language == "bash" else [block.code]
        for line in lines:
            command = shlex.split(line, comments=True) if block.language == "bash" else [sys.executable, "-c", line]
            done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def test_there_is_something_to_run() -> None:
    runnable = [block for page in RUN for block in blocks(page) if not block.skipped]
    assert len([b for b in runnable if b.language == "bash"]) >= 5
    assert len([b for b in runnable if b.language == "python"]) >= 4


def test_generated_pages_are_current() -> None:
    check = [sys.executable, str(ROOT / "scripts" / "generate_docs.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for env_id, entry in REGISTRY.items():
        assert env_id in (ROOT / "README.md").read_text(encoding="utf-8")
        page = (ROOT / "docs" / "envs" / f"{env_id.partition('/')[2]}.md").read_text(encoding="utf-8")
        assert f"- Step limit: {entry.max_episode_steps}\n" in page
        assert tuple(re.findall(r"^## (.+)$", page, re.MULTILINE)) == HEADINGS


def test_changed_missing_and_left_over_pages_are_found_and_put_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "scripts" / "generate_docs.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    shutil.copy(ROOT / "README.md", tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    page, index = tmp_path / "docs" / "envs" / "Corridor-v0.md", tmp_path / "docs" / "systems" / "index.md"
    page.write_text("by hand", encoding="utf-8")
    index.unlink()
    (tmp_path / "docs" / "envs" / "Gone-v0.md").touch()
    assert script.main(["--check"], tmp_path) == 1
    found = {line.split()[0] for line in capsys.readouterr().err.splitlines()}
    assert found == {"docs/envs/Corridor-v0.md", "docs/systems/index.md", "docs/envs/Gone-v0.md"}
    assert script.main([], tmp_path) == 0 == script.main(["--check"], tmp_path)
    assert "A row of rooms" in page.read_text(encoding="utf-8")


def test_the_index_of_recipes_has_all_of_them() -> None:
    text = (ROOT / "docs" / "systems" / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == recipe_names()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_every_page_is_reachable_from_the_index() -> None:
    seen: set[Path] = set()
    todo = [ROOT / "docs" / "index.md"]
    while todo:
        page = todo.pop().resolve()
        if page in seen:
            continue
        seen.add(page)
        targets = re.findall(r"\]\(([^)#\s]+\.md)", page.read_text(encoding="utf-8"))
        todo += [page.parent / target for target in targets if not target.startswith("http")]
    assert {page.resolve() for page in PAGES[1:]} <= seen


@pytest.mark.parametrize("env_id", sorted(REGISTRY))
def test_an_environment_is_documented_under_the_fixed_headings(env_id: str) -> None:
    entry = REGISTRY[env_id]
    found = re.findall(r"^\s*## (.+)$", entry.load().__doc__ or "", re.MULTILINE)
    assert tuple(found) == HEADINGS
