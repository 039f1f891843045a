"""The lint catches what was planted for it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from sandlot.envs.sql.generate.lint import dump, lint, lint_change
from sandlot.envs.sql.generate.ties import has_ties

SCRIPT = """
CREATE TABLE cities (id INTEGER PRIMARY KEY, name TEXT, country TEXT, people INTEGER);
INSERT INTO cities VALUES (1, 'Oslo', 'Norway', 700), (2, 'Bergen', 'Norway', 290), (3, 'Lima', 'Peru', 290),
  (4, 'Cusco', 'Peru', 430), (5, 'Quito', 'Ecuador', NULL);
"""


@pytest.fixture
def cities() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.executescript(SCRIPT)
    yield connection
    connection.close()


@pytest.mark.parametrize(
    ("fault", "gold"),
    [
        ("fails", "SELECT nothing FROM cities"),
        ("empty", "SELECT name FROM cities WHERE people > 9000"),
        ("empty", "SELECT MAX(people) FROM cities WHERE country = 'Chile'"),  # one row, but NULL
        ("trivial", "SELECT COUNT(*) FROM cities WHERE name = 'Oslo'"),  # SELECT 1 gives the same
        ("trivial", "SELECT 0"),
        ("trivial", "SELECT id, name, country, people FROM cities"),  # SELECT * gives the same
        ("trivial", "SELECT country FROM cities WHERE country = 'Peru'"),  # the answer stands in the question
        ("tie", "SELECT name FROM cities WHERE people > 0 ORDER BY people LIMIT 1"),  # Bergen or Lima
        ("tie", "SELECT name FROM cities WHERE people > 0 ORDER BY people"),  # their order is chance
        ("tie", "SELECT name FROM cities LIMIT 2"),
        ("tie", "SELECT country, COUNT(*) AS n FROM cities GROUP BY country ORDER BY n DESC LIMIT 1"),
        ("tie", "SELECT country, COUNT(*) FROM cities GROUP BY country ORDER BY 2"),
        ("tie", "SELECT DISTINCT country FROM cities ORDER BY people"),  # which of a country's rows counts?
        (None, "SELECT name FROM cities WHERE country = 'Peru'"),
        (None, "SELECT name FROM cities ORDER BY people DESC LIMIT 2"),
        (None, "SELECT name FROM cities ORDER BY name"),
        (None, "SELECT people FROM cities WHERE people > 0 ORDER BY people LIMIT 1"),  # 290 either way
        (None, "SELECT country FROM cities UNION SELECT name FROM cities ORDER BY country"),
        (None, "SELECT COUNT(*) FROM cities"),
    ],
)
def test_planted_questions(cities: sqlite3.Connection, fault: str | None, gold: str) -> None:
    assert lint(gold, cities) == fault


def test_a_condition_that_changes_nothing_is_caught(cities: sqlite3.Connection) -> None:
    gold = "SELECT name FROM cities WHERE country = 'Norway' AND id < 3"
    assert lint(gold, cities, ["SELECT name FROM cities WHERE id < 3"]) == "vacuous"
    assert lint(gold, cities, ["SELECT name FROM cities WHERE id < 4"]) is None


@pytest.mark.parametrize(
    ("fault", "gold"),
    [
        ("fails", ["UPDATE nothing SET a = 1"]),
        ("fails", ["UPDATE cities SET people = 1", "INSERT INTO cities VALUES (1, 'x', 'y', 2)"]),
        ("no-op", ["DELETE FROM cities WHERE id > 9"]),
        ("no-op", ["UPDATE cities SET country = 'Peru' WHERE country = 'Peru'"]),
        ("vacuous", ["DELETE FROM cities WHERE id > 0"]),
        (None, ["DELETE FROM cities WHERE country = 'Peru'"]),
        (None, ["ALTER TABLE cities ADD COLUMN seen INTEGER"]),
        (None, ["DROP TABLE cities"]),
        (None, ["CREATE VIEW big AS SELECT * FROM cities WHERE people > 400"]),
    ],
)
def test_planted_changes(cities: sqlite3.Connection, fault: str | None, gold: list[str]) -> None:
    before = dump(cities)
    assert lint_change(gold, cities, [["DELETE FROM cities"]]) == fault
    assert dump(cities) == before


def test_ties_only_count_where_they_show(cities: sqlite3.Connection) -> None:
    assert has_ties("SELECT name FROM cities ORDER BY people DESC LIMIT 3", cities)  # places 3 and 4 are equal
    assert not has_ties("SELECT name FROM cities ORDER BY people DESC LIMIT 2", cities)
    assert not has_ties("SELECT name FROM cities WHERE id IN (SELECT id FROM cities ORDER BY people LIMIT 1)", cities)
    assert not has_ties("SELECT name FROM cities LIMIT 9", cities)
