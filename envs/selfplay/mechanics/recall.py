"""Recall: words that earlier stages gave, or that were shown once, have to be said again in order."""

# ruff: noqa: D102, D103 (what the methods do is told once, in the package's docstring)
from __future__ import annotations

import random
from typing import Any

from .mechanic import Mechanic


class Recall:
    """A stone door that asks for the words that were found on the way, and for some that it shows once."""

    def __init__(self, rng: random.Random, notes: list[str], *, words: list[str], shown: int, backwards: bool) -> None:
        self.words = words
        self.shown = [rng.choice(words) for _ in range(shown)]
        secret = [*notes, *self.shown]
        self.secret = secret[::-1] if backwards else secret
        self.said = 0
        self.looked = False

    def text(self) -> str:
        if not self.looked:
            return f"The stone door shows: {', '.join(self.shown)}. Look well: it shows them only once."
        return f"The stone door asks for word {self.said + 1} of {len(self.secret)}."

    def actions(self) -> list[str]:
        return [f"say {word}" for word in self.words] if self.looked else ["close eyes"]

    def act(self, action: str) -> tuple[str, str]:
        if not self.looked:
            self.looked = True
            return "The writing fades.", "on"
        right = action.split()[1] == self.secret[self.said]
        self.said += 1
        if not right:
            return "The door stays shut for ever.", "failed"
        return ("The door swings open.", "done") if self.said == len(self.secret) else ("The stone hums.", "on")

    def state(self) -> list:
        return [self.secret, self.shown, self.said, self.looked]


def solve(stage: Any) -> list[str]:
    return ["close eyes", *(f"say {word}" for word in stage.secret)]


WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath")


def parameters(rng: random.Random, level: int) -> dict[str, Any]:
    return {"words": list(WORDS[: 4 + min(level, 4)]), "shown": 1 + level, "backwards": level >= 3}


RECALL = Mechanic(
    "recall",
    Recall,
    solve,
    parameters,
    "Remember the words that you find on notes and those that the stone door shows. It asks for all of them, from the "
    "first to the last; a door that was built backwards wants them from the last to the first.",
    lambda p: ["close eyes", f"say <{'|'.join(p['words'])}>"],
    lambda p: "say them from the last to the first" if p["backwards"] else "say them from the first to the last",
    ("Stone", "Echo", "Password", "Memory"),
)
