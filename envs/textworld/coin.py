"""TextWorldCoin: find the coin in a house of rooms."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..core import InvalidArgument
from .env import TextWorldEnv
from .tasks import GameTasks


def parse(settings: str, split: str) -> dict[str, Any]:
    """What the coin collector generator is given for "level105".

    Raises:
        InvalidArgument: there is no such level.
    """
    found = re.fullmatch(r"level(\d{1,3})", settings)
    level = int(found[1]) if found else 0
    if not 1 <= level <= 300 or ((level - 1) // 100 + 1) * ((level - 1) % 100 + 1) > 100:
        raise InvalidArgument(f"level must be 1-100, 101-150 or 201-233 (at most 100 rooms), not {settings!r}")
    return {"challenge": "coin_collector", "settings": {"level": level}}


class TextWorldCoin(TextWorldEnv):
    """Walk through a house of similar rooms, find the room with the coin, and take it.

    ## Description
    TextWorld's Coin Collector: a chain of rooms leads from the start to the coin, with dead ends beside it on the
    higher levels. All rooms look much alike, so the agent has to remember where it has been. Games come from
    `textworld`'s generator, compiled on first use (a few seconds) and kept in a cache that all processes share.

    ## Action Space
    Text. The game's commands: `go north`, `take coin`, `look`, `inventory` …; other wordings that the game's parser
    understands are accepted (`n`, `get the coin`). Commands about the program (save, restart, undo …) are not.

    ## Observation Space
    Text. What the interpreter prints, without its title, status line and turn count.

    ## Starting State
    One end of the chain. The first observation is the objective and the first room.

    ## Rewards
    1 for taking the coin.

    ## Episode End
    Terminated when the coin is taken. Registered limit: 50 steps.

    ## Information
    `admissible`: the game's commands in this state, sorted. `instruction`: the objective, which names the goal and not
    the way. An invalid action is answered by the game's parser and changes nothing. `progress` is the score.

    ## Privileged Information
    `oracle()`: the way from the current room. `hint()`: the next command. `verify()`: success and points.
    `snapshot()` holds the interpreter's memory.

    ## State Key
    The logical facts and the order in which the interpreter lists things, which is all that later text depends on.

    ## Arguments
    - `split`: "train", "valid_seen", "valid_unseen" or "test": disjoint ranges of seeds, nothing else.
    - `level` (110): 1 to 100, chain of that many rooms; 101 to 150, chain of `level - 100` and as many dead ends; 201
      to 233, chain of `level - 200` and twice as many.
    - `games` (100): how many games of the split to draw from.
    - `cache` (None): where compiled games are kept; None is the user's cache folder. `prepare()` fills it.

    ## Source and Licence
    `textworld` (MIT), `textworld.challenges.tw_coin_collector`, after Yuan et al. 2018, "Counting to Explore and
    Generalize in Text-based Games".

    ## Version History
    - v0: first version.
    """

    def __init__(
        self,
        split: str = "train",
        *,
        level: int = 110,
        games: int = 100,
        cache: str | Path | None = None,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        tasks = GameTasks("coin", f"level{level}", parse, split=split, games=games)
        super().__init__(tasks, cache=cache, max_steps=max_steps, render_mode=render_mode)
