"""Hidden rules: sort things left and right by a rule that nobody tells."""

# ruff: noqa: D102, D103 (what the methods do is told once, in the package's docstring)
from __future__ import annotations

import random
from typing import Any

from .mechanic import Mechanic


class Rules:
    """Things come one by one and belong left or right. The first ones are free; then one mistake ends it."""

    def __init__(
        self, rng: random.Random, notes: list[str], *, left: list[str], right: list[str], free: int, count: int
    ) -> None:
        sides = [sorted(left), sorted(right)]
        self.things = []
        for _ in range(free + count):
            side = rng.randint(0, 1)
            size = rng.choice(["small", "large", "round", "flat"])
            self.things.append([f"{size} {rng.choice(sides[side])}", ["left", "right"][side]])
        self.free = free
        self.at = 0

    def text(self) -> str:
        free = self.free - self.at
        care = f"{free} free tries." if free > 0 else f"{len(self.things) - self.at} to go, and no mistake is allowed."
        return f"Before you lies a {self.things[self.at][0]}: {care}"

    def actions(self) -> list[str]:
        return ["put left", "put right"]

    def act(self, action: str) -> tuple[str, str]:
        thing, side = self.things[self.at]
        right = action.split()[1] == side
        self.at += 1
        if not right and self.at > self.free:
            return f"Wrong: the {thing} belonged {side}.", "failed"
        told = "Right" if right else "Wrong"
        return f"{told}: the {thing} belonged {side}.", "done" if self.at == len(self.things) else "on"

    def state(self) -> list:
        return [self.things, self.at]


def solve(stage: Any) -> list[str]:
    return [f"put {side}" for _, side in stage.things]


KINDS = ("shell", "stone", "leaf", "nut", "bone", "glass", "button", "ring", "cork", "nail", "pearl", "seed")


def parameters(rng: random.Random, level: int) -> dict[str, Any]:
    half = 2 + (level + 1) // 2
    kinds = rng.sample(KINDS, len(KINDS))
    return {"left": kinds[:half], "right": kinds[6 : 6 + half], "free": 4 - min(level, 3), "count": 5 + level}


def lesson(meanings: random.Random, rng: random.Random, level: int) -> dict[str, Any]:
    kinds = meanings.sample(KINDS, len(KINDS))
    left, right = (rng.sample(side, 1 + level) for side in (kinds[:6], kinds[6:]))
    return {"left": left, "right": right, "free": 0, "count": 2 * level}


RULES = Mechanic(
    "hidden_rule",
    Rules,
    solve,
    parameters,
    "Put each thing left or right. A rule says what belongs where; nobody tells it, but it never changes.",
    lambda _: ["put <left|right>"],
    lambda p: f"{', '.join(p['left'])} belong left, {', '.join(p['right'])} right",
    ("Sorter", "Riddle", "Judge", "Sieve"),
    lesson,
)
