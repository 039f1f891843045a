"""What a statement is allowed to be, read from its syntax tree, for engines without SQLite's authorizer.

The engine's own rights come after this: it is the first of two walls, and the one whose messages are kind.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import Any

from .base import ErrorClass
from .grammar import grammar

MAX_LENGTH = 20_000  # characters; parsing is done in this process
MAX_DEPTH = 100  # nested parentheses
CLOCK_WORDS = {"now", "today", "tomorrow", "yesterday"}
CHANCE = {"random", "setseed", "gen_random_uuid", "uuid", "uuidv4", "uuidv7", "random_normal", "uuid_generate_v4"}
NUMBERED = {
    "txid_current",
    "txid_current_if_assigned",
    "txid_current_snapshot",
    "pg_current_snapshot",
    "pg_current_xact_id",
    "pg_current_xact_id_if_assigned",
    "pg_backend_pid",
    "pg_database_size",
    "current_database",
    "current_catalog",
    "current_transaction_id",
    "current_query_id",
    "current_connection_id",
}
"""Functions that tell what this session or database happens to be called, which differs from run to run."""
SLEEP = {"pg_sleep", "pg_sleep_for", "pg_sleep_until"}
CLOCKS = {
    "now",
    "clock_timestamp",
    "statement_timestamp",
    "transaction_timestamp",
    "timeofday",
    "today",
    "get_current_timestamp",
    "get_current_time",
    "current_localtimestamp",
    "current_localtime",
    "pg_postmaster_start_time",
    "pg_conf_load_time",
    "age",
}
_WORD = re.compile(r"[A-Za-z]+")
REPEATABLE = "is not available: results must be repeatable."


@dataclass(frozen=True)
class Screened:
    """A statement that may go to the engine, or the reason why not."""

    error: str = ""
    error_class: ErrorClass | None = None
    query: bool = False
    """It only reads."""


def screen(sql: str, dialect: str, *, write: bool) -> Screened:
    """Look at a statement.

    Args:
        sql: the agent's text.
        dialect: sqlglot's name of the engine.
        write: whether changes are allowed.
    """
    sqlglot = grammar()
    exp = sqlglot.exp

    if "\0" in sql:
        return Screened("the statement has a null character", ErrorClass.SYNTAX)
    if not sql.isascii() and any("\ud800" <= character <= "\udfff" for character in sql):
        return Screened("the statement has characters that are no text", ErrorClass.ENCODING)
    if len(sql) > MAX_LENGTH:
        return Screened(f"the statement has more than {MAX_LENGTH} characters", ErrorClass.TOO_BIG)
    if _depth(sql) > MAX_DEPTH:
        return Screened(f"the statement has more than {MAX_DEPTH} nested parentheses", ErrorClass.TOO_BIG)
    logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it warns of statements that it does not know
    try:
        trees = [tree for tree in sqlglot.parse(sql, read=dialect) if tree is not None]
    except RecursionError:
        return Screened("the statement is nested too deeply", ErrorClass.TOO_BIG)
    except sqlglot.errors.SqlglotError as error:
        return Screened(_syntax_error(error), ErrorClass.SYNTAX)
    trees = [tree for tree in trees if not isinstance(tree, exp.Semicolon)]
    if not trees:
        return Screened("There is no statement in this text.", ErrorClass.NO_STATEMENT)
    if len(trees) > 1:
        return Screened("You can only execute one statement at a time.", ErrorClass.MULTIPLE)
    reason = _refusal(trees[0], write)
    if reason:
        first = _WORD.search(sql)
        verb = first[0].upper() if first else "It"
        return Screened(reason.format(verb={"WITH": "Changing data"}.get(verb, verb)), ErrorClass.DENIED)
    return Screened(query=trees[0].find(*_written()) is None)


def _written() -> tuple[Any, ...]:
    exp = grammar().exp

    return (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create, exp.Drop, exp.Alter, exp.TruncateTable, exp.Into)


def _refusal(tree: Any, write: bool) -> str:
    exp = grammar().exp

    closed = (exp.Command, exp.Set, exp.Copy, exp.Pragma, exp.Attach, exp.Detach, exp.Transaction, exp.Commit)
    if tree.find(*closed) or not isinstance(tree, (exp.Query, exp.Values, *_written())):
        return "{verb} is not available here."
    if tree.find(exp.Into):
        return "SELECT INTO is not available; use CREATE TABLE AS where changes are allowed."
    if not write and tree.find(*_written()):
        return "{verb} is not allowed: the database can only be read here."
    for node in tree.find_all(exp.Create, exp.Drop, exp.Alter):
        kind = (node.args.get("kind") or "").upper()
        if kind not in ("TABLE", "VIEW", "INDEX"):
            return f"{{verb}} {kind} is not available here."
        if node.find(exp.TemporaryProperty):
            return "Temporary objects are not available."
    return _irregular(tree)


def _irregular(tree: Any) -> str:
    """The reason where the statement asks for the time or for chance."""
    exp = grammar().exp

    if tree.find(exp.CurrentDate, exp.CurrentTime, exp.CurrentTimestamp, exp.CurrentDatetime, exp.Localtime):
        return f"The clock {REPEATABLE}"
    if tree.find(exp.Localtimestamp, exp.CurrentTimestampLTZ):
        return f"The clock {REPEATABLE}"
    if tree.find(exp.Rand, exp.Uuid, exp.TableSample):
        return f"Chance {REPEATABLE}"
    for node in tree.find_all(exp.Func):
        name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
        if name in SLEEP:
            return f"{name}() is not available."
        if name in CHANCE | NUMBERED or (name in CLOCKS and (name != "age" or len(node.expressions) == 1)):
            return f"{name}() {REPEATABLE}"
    for literal in tree.find_all(exp.Literal):
        if literal.is_string and literal.name.strip().lower() in CLOCK_WORDS and _is_time(literal.parent):
            return f"'{literal.name}' as a time {REPEATABLE}"
    return ""


def _is_time(node: Any) -> bool:
    """Whether a node makes a time of the text that it is given."""
    exp = grammar().exp

    if isinstance(node, exp.Anonymous):
        return any(word in node.name.lower() for word in ("date", "time"))
    return isinstance(node, (exp.Cast, exp.TryCast, exp.Date, exp.Timestamp, exp.Time, exp.TsOrDsToDate))


def _depth(sql: str) -> int:
    depth = deepest = 0
    for character in sql:
        if character in "([":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]":
            depth -= 1
    return deepest


def _syntax_error(error: Any) -> str:
    for found in getattr(error, "errors", None) or ():
        near = f' at or near "{found["highlight"]}"' if found.get("highlight") else ""
        return f"syntax error{near} (line {found.get('line') or 1}, column {found.get('col') or 1})"
    return "syntax error"
