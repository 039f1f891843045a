"""Mechanics: small parts of games whose source text the grammar designer writes into programs, one idea per module.

Each module has a stage class, which goes into the program and its solution, and `solve`, which goes into the solution
only: it gives the actions that solve a fresh stage. `Mechanic` describes the stage to the designer. A stage has

    __init__(rng, notes, **parameters)   draws its instance; `notes` are the words found in earlier stages
    text() -> str                        what the agent sees
    actions() -> list[str]               what it may do
    act(action) -> (message, status)     status is "on", "done" or "failed"
    state() -> list                      all of it, as plain values
"""

from __future__ import annotations

from .arithmetic import ARITHMETIC
from .dialogue import DIALOGUE
from .inventory import INVENTORY
from .locks import LOCKS
from .mechanic import LEVELS, Mechanic
from .navigation import NAVIGATION
from .recall import RECALL
from .rules import RULES
from .schedule import SCHEDULE
from .tools import TOOLS

__all__ = ["LEVELS", "MECHANICS", "Mechanic"]

MECHANICS: dict[str, Mechanic] = {
    mechanic.tag: mechanic
    for mechanic in (NAVIGATION, INVENTORY, LOCKS, ARITHMETIC, RULES, TOOLS, SCHEDULE, DIALOGUE, RECALL)
}
"""By tag. Recall comes last: it asks for what the stages before it gave."""
