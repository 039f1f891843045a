"""Warnings about statements that ran but hardly mean what they say."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .grammar import grammar
from .tables import TableSchema

ROW_NUMBERS = frozenset({"rowid", "oid", "_rowid_"})
_TOKEN = re.compile(
    r"""\s+ | --[^\n]* | /\*.*?(?:\*/|\Z)                                                   # nothing
    | (?P<quoted>"(?:[^"]|"")*") | (?P<text>'(?:[^']|'')*') | (?P<other>`[^`]*` | \[[^\]]*\])
    | (?P<word>[^\W\d]\w*) | (?P<number>[\d.]+) | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
# After these comes an expression; after any other word, a name that stands there is given, not used.
_BEFORE = frozenset(
    """
    select distinct all where and or not on having by case when then else like glob in is between set using limit
    offset escape from join union intersect except match regexp values isnull notnull
    """.split()  # noqa: SIM905 (a list of one word a line is no easier to read)
)
# Statements with these can give names in more places than are looked for here.
_RARE = re.compile(r"\b(?:with|window|over|indexed|collate|returning|natural)\b", re.IGNORECASE)


def schema_names(schema: Iterable[TableSchema]) -> frozenset[str]:
    """The names of all tables and columns, in lower case."""
    found = set(ROW_NUMBERS)
    for table in schema:
        found |= {table.name.lower(), *(column.name.lower() for column in table.columns)}
    return frozenset(found)


def quoted_names_taken_for_text(sql: str, known: frozenset[str]) -> str:
    """A warning where SQLite took a double-quoted name that nothing has for a text; "" otherwise.

    Args:
        sql: a statement that ran.
        known: see `schema_names`.
    """
    if sql[:6].upper() == "SELECT" and not _RARE.search(sql):
        name = _in_plain_select(sql, known)
    else:
        name = _in_any(sql, known)
    return f'Note: no column is called "{name}", so it was read as text. Texts go in single quotes.' if name else ""


def _in_plain_select(sql: str, known: frozenset[str]) -> str:
    """Told from the tokens, which takes a hundredth of the time of a syntax tree."""
    tokens = [(match.lastgroup, match[0]) for match in _TOKEN.finditer(sql) if match.lastgroup]
    used: list[str] = []
    given: set[str] = set()
    for place, (kind, token) in enumerate(tokens):
        if kind != "quoted":
            continue
        name = token[1:-1].replace('""', '"')
        before, word = tokens[place - 1]
        after = tokens[place + 1][1] if place + 1 < len(tokens) else ""
        if "." in (word, after):
            continue
        expression = word.lower() in _BEFORE if before == "word" else before == "sign" and word != ")"
        if expression:
            used.append(name)
        else:
            given.add(name.lower())
    given |= {token.lower() for kind, token in tokens if kind == "word"} if used else set()  # AS name
    return next((name for name in used if name.lower() not in known and name.lower() not in given), "")


def _in_any(sql: str, known: frozenset[str]) -> str:
    sqlglot = grammar()
    exp = sqlglot.exp

    try:
        tree = sqlglot.parse_one(sql, read="sqlite")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return ""
    given = {alias.alias.lower() for alias in tree.find_all(exp.Alias, exp.TableAlias, exp.Subquery)}
    given |= {name.name.lower() for alias in tree.find_all(exp.TableAlias) for name in alias.columns}
    for column in tree.find_all(exp.Column):
        name = column.this
        used = isinstance(name, exp.Identifier) and name.quoted and not column.table
        if used and name.name.lower() not in known | given:
            return name.name
    return ""
