"""The functions that statements may call in SQLite, and guards around those that can hang, explode or tell the time.

Standard library only: the worker imports this.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from functools import cache
from typing import Any

_NAMES = """
-> ->> abs acos acosh asin asinh atan atan2 atanh avg ceil ceiling char coalesce concat concat_ws cos cosh count
cume_dist current_date current_time current_timestamp date datetime degrees dense_rank exp first_value floor
format glob group_concat hex if ifnull iif instr json json_array json_array_length json_each json_error_position
json_extract json_group_array json_group_object json_insert json_object json_patch json_pretty json_quote
json_remove json_replace json_set json_tree json_type json_valid julianday lag last_value lead length like
likelihood likely ln log log10 log2 lower ltrim max min mod nth_value ntile nullif octet_length percent_rank pi
pow power printf quote radians rank replace round row_number rtrim sign sin sinh soundex sqrt strftime
string_agg substr substring sum tan tanh time timediff total trim trunc typeof unhex unicode unistr unixepoch
unlikely upper
"""
ALLOWED = frozenset(_NAMES.split())
CLOCKS = {"date": 0, "time": 0, "datetime": 0, "julianday": 0, "unixepoch": 0, "strftime": 1}
"""Functions that read the clock where the argument with this number is 'now' or missing."""
MAX_WIDTH = 10_000  # characters that one field of printf() may be padded to
MAX_PRODUCT = 10_000_000  # text length times pattern length, where the built-in function takes that many comparisons
_FIELD = re.compile(r"%([-+ 0#!,]*)(\*|\d+)?(?:\.(\*|\d+))?")


class Refused(Exception):
    """A function was called with arguments that it is closed for; the text is for the agent."""


def install(connection: sqlite3.Connection, now: str, longest: int, refuse: Callable[[str], None]) -> None:
    """Replace the dangerous built-in functions of `connection` by guarded ones.

    Args:
        connection: where they go.
        now: what the clock shows, `YYYY-MM-DD HH:MM:SS`.
        longest: bytes of the longest text that a function may return.
        refuse: is told the reason before a call fails, because SQLite drops the text of such errors.
    """
    original, there, closed = _originals(longest)

    def call(name: str, arguments: tuple[Any, ...]) -> Any:
        return original.execute(f"SELECT {name}({','.join('?' * len(arguments))})", arguments).fetchone()[0]

    def guarded(name: str, check: Callable[[str, tuple[Any, ...]], tuple[Any, ...]]) -> Callable[..., Any]:
        def function(*arguments: Any) -> Any:
            try:
                return call(name, check(name, arguments))
            except Refused as reason:
                refuse(str(reason))
                raise
            except sqlite3.Error as error:
                refuse(str(error))
                raise

        return function

    def frozen(name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        place = CLOCKS[name]
        if len(arguments) == place:
            return (*arguments, now)
        if place < len(arguments) and isinstance(arguments[place], str) and arguments[place].lower() == "now":
            return (*arguments[:place], now, *arguments[place + 1 :])
        return arguments

    for name in CLOCKS:
        if name in there:
            connection.create_function(name, -1, guarded(name, frozen), deterministic=True)
    for name, check in (("printf", _narrow), ("format", _narrow), *((name, _short) for name in _TEXT)):
        if name in there:
            connection.create_function(name, _TEXT.get(name, -1), guarded(name, check), deterministic=True)
    for name, count in closed:
        # The authorizer does not see the functions of a column's DEFAULT.
        connection.create_function(name, count, _refusing(name, refuse))
    day, _, hour = now.partition(" ")
    for name, value in (("current_date", day), ("current_time", hour), ("current_timestamp", now)):
        connection.create_function(name, 0, lambda value=value: value, deterministic=True)


@cache
def _originals(longest: int) -> tuple[sqlite3.Connection, frozenset[str], tuple[tuple[str, int], ...]]:
    """A connection with the built-in functions, the names of these, and those that are closed with their arguments."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, longest)
    listed = connection.execute("SELECT DISTINCT name, narg, type FROM pragma_function_list").fetchall()
    closed = ((name, count) for name, count, kind in listed if kind == "s" and name not in ALLOWED)
    return connection, frozenset(name for name, _, _ in listed), tuple(sorted(closed))


def _refusing(name: str, refuse: Callable[[str], None]) -> Callable[..., Any]:
    def function(*_: Any) -> Any:
        refuse(closed(name))
        raise Refused(name)

    return function


def closed(name: str) -> str:
    """Why the function called `name` is not available."""
    if name in ("random", "randomblob"):
        return f"{name}() is not available: results must be repeatable."
    return f"the function {name}() is not available."


_TEXT = {"instr": 2, "replace": 3, "trim": 2, "ltrim": 2, "rtrim": 2}
"""Functions that take as many comparisons as the product of the lengths, with their numbers of arguments."""


def _short(name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    text, pattern = (len(part) if isinstance(part, (str, bytes)) else 24 for part in arguments[:2])
    if text * pattern > MAX_PRODUCT:
        raise Refused(f"{name}(): the texts are too long ({text} and {pattern} characters)")
    return arguments


def _narrow(name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    if arguments and isinstance(arguments[0], str) and "%" in arguments[0]:
        widths = [int(size) for field in _FIELD.findall(arguments[0]) for size in field[1:] if size.isdigit()]
        if "*" in arguments[0]:  # widths come from the arguments: any of them may be one
            widths += [abs(_whole(value)) for value in arguments[1:]]
        if max(widths, default=0) > MAX_WIDTH:
            raise Refused(f"{name}(): a width of more than {MAX_WIDTH} is not allowed")
    return arguments


def _whole(value: Any) -> int:
    try:
        return int(float(value)) if isinstance(value, (int, float, str)) else 0
    except (ValueError, OverflowError):  # text that is no number counts as 0; infinity as a huge width
        return MAX_WIDTH + 1 if isinstance(value, float) else 0
