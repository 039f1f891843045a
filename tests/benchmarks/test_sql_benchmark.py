"""The SQL benchmark runs and keeps its promises: resets a tenth of a file copy, few wrong answers accepted."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest

from sandlot.envs.sql.backends.database import Database
from sandlot.envs.sql.backends.sqlite import SqliteBackend
from sandlot.envs.sql.scoring.judge import Judge

pytest.importorskip("sqlglot", reason="mutants are made with sqlglot")
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "sql.py"
CLUB = Database.from_script(
    "club",
    "CREATE TABLE player(id INTEGER PRIMARY KEY, name TEXT, age INTEGER);"
    "INSERT INTO player VALUES (1, 'Ana', 31), (2, 'Bo', 25), (3, 'Cy', 25), (4, 'Di', 19), (5, 'Ed', 40),"
    "(6, 'Fay', 7);",
)
TASKS = [
    (CLUB, "SELECT name FROM player WHERE age > 20"),
    (CLUB, "SELECT age, count(*) FROM player GROUP BY age HAVING count(*) > 1"),
    (CLUB, "SELECT name FROM player ORDER BY age DESC LIMIT 1"),
    (CLUB, "SELECT DISTINCT age FROM player ORDER BY age"),
]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("sql_benchmark", BENCHMARK)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_resets_cost_a_tenth_of_a_file_copy(benchmark: ModuleType, tmp_path: Path) -> None:
    questions = [
        benchmark.Question(number, CLUB, "?", f"{gold} /* {number} */" if number >= len(TASKS) else gold)
        for number, (_, gold) in enumerate(TASKS * 12)
    ]
    benchmark.spider(tmp_path, questions)
    contenders = {
        "read": benchmark.Session(SqliteBackend(), Judge(SqliteBackend(), copies=0), write=False),
        "write": benchmark.Session(SqliteBackend(), Judge(SqliteBackend(), copies=0), write=True),
        "environment": benchmark.Environment(tmp_path / "spider", copies=1),
        "copy": benchmark.Copying(tmp_path, tmp_path / "episode.sqlite"),
    }
    times = benchmark.speed(contenders, questions, 8, random.Random(0))
    found = benchmark.summary(times, 0.5)
    for contender in contenders.values():
        contender.close()
    assert sorted(found) == sorted(f"{name}, {state}" for name in contenders for state in ("cold", "warm"))
    for state in ("cold", "warm"):
        assert found[f"copy, {state}"]["reset"] > 10 * found[f"read, {state}"]["reset"]
        assert found[f"copy, {state}"]["reset"] > 10 * found[f"write, {state}"]["reset"]
    assert found["read, warm"]["later query"] < found["copy, warm"]["later query"]
    assert benchmark.speed_table(times, "x", 0.1).row_count == 8


def test_the_judge_is_the_strictest(benchmark: ModuleType) -> None:
    table, total = benchmark.strictness(TASKS)
    columns = [list(column.cells) for column in table.columns]
    wrong = dict(zip(columns[0], map(int, columns[1])))
    assert total["wrong"] >= 8
    assert wrong["Judge, 4 copies"] <= wrong["Judge, no copies"] <= wrong["bird_ex"]
    assert wrong["Judge, 4 copies"] == min(wrong.values())
