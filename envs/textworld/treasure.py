"""TextWorldTreasure: find one object among rooms, doors and containers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..core import InvalidArgument
from .env import TextWorldEnv
from .tasks import GameTasks


def parse(settings: str, split: str) -> dict[str, Any]:
    """What the treasure hunter generator is given for "level12".

    Raises:
        InvalidArgument: there is no such level.
    """
    found = re.fullmatch(r"level(\d{1,2})", settings)
    level = int(found[1]) if found else 0
    if not 1 <= level <= 30:
        raise InvalidArgument(f"level must be 1 to 30, not {settings!r}")
    return {"challenge": "treasure_hunter", "settings": {"level": level}}


class TextWorldTreasure(TextWorldEnv):
    """Find the object that the objective names, and take it, but not the other one.

    ## Description
    TextWorld's Treasure Hunter: a house with two objects in it, one to take and one that loses the game. On the
    higher levels doors and containers are closed or locked. Games come from `textworld`'s generator, compiled on first
    use (a few seconds; up to a minute from level 26) and kept in a cache that all processes share.

    ## Action Space
    Text. The game's commands: `go north`, `open chest`, `take passkey from bench`, `look` …; other wordings that the
    game's parser understands are accepted. Commands about the program (save, restart, undo …) are not.

    ## Observation Space
    Text. What the interpreter prints, without its title, status line and turn count.

    ## Starting State
    A random room. The first observation is the objective and the first room.

    ## Rewards
    1 for taking the right object.

    ## Episode End
    Terminated when the right object (success) or the wrong one (failure) is taken. Registered limit: 40 steps.

    ## Information
    `admissible`: the game's commands in this state, sorted. `instruction`: the objective, which names the goal and not
    the way. An invalid action is answered by the game's parser and changes nothing. `progress` is the score.

    ## Privileged Information
    `oracle()`: the way from the current state. `hint()`: the next command. `verify()`: success and points.
    `snapshot()` holds the interpreter's memory.

    ## State Key
    The logical facts and the order in which the interpreter lists things, which is all that later text depends on.

    ## Arguments
    - `split`: "train", "valid_seen", "valid_unseen" or "test": disjoint ranges of seeds, nothing else.
    - `level` (20): 1 to 10, five rooms, no doors; 11 to 20, ten rooms with doors and containers; 21 to 30, twenty rooms
      with locks. The shortest solution grows within each ten.
    - `games` (100): how many games of the split to draw from.
    - `cache` (None): where compiled games are kept; None is the user's cache folder. `prepare()` fills it.

    ## Source and Licence
    `textworld` (MIT), `textworld.challenges.tw_treasure_hunter`, after Parisotto and Salakhutdinov 2017, "Neural Map".

    ## Version History
    - v0: first version.
    """

    def __init__(
        self,
        split: str = "train",
        *,
        level: int = 20,
        games: int = 100,
        cache: str | Path | None = None,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        tasks = GameTasks("treasure", f"level{level}", parse, split=split, games=games)
        super().__init__(tasks, cache=cache, max_steps=max_steps, render_mode=render_mode)
