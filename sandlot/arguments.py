"""Command-line text to environments: `-k key=value` pairs, checked against the constructor before anything starts."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from sandlot.envs.core.errors import InvalidArgument
from sandlot.envs.core.registry import Registration, find
from sandlot.envs.core.text_env import TextEnv


def parse_pairs(pairs: Sequence[str]) -> dict[str, Any]:
    """`["rooms=4", "engine=fast"]` as a dict. Values are read as TOML (numbers, true, lists), else as plain text.

    Raises:
        InvalidArgument: a pair has no `=`.
    """
    arguments: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise InvalidArgument(f"{pair!r} is not of the form key=value")
        try:
            arguments[key.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            arguments[key.strip()] = value
    return arguments


def check_arguments(entry: Registration, arguments: Mapping[str, Any]) -> None:
    """Compare `arguments` with what the environment's constructor takes.

    Raises:
        InvalidArgument: an argument it does not have; the message lists those that it has.
        MissingExtra: the environment's optional dependencies are not installed.
    """
    parameters = inspect.signature(entry.load()).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for name in arguments:
        if name not in parameters:
            raise InvalidArgument(f"{entry.id} has no argument {name!r}; it takes {', '.join(parameters)}")


def make_env(env_id: str, arguments: Mapping[str, Any]) -> TextEnv:
    """The environment, or one clear error.

    Raises:
        InvalidArgument: no such environment, or a value that its constructor refuses.
    """
    entry = find(env_id)
    check_arguments(entry, arguments)
    try:
        return entry.load()(**{"max_steps": entry.max_episode_steps, **entry.kwargs, **arguments})
    except TypeError as error:
        shown = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        raise InvalidArgument(f"{entry.id} cannot be made with {shown}: {error}") from None
