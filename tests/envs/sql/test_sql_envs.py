"""`SQL-v0` and `SQLWrite-v0`: what earns, what does not, and what is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import gymnasium
import pytest

from sandlot.envs import make
from sandlot.envs.core import InvalidArgument, MissingData
from sandlot.envs.sql.read import SqlReadEnv
from sandlot.envs.sql.write import SqlWriteEnv

READ = "sql/read1/test/farm/1/medium-{}"


@pytest.fixture(scope="module")
def read() -> Iterator[SqlReadEnv]:
    env = SqlReadEnv("test")
    yield env
    env.close()


@pytest.fixture(scope="module")
def write() -> Iterator[SqlWriteEnv]:
    env = SqlWriteEnv("test")
    yield env
    env.close()


def final(env: Any, action: str) -> tuple[float, dict[str, Any], str]:
    observation, reward, terminated, _, info = env.step(action)
    assert terminated == (info["stage"] == "submitted")
    return reward, info, observation


def tables(env: Any) -> list[str]:
    return [table.name for table in env.session.schema()]


def test_exploring_asking_and_answering(read: SqlReadEnv) -> None:
    observation, info = read.reset(options={"task": READ.format(0)})
    assert read.problem.gold not in observation and "CREATE" not in observation
    assert (info["stage"], info["error_class"], info["progress"]) == ("explore", "", 0.0)
    observation, _, _, _, info = read.step("schema()")
    assert all(name in observation for name in ("fields", "crops", "harvests"))
    steps = [info["progress"]]
    for name in tables(read):
        observation, _, _, _, info = read.step(f"columns({name})")
        steps.append(info["progress"])
        assert "INTEGER, primary key" in observation
    assert steps == sorted(steps) and 0.6 < steps[-1] < 0.7  # tables and columns, no result: two thirds
    observation, _, _, _, info = read.step("sample(crops, 2)")
    assert observation.startswith("2 rows:\nid (INTEGER)")
    observation, _, _, _, info = read.step(f"execute({read.problem.gold})")
    assert (info["stage"], info["progress"]) == ("draft", 1.0)
    assert not info["success"]
    reward, info, observation = final(read, "submit()")
    assert (reward, info["success"], info["score"]) == (1.0, True, 1.0)


def test_errors_are_classed_and_a_repaired_statement_drafts_again(read: SqlReadEnv) -> None:
    read.reset(options={"task": READ.format(1)})
    for sql, kind in (
        ("SELECT nowhere FROM crops", "no_such_column"),
        ("SELECT * FROM nowhere", "no_such_table"),
        ("SELEC 1", "syntax"),
        ("DROP TABLE crops", "denied"),
        ("SELECT 1; SELECT 2", "multiple_statements"),
        ("-- nothing", "no_statement"),
    ):
        observation, reward, terminated, _, info = read.step(f"execute({sql})")
        assert (info["stage"], info["error_class"]) == ("repair", kind), observation
        assert observation.startswith(f"Error ({kind}): ") and (reward, terminated) == (0.0, False)
    info = read.step("execute(SELECT COUNT(*) FROM crops)")[4]
    assert (info["stage"], info["error_class"]) == ("draft", "")


def test_order_and_types_are_visible(read: SqlReadEnv) -> None:
    read.reset(options={"task": READ.format(0)})
    observation = read.step("execute(SELECT id FROM harvests ORDER BY id DESC LIMIT 3)")[0]
    first, head, *rows = observation.splitlines()
    assert (first, head) == ("3 rows:", "id (INTEGER)")
    assert rows == sorted(rows, key=int, reverse=True)
    observation = read.step("execute(SELECT a.id FROM harvests a, harvests b)")[0]
    assert ", 50 shown, " in observation.splitlines()[0] and " cut:" in observation.splitlines()[0]


HACKS = [
    "SELECT 1",
    "SELECT NULL",
    "DELETE FROM {table}",
    "DELETE FROM {table} WHERE 0",
    "DROP TABLE {table}",
    "ALTER TABLE {table} RENAME TO zzz",
    "CREATE VIEW v AS SELECT 1",
    "COMMIT",
    "PRAGMA user_version=7",
    "{gold}; DROP TABLE {table}",
    "SELECT * FROM {table}",
    "SELECT sql FROM sqlite_master",
    "SELECT * FROM ({gold}) AS a, (SELECT 1 AS one UNION ALL SELECT 2) AS b",
    "SELECT * FROM ({gold}) AS a UNION ALL SELECT * FROM ({gold}) AS b",
    "SELECT * FROM ({gold}) AS a LIMIT 0",
    "EXPLAIN {gold}",
    "WITH x AS (SELECT 1) DELETE FROM {table}",
]


@pytest.mark.parametrize("hack", HACKS)
def test_hacks_earn_nothing(read: SqlReadEnv, hack: str) -> None:
    for number in range(5):
        for name in ("fields", "crops", "harvests"):
            read.reset(options={"task": READ.format(number)})
            reward, info, observation = final(read, f"submit({hack.format(table=name, gold=read.problem.gold)})")
            assert (reward, info["success"], info["score"]) == (0.0, False, 0.0), read.problem.gold
            assert read.problem.gold not in observation
    read.reset(options={"task": READ.format(0)})  # and nothing is broken for the next episode
    assert final(read, f"submit({read.problem.gold})")[0] == 1.0


def test_a_statement_that_fits_by_chance_fails_on_the_copies(read: SqlReadEnv) -> None:
    caught = 0
    for number in range(8):
        read.reset(options={"task": READ.format(number)})
        result = read.session.execute(read.problem.gold)
        if len(result.rows) > 30:
            continue
        # The very rows, written down as constants: right on this database, and only on this one.
        lines = ["SELECT " + ", ".join("NULL" if cell is None else repr(cell) for cell in row) for row in result.rows]
        assert final(read, f"submit({' UNION ALL '.join(lines)})")[0] == 0.0
        caught += 1
    assert caught >= 4


def test_trivial_agents_earn_nothing_over_many_tasks(read: SqlReadEnv) -> None:
    for task in read.tasks.first(40):
        read.reset(options={"task": task.id})
        names = tables(read)
        for sql in ("SELECT 1", "SELECT 0", *(f"SELECT * FROM {name}" for name in names)):
            read.reset(options={"task": task.id})
            assert final(read, f"submit({sql})")[0] == 0.0, (read.problem.gold, sql)


def test_submitting_nothing_is_refused(read: SqlReadEnv) -> None:
    _, before = read.reset(options={"task": READ.format(0)})
    observation, reward, terminated, _, info = read.step("submit()")
    assert (info["valid"], reward, terminated) == (False, 0.0, False)
    assert info["state_key"] == before["state_key"]
    assert "no statement" in observation


def test_json_and_text_are_the_same_action(read: SqlReadEnv) -> None:
    as_json = json.dumps({"tool": "execute_sql", "args": {"sql": "SELECT  name FROM crops;"}})
    assert (
        read.canonical(as_json)
        == read.canonical("execute(SELECT name FROM crops)")
        == read.canonical("SELECT name\nFROM crops")
    )


def test_keys_tell_what_the_agent_knows(read: SqlReadEnv) -> None:
    read.reset(options={"task": READ.format(0)})
    a = [read.step(action)[4]["state_key"] for action in ("columns(crops)", "columns(fields)")]
    read.reset(options={"task": READ.format(0)})
    b = [read.step(action)[4]["state_key"] for action in ("columns(fields)", "columns(crops)")]
    read.reset(options={"task": READ.format(0)})
    c = [read.step(action)[4]["state_key"] for action in ("columns(crops)", "columns(fields)")]
    assert a == c and a[1] != b[1]  # the last result differs


def test_hint_and_verify(read: SqlReadEnv) -> None:
    read.reset(options={"task": READ.format(0)})
    assert "schema()" in read.hint()
    assert read.verify() == {"tables": 0.0, "columns": 0.0, "result": 0.0, "success": 0.0}
    for action in read.oracle():
        read.step(action)
    assert set(read.verify().values()) == {1.0}
    assert read.hint() == ""


def test_changes_are_judged_by_the_whole_database(write: SqlWriteEnv) -> None:
    seen = set()
    for task in write.tasks.first(24):
        write.reset(options={"task": task.id})
        gold = write.problem.gold
        seen.add(gold[0].split()[0])
        for statement in gold:
            assert write.step(f"execute({statement})")[4]["stage"] == "draft"
        info = write.step("schema()")[4]
        assert info["progress"] == 1.0 and not info["success"]
        here = write.snapshot()
        assert final(write, "done()")[0] == 1.0
        write.restore(here)
        spare = next((name for name in tables(write) if name not in gold[0]), None)
        if spare is None:
            continue
        column = next(table for table in write.session.schema() if table.name == spare).columns[-1].name
        for side_effect in (
            f"UPDATE {spare} SET {column} = NULL WHERE id = 1",
            f"INSERT INTO {spare} SELECT * FROM {spare} WHERE 0",
            "CREATE TABLE notes (a INTEGER)",
        ):
            write.restore(here)
            write.step(f"execute({side_effect})")
            changed = write.session.table_state().key != write._judge.state(write.problem.database, gold).key
            reward, _, observation = final(write, "done()")
            assert reward == float(not changed), (gold, side_effect, observation)
    assert len(seen) >= 4


@pytest.mark.parametrize(
    "actions",
    [
        ("done()",),
        ("execute(SELECT 1)", "done()"),
        ("execute(DELETE FROM harvests)", "done()"),
        ("execute(DROP TABLE harvests)", "done()"),
        ("execute(UPDATE harvests SET id = id)", "done()"),
        ("execute(DELETE FROM harvests)", "execute(DELETE FROM fields)", "execute(DELETE FROM crops)", "done()"),
    ],
)
def test_trivial_changes_earn_nothing(write: SqlWriteEnv, actions: tuple[str, ...]) -> None:
    for number in range(12):
        write.reset(options={"task": f"sql/write1/test/farm/2/hard-{number}"})
        *_, (_, reward, terminated, _, info) = [write.step(action) for action in actions]
        assert (reward, terminated, info["score"]) == (0.0, True, 0.0), write.problem.gold


def test_restart_undoes_everything_and_the_oracle_uses_it(write: SqlWriteEnv) -> None:
    _, start = write.reset(options={"task": "sql/write1/test/hotel/0/medium-3"})
    write.step("execute(DELETE FROM stays)")
    write.step("execute(CREATE TABLE rubbish (a INTEGER))")
    actions = list(write.oracle())
    assert "restart()" in actions
    write.step("restart()")
    assert "rubbish" not in tables(write)
    assert [write.step(action) for action in write.oracle()][-1][4]["success"]
    _, again = write.reset(options={"task": start["task_id"]})
    assert again == start  # nothing of the last episode is left


def test_equal_databases_have_equal_keys(write: SqlWriteEnv) -> None:
    write.reset(options={"task": "sql/write1/test/hotel/0/medium-3"})
    write.step("execute(DELETE FROM stays WHERE id <= 2)")
    one = write.step("schema()")[4]["state_key"]
    write.reset(options={"task": "sql/write1/test/hotel/0/medium-3"})
    write.step("execute(DELETE FROM stays WHERE id = 2)")
    write.step("execute(DELETE FROM stays WHERE id = 1)")
    write.step("schema()")
    assert write.session.table_state().key
    assert one != write.reset(options={"task": "sql/write1/test/hotel/0/medium-3"})[1]["state_key"]


def test_registered_and_made_by_gymnasium() -> None:
    env = gymnasium.make("sandlot/SQL-v0", split="valid_unseen", levels=["easy"], small=True)
    _, info = env.reset(seed=3)
    assert info["task_id"].startswith("sql/read1s/valid_unseen/") and "/easy-" in info["task_id"]
    env.close()
    bare = make("SQLWrite")
    assert bare.max_steps == 20
    bare.close()


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"backend": "mysql"}, "backend must be one of sqlite, postgres, duckdb"),
        ({"dsn": "host=x"}, "pass backend='postgres'"),
        ({"source": "wikisql"}, "source must be one of generated, spider"),
        ({"path": "somewhere"}, "belong to a benchmark"),
        ({"copies": -1}, "copies must be an integer"),
        ({"source": "spider", "path": "x", "levels": ["easy"]}, "leave them out"),
    ],
)
def test_wrong_arguments(wrong: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        SqlReadEnv(**wrong)


def test_a_benchmark_needs_its_folder() -> None:
    with pytest.raises(MissingData, match="needs path="):
        SqlReadEnv(source="spider")
