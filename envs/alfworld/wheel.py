"""The installed `alfworld` wheel's tables and files, read where they lie.

Importing `alfworld` itself sets an environment variable and makes a folder in the user's home; this module does
neither: it finds the package and loads the two files of constants on their own.
"""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from ..core.errors import MissingExtra


@lru_cache(1)
def folder() -> Path:
    """Where the package is installed. Raises `MissingExtra` where it is not."""
    spec = importlib.util.find_spec("alfworld")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra("alfworld", "alfworld")
    return Path(next(iter(spec.submodule_search_locations)))


@lru_cache(1)
def constants() -> ModuleType:
    """`alfworld.gen.constants`: which objects go where, what can be cleaned, which task fits which room."""
    return _load("constants")


@lru_cache(1)
def goal_library() -> ModuleType:
    """`alfworld.gen.goal_library`: each task type's goal in PDDL and its two sentences."""
    return _load("goal_library")


@lru_cache(1)
def domain() -> str:
    """The PDDL domain."""
    return (folder() / "data" / "alfred.pddl").read_text(encoding="utf-8")


@lru_cache(1)
def grammar() -> str:
    """The text grammar, with UNKNOWN GOAL where the task sentence goes."""
    return (folder() / "data" / "alfred.twl2").read_text(encoding="utf-8")


def layout(scene: int, part: str) -> Path:
    """A file of a scene: part "objects.json", "openable.json" or "layout.npy"."""
    return folder() / "gen" / "layouts" / f"FloorPlan{scene}-{part}"


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"_alfworld_{name}", folder() / "gen" / f"{name}.py")
    if spec is None or spec.loader is None:
        raise MissingExtra("alfworld", "alfworld")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
