"""Remembered results of read sessions: byte for byte what the engine gives, and never of what could differ."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from hostile_statements import CASES, club
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs.core import EnvironmentFault
from sandlot.envs.sql.backends import outcomes
from sandlot.envs.sql.backends.base import ErrorClass, Result, SqlLimits
from sandlot.envs.sql.backends.database import Database
from sandlot.envs.sql.backends.outcomes import Outcomes, repeatable
from sandlot.envs.sql.backends.sqlite import SqliteBackend

ROOT = Path(__file__).resolve().parents[3]
DATA = Path(os.environ.get("SANDLOT_TEST_DATA", ROOT.parent / "shared" / "data")) / "sql" / "spider_dev"
CLUB = club()
QUICK = SqlLimits(timeout=5.0, operations=1_000_000)
WORDS = """
SELECT FROM WHERE WITH AS VALUES UNION ALL ORDER BY LIMIT GROUP DISTINCT player played game name age id title * ( ) , =
1 0.5 'x' "y" "name" NULL count(*) sum(age) 5 ; -- /* x'00' || p.name player p JOIN USING (id) date('now') '{"a":1}'
""".split()  # noqa: SIM905 (a list of one word a line is no easier to read)


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Outcomes:
    """A memory of the test's own."""
    monkeypatch.setattr(outcomes, "_SHARED", [Outcomes()])
    return Outcomes.shared()


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[SqliteBackend, SqliteBackend]]:
    """One session that remembers, one that does not."""
    remembering, plain = SqliteBackend(), SqliteBackend(remember=False)
    yield remembering, plain
    remembering.close()
    plain.close()


def every_byte(result: Result) -> str:
    return repr([getattr(result, field.name) for field in fields(result) if field.name != "elapsed"])


@pytest.mark.skipif(not (DATA / "questions.jsonl").is_file(), reason=f"no Spider questions in {DATA}")
def test_every_gold_gives_the_same_bytes(pair: tuple[SqliteBackend, SqliteBackend], own: Outcomes) -> None:
    remembering, plain = pair
    questions = [json.loads(line) for line in (DATA / "questions.jsonl").read_text("utf-8").splitlines()]
    databases = {
        name: Database.from_script(name, (DATA / name / "schema.sql").read_text("utf-8"))
        for name in {question["db_id"] for question in questions}
    }
    for question in questions:
        database, gold = databases[question["db_id"]], question["gold"]
        for session in pair:
            session.reset(database)
        first = remembering.execute(gold)
        again, told = remembering.execute(gold), plain.execute(gold)
        assert every_byte(first) == every_byte(again) == every_byte(told), gold
    assert own.hits > 0.95 * len(questions)  # all but those whose texts look like what may differ


@settings(deadline=None, max_examples=100)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(lambda words: " ".join(["SELECT", *words])))
def test_any_statement_gives_the_same_bytes(pair: tuple[SqliteBackend, SqliteBackend], sql: str) -> None:
    remembering, plain = pair
    for session in pair:
        session.reset(CLUB)
    told = every_byte(plain.execute(sql, QUICK))
    assert every_byte(remembering.execute(sql, QUICK)) == told == every_byte(remembering.execute(sql, QUICK))


NEVER = (
    "SELECT random()",
    "SELECT name FROM player ORDER BY RANDOM ()",
    "SELECT hex(randomblob(4))",
    "SELECT date('now')",
    "SELECT date()",
    "SELECT date /* now */ ('n' || 'ow')",
    'SELECT "date"()',
    "SELECT [julianday]('now')",
    "SELECT julianday()",
    "SELECT time('now'), datetime('now', 'localtime')",
    "SELECT strftime('%Y', 'now')",
    "SELECT strftime('%Y')",
    "SELECT unixepoch()",
    "SELECT timediff('now', '2020-01-01')",
    "SELECT CURRENT_DATE",
    "SELECT current_time",
    "SELECT CURRENT_TIMESTAMP FROM player",
    "SELECT changes()",
    "SELECT total_changes()",
    "SELECT last_insert_rowid ()",
    "CREATE TEMP TABLE t(a)",
    "CREATE TEMPORARY VIEW v AS SELECT 1",
    "SELECT * FROM temp.sqlite_master",
    "SELECT * FROM sqlite_temp_master",
    "PRAGMA table_info(player)",
    "SELECT * FROM pragma_table_info('player')",
    "ATTACH ':memory:' AS m",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP TABLE player",
    "DELETE FROM player",
    "BEGIN",
    "EXPLAIN SELECT 1",
    "/* a */ SELECT 1",
    "",
)


@pytest.mark.parametrize("sql", NEVER)
def test_what_might_differ_is_not_remembered(
    pair: tuple[SqliteBackend, SqliteBackend], own: Outcomes, sql: str
) -> None:
    remembering, _ = pair
    remembering.reset(CLUB)
    remembering.execute(sql)
    remembering.execute(sql)
    assert (own.hits, own.used) == (0, 0)
    assert not repeatable(sql, Result())


def test_a_failure_that_may_be_the_machines_is_not_remembered(
    pair: tuple[SqliteBackend, SqliteBackend], own: Outcomes
) -> None:
    remembering, _ = pair
    remembering.reset(CLUB)
    for case in CASES:
        if case.sqlite in ("timeout", "too_big"):
            result = remembering.execute(case.sql, SqlLimits(timeout=5.0, operations=100_000))
            assert result.error_class in outcomes.UNSURE
    assert own.used == 0
    assert remembering.execute("SELECT nope FROM player").error_class is ErrorClass.NO_COLUMN
    assert own.used > 0, "that a column is missing is sure"


def test_write_sessions_neither_read_nor_leave_anything(own: Outcomes) -> None:
    reader, writer = SqliteBackend(), SqliteBackend()
    asked = "SELECT count(*) FROM played"
    reader.reset(CLUB)
    assert reader.execute(asked).rows == ((15,),)
    writer.reset(CLUB, write=True)
    writer.execute("DELETE FROM played WHERE game_id = 12")  # 5 players
    assert writer.execute(asked).rows == ((10,),)
    assert own.hits == 0
    assert reader.execute(asked).rows == ((15,),) and own.hits == 1
    writer.reset(CLUB)  # the same session, reading now
    assert writer.execute(asked).rows == ((15,),) and own.hits == 2
    writer.reset(CLUB, write=True)
    writer.execute("DELETE FROM played")
    assert writer.execute(asked).rows == ((0,),) and own.hits == 2
    reader.close()
    writer.close()


def test_database_clock_and_limits_are_told_apart(own: Outcomes) -> None:
    script = "CREATE VIEW today AS SELECT date('now') AS day; CREATE TABLE t(a);"
    seen = Database.from_script("seen", script + "INSERT INTO t VALUES (1), (2);")
    other = Database.from_script("seen", script)
    early, late = SqliteBackend(), SqliteBackend(now="2030-06-01 00:00:00")
    for session, day in ((early, "2025-01-15"), (late, "2030-06-01"), (early, "2025-01-15")):
        session.reset(seen)
        assert session.execute("SELECT * FROM today").rows == ((day,),)
    assert early.execute("SELECT a FROM t").rows == ((1,), (2,))
    assert early.execute("SELECT a FROM t", SqlLimits(max_rows=1)).rows == ((1,),)
    early.reset(other)
    assert early.execute("SELECT a FROM t").rows == ()
    early.close()
    late.close()
    with pytest.raises(EnvironmentFault):
        early.execute("SELECT a FROM t")


def test_the_oldest_go_and_the_large_are_not_kept() -> None:
    kept = Outcomes(size=40_000)  # a small result counts as some 1,100 bytes
    for number in range(100):
        kept.keep(number, "SELECT 1", Result(("a",), ("INTEGER",), ((number,),)))
        assert kept.used <= 40_000
    assert kept.get(0) is None
    last = kept.get(99)
    assert last is not None and last.rows == ((99,),)
    kept.keep("large", "SELECT 1", Result(("a",), ("TEXT",), (("x" * 50_000,),)))
    assert kept.get("large") is None and kept.get(99) is not None
