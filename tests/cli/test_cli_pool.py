"""`sandlot pool`: what it shows, and what it says of bad programs and wrong names."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from sandlot.cli import app
from sandlot.envs.selfplay.pool import STARTER, Pool, starter

SIGNS = STARTER / "train" / "signs.toml"


def run(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["pool", *map(str, arguments)], env={"COLUMNS": "200"})
    return result.exit_code, result.output


def test_the_shipped_pool_is_shown() -> None:
    code, text = run("list")
    assert code == 0 and all(name in text for name in starter())
    name = next(iter(starter()))
    code, text = run("show", name, "--source")
    assert code == 0 and starter()[name].program.manifest.title in text and "class Game" in text
    code, text = run("show", "nothing")
    assert code == 2 and "sandlot pool list" in text


def test_programs_are_judged_and_kept(tmp_path: Path) -> None:
    bad = tmp_path / "programs" / "bad.toml"
    bad.parent.mkdir()
    bad.write_text(SIGNS.read_text().replace("import random", "import random, os"))
    (bad.parent / "good.toml").write_text(SIGNS.read_text())
    code, text = run("check", bad.parent, "--pool", tmp_path / "pool")
    assert code == 1 and "[import] env.py: 'os' may not be imported (line 1)" in text
    assert "2 programs, 1 with something wrong" in text
    with Pool.open(tmp_path / "pool") as pool:
        assert len(pool.ids()) == 1 and [entry.outcome for entry in pool.memory(9)] == ["import", "accepted"]
    code, text = run("show", pool.ids()[0], tmp_path / "pool")
    assert code == 0 and "Measured by the gates" in text
    assert run("list", tmp_path / "none")[0] == 2
