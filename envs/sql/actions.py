"""Tool calls in text or JSON, read forgivingly: what a model writes is hostile or clumsy more often than not."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_CALL = re.compile(r"([A-Za-z_]+)\s*\((.*)\)\s*[;.]?", re.DOTALL)
_WORDS = re.compile(r"([A-Za-z_]+)\s*(:|\s|$)\s*(.*)", re.DOTALL)
_FENCE = re.compile(r"```\s*(\w*)\s*\n?(.*?)\s*```", re.DOTALL)
_STATEMENT = re.compile(
    r"(select|with|values|insert\s+into|replace\s+into|update|delete\s+from|create|alter|drop|explain|pragma)\b",
    re.IGNORECASE,
)
_KEYWORD = re.compile(r"(sql|query|question|table|name|column|statement)\s*=\s*(?=[\"'])", re.IGNORECASE)
_QUOTES = ('"""', "'''", '"', "'", "`")
_PIECE = re.compile(
    r"""'[^']*(?:'|\Z) | "[^"]*(?:"|\Z) | `[^`]*(?:`|\Z) | (?P<blank>(?: \s | --[^\n]*\n? | /\*.*?(?:\*/|\Z) )+)""",
    re.DOTALL | re.VERBOSE,
)
_NAMES = ("tool", "name", "action", "tool_name", "function", "command")
_ARGUMENTS = ("args", "arguments", "parameters", "input", "action_input", "params")

ALIASES: Mapping[str, str] = {
    **dict.fromkeys(("get_schema", "tables", "list_tables", "show_tables"), "schema"),
    **dict.fromkeys(("describe", "desc", "get_columns", "describe_table"), "columns"),
    **dict.fromkeys(("sample_rows", "head", "peek"), "sample"),
    **dict.fromkeys(("execute_sql", "query", "sql", "run", "run_sql", "execute_query"), "execute"),
    **dict.fromkeys(("submit_sql", "answer", "final_answer", "commit_final_answer"), "submit"),
    **dict.fromkeys(("finish", "commit"), "done"),
    **dict.fromkeys(("undo_all", "reset_database"), "restart"),
    **dict.fromkeys(("ask_user", "clarify"), "ask"),
    **dict.fromkeys(("get_all_external_knowledge_names", "list_knowledge"), "knowledge_names"),
    **dict.fromkeys(("get_knowledge_definition", "knowledge_definition"), "knowledge"),
    **dict.fromkeys(("get_all_knowledge_definitions",), "all_knowledge"),
    **dict.fromkeys(("get_all_column_meanings", "column_meanings"), "meanings"),
    **dict.fromkeys(("get_column_meaning", "column_meaning"), "meaning"),
}


@dataclass(frozen=True)
class ToolCall:
    """One call of a tool."""

    tool: str
    argument: str = ""

    def __str__(self) -> str:
        return f"{self.tool}({self.argument})"


def parse(text: str, tools: tuple[str, ...]) -> ToolCall | None:
    """The call that `text` makes, or None where it makes none of these tools' calls. Never raises."""
    text = text.strip()
    fence = _FENCE.fullmatch(text)
    if fence:
        text = fence[2].strip()
    if text.startswith("{"):
        call = _from_json(text)
    else:
        call = _from_text(text, tools)
    if call is None or call.tool not in tools:
        return None
    argument = squeeze(call.argument) if call.tool in ("execute", "submit") else " ".join(call.argument.split())
    return ToolCall(call.tool, argument)


def squeeze(sql: str) -> str:
    """The statement with single spaces outside quotes, without comments, and without a semicolon at the end.

    Equal statements that differ in layout become equal texts.
    """
    return _PIECE.sub(lambda piece: " " if piece["blank"] else piece[0], sql).strip().rstrip(";").rstrip()


def _from_text(text: str, tools: tuple[str, ...]) -> ToolCall | None:
    match = _CALL.fullmatch(text)
    name = _tool(match[1]) if match else ""
    if match and name in tools:
        return ToolCall(name, _unquoted(match[2]))
    if _STATEMENT.match(text):
        return ToolCall("execute", text)
    match = _WORDS.fullmatch(text)
    if match and (match[2] == ":" or not match[3] or match[1].lower() in tools):
        return ToolCall(_tool(match[1]), _unquoted(match[3]))
    return None


def _from_json(text: str) -> ToolCall | None:
    try:
        data = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    for _ in range(3):  # {"function": {"name": …, "arguments": …}} and the like
        inner = next((data[key] for key in _NAMES if isinstance(data.get(key), dict)), None)
        if inner is None:
            break
        data = inner
    name = next((data[key] for key in _NAMES if isinstance(data.get(key), str)), "")
    given: Any = next((data[key] for key in _ARGUMENTS if key in data), None)
    if given is None:
        given = {key: value for key, value in data.items() if key not in _NAMES}
    if isinstance(given, str) and given.lstrip().startswith("{"):
        try:
            given = json.loads(given, strict=False)
        except (ValueError, RecursionError):
            return None
    if isinstance(given, dict):
        given = ", ".join(str(value) for value in given.values() if isinstance(value, str | int))
    return ToolCall(_tool(name), given if isinstance(given, str) else "")


def _tool(name: str) -> str:
    return ALIASES.get(name.lower(), name.lower())


def _unquoted(text: str) -> str:
    """The argument without a keyword before it and without the quotes around it."""
    text = _KEYWORD.sub("", text.strip(), count=1) if _KEYWORD.match(text.strip()) else text.strip()
    for quote in _QUOTES:
        inner = text[len(quote) : -len(quote)]
        if len(text) > 2 * len(quote) and text.startswith(quote) and text.endswith(quote) and quote not in inner:
            return inner.strip()
    return text
