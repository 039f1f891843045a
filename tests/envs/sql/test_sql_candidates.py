"""Listed actions: made of what was seen, and enough for easy questions."""

from __future__ import annotations

import pytest

from sandlot.envs.core.testing import check_text_env
from sandlot.envs.sql.backends.tables import Column, TableSchema
from sandlot.envs.sql.candidates import Draft, actions, read_draft, towards
from sandlot.envs.sql.env import State
from sandlot.envs.sql.read import SqlReadEnv

BOOKS = TableSchema(
    "books",
    (
        Column("id", "INTEGER"),
        Column("title"),
        Column("genre"),
        Column("page_count", "INTEGER"),
        Column("published_on", "DATE"),
    ),
    ("id",),
)
AUTHORS = TableSchema("authors", (Column("id", "INTEGER"), Column("full_name")), ("id",))
SCHEMA = (AUTHORS, BOOKS)


def test_first_the_tables_then_the_columns_then_statements_on_what_was_seen() -> None:
    question = "Count the books with 'novel' as the genre."
    assert actions(State(), SCHEMA, question) == ("schema()",)
    assert actions(State(listed=True), SCHEMA, question) == ("columns(authors)", "columns(books)")
    assert actions(State(listed=True, tables=("books",)), SCHEMA, question) == (
        "columns(authors)",
        "execute(SELECT COUNT(*) FROM books)",
        "execute(SELECT genre FROM books)",
        "execute(SELECT DISTINCT genre FROM books)",
        "execute(SELECT COUNT(DISTINCT genre) FROM books)",
    )
    state = State(listed=True, tables=("books",), query="SELECT COUNT(*) FROM books")
    assert actions(state, SCHEMA, question) == (
        "execute(SELECT COUNT(*) FROM books WHERE genre = 'novel')",
        "execute(SELECT COUNT(*) FROM books WHERE genre LIKE '%novel%')",
        "submit(SELECT COUNT(*) FROM books)",
    )


@pytest.mark.parametrize(
    ("question", "conditions"),
    [
        ("page count above 300", ["page_count > 300", "page_count >= 300", "page_count < 300"]),
        ("published date before 2020-05-01", ["published_on >= '2020-05-01'", "published_on < '2020-05-01'"]),
        ("published date in 2019", ["(published_on >= '2019-01-01' AND published_on < '2020-01-01')"]),
        (
            "genre 'a' or 'b'",
            ["genre = 'a'", "genre = 'b'", "genre LIKE '%a%'", "genre LIKE '%b%'", "genre IN ('a', 'b')"],
        ),
        ("nothing that is known: 300 or 'a'", []),
    ],
)
def test_conditions_are_made_of_the_question(question: str, conditions: list[str]) -> None:
    state = State(listed=True, tables=("books",), query="SELECT COUNT(*) FROM books")
    wanted = [f"execute(SELECT COUNT(*) FROM books WHERE {each})" for each in conditions]
    assert list(actions(state, SCHEMA, question)) == [*wanted, "submit(SELECT COUNT(*) FROM books)"]


def test_drafts() -> None:
    draft = read_draft("SELECT DISTINCT genre FROM books WHERE id > 3")
    assert draft is not None and draft == Draft("books", ("genre",), True, "id > 3")
    assert draft.sql == "SELECT DISTINCT genre FROM books WHERE id > 3"
    assert read_draft("SELECT 1") is None
    goal = Draft("books", ("title", "genre"), condition="id > 3")
    assert Draft("books", ("title",)).leads_to(goal) and goal.leads_to(goal)
    assert not Draft("books", ("genre",)).leads_to(goal)
    assert not Draft("books", ("title",), condition="id < 3").leads_to(goal)
    listed = (
        "submit(SELECT title FROM books)",
        "execute(SELECT title FROM books)",
        "execute(SELECT title, genre FROM books)",
    )
    assert towards(goal.sql, listed) == listed[2]
    assert towards("SELECT a FROM b JOIN c", listed) is None


def test_easy_questions_are_within_reach() -> None:
    env = SqlReadEnv("test", levels=["easy"], small=True, candidates=True, copies=1)
    for task in env.tasks.first(40):
        _, info = env.reset(options={"task": task.id})
        for action in env.oracle():
            assert action in info["admissible"], (env.problem.question, action)
            *_, info = env.step(action)
        assert info["success"]
    env.close()


def test_the_contract_with_listed_actions() -> None:
    report = check_text_env(
        "sandlot/SQL-v0",
        episodes=4,
        only=["admissible_actions_are_valid", "random_actions_fail", "equal_keys_mean_equal_states", "oracle_solves"],
        candidates=True,
        levels=["easy"],
        small=True,
    )
    assert not report.skipped
