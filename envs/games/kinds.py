"""Kinds of players that can be kept in files: each is registered under a name, as environments are.

Policies in a seat are a kind too, which this floor does not know: the front door registers them.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import InvalidArgument

if TYPE_CHECKING:
    from .game import Player

ROOT = __name__.rsplit(".", 2)[0]  # "sandlot.envs"
KINDS: dict[str, str] = {}


def register_player(kind: str, entry_point: str) -> None:
    """Say which class the players of this kind are. Saying the same twice is harmless.

    A dataclass of plain values needs no more. Any other class has `keep(folder) -> settings`, which may write files
    into the folder and returns what JSON can say, and the class method `bring(folder, settings)`, which makes it again.

    Args:
        kind: the name that stands in the files.
        entry_point: "module:Class", the module with its full name.
    """
    if KINDS.setdefault(kind, entry_point) != entry_point:
        raise InvalidArgument(f"players of the kind {kind!r} are already {KINDS[kind]}")


register_player("rps", f"{ROOT}.games.rps:RPSPlayer")
register_player("poker", f"{ROOT}.games.poker:PokerPlayer")


def keep_player(player: Player, folder: Path) -> tuple[str, dict[str, Any]]:
    """The player's kind and settings; what settings cannot say is written into `folder`.

    Raises:
        InvalidArgument: no kind is registered for it, or it cannot be kept.
    """
    entry_point = f"{type(player).__module__}:{type(player).__qualname__}"
    kind = next((name for name, registered in KINDS.items() if registered == entry_point), None)
    if kind is None:
        raise InvalidArgument(f"{entry_point} cannot be kept in a file: register_player('name', '{entry_point}') first")
    if is_dataclass(player) and not isinstance(player, type):
        return kind, asdict(player)
    return kind, player.keep(folder)  # pyright: ignore[reportAttributeAccessIssue]


def bring_player(kind: str, settings: Mapping[str, Any], folder: Path) -> Player:
    """The player that `keep_player` kept.

    Raises:
        InvalidArgument: nobody has registered this kind here, or the settings are not its own.
    """
    if kind not in KINDS:
        known = ", ".join(KINDS)
        raise InvalidArgument(f"no kind of player {kind!r} is registered here; known are {known}")
    module, name = KINDS[kind].split(":")
    made: Any = getattr(importlib.import_module(module), name)
    try:
        if isinstance(made, type) and is_dataclass(made):
            plain = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
            player: Any = made(**plain)
            return player
        return made.bring(folder, settings)
    except (TypeError, KeyError, ValueError) as error:
        raise InvalidArgument(f"these are no settings of a player of the kind {kind!r}: {error}") from error
