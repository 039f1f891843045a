"""The few templates that `HomeServer` renders: a state, an attribute, a comparison, the time."""

from __future__ import annotations

import re

from ..sim.home import SimHome

_EXPRESSION = re.compile(r"\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_CALL = re.compile(r"(states|state_attr|is_state|now)\(\s*(.*?)\s*\)(\.isoformat\(\))?", re.DOTALL)
_ARGUMENT = re.compile(r"\s*(?:'([^']*)'|\"([^\"]*)\")\s*(?:,|$)")


class BadTemplate(Exception):
    """A template outside the subset."""


def render(home: SimHome, template: str) -> str:
    """The text with its expressions filled in. Raises `BadTemplate`."""
    if "{%" in template:
        raise BadTemplate("TemplateSyntaxError: statements are not supported")
    return _EXPRESSION.sub(lambda match: _value(home, match[1]), template)


def _value(home: SimHome, expression: str) -> str:
    match = _CALL.fullmatch(expression)
    if match is None:
        raise BadTemplate(f"TemplateSyntaxError: {expression[:80]!r} is not supported")
    name, arguments = match[1], [a or b for a, b in _ARGUMENT.findall(match[2])]
    if name == "now":
        return home.now().isoformat()
    wanted = {"states": 1, "state_attr": 2, "is_state": 2}[name]
    if len(arguments) != wanted:
        raise BadTemplate(f"TypeError: {name} takes {wanted} texts")
    state = home.state(arguments[0])
    if name == "states":
        return "unknown" if state is None else state.state
    if name == "is_state":
        return str(state is not None and state.state == arguments[1])
    return str(state.attributes.get(arguments[1]) if state else None)
