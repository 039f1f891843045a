"""Recipes by name: the four baselines, and every published system in `trainers/systems/` by its file name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from ..envs.core.errors import InvalidArgument
from .estimators import GAE, GRPO, RLOO, ReinforcePlusPlus
from .recipe import Objective, Recipe
from .systems import systems


def assemble(
    name: str, estimator: type, options: Mapping[str, Any], *, objective: Objective, **defaults: Any
) -> Recipe:
    """A recipe from flat options: each goes to the estimator, the objective or the recipe, whichever has that field.

    Args:
        name: the recipe's name.
        estimator: the estimator's dataclass.
        options: what the user asked for, e.g. `{"gamma": 0.9, "clip_high": 0.28, "lr": 1e-5}`. `objective` replaces
            the default objective as a whole.
        objective: the method's default objective.
        defaults: the method's other defaults, as fields of `Recipe`.

    Raises:
        InvalidArgument: an option that no part has; the message names close ones.
    """
    base = options.get("objective", objective)
    settings = {key: value for key, value in options.items() if key != "objective"}
    parts: dict[str, dict[str, Any]] = {}
    known: list[str] = []
    for part, owner in (("estimator", estimator), ("objective", Objective), ("recipe", Recipe)):
        names = [f.name for f in fields(owner) if f.init and f.name not in ("name", "estimator", "objective")]
        parts[part] = {key: settings.pop(key) for key in names if key in settings}
        known += names
    if settings:
        raise InvalidArgument(_unknown(f"option of recipe {name!r}", next(iter(settings)), known))
    return Recipe(
        name=name,
        estimator=estimator(**parts["estimator"]),
        objective=replace(base, **parts["objective"]),
        **{**defaults, **parts["recipe"]},
    )


def grpo(**options: Any) -> Recipe:
    """GRPO with the return's standard deviation and a per-trajectory token mean, as in its paper, without a KL term.

    `std=False, aggregation="constant"` is Dr.GRPO; `aggregation="token", clip_high=0.28` is DAPO's loss.
    """
    return assemble("grpo", GRPO, options, objective=Objective(aggregation="trajectory"))


def rloo(**options: Any) -> Recipe:
    """Leave-one-out baseline without a standard deviation: the steadiest choice where rewards are shaped."""
    return assemble("rloo", RLOO, options, objective=Objective(clip_high=0.28))


def reinforcepp(**options: Any) -> Recipe:
    """REINFORCE++: whitened returns; `baseline=True` subtracts the group's mean first."""
    return assemble("reinforcepp", ReinforcePlusPlus, options, objective=Objective())


def ppo(**options: Any) -> Recipe:
    """PPO with a value head and GAE over turns."""
    return assemble("ppo", GAE, options, objective=Objective(value_clip=0.2), critic=True, minibatches=4, value_lr=1e-3)


BASELINES: dict[str, Callable[..., Recipe]] = {"grpo": grpo, "rloo": rloo, "reinforcepp": reinforcepp, "ppo": ppo}


def recipe_names() -> list[str]:
    """All names that `make_recipe` knows: the baselines, then the systems in alphabetical order."""
    return [*BASELINES, *systems()]


def make_recipe(name: str, **options: Any) -> Recipe:
    """The recipe of a baseline or a published system.

    Args:
        name: one of `recipe_names()`.
        options: fields of the method's estimator, of `Objective` or of `Recipe`.

    Raises:
        InvalidArgument: there is no such recipe or option; the message names close ones.
    """
    if name in BASELINES:
        return BASELINES[name](**options)
    modules = systems()
    if name not in modules:
        raise InvalidArgument(_unknown("recipe", name, recipe_names()))
    return import_module(modules[name]).recipe(**options)


def _unknown(what: str, name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, n=3, cutoff=0.5)
    return f"no {what} is called {name!r}; " + (
        f"did you mean {' or '.join(close)}?" if close else f"choose from {', '.join(known)}"
    )
