"""Locks and keys: which metal opens a lock depends on the lock's mark."""

# ruff: noqa: D102, D103 (what the methods do is told once, in the package's docstring)
from __future__ import annotations

import random
from typing import Any

from .mechanic import Mechanic


class Locks:
    """A row of doors. Each lock bears a mark, each mark is opened by one metal, and a wrong key wears the lock out."""

    def __init__(
        self, rng: random.Random, notes: list[str], *, doors: int, spare: int, opens: dict[str, str], metals: list[str]
    ) -> None:
        self.opens = opens
        self.metals = rng.sample(metals, len(metals))
        self.marks = [rng.choice(sorted(opens)) for _ in range(doors)]
        self.open = 0
        self.spare = spare

    def text(self) -> str:
        trouble = f" You may fail {self.spare} more times." if self.spare else " A wrong key would jam it."
        return f"Door {self.open + 1} of {len(self.marks)} bears a {self.marks[self.open]}.{trouble}"

    def actions(self) -> list[str]:
        return [f"use {metal} key" for metal in self.metals]

    def act(self, action: str) -> tuple[str, str]:
        if action.split()[1] == self.opens[self.marks[self.open]]:
            self.open += 1
            return ("The last door opens.", "done") if self.open == len(self.marks) else ("The door opens.", "on")
        self.spare -= 1
        return ("The key does not turn.", "on") if self.spare >= 0 else ("The lock is jammed.", "failed")

    def state(self) -> list:
        return [self.metals, self.marks, self.open, self.spare]


def solve(stage: Any) -> list[str]:
    return [f"use {stage.opens[mark]} key" for mark in stage.marks]


METALS = ("iron", "brass", "silver", "golden", "copper", "steel")
MARKS = ("star", "moon", "crown", "wheel", "leaf", "fish", "eagle", "rose")


def parameters(rng: random.Random, level: int) -> dict[str, Any]:
    metals = rng.sample(METALS, len(METALS))[: 3 + level]
    marks = rng.sample(MARKS, len(MARKS))[: 3 + level]
    opens = {mark: metals[i % len(metals)] for i, mark in enumerate(marks)}
    return {"doors": 2 + level, "spare": level // 4, "opens": opens, "metals": metals}


def lesson(meanings: random.Random, rng: random.Random, level: int) -> dict[str, Any]:
    everything = parameters(meanings, 5)["opens"]
    metals = rng.sample(METALS, 1 + level)
    opens = {mark: metal for mark, metal in everything.items() if metal in metals}
    return {"doors": 1 + level, "spare": 0, "opens": opens, "metals": metals}


LOCKS = Mechanic(
    "locks",
    Locks,
    solve,
    parameters,
    "Open the doors one after the other. The mark on a lock tells which key opens it; equal marks, equal keys.",
    lambda p: [f"use <{'|'.join(p['metals'])}> key"],
    lambda p: ", ".join(f"{mark}: {metal}" for mark, metal in p["opens"].items()),
    ("Gates", "Doors", "Vault", "Keys"),
    lesson,
)
