"""Inventory: pack what a list asks for, and nothing else."""

# ruff: noqa: D102, D103 (what the methods do is told once, in the package's docstring)
from __future__ import annotations

import random
from typing import Any

from .mechanic import Mechanic


class Inventory:
    """A shelf, a bag and a list. The bag must hold exactly what the list asks for when it is closed."""

    def __init__(self, rng: random.Random, notes: list[str], *, shelf: list[str], wanted: int, reminder: bool) -> None:
        self.shelf = rng.sample(shelf, len(shelf))
        self.wanted = sorted(rng.sample(shelf, wanted))
        self.bag: list[str] = []
        self.reminder = reminder
        self.moves = 2 * wanted + 2

    def text(self) -> str:
        missing = [thing for thing in self.wanted if thing not in self.bag]
        listed = missing if self.reminder else self.wanted if not self.bag else []
        note = f"Still wanted: {', '.join(listed)}. " if listed else ""
        ready = "Nothing is wanted any more. " if self.reminder and not missing else ""
        return f"{note}{ready}Bag: {', '.join(self.bag) or 'empty'}. Moves left: {self.moves}."

    def actions(self) -> list[str]:
        take = [f"take {thing}" for thing in self.shelf if thing not in self.bag]
        return [*take, *(f"drop {thing}" for thing in self.bag), "close bag"]

    def act(self, action: str) -> tuple[str, str]:
        verb, thing = action.split(" ", 1)
        self.moves -= 1
        if verb == "close":
            right = sorted(self.bag) == self.wanted
            return ("The bag is packed as asked.", "done") if right else ("The bag is packed wrongly.", "failed")
        if verb == "take":
            self.bag.append(thing)
        else:
            self.bag.remove(thing)
        return (f"You {verb} the {thing}.", "on") if self.moves else ("You took too long.", "failed")

    def state(self) -> list:
        return [self.shelf, self.wanted, self.bag, self.moves]


def solve(stage: Any) -> list[str]:
    return [*(f"take {thing}" for thing in stage.wanted), "close bag"]


THINGS = ("rope", "lamp", "coin", "map", "bread", "shovel", "candle", "mirror", "flask", "hammer", "feather", "bell")


def parameters(rng: random.Random, level: int) -> dict[str, Any]:
    return {"shelf": rng.sample(THINGS, len(THINGS))[: 4 + level], "wanted": min(1 + level, 5), "reminder": level < 4}


INVENTORY = Mechanic(
    "inventory",
    Inventory,
    solve,
    parameters,
    "Pack exactly what the list asks for, then close the bag. A bag that is packed wrongly is lost.",
    lambda p: [f"take <{'|'.join(p['shelf'])}>", f"drop <{'|'.join(p['shelf'])}>", "close bag"],
    lambda p: f"take the {p['wanted']} things that the list names, one by one",
    ("Bag", "Shelf", "Errand", "Luggage"),
)
