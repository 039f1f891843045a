"""The environments on PostgreSQL and DuckDB: the contract, and gold statements that run everywhere."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest

from sandlot.envs.core import MissingData, MissingExtra
from sandlot.envs.core.testing import check_text_env
from sandlot.envs.sql.backends.postgres_server import PostgresServer
from sandlot.envs.sql.generate.draft import LEVELS
from sandlot.envs.sql.generate.tasks import Recipe, load_read, load_write
from sandlot.envs.sql.read import SqlReadEnv
from sandlot.envs.sql.write import SqlWriteEnv

IDS = ("sandlot/SQL-v0", "sandlot/SQLWrite-v0", "sandlot/SQLInteract-v0")
ENGINE_CHECKS = ("oracle_solves", "snapshots_restore")


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    try:
        server = PostgresServer.start()
    except (MissingData, MissingExtra) as reason:
        pytest.skip(f"no PostgreSQL: {reason}")
    yield server.conninfo
    server.stop()


def arguments(env_id: str, **engine: Any) -> dict[str, Any]:
    return {"small": True, **engine, **({} if "Write" in env_id else {"copies": 1})}


@pytest.mark.parametrize("env_id", IDS)
def test_engine_checks_on_postgres(env_id: str, dsn: str) -> None:
    report = check_text_env(env_id, episodes=2, only=ENGINE_CHECKS, **arguments(env_id, backend="postgres", dsn=dsn))
    assert sorted(report.passed) == sorted(ENGINE_CHECKS)


@pytest.mark.slow
@pytest.mark.parametrize("env_id", IDS)
def test_contract_on_postgres(env_id: str, dsn: str) -> None:
    report = check_text_env(env_id, episodes=2, **arguments(env_id, backend="postgres", dsn=dsn))
    print(report)
    assert len(report.passed) > 20


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("duckdb") is None, reason="duckdb is not installed")
@pytest.mark.parametrize("env_id", IDS)
def test_contract_on_duckdb(env_id: str) -> None:
    report = check_text_env(env_id, episodes=2, **arguments(env_id, backend="duckdb"))
    assert len(report.passed) > 20


def recipes(kind: str, numbers: int) -> list[Recipe]:
    """Many tasks on four databases: an engine needs its time to build one."""
    domains = (("train", "library"), ("train", "airline"), ("valid_unseen", "fleet"), ("test", "hotel"))
    return [
        Recipe(kind, split, domain, 1, level, number, small=True)
        for split, domain in domains
        for level in LEVELS
        for number in range(numbers)
    ]


def check_golds(read: SqlReadEnv, write: SqlWriteEnv) -> None:
    """Gold statements run, and give as many rows as on SQLite."""
    reference = SqlReadEnv(copies=0)
    tasks = [load_read(each) for each in recipes("read", 6)]
    for task in tasks:
        here = read._judge.reference(task.database, task.gold)
        there = reference._judge.reference(task.database, task.gold)
        assert here.result.ok, f"{task.gold}: {here.result.error}"
        assert len(here.result.rows) == len(there.result.rows), task.gold
    for change in (load_write(each) for each in recipes("write", 1)):
        state = write._judge.state(change.database, change.gold)
        assert state.complete and state.key != write._judge.state(change.database, ()).key, change.gold
    for env in (read, write, reference):
        env.close()


def test_gold_statements_run_on_postgres(dsn: str) -> None:
    check_golds(SqlReadEnv(backend="postgres", dsn=dsn), SqlWriteEnv(backend="postgres", dsn=dsn))


@pytest.mark.skipif(importlib.util.find_spec("duckdb") is None, reason="duckdb is not installed")
def test_gold_statements_run_on_duckdb() -> None:
    check_golds(SqlReadEnv(backend="duckdb"), SqlWriteEnv(backend="duckdb"))


def test_the_agent_reads_the_dialect(dsn: str) -> None:
    env = SqlReadEnv(backend="postgres", dsn=dsn)
    assert "(postgres)." in env.reset(seed=0)[0]
    observation, *_ = env.step("execute(SELECT 1::text AS one, DATE '2020-01-02' AS day)")
    assert observation.splitlines()[-1] == "1 | 2020-01-02"
    assert env.step("execute(SELECT pg_sleep(9))")[4]["error_class"] in ("denied", "no_such_function")
    env.close()
