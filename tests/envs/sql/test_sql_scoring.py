"""How results are judged: comparison, order and ties, fuzzed copies, states, and the benchmarks' scorers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pytest
from hostile_statements import club
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs.core import InvalidArgument
from sandlot.envs.sql.backends.base import Result
from sandlot.envs.sql.backends.database import Database, Row
from sandlot.envs.sql.backends.sqlite import SqliteBackend
from sandlot.envs.sql.scoring import compat
from sandlot.envs.sql.scoring.compare import Tolerance, compare
from sandlot.envs.sql.scoring.fuzz import copies, fuzzed
from sandlot.envs.sql.scoring.judge import Judge
from sandlot.envs.sql.scoring.mutants import mutants
from sandlot.envs.sql.scoring.order import depends_on_storage, is_ordered, reference
from sandlot.envs.sql.scoring.state import agreeing_tables, compare_states, family

CLUB = club()
GOLD = "SELECT name FROM player WHERE age > (SELECT avg(age) FROM player)"  # avg 121 / 4 = 30.25: Ana and Ed


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    judge = Judge(SqliteBackend())
    yield judge
    judge.close()


@pytest.fixture(scope="module")
def lab() -> Iterator[SqliteBackend]:
    backend = SqliteBackend(foreign_keys=False)  # as the benchmarks connect
    yield backend
    backend.close()


def result(rows: Sequence[Row], width: int | None = None) -> Result:
    count = width if width is not None else len(rows[0]) if rows else 1
    return Result(tuple(f"c{i}" for i in range(count)), ("",) * count, tuple(rows))


def same(pred: Sequence[Row], gold: Sequence[Row], **options: Any) -> bool:
    return compare(result(pred), result(gold), **options).match


# -- comparison -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pred", "gold", "equal"),
    [
        ([(1, "a"), (2, "b")], [(2, "b"), (1, "a")], True),
        ([(1,), (1,)], [(1,)], False),
        ([(1,), (1,), (2,)], [(1,), (2,), (2,)], False),
        ([(1.0,)], [(1,)], True),
        ([(True,)], [(1,)], True),
        ([("1",)], [(1,)], False),
        ([(b"a",)], [("a",)], False),
        ([(None,)], [(None,)], True),
        ([(None,)], [(0,)], False),
        ([(0.1 + 0.2,)], [(0.3,)], True),
        ([(1.000002,)], [(1.0,)], False),  # 2e-6 is more than 1e-6
        ([(1.0000005,)], [(1.0,)], True),
        ([(0.0,)], [(1e-10,)], True),
        ([(2**60 + 1,)], [(2**60,)], False),
        ([(Decimal("1.50"),)], [(1.5,)], True),
        ([(Decimal("100000.01"),)], [(Decimal("100000.02"),)], False),
        ([(Decimal("2.00"),)], [(2,)], True),
        ([(Decimal(2) / 3,)], [(Decimal("0.6666666666666667"),)], True),
        ([(float("inf"),)], [(float("inf"),)], True),
        ([(float("nan"),)], [(float("nan"),)], True),
        ([(10**400,)], [(float("inf"),)], True),
        # Sorted by the first column, the nearly equal numbers would pair the wrong second ones.
        ([(1.0000000001, 5), (1.0, 7)], [(1.0, 5), (1.0000000001, 7)], True),
        ([(1.0000000001, 5), (1.0, 7)], [(1.0, 5), (1.0000000001, 8)], False),
    ],
)
def test_cells_and_multisets(pred: list[Row], gold: list[Row], equal: bool) -> None:
    assert same(pred, gold) == equal == same(gold, pred)


def test_options_of_the_comparison() -> None:
    assert same([(1,), (1,)], [(1,)], multiset=False)
    assert same([("a", 1), ("b", 2)], [(1, "a"), (2, "b")], column_order="permute")
    assert not same([("a", 1), ("b", 2)], [(1, "a"), (2, "b")])
    assert not same([(1, 2), (2, 1)], [(1, 1), (2, 2)], column_order="permute"), "rows must belong together"
    assert not same([(None,)], [(None,)], null_eq=False)
    assert same([(1.234,)], [(1.23,)], decimals=2) and not same([(1.234,)], [(1.23,)])
    assert same([(1.01,)], [(1.0,)], float_rel=0.1)
    assert compare(result([], 2), result([], 1)).reason == "the number of columns differs"
    assert compare(Result(error="no such table: x"), result([(1,)])).reason == "the statement failed: no such table: x"
    assert not compare(Result(("a",), ("",), ((1,),), 1, True), result([(1,)])).match
    assert not compare(result([(1,)]), Result(error="gold")).match


def test_order_counts_between_ties_only() -> None:
    gold, keys = [("a",), ("b",), ("c",)], [(1,), (1,), (2,)]
    assert same([("b",), ("a",), ("c",)], gold, ordered=keys)
    wrong = compare(result([("a",), ("c",), ("b",)]), result(gold), ordered=keys)
    assert wrong == (False, "the rows are right, their order is not")
    assert not same([("a",), ("b",)], gold, ordered=keys)


cells = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([0.5, 1.0, -2.25]), st.sampled_from(["a", "b", ""]))
tables = st.integers(1, 3).flatmap(lambda n: st.lists(st.tuples(*[cells] * n), min_size=1, max_size=6))


@settings(deadline=None, max_examples=60)
@given(tables, st.randoms(use_true_random=False))
def test_comparison_is_reflexive_and_blind_to_order(rows: list[Row], rng: Any) -> None:
    shuffled = list(rows)
    rng.shuffle(shuffled)
    assert same(shuffled, rows) and same(rows, rows, ordered=[(i,) for i in range(len(rows))])
    order = list(range(len(rows[0])))
    rng.shuffle(order)
    assert same([tuple(row[i] for i in order) for row in shuffled], rows, column_order="permute")
    assert not same([*shuffled, shuffled[0]], rows)
    assert not same([(*row, "z") for row in shuffled], rows)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(0, 2)), min_size=1, max_size=8))
def test_small_errors_of_floats_never_count(rows: list[Row]) -> None:
    assert same([(x * (1 + 1e-9), y) for x, y in rows], rows)


# -- order and ties ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "keys"),
    [
        ("SELECT name FROM player", None),
        ("SELECT name FROM player WHERE id IN (SELECT id FROM player ORDER BY age)", None),
        ("SELECT name FROM player ORDER BY age", [(None,), (25,), (25,), (31,), (40,)]),
        ("SELECT name, age a FROM player ORDER BY a DESC", [(40,), (31,), (25,), (25,), (None,)]),
        ("SELECT name n FROM player ORDER BY length(n), 1", [(2, "Bo"), (2, "Cy"), (2, "Di"), (2, "Ed"), (3, "Ana")]),
        ("SELECT * FROM player ORDER BY age % 2 DESC, 2", [(1, "Ana"), (1, "Bo"), (1, "Cy"), (0, "Ed"), (None, "Di")]),
        ("SELECT age, count(*) FROM player GROUP BY age ORDER BY count(*) DESC LIMIT 1", [(2,)]),
        ("SELECT DISTINCT age FROM player ORDER BY age LIMIT 2", [(None,), (25,)]),
        ("SELECT id FROM player UNION SELECT id FROM game ORDER BY id DESC LIMIT 3", [(12,), (11,), (10,)]),
    ],
)
def test_sort_keys_are_found(lab: SqliteBackend, sql: str, keys: list[Row] | None) -> None:
    lab.reset(CLUB)
    found = reference(lab, sql)
    assert (found.keys if found.keys is None else list(found.keys)) == keys
    assert found.result.rows == lab.execute(sql).rows or found.keys is not None
    assert len(found.result.columns) == len(lab.execute(sql).columns), "hidden columns stay hidden"
    assert is_ordered(sql) == (keys is not None)


@pytest.mark.parametrize(
    ("sql", "tied"),
    [
        ("SELECT name FROM player ORDER BY age LIMIT 2", True),  # Bo or Cy, both 25
        ("SELECT name FROM player ORDER BY age LIMIT 3", False),
        ("SELECT age FROM player ORDER BY age LIMIT 2", False),  # 25 either way
        ("SELECT name FROM player ORDER BY age, id LIMIT 2", False),
        ("SELECT name FROM player ORDER BY age LIMIT 2 OFFSET 2", True),
        ("SELECT name FROM player LIMIT 2", True),
        ("SELECT name FROM player LIMIT 5", False),
    ],
)
def test_limits_that_a_tie_decides_are_found(lab: SqliteBackend, sql: str, tied: bool) -> None:
    lab.reset(CLUB)
    assert reference(lab, sql).tie_decided == tied


def test_answers_that_hang_on_storage_are_found() -> None:
    assert depends_on_storage(CLUB, "SELECT name FROM player WHERE id IN (SELECT player_id FROM played LIMIT 1)")
    assert not depends_on_storage(CLUB, "SELECT name FROM player")


# -- fuzzed copies ----------------------------------------------------------------------------------------------------


def test_copies_keep_every_constraint_and_differ() -> None:
    first, second = fuzzed(CLUB, 0), fuzzed(CLUB, 1)
    assert first.image == fuzzed(club(), 0).image != second.image
    for copy in (first, second):
        connection = copy.open()
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("SELECT count(*) FROM player").fetchone()[0] <= 5
        ages = [row[0] for row in connection.execute("SELECT age FROM player")]
        assert set(ages) <= {31, 25, None, 40} and ages.count(25) <= 2
        connection.close()
    assert copy.schema == CLUB.schema
    assert [each.name for each in copies(CLUB, 2)] == ["club", "club~0", "club~1"]
    assert copies(Database("own", script="SELECT 1", dialect="postgres"), 4)[0].name == "own"
    with pytest.raises(InvalidArgument):
        fuzzed(Database("own", script="SELECT 1", dialect="postgres"), 0)


def test_copies_find_answers_that_fit_by_chance(judge: Judge) -> None:
    lucky = "SELECT name FROM player WHERE id IN (1, 5)"
    assert Judge(judge.backend, copies=0).answer(CLUB, GOLD, lucky).match
    verdict = judge.answer(CLUB, GOLD, lucky)
    assert not verdict.match and "copy of the database" in verdict.reason


def test_an_empty_reference_proves_nothing(judge: Judge) -> None:
    nobody = "SELECT name FROM player WHERE age > 99"
    assert not judge.answer(CLUB, nobody, nobody).match
    assert not judge.answer(CLUB, nobody, "SELECT 1 WHERE 0").match
    assert Judge(judge.backend, allow_empty=True).answer(CLUB, nobody, nobody).match


# -- what must not score ----------------------------------------------------------------------------------------------

HACKS = (
    "DELETE FROM player",
    "DELETE FROM player WHERE 0",
    "DROP TABLE player",
    "ALTER TABLE player RENAME TO gone",
    "CREATE VIEW v AS SELECT 1",
    "COMMIT",
    "PRAGMA user_version = 7",
    f"{GOLD}; DROP TABLE player",
    "SELECT name FROM player, (SELECT 1 UNION ALL SELECT 2) WHERE age > (SELECT avg(age) FROM player)",
    "SELECT * FROM player WHERE age > (SELECT avg(age) FROM player)",
    "SELECT 1",
    "SELECT * FROM player",
    "SELECT name FROM player WHERE 0",
    "SELECT sql FROM sqlite_master",
    "SELECT 'Ana' UNION SELECT 'Ed'",
    "",
    "-- " + GOLD,
    "EXPLAIN " + GOLD,
)


@pytest.mark.parametrize("hack", HACKS)
def test_hacks_score_nothing(judge: Judge, hack: str) -> None:
    assert judge.answer(CLUB, GOLD, GOLD).match
    assert not judge.answer(CLUB, GOLD, hack).match
    assert judge.answer(CLUB, GOLD, GOLD).match


# -- changed databases ------------------------------------------------------------------------------------------------

WRITES = ["UPDATE player SET age = age + 1 WHERE age = 25", "DELETE FROM played WHERE game_id = 12"]


def left(*statements: str, database: Database = CLUB) -> Any:
    backend = SqliteBackend()
    backend.reset(database, write=True)
    for sql in statements:
        assert backend.execute(sql).ok, sql
    state = backend.table_state()
    backend.close()
    return state


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        ((WRITES[1], "UPDATE player SET age = 26 WHERE id IN (2, 3)"), ""),
        ((), "played: the number of rows differs"),
        ((WRITES[0],), "played: the number of rows differs"),
        ((*WRITES, "INSERT INTO game VALUES (13, 'darts')"), "game: the number of rows differs"),
        ((*WRITES, "UPDATE game SET title = 'Go' WHERE id = 11"), "game: the rows differ"),
        ((*WRITES, "CREATE TABLE extra(a)"), "extra should not be there"),
        ((*WRITES, "DROP TABLE played", "DROP TABLE game"), "game is missing"),
        ((*WRITES, "ALTER TABLE game RENAME COLUMN title TO name"), "game: the columns differ"),
        ((*WRITES, "CREATE VIEW v AS SELECT 1 AS a"), "v should not be there"),
    ],
)
def test_the_whole_database_is_judged(judge: Judge, statements: tuple[str, ...], reason: str) -> None:
    verdict = judge.written(CLUB, WRITES, left(*statements))
    assert verdict == (not reason, reason or "the databases are equal")


def test_schemas_are_judged_by_what_requests_name() -> None:
    gold = left("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT UNIQUE, at DATE)")
    for good in (
        "name VARCHAR(20) UNIQUE, id INT PRIMARY KEY, at date",
        "id INTEGER PRIMARY KEY, Name TEXT NOT NULL UNIQUE, at DATE",
    ):
        assert compare_states(left(f"CREATE TABLE T ({good})"), gold).match
    for bad in ("id INTEGER PRIMARY KEY, name TEXT, at DATE", "id INTEGER, name TEXT UNIQUE, at DATE",
                "id INTEGER PRIMARY KEY, name INTEGER UNIQUE, at DATE"):  # fmt: skip
        assert not compare_states(left(f"CREATE TABLE t ({bad})"), gold).match
    assert [family(name) for name in ("VARCHAR(9)", "bigint", "NUMERIC(6,2)", "TIMESTAMP", "DATE", "")] == [
        "text", "integer", "number", "time", "date", ""
    ]  # fmt: skip
    assert not compare_states(left("CREATE VIEW v AS SELECT random() r"), left("CREATE VIEW v AS SELECT 1 r")).match


def test_progress_counts_right_tables_and_none_where_harm_is_done() -> None:
    gold, initial = left(*WRITES), left()
    assert agreeing_tables(initial, gold, initial) == 0
    assert agreeing_tables(left(WRITES[0]), gold, initial) == 0.5
    assert agreeing_tables(gold, gold, initial) == 1
    assert agreeing_tables(left(*WRITES, "INSERT INTO game VALUES (13, 'darts')"), gold, initial) == 0


def test_floats_that_were_computed_otherwise_are_equal() -> None:
    assert compare_states(
        left("UPDATE player SET age = age * 1.1"), left("UPDATE player SET age = age + age / 10.0")
    ).match


def test_a_database_that_grew_too_large_equals_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    many = "WITH RECURSIVE t(x) AS (SELECT 100 UNION ALL SELECT x + 1 FROM t LIMIT 60000) SELECT x FROM t"
    state = left(f"INSERT INTO player(id) {many}", f"CREATE TABLE more AS {many}")
    assert not state.complete and not compare_states(state, state).match


# -- the benchmarks' scorers and their mistakes -----------------------------------------------------------------------

TWICE = "SELECT name FROM player, (SELECT 1 UNION ALL SELECT 2) WHERE age > (SELECT avg(age) FROM player)"


def score(lab: SqliteBackend, name: str, pred: str, gold: str = GOLD, **options: Any) -> float:
    return compat.SCORERS[name](lab, CLUB, pred, gold, **options)


def test_every_scorer_accepts_the_gold_and_rejects_a_wrong_answer(lab: SqliteBackend) -> None:
    for name in compat.SCORERS:
        gold = "DELETE FROM player" if name == "dbbench_md5" else GOLD
        assert score(lab, name, gold, gold) == 1
        assert score(lab, name, "SELECT 'nobody'", gold) == 0 == score(lab, name, "SELEC", gold)


def test_spider_exec_mistakes(lab: SqliteBackend) -> None:
    ages = "SELECT age FROM player WHERE age = 25"
    assert score(lab, "spider_exec", "SELECT DISTINCT age FROM player WHERE age = 25", ages) == 1  # one row for two
    assert score(lab, "spider_exec", "SELECT age, name FROM player", "SELECT name, age FROM player") == 1
    inside = "SELECT name FROM player WHERE id IN (SELECT id FROM player ORDER BY age LIMIT 9)"
    assert score(lab, "spider_exec", "SELECT name FROM player ORDER BY name DESC", inside) == 0  # no order is asked for
    tied = "SELECT name FROM player WHERE age = 25 ORDER BY age"
    assert score(lab, "spider_exec", tied + ", name DESC", tied) == 0  # Bo and Cy tie
    assert score(lab, "spider_exec", "SELECT 0.3", "SELECT 0.1 + 0.2") == 0  # the last bit
    assert score(lab, "spider_exec", "SELECT 1 WHERE 0", "SELECT name FROM player WHERE age > 99") == 1
    assert score(lab, "spider_exec", "SELECT name FROM player WHERE id IN (1, 5)") == 1
    assert score(lab, "spider_exec", "SELECT name FROM player WHERE id IN (1, 5)", copies=copies(CLUB, 4)) == 0
    with pytest.raises(InvalidArgument, match="reference statement fails"):
        score(lab, "spider_exec", GOLD, "SELECT nope FROM player")


def test_bird_ex_mistakes(lab: SqliteBackend) -> None:
    assert score(lab, "bird_ex", "DELETE FROM player") == 1  # the gold then finds nobody, as the prediction did
    assert score(lab, "bird_ex", GOLD) == 1  # … and the next task still has its players
    assert score(lab, "bird_ex", TWICE) == 1
    assert score(lab, "bird_ex", "SELECT name FROM player ORDER BY id", "SELECT name FROM player ORDER BY id DESC") == 1
    assert score(lab, "bird_ex", "SELECT 0.3", "SELECT 0.1 + 0.2") == 0
    assert score(lab, "bird_ex", "DROP TABLE player") == 0
    lab.reset(CLUB)
    assert lab.execute("SELECT count(*) FROM player").rows == ((5,),)


def test_soft_f1_mistakes(lab: SqliteBackend) -> None:
    rows = [(1, "a"), (2, "b"), (3, "c")]
    assert compat.soft_f1(rows, rows) == 1 == compat.soft_f1([], [])
    # Reversed: the middle row meets itself, the others miss: 1 hit, 2 extra, 2 missing; F1 = 1/3.
    assert compat.soft_f1(rows[::-1], rows) == pytest.approx(1 / 3)
    assert compat.soft_f1([(b, a) for a, b in rows], rows) == 1
    # 1 and 1 are both in (1, 2): 2/2 hit; 2 is not in (1, 1): 1/2 missing. P = 1, R = 1 / 1.5, F1 = 0.8.
    assert compat.soft_f1([(1, 1)], [(1, 2)]) == pytest.approx(0.8)
    # One row too many: 1 hit, 1 extra: P = 1/2, R = 1, F1 = 2/3. Duplicates are not counted.
    assert compat.soft_f1([(1,), (2,), (2,)], [(1,)]) == pytest.approx(2 / 3)
    assert score(lab, "bird_soft_f1", TWICE) == 1


def test_bird_interact_mistakes(lab: SqliteBackend) -> None:
    assert score(lab, "bird_interact", TWICE) == 1
    assert score(lab, "bird_interact", "SELECT 0.001", "SELECT 0.004") == 1
    assert score(lab, "bird_interact", "SELECT '2024-01-01 09:00'", "SELECT '2024-01-01 17:30'") == 1
    assert score(lab, "bird_interact", "SELECT 1 WHERE 0", "SELECT 1 WHERE 0") == 0
    assert score(lab, "bird_interact", "SELECT round(avg(age)) FROM player", "SELECT avg(age) FROM player") == 1
    one = "SELECT name FROM player WHERE age = 25 ORDER BY age"
    assert score(lab, "bird_interact", one + ", name DESC", one, ordered=True) == 0  # a tie
    assert score(lab, "bird_interact", one + ", name DESC", one) == 1
    # A comment mark in a text ends the statement that is left: SELECT 'a
    assert score(lab, "bird_interact", "SELECT 'a -- b'", "SELECT 'a -- b'") == 0
    assert score(lab, "bird_interact", "SELECT 'a  b'", "SELECT 'a b'") == 1  # texts lose their spaces


def test_spider2_mistakes(lab: SqliteBackend) -> None:
    gold = "SELECT name, age FROM player"
    assert score(lab, "spider2", "SELECT * FROM player", gold) == 1
    mixed = "SELECT name, (SELECT age FROM player q WHERE q.id = 6 - p.id) FROM player p"
    assert score(lab, "spider2", mixed, gold) == 1  # everybody has somebody else's age
    assert score(lab, "spider2", mixed, gold, ignore_order=False) == 0
    assert score(lab, "spider2", "SELECT name, coalesce(age, 0) FROM player", gold) == 1
    assert score(lab, "spider2", "SELECT 0.001", "SELECT 0.009") == 1
    assert score(lab, "spider2", "SELECT name FROM player", gold, condition_cols=[0]) == 1
    assert score(lab, "spider2", "SELECT name FROM player", gold) == 0


def test_intercode_mistakes(lab: SqliteBackend) -> None:
    gold = "SELECT name FROM player ORDER BY name"
    assert score(lab, "intercode_iou", "SELECT name FROM player ORDER BY name DESC", gold) == -1
    assert score(lab, "intercode_iou", "SELECT name FROM player WHERE id < 3", gold) == pytest.approx(0.4)  # 2 of 5
    assert score(lab, "intercode_iou", TWICE) == 0.5  # 2 common rows of 4, in order
    assert score(lab, "intercode_iou", "SELECT 1.0", "SELECT 1") == 0
    assert score(lab, "intercode_iou", "SELECT 1 WHERE 0", "SELECT 2 WHERE 0") == 1
    # abc against acb: of the three pairs two agree: tau = (2 - 1) / 3.
    assert compat.kendall_tau("abc", "acb") == pytest.approx(1 / 3)


def test_dbbench_mistakes(lab: SqliteBackend) -> None:
    assert compat.table_md5([(None, "x")]) == compat.table_md5([("x", None)])
    # 170 hashes of 5 digits and their commas are 1020 characters; the 1024 hold no 172nd row.
    rows = [(i,) for i in range(300)]
    ranked = sorted(rows, key=lambda row: compat.md5(str(row[0]).encode()).hexdigest()[:5])
    assert compat.table_md5(ranked[:200]) == compat.table_md5(ranked)
    assert compat.table_md5(ranked[:150]) != compat.table_md5(ranked)
    harm = "UPDATE player SET age = 1 WHERE id = 1"
    lab.reset(CLUB)
    assert score(lab, "dbbench_md5", "DELETE FROM game", "DELETE FROM game WHERE 1", table="game") == 1
    assert (
        score(lab, "dbbench_md5", harm, "UPDATE player SET name = name", table="game") == 1
    )  # looks at one table only
    assert score(lab, "dbbench_md5", harm, "UPDATE player SET name = name") == 0


# -- mutants ----------------------------------------------------------------------------------------------------------


def test_mutants_are_one_change_away() -> None:
    found = mutants(
        "SELECT name, max(age) FROM player WHERE age > 3 GROUP BY name HAVING count(*) > 1 ORDER BY 1 LIMIT 1"
    )
    kinds = [mutant.kind for mutant in found]
    assert sorted(kinds) == ["aggregate", "comparison", "comparison", "limit", "no having", "no where", "order turned"]
    assert all(mutant.sql != found[0].sql for mutant in found[1:])
    joined = mutants("SELECT DISTINCT a.name FROM player AS a JOIN played AS b ON a.id = b.player_id")
    assert [mutant.kind for mutant in joined] == ["no distinct", "no join"]
    assert mutants("SELEC") == [] == mutants("DELETE FROM player")
    assert Tolerance().cells(1, 1.0)
