"""Actions over what the agent has seen, for policies that choose from a list.

A statement grows by one part a turn: first a table with one output, then further outputs or a condition, until it is
submitted. Names come from the schema that was looked at, values and the choice of columns from the words of the
question; nothing here knows the gold statement. Single tables with one condition: what easy questions need.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .backends.database import Column, TableSchema
from .env import State

AGGREGATES = ("AVG", "SUM", "MAX", "MIN")
_QUERY = re.compile(r"SELECT (?P<distinct>DISTINCT )?(?P<outputs>.+?) FROM (?P<table>\w+)(?: WHERE (?P<condition>.+))?")
_TEXT = re.compile(r"'([^']*)'")
_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_YEAR = re.compile(r"\b(?:in|year) (\d{4})\b")
_NUMBER = re.compile(r"(?<![\d'-])\d+(?![\d'-])")
_WORD = re.compile(r"[a-z]+")
_SILENT = {"on", "date", "id", "cm", "km", "kg", "m"}  # words of a name that questions leave out


@dataclass(frozen=True)
class Draft:
    """A statement in the making."""

    table: str
    outputs: tuple[str, ...]
    distinct: bool = False
    condition: str = ""

    @property
    def sql(self) -> str:
        """The statement."""
        where = f" WHERE {self.condition}" if self.condition else ""
        return f"SELECT {'DISTINCT ' if self.distinct else ''}{', '.join(self.outputs)} FROM {self.table}{where}"

    def leads_to(self, goal: Draft) -> bool:
        """Whether `goal` is this statement with nothing or something added."""
        return (
            (self.table, self.distinct) == (goal.table, goal.distinct)
            and goal.outputs[: len(self.outputs)] == self.outputs
            and self.condition in ("", goal.condition)
        )


def read_draft(sql: str) -> Draft | None:
    """The draft that a statement is, or None where it has other parts."""
    match = _QUERY.fullmatch(sql)
    if match is None:
        return None
    return Draft(match["table"], tuple(match["outputs"].split(", ")), bool(match["distinct"]), match["condition"] or "")


def actions(state: State, schema: Sequence[TableSchema], question: str) -> tuple[str, ...]:
    """The actions that make sense now, in a stable order without repetition.

    Args:
        state: what the agent has done.
        schema: of the database; only tables that `state` has seen are used.
        question: the request in words.
    """
    if not state.listed:
        return ("schema()",)
    draft = read_draft(state.query)
    known = [table for table in schema if table.name.lower() in state.tables]
    if draft is not None:
        table = next((table for table in known if table.name == draft.table), None)
        longer = [] if table is None else _longer(draft, table, question)
        return tuple(dict.fromkeys([*(f"execute({each.sql})" for each in longer), f"submit({draft.sql})"]))
    looks = [f"columns({table.name})" for table in schema if table not in known]
    starts = [f"execute({each.sql})" for table in known for each in _starts(table, question)]
    return tuple(dict.fromkeys([*looks, *starts])) or ("schema()",)


def towards(goal: str, listed: Sequence[str]) -> str | None:
    """Privileged: the listed action that comes closest to the statement `goal` without leaving the way to it."""
    target = read_draft(goal)
    if target is None:
        return None
    best: tuple[int, str] | None = None
    for action in listed:
        tool, _, rest = action.partition("(")
        draft = read_draft(rest.removesuffix(")"))
        if draft is not None and (draft == target if tool == "submit" else draft.leads_to(target)):
            size = len(draft.outputs) + bool(draft.condition)
            best = max(best or (0, ""), (size, action))
    return best[1] if best else None


def _starts(table: TableSchema, question: str) -> list[Draft]:
    drafts = [Draft(table.name, ("COUNT(*)",))]
    for column in _named(table, question):
        name = column.name
        drafts += [Draft(table.name, (name,)), Draft(table.name, (name,), True)]
        drafts.append(Draft(table.name, (f"COUNT(DISTINCT {name})",)))
        if _number(column):
            drafts += [Draft(table.name, (f"{function}({name})",)) for function in AGGREGATES]
    return drafts


def _longer(draft: Draft, table: TableSchema, question: str) -> list[Draft]:
    named = _named(table, question)
    found = []
    if not draft.condition and not draft.distinct and "COUNT(" not in draft.outputs[0]:
        if "(" in draft.outputs[0]:
            inner = draft.outputs[0][3:]
            more = [f"{function}{inner}" for function in AGGREGATES]
        else:
            more = [column.name for column in named]
        found += [replace(draft, outputs=(*draft.outputs, each)) for each in more if each not in draft.outputs]
    if not draft.condition:
        found += [replace(draft, condition=each) for column in named for each in _conditions(column, question)]
    return found


def _conditions(column: Column, question: str) -> list[str]:
    name = column.name
    if _number(column):
        numbers = dict.fromkeys(_NUMBER.findall(_DATE.sub("", question)))
        return [f"{name} {sign} {number}" for number in numbers for sign in (">", ">=", "<")]
    if column.type.upper() == "DATE":
        days = [f"{name} {sign} '{day}'" for day in _DATE.findall(question) for sign in (">=", "<")]
        years = [int(year) for year in _YEAR.findall(question)]
        return [*days, *(f"({name} >= '{year}-01-01' AND {name} < '{year + 1}-01-01')" for year in years)]
    texts = list(dict.fromkeys(_TEXT.findall(question)))
    both = [f"{name} IN ('{texts[0]}', '{texts[1]}')"] if len(texts) > 1 else []
    return [*(f"{name} = '{text}'" for text in texts), *(f"{name} LIKE '%{text}%'" for text in texts), *both]


def _named(table: TableSchema, question: str) -> list[Column]:
    """The columns whose name the question's words contain."""
    words = _words(question)
    return [column for column in table.columns if (own := _words(column.name) - _SILENT) and own <= words]


def _words(text: str) -> set[str]:
    return {word.removesuffix("s") for word in _WORD.findall(_TEXT.sub("", text.lower().replace("_", " ")))}


def _number(column: Column) -> bool:
    return column.type.upper() in ("INTEGER", "DOUBLE PRECISION", "REAL", "NUMERIC", "BIGINT")
