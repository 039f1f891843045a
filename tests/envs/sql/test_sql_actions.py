"""Tool calls as models write them, and results as models read them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.envs.sql.actions import ToolCall, parse, squeeze
from sandlot.envs.sql.backends.base import ErrorClass, Result
from sandlot.envs.sql.show import result_text

TOOLS = ("schema", "columns", "sample", "execute", "submit", "ask", "done")


@pytest.mark.parametrize(
    ("text", "tool", "argument"),
    [
        ("execute(SELECT 1)", "execute", "SELECT 1"),
        ("  EXECUTE( SELECT  1 ; ) ", "execute", "SELECT 1"),
        ('execute("SELECT name FROM t")', "execute", "SELECT name FROM t"),
        ("execute('SELECT ''a''')", "execute", "'SELECT ''a'''"),  # quotes inside: left to the engine to complain about
        ('execute_sql(sql="SELECT 1")', "execute", "SELECT 1"),
        ("execute: SELECT 1", "execute", "SELECT 1"),
        ("SELECT count(*)\nFROM t", "execute", "SELECT count(*) FROM t"),
        ("with a as (select 1) select * from a", "execute", "with a as (select 1) select * from a"),
        ("```sql\nSELECT 1;\n```", "execute", "SELECT 1"),
        ("execute(SELECT ')' FROM t)", "execute", "SELECT ')' FROM t"),
        ("submit(SELECT a, b -- the answer\nFROM t)", "submit", "SELECT a, b FROM t"),
        ("submit()", "submit", ""),
        ("submit", "submit", ""),
        ("schema", "schema", ""),
        ("get_schema()", "schema", ""),
        ("describe(books)", "columns", "books"),
        ("columns books", "columns", "books"),
        ("sample(books, 5)", "sample", "books, 5"),
        ("ask(What do you mean by 'recent'?)", "ask", "What do you mean by 'recent'?"),
        ("ask_user: which year?", "ask", "which year?"),
        ('{"tool": "execute", "args": {"sql": "SELECT 1"}}', "execute", "SELECT 1"),
        ('{"name": "execute_sql", "arguments": "{\\"query\\": \\"SELECT 1\\"}"}', "execute", "SELECT 1"),
        ('{"function": {"name": "submit", "arguments": {"sql": "SELECT 1"}}}', "submit", "SELECT 1"),
        ('{"action": "sample", "table": "books", "n": 3}', "sample", "books, 3"),
        ('```json\n{"tool": "schema"}\n```', "schema", ""),
        ("done()", "done", ""),
    ],
)
def test_calls(text: str, tool: str, argument: str) -> None:
    assert parse(text, TOOLS) == ToolCall(tool, argument)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "hello", "I would run a query.", "Delete all books whose price is 3.", "knowledge(x)", "{", "[]"),
        *('{"tool": 1}', '{"a": ' * 3000, "(" * 4000, "execute" * 500, "'; DROP TABLE t; --", "```", "restart()"),
        "Which books are there? Show the title.",
    ],
)
def test_what_is_no_call(text: str) -> None:
    assert parse(text, TOOLS) is None


def test_an_empty_call_is_a_call() -> None:
    assert parse("execute()", TOOLS) == ToolCall("execute", "")


@given(st.text(max_size=300))
def test_parsing_never_raises_and_canonical_calls_stay(text: str) -> None:
    call = parse(text, TOOLS)
    if call and not call.argument.startswith(('"', "'", "`")):
        assert parse(str(call), TOOLS) is not None
    assert squeeze(squeeze(text)) == squeeze(text) or "--" in text or "/*" in text or ";" in text


@pytest.mark.parametrize(
    ("sql", "short"),
    [
        ("SELECT  a\n\tFROM t ;", "SELECT a FROM t"),
        ("SELECT 'a  b',\"c  d\"", "SELECT 'a  b',\"c  d\""),
        ("SELECT 1 -- one\n, 2", "SELECT 1 , 2"),
        ("SELECT /* one */ 1", "SELECT 1"),
        ("SELECT 'it''s  so'", "SELECT 'it''s  so'"),
        ("SELECT 'open  ", "SELECT 'open"),
        ("SELECT '--' , '/*'", "SELECT '--' , '/*'"),
    ],
)
def test_layout_does_not_count(sql: str, short: str) -> None:
    assert squeeze(sql) == short


def test_long_hostile_statements_are_squeezed_in_linear_time() -> None:
    for text in ("'a'" * 5000, "/*" * 8000, "-" * 16000, "'" * 16001, " " * 16000):
        squeeze(text)


def test_a_result_says_names_types_order_and_what_was_cut() -> None:
    result = Result(("name", "total"), ("TEXT", "INTEGER"), (("Ada", 3), (None, 2), ("NULL", 1)), cut=5, truncated=True)
    assert result_text(result, rows=2) == ("8 rows, 2 shown, 6 cut:\nname (TEXT) | total (INTEGER)\nAda | 3\nNULL | 2")
    assert result_text(result).splitlines()[-1] == "'NULL' | 1"
    assert result_text(Result(("n",), ("INTEGER",), ())) == "0 rows:\nn (INTEGER)"
    endless = Result(("n",), ("INTEGER",), ((1,),), cut=9, truncated=True, endless=True)
    assert result_text(endless).splitlines()[0] == "more than 10 rows, 1 shown, 9 or more cut:"


def test_cells() -> None:
    row = (b"\x00\xff", Decimal("1.50"), 0.1, "a|b\nc", "x" * 150)
    text = result_text(Result(tuple("abcde"), ("T",) * 5, (row,))).splitlines()[-1]
    assert text.startswith("x'00ff' | 1.50 | 0.1 | 'a|b\\nc' | " + "x" * 100 + "… (150 characters)")


def test_errors_and_changes() -> None:
    failed = Result(error="no such column: x", error_class=ErrorClass.NO_COLUMN)
    assert result_text(failed) == "Error (no_such_column): no such column: x"
    assert result_text(Result(changed=1)) == "Done: 1 row changed."
    assert result_text(Result(changed=None)) == "Done."


def test_a_large_result_stays_below_the_limit() -> None:
    rows = tuple(("y" * 99,) * 10 for _ in range(50))
    text = result_text(Result(tuple("abcdefghij"), ("TEXT",) * 10, rows))
    assert len(text) < 10_000 and text.startswith("50 rows, 8 shown, 42 cut:")
