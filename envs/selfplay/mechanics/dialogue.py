"""Dialogue: a partner who follows rules, speaks in many words, and wants the fitting answer."""

# ruff: noqa: D102, D103 (what the methods do is told once, in the package's docstring)
from __future__ import annotations

import random
from typing import Any

from .mechanic import Mechanic


class Dialogue:
    """A guard speaks; each thing that he says has one fitting answer. His patience is short, and he remembers."""

    SAYINGS = (
        ("greet", ["Good evening, stranger.", "Well met on this road.", "A fine morning, is it not?"]),
        ("name", ["Who are you?", "What do they call you?", "And whom do I speak to?"]),
        ("trade", ["What have you got to sell?", "Any goods in that cart?", "Show me your wares."]),
        ("thank", ["Here, take my lantern.", "Please, have some bread.", "I saved you a seat by the fire."]),
        ("sorry", ["You stepped on my foot!", "That was my hat!", "You woke the whole house!"]),
        ("leave", ["It is late, and the gate closes.", "My shift is over.", "Time to sleep now."]),
    )

    def __init__(self, rng: random.Random, notes: list[str], *, turns: int, patience: int, answers: list[str]) -> None:
        self.answers = answers
        self.talk = []
        for _ in range(turns):
            mood, sayings = rng.choice([pair for pair in self.SAYINGS if pair[0] in answers])
            self.talk.append([mood, rng.choice(sayings)])
        self.at = 0
        self.patience = patience

    def text(self) -> str:
        return f"The guard says: '{self.talk[self.at][1]}' Patience: {self.patience}."

    def actions(self) -> list[str]:
        return [f"answer {name}" for name in self.answers]

    def act(self, action: str) -> tuple[str, str]:
        mood = self.talk[self.at][0]
        if action.split()[1] == mood:
            self.at += 1
            return ("He lets you pass.", "done") if self.at == len(self.talk) else ("He nods.", "on")
        self.patience -= 1
        return ("He frowns.", "on") if self.patience else ("He turns you away.", "failed")

    def state(self) -> list:
        return [self.talk, self.at, self.patience]


def solve(stage: Any) -> list[str]:
    return [f"answer {mood}" for mood, _ in stage.talk]


ANSWERS = ("greet", "name", "trade", "thank", "sorry", "leave")


def parameters(rng: random.Random, level: int) -> dict[str, Any]:
    return {
        "turns": 2 + level,
        "patience": 1 if level < 4 else 2,
        "answers": rng.sample(ANSWERS, len(ANSWERS))[: 3 + level],
    }


def lesson(meanings: random.Random, rng: random.Random, level: int) -> dict[str, Any]:
    return {"turns": 1 + level, "patience": 1, "answers": rng.sample(ANSWERS, 1 + level)}


DIALOGUE = Mechanic(
    "dialogue",
    Dialogue,
    solve,
    parameters,
    "Talk to the guard until he lets you pass: greet, tell your name, offer trade, thank him, say sorry or take leave, "
    "whichever fits what he says.",
    lambda p: [f"answer <{'|'.join(p['answers'])}>"],
    lambda _: "answer what he says and not what you would like to talk about",
    ("Guard", "Gatekeeper", "Ferryman", "Host"),
    lesson,
)
