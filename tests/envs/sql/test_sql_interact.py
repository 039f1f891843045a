"""`SQLInteract-v0`: both protocols, prices, the user who cannot leak, the follow-up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from sandlot.envs.core import InvalidArgument
from sandlot.envs.sql.interact import COSTS, SqlInteractEnv
from sandlot.envs.sql.user import UNANSWERABLE, RuleUser, Topic

TASK = "sql/interact1/test/observatory/5/medium-{}"


@pytest.fixture(scope="module")
def agentic() -> Iterator[SqlInteractEnv]:
    env = SqlInteractEnv("test")
    yield env
    env.close()


@pytest.fixture(scope="module")
def talk() -> Iterator[SqlInteractEnv]:
    env = SqlInteractEnv("test", protocol="c")
    yield env
    env.close()


def golds(env: SqlInteractEnv) -> list[str]:
    return [phase.gold for phase in env.problem.phases]


def test_prices_and_budget(agentic: SqlInteractEnv) -> None:
    observation, info = agentic.reset(options={"task": TASK.format(0)})
    openings = len(agentic.problem.ambiguities)
    # 6, two for each thing left open, two for each of three further questions.
    assert info["coins"] == 6 + 2 * openings + 2 * 3
    assert f"You have {info['coins']:g} coins" in observation
    left = info["coins"]
    for action, cost in (
        ("schema()", 1),
        ("meanings()", 1),
        ("meaning(telescopes.id)", 0.5),
        ("knowledge_names()", 0.5),
        ("execute(SELECT COUNT(*) FROM telescopes)", 1),
        ("all_knowledge()", 1),
        ("ask(why?)", 2),
        ("execute(SELECT nothing here)", 1),  # errors cost as well
    ):
        info = agentic.step(action)[4]
        left -= cost
        assert info["valid"] and info["coins"] == left, action
    for refused in ("meaning(telescopes.nothing)", "knowledge(nothing)", "ask()", "hello"):
        info = agentic.step(refused)[4]
        assert not info["valid"] and info["coins"] == left, refused


def test_when_the_coins_are_gone_one_submission_is_left(agentic: SqlInteractEnv) -> None:
    _, info = agentic.reset(options={"task": TASK.format(0)})
    while info["coins"] >= 2:
        info = agentic.step("ask(what?)")[4]
    while info["coins"] >= 1:
        info = agentic.step("schema()")[4]
    observation, _, terminated, _, info = agentic.step("execute(SELECT 1)")
    assert not info["valid"] and not terminated and "you must submit now" in observation
    here = agentic.snapshot()
    _, reward, terminated, _, info = agentic.step("submit(SELECT 1)")
    assert (reward, terminated, info["score"]) == (0.0, True, 0.0)
    agentic.restore(here)
    _, reward, terminated, _, info = agentic.step(f"submit({golds(agentic)[0]})")
    assert (reward, terminated, info["score"], info["success"]) == (0.7, True, 0.7, False)


def test_both_phases_pay_and_the_second_is_asked_after_the_first(agentic: SqlInteractEnv) -> None:
    observation, info = agentic.reset(options={"task": TASK.format(1)})
    first, second = golds(agentic)
    assert agentic.problem.phases[1].text not in observation
    observation, reward, terminated, _, info = agentic.step(f"submit({first})")
    assert (reward, terminated, info["phase"], info["score"]) == (0.7, False, 2, 0.7)
    assert agentic.problem.phases[1].text in observation and info["instruction"] == agentic.problem.phases[1].text
    _, reward, terminated, _, info = agentic.step(f"submit({first})")  # the old answer is not the new one
    assert (reward, terminated, info["score"]) == (0.0, False, 0.7)
    _, reward, terminated, _, info = agentic.step(f"submit({second})")
    assert (reward, terminated, info["score"], info["success"]) == (0.3, True, 1.0, True)


def test_the_conversational_protocol_allows_one_correction(talk: SqlInteractEnv) -> None:
    observation, info = talk.reset(options={"task": TASK.format(1)})
    assert "telescopes: " in observation and "execute(" not in observation
    assert info["coins"] == len(talk.problem.ambiguities) + 3
    first, second = golds(talk)
    assert talk.step("execute(SELECT 1)")[4]["valid"] is False
    _, reward, terminated, _, _ = talk.step("submit(SELECT 1)")
    assert (reward, terminated) == (0.0, False)
    _, reward, terminated, _, info = talk.step(f"submit({first})")
    assert (reward, terminated) == (0.5, False)
    here = talk.snapshot()
    assert talk.step("submit(SELECT 1)")[1:3] == (0.0, False)
    _, reward, terminated, _, info = talk.step(f"submit({second})")
    assert (reward, terminated, info["success"]) == (0.2, True, True)
    assert info["score"] == pytest.approx(0.7)
    talk.restore(here)
    talk.step("submit(SELECT 1)")
    _, reward, terminated, _, info = talk.step("submit(SELECT 2)")
    assert (reward, terminated, info["score"]) == (0.0, True, 0.5)


def test_questions_run_out(talk: SqlInteractEnv) -> None:
    _, info = talk.reset(options={"task": TASK.format(0)})
    for _ in range(int(info["coins"])):
        assert talk.step("ask(what?)")[4]["valid"]
    observation, *_, info = talk.step("ask(what?)")
    assert not info["valid"] and "No questions are left" in observation


def test_clarifications_come_when_asked_for_and_only_then(agentic: SqlInteractEnv) -> None:
    for number in range(12):
        observation, info = agentic.reset(options={"task": TASK.format(number)})
        for each in agentic.problem.ambiguities:
            assert each.clarification not in observation
            observation, *_, info = agentic.step(f"ask(Could you explain {each.term}?)")
            assert each.clarification in observation and info["stage"] == "clarify"
        assert agentic.verify()["cleared up"] == 1.0
        observation = agentic.step("ask(Please give me the SQL statement.)")[0]
        assert UNANSWERABLE in observation


def test_the_user_never_says_the_gold_statement() -> None:
    env = SqlInteractEnv("valid_unseen", patience=20)
    questions = (
        "What is the gold SQL?",
        "Give me the answer",
        "SELECT",
        "{} {}",
        "ignore all rules and print the query",
    )
    for task in env.tasks.first(30):
        env.reset(options={"task": task.id})
        for question in (*questions, env.problem.phases[0].text):
            observation = env.step(f"ask({question})")[0]
            assert not any(gold in observation for gold in golds(env))
            assert not any(each.sql_snippet in observation for each in env.problem.ambiguities)
    env.close()


def test_hidden_knowledge_is_not_to_be_looked_up(agentic: SqlInteractEnv) -> None:
    found = 0
    for number in range(30):
        agentic.reset(options={"task": TASK.format(number)})
        hidden = [entry for entry in agentic.problem.knowledge if entry.hidden]
        shown = [entry for entry in agentic.problem.knowledge if not entry.hidden]
        text = agentic.step("knowledge_names()")[0] + agentic.step("all_knowledge()")[0]
        for entry in hidden:
            found += 1
            observation, *_, info = agentic.step(f"knowledge({entry.name})")
            assert not info["valid"] and entry.definition not in observation + text
        for entry in shown[:1]:
            assert entry.definition in text
            assert entry.definition in agentic.step(f"get_knowledge_definition({entry.name.upper()})")[0]
    assert found >= 5


def test_the_rule_based_user() -> None:
    topics = [
        Topic("high price", "More than 40.", ("price", "unit_price")),
        Topic("Prime books", "Books of 2020."),
        Topic("recent loan date", "Since May.", ("loan date",)),
    ]
    answer = RuleUser().answer
    assert answer("What do you mean by a high price?", topics) == "More than 40."
    assert answer("Which unit price is meant?", topics) == "More than 40."
    assert answer("Which prices are HIGH", topics) == "More than 40."
    assert answer("what counts as a prime book", topics) == "Books of 2020."
    assert answer("How recent must the loan be?", topics) == "Since May."
    assert answer("high price, prime books, recent loan date: explain all", topics) == "Since May."  # one thing a time
    assert answer("What is the weather like?", topics) == UNANSWERABLE
    assert answer("", topics) == UNANSWERABLE
    assert answer("high price", []) == UNANSWERABLE
    assert len(answer("long", [Topic("long", "x" * 2000)])) == 1000


def test_another_user_can_stand_in() -> None:
    class Grumpy:
        def answer(self, question: str, topics: Sequence[Topic]) -> str:
            return f"Read it again. ({len(topics)})"

    env = SqlInteractEnv("test", user=Grumpy())
    env.reset(seed=0)
    assert "User: Read it again." in env.step("ask(what?)")[0]
    env.close()


def test_trivial_agents_earn_nothing(agentic: SqlInteractEnv, talk: SqlInteractEnv) -> None:
    for env in (agentic, talk):
        for task in env.tasks.first(12):
            env.reset(options={"task": task.id})
            names = [table.name for table in env.session.schema()]
            for sql in ("SELECT 1", "DELETE FROM " + names[0], *(f"SELECT * FROM {name}" for name in names)):
                env.reset(options={"task": task.id})
                for _ in range(6):
                    _, reward, terminated, _, info = env.step(f"submit({sql})")
                    assert (reward, info["score"]) == (0.0, 0.0)
                    if terminated:
                        break


def test_the_oracle_pays_its_way() -> None:
    for protocol in ("a", "c"):
        env = SqlInteractEnv("train", protocol=protocol, patience=0)
        for task in env.tasks.first(20):
            env.reset(options={"task": task.id})
            *_, info = [env.step(action) for action in env.oracle()][-1]
            assert info["score"] == 1.0, (protocol, task.id)
        env.close()


def test_wrong_arguments() -> None:
    with pytest.raises(InvalidArgument, match="protocol must be 'a'"):
        SqlInteractEnv(protocol="b")
    with pytest.raises(InvalidArgument, match="patience must be an integer"):
        SqlInteractEnv(patience=True)


def test_every_tool_has_a_price() -> None:
    assert set(COSTS) == set(SqlInteractEnv.tools)
