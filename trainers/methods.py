"""Recipes by name: the standard objectives, and every published system in `trainers/systems/` by its file name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from ..envs.core.errors import InvalidArgument
from .estimators import GAE, GRPO, RLOO, ReinforcePlusPlus, one_of
from .recipe import Modulator, Objective, Recipe, Shaper
from .shapers import Overlong, SkipCut
from .systems import systems
from .token_gae import TokenGAE


def assemble(
    name: str,
    estimator: type,
    options: Mapping[str, Any],
    *,
    objective: Objective,
    also: Sequence[str] = (),
    **defaults: Any,
) -> Recipe:
    """A recipe from flat options: each goes to the estimator, the objective or the recipe, whichever has that field.

    Args:
        name: the recipe's name.
        estimator: the estimator's dataclass.
        options: what the user asked for, e.g. `{"gamma": 0.9, "clip_high": 0.28, "lr": 1e-5}`. `objective` replaces
            the default objective as a whole.
        objective: the method's default objective.
        also: options that the method has taken out for parts of its own; for messages.
        defaults: the method's other defaults, as fields of `Recipe`.

    Raises:
        InvalidArgument: an option that no part has; the message names close ones.
    """
    base = options.get("objective", objective)
    settings = {key: value for key, value in options.items() if key != "objective"}
    parts: dict[str, dict[str, Any]] = {}
    known = [*also]
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


def grpo(*, step_rows: bool = False, **options: Any) -> Recipe:
    """GRPO with the return's standard deviation and a per-trajectory token mean, as in its paper, without a KL term.

    `step_rows=True` counts as verl-agent does, whose rows are turns: each turn counts once in the group's mean and
    standard deviation, and the loss is the mean over all turns (`aggregation="token"` for its token mean).
    Source: arXiv 2402.03300.
    """
    rows = {"count": "turn", "aggregation": "call"} if step_rows else {}
    return assemble("grpo", GRPO, {**rows, **options}, objective=Objective(aggregation="trajectory"))


def dr_grpo(**options: Any) -> Recipe:
    """Dr.GRPO: no standard deviation and a constant length in the mean, so that neither favours long wrong answers.

    Source: arXiv 2503.20783.
    """
    return assemble("dr_grpo", GRPO, {"std": False, **options}, objective=Objective(aggregation="constant"))


def dapo(*, overlong: int = 0, limit: int = 0, skip_cut: bool = False, **options: Any) -> Recipe:
    """DAPO: clip-higher, token mean, groups that teach nothing replaced, and optional care for too long answers.

    `overlong` > 0 punishes the last so many tokens below `limit` (the sampler's `max_tokens`); `skip_cut=True` learns
    nothing from episodes that were cut off.
    Source: arXiv 2503.14476.
    """
    shapers: list[Shaper] = [Overlong(limit, overlong)] if overlong else []
    modulators: list[Modulator] = [SkipCut()] if skip_cut else []
    objective = Objective(clip_high=0.28, aggregation="token")
    parts: dict[str, Any] = {"shapers": shapers, "modulators": modulators, "resample": 3}
    return assemble("dapo", GRPO, options, objective=objective, **parts)


def gspo(**options: Any) -> Recipe:
    """GSPO: one length-normalised ratio per call, clipped in a band of a few ten-thousandths, mean over calls.

    Source: arXiv 2507.18071.
    """
    objective = Objective(ratio="sequence", clip_low=3e-4, clip_high=4e-4, aggregation="call")
    return assemble("gspo", GRPO, options, objective=objective, minibatches=2)


def cispo(**options: Any) -> Recipe:
    """CISPO: the importance weight is bounded instead of the update, so that every token keeps its gradient.

    Source: arXiv 2506.13585.
    """
    return assemble("cispo", GRPO, options, objective=Objective(surrogate="cispo", clip_high=4.0, aggregation="token"))


def rloo(**options: Any) -> Recipe:
    """Leave-one-out baseline without a standard deviation: the steadiest choice where rewards are shaped.

    Source: arXiv 2402.14740.
    """
    return assemble("rloo", RLOO, options, objective=Objective(clip_high=0.28))


def reinforcepp(**options: Any) -> Recipe:
    """REINFORCE++: whitened returns; `baseline=True` subtracts the group's mean first.

    Source: arXiv 2501.03262.
    """
    return assemble("reinforcepp", ReinforcePlusPlus, options, objective=Objective())


def ppo(*, level: str = "turn", **options: Any) -> Recipe:
    """PPO with a value head and GAE over turns; `level="token"` is GAE over the sampled tokens of the whole episode.

    Sources: arXiv 1707.06347 (PPO), 1506.02438 (GAE); what is ours: docs/objectives.md.
    """
    one_of("level", level, ("turn", "token"))
    estimator = GAE if level == "turn" else TokenGAE
    objective = Objective(value_clip=0.2)
    return assemble("ppo", estimator, options, objective=objective, critic=True, minibatches=4, value_lr=1e-3)


BASELINES: dict[str, Callable[..., Recipe]] = {
    make.__name__: make for make in (grpo, dr_grpo, dapo, gspo, cispo, rloo, reinforcepp, ppo)
}


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
