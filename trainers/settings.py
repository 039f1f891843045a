"""Settings as small dataclasses: read from TOML's tables and the command line, with mistakes said at once.

A wrong name and a value of a wrong type are errors where they are read, not hours later where they are used.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from ..envs.core.errors import InvalidArgument

T = TypeVar("T")


@dataclass(frozen=True)
class Tiny:
    """The language model from scratch (`harness.policies.tiny.tiny_llama`)."""

    d_model: int = 128
    """Width of the residual stream."""
    layers: int = 3
    heads: int = 4
    rope_theta: float = 500.0
    """Base of the rotary position encoding."""
    init_std: float = 0.05
    """Standard deviation of the initial weights."""
    tied: bool = True
    """Input and output embeddings are one matrix."""
    max_context: int = 2048
    """Longest sequence in tokens."""
    kinship: float | None = None
    """How alike words that share a stem begin (`harness.policies.tiny.relate`); None: not at all."""
    seed: int | None = None
    """Of the initial weights; None: the run's."""


def read(kind: type[T], values: Mapping[str, Any] | T, name: str) -> T:
    """The dataclass `kind` from a table.

    Args:
        kind: a dataclass.
        values: a table, or what would be made of it.
        name: of the table, for messages.

    Raises:
        InvalidArgument: an unknown key or a value of another type; the message says what there is.
    """
    if isinstance(values, kind):
        return values
    if not isinstance(values, Mapping):
        raise InvalidArgument(f"{name} must be a table, for example {name}={{…}}, not {values!r}")
    known = [field.name for field in fields(kind)]  # pyright: ignore[reportArgumentType]
    for key in values:
        if key not in known:
            raise InvalidArgument(f"{name} has no setting {key!r}; it has {', '.join(known)}")
    made = kind(**{str(key): value for key, value in values.items()})
    check_types(made, name)
    return made


def check_types(settings: Any, name: str = "") -> None:
    """Compare the values of a dataclass with its annotations; whole numbers may stand for others.

    Raises:
        InvalidArgument: a value of another type.
    """
    hints = get_type_hints(type(settings))
    for field in fields(settings):
        value, kind = getattr(settings, field.name), hints[field.name]
        if not _is(value, kind):
            shown = f"{name}.{field.name}" if name else field.name
            raise InvalidArgument(f"{shown} must be {_said(kind)}, not {value!r}")


def table(settings: Any) -> dict[str, Any]:
    """A dataclass as TOML's table; what is None is left out."""
    found = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return {key: table(value) if is_dataclass(value) else value for key, value in found.items() if value is not None}


def _is(value: Any, kind: Any) -> bool:
    if get_origin(kind) in (Union, types.UnionType):
        return any(_is(value, choice) for choice in get_args(kind))
    plain = get_origin(kind) or kind
    if plain is Any:
        return True
    if plain is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if plain is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if plain is list:
        return isinstance(value, list) and all(_is(item, part) for item in value for part in get_args(kind)[:1])
    return isinstance(value, plain)


def _said(kind: Any) -> str:
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(_said(choice) for choice in get_args(kind) if choice is not type(None))
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", list: "a list"}
    return names.get(get_origin(kind) or kind, "a table")
