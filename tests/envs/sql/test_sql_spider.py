"""The judge on Spider's own questions: every gold is right, and no mutant that is known to differ from it is."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandlot.envs.sql.backends.database import Database
from sandlot.envs.sql.backends.notes import _RARE, _in_any, _in_plain_select
from sandlot.envs.sql.backends.sqlite import SqliteBackend
from sandlot.envs.sql.scoring.judge import Judge
from sandlot.envs.sql.scoring.mutants import mutants
from sandlot.envs.sql.scoring.order import depends_on_storage, is_ordered

ROOT = Path(__file__).resolve().parents[3]
DATA = Path(os.environ.get("SANDLOT_TEST_DATA", ROOT.parent / "shared" / "data")) / "sql" / "spider_dev"
pytestmark = pytest.mark.skipif(not (DATA / "questions.jsonl").is_file(), reason=f"no Spider questions in {DATA}")


@pytest.fixture(scope="module")
def questions() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / "questions.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def databases(questions: list[dict[str, Any]]) -> dict[str, Database]:
    return {
        name: Database.from_script(name, (DATA / name / "schema.sql").read_text("utf-8"))
        for name in sorted({question["db_id"] for question in questions})
    }


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    judge = Judge(SqliteBackend())
    yield judge
    judge.close()


def test_every_gold_is_right(questions: list[dict[str, Any]], databases: dict[str, Database], judge: Judge) -> None:
    assert len(questions) >= 500
    for question in questions:
        verdict = judge.answer(databases[question["db_id"]], question["gold"], question["gold"])
        assert verdict.match, (question["id"], verdict)


def test_mutants_that_are_known_to_differ_are_wrong(
    questions: list[dict[str, Any]], databases: dict[str, Database], judge: Judge
) -> None:
    """Known by a plain connection of this process: another bag of rows, or another list where every row is unique."""
    plain = {name: database.open() for name, database in databases.items()}
    for connection in plain.values():
        connection.set_progress_handler(lambda: 1, 2_000_000)  # a lost join condition may take for ever
    differing = 0
    for question in questions[::3]:
        database, connection = databases[question["db_id"]], plain[question["db_id"]]
        right = connection.execute(question["gold"]).fetchall()
        unique = is_ordered(question["gold"]) and len(set(right)) == len(right)
        keys = judge.reference(database, question["gold"]).keys
        settled = unique and keys is not None and len(set(keys)) == len(keys)
        for mutant in mutants(question["gold"].rstrip("; ")):
            try:
                given = connection.execute(mutant.sql).fetchall()
            except sqlite3.Error:
                continue
            if Counter(given) != Counter(right) or (settled and given != right):
                differing += 1
                assert not judge.answer(database, question["gold"], mutant.sql).match, (question["id"], mutant)
    assert differing > 250


def test_ties_are_found_in_the_golds(
    questions: list[dict[str, Any]], databases: dict[str, Database], judge: Judge
) -> None:
    tied = [q["id"] for q in questions if judge.reference(databases[q["db_id"]], q["gold"]).tie_decided]
    assert "spider_dev_26" in tied and 10 < len(tied) < 40
    hanging = [q["id"] for q in questions if depends_on_storage(databases[q["db_id"]], q["gold"])]
    assert len(hanging) < 10


def test_names_taken_for_text_are_told_from_tokens_as_from_the_syntax_tree(
    questions: list[dict[str, Any]], databases: dict[str, Database]
) -> None:
    compared = 0
    for question in questions:
        sql, names = question["gold"], databases[question["db_id"]].names
        if '"' in sql and sql[:6].upper() == "SELECT" and not _RARE.search(sql):
            assert _in_plain_select(sql, names) == _in_any(sql, names), sql
            compared += 1
    assert compared > 100
