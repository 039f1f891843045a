"""`Mechanic`: what the designer knows about a stage class."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LEVELS = range(1, 6)


@dataclass(frozen=True)
class Mechanic:
    """A kind of stage that programs are composed of."""

    tag: str
    """Its name among the manifest's mechanics."""
    stage: type
    """The stage's class; its source is written into programs."""
    solve: Callable[[Any], list[str]]
    """Fresh stage -> the actions that solve it."""
    parameters: Callable[[random.Random, int], dict[str, Any]]
    """(generator, level from 1 to 5) -> arguments of the stage: sizes from the level, the rest drawn."""
    rules: str
    """What the agent is told; may name parameters in braces."""
    grammar: Callable[[dict[str, Any]], list[str]]
    """Parameters -> the forms of its actions."""
    advice: Callable[[dict[str, Any]], str]
    """Parameters -> what helps in every instance of the program."""
    words: tuple[str, ...]
    """For titles."""
    lesson: Callable[[random.Random, random.Random, int], dict[str, Any]] | None = None
    """(generator of a dialect's meanings, generator, level) -> arguments of a stage in that dialect: the dialect says
    what things mean, which of them occur is drawn, and sizes begin small. None: there are no meanings to share."""

    @property
    def source(self) -> str:
        """The stage class as text."""
        return inspect.getsource(self.stage)

    @property
    def solver(self) -> str:
        """`solve` as text, under a name of its own."""
        return inspect.getsource(self.solve).replace("def solve(", f"def solve_{self.tag}(", 1)
