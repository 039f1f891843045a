"""The generator: a task, a scene and a seed become a game in the benchmark's own format.

Every kind of object that the scene's layout names is put, one to three times, into receptacles that the benchmark
allows for it; never the target into its goal or its tool, so that no game is won at the start.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from . import wheel
from .game import TASK_TYPES, Game, Problem, build_game, help_text, parse_expression
from .scenes import LAMP, LAMP_HOLDERS, TOOLS, Combo, Scene, kind_of, object_id, scene, static_kinds

VERSION = "gen1"
"""Part of every task id: another way to generate is another version."""
_MOST_COPIES = 3


@dataclass(frozen=True, slots=True)
class Recipe:
    """What names a generated game."""

    combo: Combo
    split: str
    seed: int
    max_receptacles: int | None = None
    """Keep only about this many of the scene's receptacles (a curriculum; None keeps them all)."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A generated game before it is written or indexed; ids as ALFRED writes them."""

    recipe: Recipe
    receptacles: dict[str, str]
    """Receptacle -> location."""
    objects: dict[str, str]
    """Object -> receptacle."""
    start: str
    sentence: str
    """The task sentence without its full stop."""

    @property
    def trial(self) -> str:
        """A name in the style of ALFRED's trials, always the same for the same recipe."""
        digest = hashlib.sha256(repr(self.recipe).encode()).hexdigest()
        parts = (int(digest[i * 8 : i * 8 + 8], 16) % 10**width for i, width in enumerate((8, 6, 6)))
        return "trial_G{:08d}_{:06d}_{:06d}".format(*parts)


def draft(recipe: Recipe) -> Draft:
    """Place the furniture and the objects."""
    combo = recipe.combo
    place = scene(combo.scene)
    rng = random.Random(f"alfworld-{VERSION}-{recipe.split}-{combo.name}-{recipe.seed}-{recipe.max_receptacles or 0}")
    receptacles = _furniture(place, recipe, rng)
    tool = TOOLS.get(combo.task_type, ("",))[0]
    used: set[str] = set()

    def new(kind: str) -> str:
        while True:
            x, z = rng.choice(place.points)
            name = object_id(kind, rng, x, z, height=1.6)
            if name not in used:
                used.add(name)
                return name

    objects = {}
    for kind in place.stock.portable:
        spots = [name for name in place.spots[kind] if name in receptacles]
        copies = rng.randint(1, _MOST_COPIES)
        if kind == combo.object:
            copies = max(copies, 2 if combo.task_type == TASK_TYPES[6] else 1)
            spots = [name for name in spots if kind_of(name) != combo.receptacle]
            spots = [name for name in spots if kind_of(name) != tool] or spots
        if spots:
            for _ in range(copies):
                objects[new(kind)] = rng.choice(spots)
    holders = [name for name in place.spots[LAMP] if name in receptacles]
    if place.stock.lamp and holders:
        objects[new(LAMP)] = rng.choice(holders)
    taken = set(receptacles.values())
    while True:
        x, z = rng.choice(place.points)
        start = f"loc|{round(x * 4)}|{round(z * 4)}|{rng.randrange(4)}|30"
        if start not in taken:
            break
    template = rng.choice(wheel.goal_library().gdict[combo.task_type]["templates"])
    where = combo.receptacle.lower()
    sentence = template.format(obj=combo.object.lower(), recep=where, toggle=where, mrecep="")
    return Draft(recipe, receptacles, objects, start, sentence)


def _furniture(place: Scene, recipe: Recipe, rng: random.Random) -> dict[str, str]:
    """The scene's receptacles, or some of them: with those that the task cannot do without."""
    if recipe.max_receptacles is None or recipe.max_receptacles >= len(place.receptacles):
        return place.receptacles
    combo = recipe.combo
    names = list(place.receptacles)
    rng.shuffle(names)
    tool = TOOLS.get(combo.task_type, ("",))[0]
    goal = LAMP_HOLDERS if combo.receptacle == LAMP else (combo.receptacle,)
    sources = [name for name in names if name in place.spots[combo.object] and kind_of(name) != combo.receptacle]
    sources.sort(key=lambda name: kind_of(name) in (*goal, tool))
    needed = [next(name for name in names if kind_of(name) in goal), sources[0]]
    needed += [name for name in names if kind_of(name) == tool][:1]
    kept = set(needed)
    for name in names:
        if len(kept) < recipe.max_receptacles:
            kept.add(name)
    return {name: location for name, location in place.receptacles.items() if name in kept}


def problem(made: Draft) -> Problem:
    """The game as PDDL facts, in the order of the benchmark's files."""
    types = {"agent1": "agent"}
    types |= {f"{kind}Type": "otype" for kind in sorted(wheel.constants().OBJECTS_SET - set(static_kinds()))}
    types |= {f"{kind}Type": "rtype" for kind in static_kinds()}
    types |= {encode(name): "object" for name in sorted(made.objects)}
    types |= {encode(name): "receptacle" for name in sorted(made.receptacles)}
    types |= {encode(name): "location" for name in sorted({*made.receptacles.values(), made.start})}
    return Problem(types, list(_facts(made)), _goal(made.recipe.combo))


def game(made: Draft) -> Game:
    """The game as the engines read it, without the detour over PDDL text."""
    return build_game(problem(made), f"{made.sentence}.", _help())


def pddl(made: Draft) -> str:
    """The game's `initial_state.pddl`."""
    parts = problem(made)
    indent = "\n        "
    objects = indent.join(f"{name} - {kind}" for name, kind in parts.types.items())
    facts = indent.join(f"({' '.join(fact)})" for fact in parts.facts)
    return (
        f"\n(define (problem plan_{made.trial})\n(:domain alfred)\n(:objects\n        {objects}\n        )\n\n"
        f"(:init\n        {facts}\n        )\n{_goal_text(made.recipe.combo)}"
    )


def game_file(made: Draft, walkthrough: list[str] | None = None) -> dict[str, Any]:
    """The content of the game's `game.tw-pddl`."""
    return {
        "pddl_domain": wheel.domain(),
        "grammar": wheel.grammar().replace("UNKNOWN GOAL", made.sentence),
        "pddl_problem": pddl(made),
        "solvable": True,
        "walkthrough": walkthrough,
    }


def encode(name: str) -> str:
    """An ALFRED id as a PDDL word."""
    return name.replace("-", "_minus_").replace("|", "_bar_").replace("+", "_plus_").replace(".", "_dot_")


def _facts(made: Draft) -> Iterator[tuple[str, ...]]:
    constants = wheel.constants()
    receptacles = {encode(name): (kind_of(name), encode(location)) for name, location in made.receptacles.items()}
    objects = {encode(name): (name.split("|")[0], encode(spot)) for name, spot in made.objects.items()}
    present = sorted({kind for kind, _ in objects.values()})
    yield from (("receptacleType", name, f"{kind}Type") for name, (kind, _) in receptacles.items())
    yield from (("objectType", name, f"{kind}Type") for name, (kind, _) in objects.items())
    for outer in sorted({kind for kind, _ in receptacles.values()}):
        fitting = constants.VAL_RECEPTACLE_OBJECTS.get(outer, ())
        yield from (("canContain", f"{outer}Type", f"{kind}Type") for kind in present if kind in fitting)
    yield from (("pickupable", name) for name, (kind, _) in objects.items() if kind != LAMP)
    movable = constants.MOVABLE_RECEPTACLES_SET
    yield from (("isReceptacleObject", name) for name, (kind, _) in objects.items() if kind in movable)
    openable = constants.OPENABLE_CLASS_SET
    yield from (("openable", name) for name, (kind, _) in receptacles.items() if kind in openable)
    yield ("atLocation", "agent1", encode(made.start))
    for table in ("Cleanable", "Heatable", "Coolable", "Toggleable", "Sliceable"):
        able = constants.VAL_ACTION_OBJECTS[table]
        yield from ((table.lower(), name) for name, (kind, _) in objects.items() if kind in able)
    yield from (("inReceptacle", name, spot) for name, (_, spot) in objects.items())
    yield from (("receptacleAtLocation", name, location) for name, (_, location) in receptacles.items())
    yield from (("objectAtLocation", name, receptacles[spot][1]) for name, (_, spot) in objects.items())


def _goal_text(combo: Combo) -> str:
    text = wheel.goal_library().gdict[combo.task_type]["pddl"]
    return text.format(obj=combo.object, recep=combo.receptacle, toggle=combo.receptacle, mrecep="").replace("#", "-")


@lru_cache(4096)
def _goal(combo: Combo) -> list[Any]:
    return parse_expression(f"({_goal_text(combo)}")[0][1]  # the template closes the problem's own parenthesis


@lru_cache(1)
def _help() -> str:
    return help_text(wheel.grammar())
