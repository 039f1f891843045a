"""Generated databases and tasks: varied, reproducible, disjoint, and free of faults."""

from __future__ import annotations

import sqlite3
from collections import Counter

import pytest

from sandlot.envs.core import InvalidArgument, Task, UnknownTask
from sandlot.envs.sql.generate.database import draw_database, literal
from sandlot.envs.sql.generate.draft import LEVELS
from sandlot.envs.sql.generate.lint import lint, lint_change
from sandlot.envs.sql.generate.schema import domain_names
from sandlot.envs.sql.generate.tasks import (
    KINDS,
    LOADERS,
    GeneratedTasks,
    Recipe,
    load_interact,
    load_read,
    load_write,
    paraphrases,
)

SPLITS = ("train", "valid_seen", "valid_unseen", "test")


def recipes(kind: str, split: str, count: int) -> list[Recipe]:
    return [task.params["recipe"] for task in GeneratedTasks(kind, split).first(count)]


def test_domains_are_ten_and_more_and_unseen_ones_are_unseen() -> None:
    seen, unseen, test = (set(domain_names(split)) for split in ("train", "valid_unseen", "test"))
    assert len(seen) >= 10
    assert not seen & unseen and not seen & test and not unseen & test
    assert domain_names("valid_seen") == domain_names("train")


@pytest.mark.parametrize("split", ["train", "valid_unseen", "test"])
def test_databases_build_and_keep_their_references(split: str) -> None:
    for domain in domain_names(split):
        connection = sqlite3.connect(":memory:")
        connection.executescript("PRAGMA foreign_keys=ON;" + draw_database(domain, split, "3").script())
        assert not connection.execute("PRAGMA foreign_key_check").fetchall()
        connection.close()


def test_instances_differ_in_names_columns_and_rows() -> None:
    instances = [draw_database("library", "train", str(i)) for i in range(12)]
    names = {tuple(column.name for table in each.schema.tables for column in table.columns) for each in instances}
    assert len(names) > 6
    assert len({each.script() for each in instances}) == 12
    assert draw_database("library", "train", "0").script() != draw_database("library", "valid_seen", "0").script()
    assert draw_database("library", "train", "0").script() == instances[0].script()


def test_values_look_real() -> None:
    source = draw_database("hospital", "train", "1")
    visits = source.schema.table("visits")
    outcomes = (
        Counter(source.values(visits, visits.of_kind("category")[0])) if visits.of_kind("category") else Counter()
    )
    assert len(outcomes) > 2
    doctors = Counter(source.values(visits, visits.of_kind("ref")[1]))
    assert max(doctors.values()) >= 3 * min(doctors.values())  # used unevenly
    assert len(doctors) < source.schema.table("doctors").rows  # some have no visit


def test_quotes_in_values() -> None:
    assert literal("O'Hara") == "'O''Hara'"
    assert literal(None) == "NULL"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("split", SPLITS)
def test_tasks_are_reproducible_and_of_the_level_they_name(kind: str, split: str) -> None:
    for recipe in recipes(kind, split, 12):
        load = LOADERS[kind]
        first = load(recipe)
        load.cache_clear()  # type: ignore[attr-defined]
        assert load(recipe) == first
        assert first.level == recipe.level


def test_all_levels_and_forms_occur() -> None:
    tasks = [load_read(recipe) for recipe in recipes("read", "train", 160)]
    assert set(Counter(task.level for task in tasks)) == set(LEVELS)
    text = " ".join(task.gold for task in tasks)
    for word in ("JOIN", "GROUP BY", "HAVING", "OVER (", "INTERSECT", "EXCEPT", "IS NULL", "NOT IN", "LIMIT", "AVG("):
        assert word in text, word
    assert "SUBSTR(" in text and "-01-01" in text  # dates
    assert len({task.question for task in tasks}) > 155


def test_golds_pass_the_lint() -> None:
    for recipe in recipes("read", "test", 40):
        task = load_read(recipe)
        connection = task.database.open()
        assert lint(task.gold, connection) is None, task.gold
        connection.close()
    for recipe in recipes("write", "test", 40):
        change = load_write(recipe)
        connection = change.database.open()
        assert lint_change(change.gold, connection) is None, change.gold
        connection.close()


def test_paraphrases_share_the_gold_statement() -> None:
    several = 0
    for recipe in recipes("read", "train", 20):
        texts = paraphrases(recipe)
        assert load_read(recipe).question in texts
        several += len(texts) >= 2
    assert several == 20


def test_requests_leave_something_open_and_the_text_does_not_tell() -> None:
    kinds = Counter()
    for recipe in recipes("interact", "train", 60):
        task = load_interact(recipe)
        request = task.phases[0].text
        assert task.ambiguities
        for each in task.ambiguities:
            assert each.term in request
            assert each.clarification not in request
            assert each.sql_snippet in task.phases[0].gold
        kinds["hidden"] += any(entry.hidden for entry in task.knowledge)
        kinds["known"] += any(entry.name in request and not entry.hidden for entry in task.knowledge)
        kinds["masked"] += any(each.term not in {entry.name for entry in task.knowledge} for each in task.ambiguities)
        kinds["distractor"] += any(entry.name not in request for entry in task.knowledge)
    assert min(kinds[name] for name in ("hidden", "known", "masked", "distractor")) >= 5, kinds


def test_write_tasks_cover_rows_and_definitions() -> None:
    golds = " ".join(" ; ".join(load_write(recipe).gold) for recipe in recipes("write", "train", 80))
    for word in ("INSERT INTO", "UPDATE", "DELETE FROM", "CREATE TABLE", "CREATE VIEW", "ALTER TABLE", "DROP TABLE"):
        assert word in golds, word


def test_sets_are_large_and_their_ids_lead_back() -> None:
    tasks = GeneratedTasks("read", "valid_unseen", levels=["hard"], domains="fleet", small=True)
    assert len(tasks) == 200_000
    task = tasks.at(len(tasks) - 1)
    assert GeneratedTasks("read", "train").get(task.id) == task
    assert task.params["recipe"].level == "hard" and task.params["recipe"].small
    assert tasks.get("sql/read1/train/shop/123456789/easy-7").split == "train"  # unlimited
    with pytest.raises(IndexError):
        tasks.at(len(tasks))


@pytest.mark.parametrize(
    "wrong",
    [
        "sql/read2/train/shop/0/easy-0",
        "sql/read1/train/farm/0/easy-0",
        "sql/read1/train/shop/00/easy-0",
        "sql/read1/train/shop/0/simple-0",
        "sql/write1/train/shop/0/easy-0",
        "sql/read1/dev/shop/0/easy-0",
    ],
)
def test_wrong_ids_are_refused(wrong: str) -> None:
    with pytest.raises(UnknownTask):
        GeneratedTasks("read").get(wrong)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="levels must be some of easy"):
        GeneratedTasks("read", levels=["simple"])
    with pytest.raises(InvalidArgument, match="domains must be some of museum, fleet"):
        GeneratedTasks("read", "valid_unseen", domains=["library"])


def test_a_task_is_small() -> None:
    task = GeneratedTasks("read").at(0)
    assert isinstance(task, Task) and set(task.params) == {"recipe"}


def test_a_database_without_a_level_gives_an_easier_task() -> None:
    task = load_read(Recipe("read", "test", "observatory", 1240, "extra", 0, small=True))
    assert task.level == "hard"
    assert paraphrases(Recipe("read", "test", "observatory", 1240, "extra", 0, small=True))


def test_tables_whose_column_is_empty_throughout() -> None:
    for recipe in [
        task.params["recipe"] for task in GeneratedTasks("write", "train", domains="shop", small=True).first(60)
    ]:
        assert load_write(recipe).gold
