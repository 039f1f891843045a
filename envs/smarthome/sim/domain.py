"""What a device domain is to the simulation: its services as data, its start, its power and its timed events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..backend import EntityState
from ..spec import EntitySpec
from .fields import Field, Invalid

if TYPE_CHECKING:
    from .home import SimHome

Handler = Callable[["SimHome", EntityState, dict[str, Any]], Any]
HomeHandler = Callable[["SimHome", dict[str, Any]], Any]
TARGETS = ("entity_id", "device_id", "area_id", "floor_id")


class Refused(Exception):
    """A call that the home refuses; the text is Home Assistant's."""

    def __init__(self, text: str, code: str = "service_validation_error") -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Service:
    """One service."""

    handle: Handler | None = None
    """Carries it out on one entity. It checks before it changes anything, and raises `Refused`."""
    fields: Mapping[str, Field] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    features: tuple[int, ...] = ()
    """Alternatives: the entity must have all bits of one of them."""
    exclusive: tuple[tuple[str, ...], ...] = ()
    """Groups of which a call may use one field."""
    at_least: tuple[str, ...] = ()
    """A call must use one of these."""
    responds: bool = False
    at_home: HomeHandler | None = None
    """Instead of `handle`, for services without target entities."""

    def validate(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The data in canonical form. Raises `Refused` with the first error."""
        checked: dict[str, Any] = {}
        for key, value in data.items():
            kind = self.fields.get(key)
            if kind is None:
                raise Refused(f"extra keys not allowed @ data[{key!r}]", "invalid_format")
            try:
                checked[key] = kind.check(value)
            except Invalid as error:
                raise Refused(f"{error} for dictionary value @ data[{key!r}]", "invalid_format") from None
        for key in self.required:
            if key not in checked:
                raise Refused(f"required key not provided @ data[{key!r}]", "invalid_format")
        for group in self.exclusive:
            if sum(key in checked for key in group) > 1:
                raise Refused(f"two or more values in the same group of exclusion {group[0]!r}", "invalid_format")
        if self.at_least and not any(key in checked for key in self.at_least):
            raise Refused(f"must contain at least one of {', '.join(self.at_least)}.", "invalid_format")
        return checked

    def describe(self) -> dict[str, Any]:
        """The service as `GET /api/services` lists it."""
        fields = {
            name: {"required": True, "selector": kind.selector()}
            if name in self.required
            else {"selector": kind.selector()}
            for name, kind in self.fields.items()
        }
        description: dict[str, Any] = {"fields": fields}
        if self.at_home is None:
            description["target"] = {"entity": [{"supported_features": list(self.features)} if self.features else {}]}
        if self.responds:
            description["response"] = {"optional": False}
        return description


@dataclass(frozen=True)
class Domain:
    """One domain."""

    name: str
    states: str
    """The states for people to read, e.g. "on, off"."""
    services: Mapping[str, Service] = field(default_factory=dict)
    initial: Callable[[EntitySpec], tuple[str, dict[str, Any]]] = lambda spec: ("unknown", {})
    """The state and attributes where the spec says nothing else."""
    features: Mapping[str, int] = field(default_factory=dict)
    """Home Assistant's `supported_features` flags."""
    events: Mapping[str, Callable[[SimHome, str, tuple[Any, ...]], None]] = field(default_factory=dict)
    """What happens when something that takes time is done: (home, entity id, payload)."""
    power: Callable[[EntityState, Mapping[str, Any]], float] | None = None
    """Watts drawn in a state, given the entity's simulation parameters."""
    timing: str = ""
    """What takes time, for the documentation."""


def flags(entity: EntityState) -> int:
    """The entity's `supported_features` bits."""
    value = entity.attributes.get("supported_features", 0)
    return value if isinstance(value, int) else 0


def one_of(kind: str, value: str, options: Any) -> None:
    """Raise `Refused` unless `value` is among an entity's options for a mode."""
    if value not in (options or ()):
        listed = ", ".join(map(str, options or ()))
        raise Refused(f"The {kind} {value} is not a valid {kind}: {listed}")
