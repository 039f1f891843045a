"""TextWorldCooking: read the recipe, fetch and prepare the ingredients, eat the meal."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..core import InvalidArgument
from .env import TextWorldEnv
from .tasks import GameTasks

FOODS = {
    "train": "train",
    "valid_seen": "train",
    "valid_unseen": "valid",
    "test": "test",
}  # textworld's own food splits
_FLAGS = ("open", "cook", "cut", "drop")


def parse(settings: str, split: str) -> dict[str, Any]:
    """What the cooking generator is given for "recipe1+take1+go6+open+cook+cut".

    Raises:
        InvalidArgument: settings that the generator does not have.
    """
    found = re.fullmatch(r"recipe(\d+)\+take(\d+)\+go(\d+)((?:\+(?:open|cook|cut|drop))*)", settings)
    flags = found[4].split("+")[1:] if found else []
    if found is None or flags != [flag for flag in _FLAGS if flag in flags]:
        raise InvalidArgument(f"cooking settings look like recipe1+take1+go6+open+cook+cut+drop, not {settings!r}")
    recipe, take, go = map(int, found.groups()[:3])
    if not 1 <= recipe <= 5:
        raise InvalidArgument(f"recipe must be 1 to 5, not {recipe}")
    if take > recipe:
        raise InvalidArgument(f"take must be 0 to recipe ({recipe}), not {take}")
    if go not in (1, 6, 9, 12):
        raise InvalidArgument(f"go must be 1, 6, 9 or 12, not {go}")
    numbers = {"recipe": recipe, "take": take, "go": go, "recipe_seed": 0, "split": FOODS[split]}
    return {"challenge": "cooking", "settings": {**numbers, **{flag: flag in flags for flag in _FLAGS}}}


class TextWorldCooking(TextWorldEnv):
    """Find the kitchen, read the cookbook, gather and process the ingredients, prepare the meal and eat it.

    ## Description
    TextWorld's Cooking Game, known from the First TextWorld Problems competition. The recipe says which ingredients to
    take, how to cut them (knife) and how to cook them (stove: fry, oven: roast, BBQ: grill). A wrongly cut,
    burnt or eaten ingredient loses the game. Games come from `textworld`'s generator, compiled on first use (a few
    seconds) and kept in a cache that all processes share.

    ## Action Space
    Text. The game's commands: `go east`, `examine cookbook`, `take knife from table`, `dice carrot with knife`, `cook
    carrot with stove`, `prepare meal`, `eat meal` …; other wordings that the game's parser understands are accepted.
    Commands about the program (save, restart, undo …) are not.

    ## Observation Space
    Text. What the interpreter prints, without its title, status line and turn count.

    ## Starting State
    A random room. The first observation is the objective and the first room.

    ## Rewards
    Each point that the game gives (an ingredient taken, cut or cooked as the recipe says, the meal prepared, the meal
    eaten), divided by the game's highest score; 1 in all.

    ## Episode End
    Terminated when the meal is eaten (success) or the game is lost (failure). Registered limit: 50 steps.

    ## Information
    `admissible`: the game's commands in this state, sorted. `instruction`: the objective. An invalid action is answered
    by the game's parser and changes nothing. `progress` is the share of the points.

    ## Privileged Information
    `oracle()`: textworld's own plan from the current state. `hint()`: the next command. `verify()`: success and
    points. `snapshot()` holds the interpreter's memory.

    ## State Key
    The logical facts and the order in which the interpreter lists things, which is all that later text depends on.

    ## Arguments
    - `split`: "train", "valid_seen", "valid_unseen" or "test": disjoint ranges of seeds. The last two also have foods
      that training never has, or in preparations that it never has (the generator's own "valid" and "test" foods).
    - `recipe` (1): ingredients, 1 to 5. `take` (1): how many of them have to be found. `go` (9): rooms, 1, 6, 9 or 12.
    - `open` (True): doors and containers are closed. `cook` (True), `cut` (True): the recipe asks for it.
    - `drop` (False): the hands hold only few things.
    - `games` (100): how many games of the split to draw from.
    - `cache` (None): where compiled games are kept; None is the user's cache folder. `prepare()` fills it.

    ## Source and Licence
    `textworld` (MIT), `textworld.challenges.tw_cooking`, after Côté et al. 2018, "TextWorld: A Learning Environment for
    Text-based Games".

    ## Version History
    - v0: first version.
    """

    def __init__(
        self,
        split: str = "train",
        *,
        recipe: int = 1,
        take: int = 1,
        go: int = 9,
        open: bool = True,
        cook: bool = True,
        cut: bool = True,
        drop: bool = False,
        games: int = 100,
        cache: str | Path | None = None,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        flags = [name for name, wanted in zip(_FLAGS, (open, cook, cut, drop)) if wanted]
        settings = "+".join([f"recipe{recipe}", f"take{take}", f"go{go}", *flags])
        tasks = GameTasks("cooking", settings, parse, split=split, games=games)
        super().__init__(tasks, cache=cache, max_steps=max_steps, render_mode=render_mode)
