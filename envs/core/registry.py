"""Registration as data: every environment is one `Registration`; Gymnasium is told about all of them at import."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnasium.envs import registration as _gym

from .errors import InvalidArgument

if TYPE_CHECKING:
    from .text_env import TextEnv

FOLDER = Path(__file__).parent.parent
ROOT = __name__.rsplit(".", 2)[0]  # "sandlot.envs"


@dataclass(frozen=True)
class Registration:
    """One environment id and how to build it."""

    id: str
    """"sandlot/Name-vN"; a change of behaviour is a new N."""
    entry_point: str
    """"module:Class"; a module below `sandlot.envs` is written from there ("toys.corridor:Corridor")."""
    max_episode_steps: int
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    family: str = ""
    extra: str | None = None
    """The optional-dependency group that the environment needs, or None."""

    @property
    def target(self) -> str:
        """The entry point with the module's full name."""
        head = self.entry_point.split(":")[0].split(".")[0]
        return f"{ROOT}.{self.entry_point}" if (FOLDER / head).is_dir() else self.entry_point

    def load(self) -> type[TextEnv]:
        """The environment's class."""
        module, name = self.target.split(":")
        return getattr(importlib.import_module(module), name)


REGISTRY: dict[str, Registration] = {}


def register(**kwargs: Any) -> None:
    """Add a `Registration` here and in Gymnasium. Registering the same data twice is harmless."""
    entry = Registration(**kwargs)
    known = REGISTRY.setdefault(entry.id, entry)
    if known != entry:
        raise InvalidArgument(f"{entry.id} is already registered as {known.entry_point}")
    if entry.id not in _gym.registry:
        _gym.register(
            id=entry.id,
            entry_point=entry.target,
            max_episode_steps=entry.max_episode_steps,
            kwargs=dict(entry.kwargs),
        )


def find(env_id: str) -> Registration:
    """The registration of an id; the prefix "sandlot/" and the suffix "-v0" may be left out.

    Raises:
        InvalidArgument: there is no such environment; the message names the closest ones.
    """
    import difflib

    names = {name: name for name in REGISTRY}
    names |= {name.removeprefix("sandlot/"): name for name in REGISTRY}
    names |= {name.removeprefix("sandlot/").rsplit("-v", 1)[0]: name for name in REGISTRY}
    folded = {alias.lower(): name for alias, name in names.items()}
    if env_id.lower() in folded:
        return REGISTRY[folded[env_id.lower()]]
    close = [folded[hit] for hit in difflib.get_close_matches(env_id.lower(), folded, n=3, cutoff=0.4)]
    close = list(dict.fromkeys(close)) or sorted(REGISTRY)[:3]
    raise InvalidArgument(f"no environment {env_id!r}; did you mean {' or '.join(close)}? `sandlot list` shows all")


def make(env_id: str, **kwargs: Any) -> TextEnv:
    """The environment itself, without Gymnasium's wrappers: what the harness runs.

    The registered step limit becomes the constructor's `max_steps`, so that snapshots hold the step count too.
    """
    entry = find(env_id)
    return entry.load()(**{"max_steps": entry.max_episode_steps, **entry.kwargs, **kwargs})
