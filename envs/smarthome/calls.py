"""What an agent writes: one tool call, as JSON or as text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_NAME = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*", re.DOTALL)
_KEY = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*")
_BARE = re.compile(r"[^,]*")
_FENCE = re.compile(r"\s*```(?:json|tool|text)?\s*\n(.*?)\n?\s*```\s*", re.DOTALL)


@dataclass(frozen=True)
class ToolCall:
    """A tool and its arguments."""

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """The call as text; `parse_call` reads it."""
        return f"{self.name}({', '.join(f'{key}={_show(value)}' for key, value in self.args.items())})"

    def json(self) -> str:
        """The call as JSON; `parse_call` reads it."""
        return json.dumps({"tool": self.name, "args": dict(self.args)}, ensure_ascii=False)


def parse_call(text: str) -> ToolCall | str:
    """The call in `{"tool": name, "args": {...}}` or `name(key=value, ...)`, fenced or not; else what is wrong."""
    fenced = _FENCE.fullmatch(text)
    text = (fenced[1] if fenced else text).strip()
    if text.startswith("{"):
        return _from_json(text)
    found = _NAME.fullmatch(text)
    if found is None:
        return 'Write one tool call: name(key=value, ...) or {"tool": name, "args": {...}}.'
    args = _arguments(found[2])
    return args if isinstance(args, str) else ToolCall(found[1], args)


def _from_json(text: str) -> ToolCall | str:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"This is not JSON: {error}."
    name = data.get("tool", data.get("name"))
    args = data.get("args", data.get("arguments", data.get("parameters", {})))
    if not isinstance(name, str) or not isinstance(args, dict):
        return 'A call in JSON is {"tool": name, "args": {...}}.'
    return ToolCall(name, args)


def _arguments(text: str) -> dict[str, Any] | str:
    args: dict[str, Any] = {}
    at = 0
    while text[at:].strip():
        key = _KEY.match(text, at)
        if key is None:
            return f"Write arguments as key=value, key=value; this is not one: {text[at:].strip()[:60]!r}."
        if key[1] in args:
            return f"The argument {key[1]!r} is there twice."
        bare = _BARE.match(text, key.end())
        assert bare is not None
        try:
            if text[key.end() : key.end() + 1] in ('"', "[", "{"):
                args[key[1]], at = json.JSONDecoder().raw_decode(text, key.end())
            else:
                args[key[1]], at = json.loads(bare[0]), bare.end()
        except (ValueError, RecursionError):
            args[key[1]], at = bare[0].strip(), bare.end()
        rest = text[at:].lstrip()
        if rest and not rest.startswith(","):
            return f"A comma is missing before {rest[:40]!r}."
        at = len(text) - len(rest) + 1 if rest else len(text)
    return args


def _show(value: Any) -> str:
    bare = (
        isinstance(value, str)
        and re.fullmatch(r"[A-Za-z_][\w.]*", value)
        and value not in ("true", "false", "null", "NaN")
    )
    return str(value) if bare and value not in ("Infinity",) else json.dumps(value, ensure_ascii=False)
