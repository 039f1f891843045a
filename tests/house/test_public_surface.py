"""The names and signatures that other people's code relies on; a change here is a change for them (see CHANGELOG.md).

To accept a change: `python tests/house/test_public_surface.py` writes the file again.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from pathlib import Path
from typing import Any

from sandlot.envs.core import Outcome, StepInfo, Task, TaskSet, TextEnv, check_text_env, register
from sandlot.harness.context import ContextBuilder, History
from sandlot.harness.loop import EnvMaker, Limits, Rollout, play, play_groups
from sandlot.harness.policy import Policy, Sampling, Scorer
from sandlot.harness.records import Call, Context, Group, Message, StopReason, Trajectory, Turn
from sandlot.trainers import recipe
from sandlot.trainers.loop import Schedule, train
from sandlot.trainers.methods import make_recipe

FILE = Path(__file__).with_name("public_surface.json")
CLASSES = [TextEnv, TaskSet, ContextBuilder, Policy, Scorer]
CLASSES += [
    recipe.Sampler,
    recipe.Shaper,
    recipe.Estimator,
    recipe.Modulator,
    recipe.Replay,
    recipe.AuxLoss,
    recipe.Trainable,
]
DATA = [Task, Message, Context, Call, Turn, Trajectory, Group, Sampling, Limits, Rollout, EnvMaker, History, Schedule]
DATA += [recipe.Recipe, recipe.Objective, recipe.Request]
FUNCTIONS = [play, play_groups, train, make_recipe, register, check_text_env]


def surface() -> dict[str, Any]:
    found: dict[str, Any] = {"StepInfo": sorted(StepInfo.__annotations__), "Outcome": list(Outcome._fields)}
    found["StopReason"] = [str(reason) for reason in StopReason]
    for cls in CLASSES:
        members = inspect.getmembers(cls, inspect.isfunction)
        public = {name: str(inspect.signature(f)) for name, f in members if f.__module__ == cls.__module__}
        found[cls.__name__] = {
            k: v for k, v in public.items() if not k.startswith("_") or k in ("__call__", "__init__")
        }
    for cls in DATA:
        found[cls.__name__] = [f.name for f in dataclasses.fields(cls)]
    found |= {function.__name__: str(inspect.signature(function)) for function in FUNCTIONS}
    return found


def test_the_public_surface_is_what_it_was() -> None:
    assert surface() == json.loads(FILE.read_text())


if __name__ == "__main__":
    FILE.write_text(json.dumps(surface(), indent=1) + "\n")
