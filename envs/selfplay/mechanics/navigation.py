"""Navigation: signs whose colours mean directions lead over a grid of rooms."""

# ruff: noqa: D102, D103 (what the methods do is told once, in the package's docstring)
from __future__ import annotations

import random
from typing import Any

from .mechanic import Mechanic


class Navigation:
    """Rooms on a grid. The sign in each room tells in colours which way the goal is; breath is short."""

    STEPS = (("north", 0, -1), ("east", 1, 0), ("south", 0, 1), ("west", -1, 0))

    def __init__(self, rng: random.Random, notes: list[str], *, distance: int, slack: int, colours: list[str]) -> None:
        self.colours = {step[0]: colour for step, colour in zip(self.STEPS, colours)}
        self.size = distance + 1
        across = rng.randint(0, distance)
        self.place, self.goal = [0, 0], [0, 0]
        for axis, steps in enumerate([across, distance - across]):
            low = rng.randint(0, self.size - 1 - steps)
            self.place[axis], self.goal[axis] = rng.choice([(low, low + steps), (low + steps, low)])
        self.breath = distance + slack
        self.order = rng.random() < 0.5

    def way(self) -> str:
        gap = [self.goal[0] - self.place[0], self.goal[1] - self.place[1]]
        horizontal = gap[0] != 0 and (self.order or gap[1] == 0)
        if horizontal:
            return "east" if gap[0] > 0 else "west"
        return "south" if gap[1] > 0 else "north"

    def text(self) -> str:
        return f"You stand in a bare room. The sign is {self.colours[self.way()]}. Breath left: {self.breath}."

    def actions(self) -> list[str]:
        inside = range(self.size)
        open_ways = [
            name for name, dx, dy in self.STEPS if self.place[0] + dx in inside and self.place[1] + dy in inside
        ]
        return [f"go {name}" for name in open_ways]

    def act(self, action: str) -> tuple[str, str]:
        dx, dy = next(step[1:] for step in self.STEPS if step[0] == action.split()[1])
        self.place = [self.place[0] + dx, self.place[1] + dy]
        self.breath -= 1
        if self.place == self.goal:
            return "You have found the bright room.", "done"
        return ("You walk on.", "on") if self.breath else ("You are out of breath.", "failed")

    def state(self) -> list:
        return [self.place, self.goal, self.breath, self.order]


def solve(stage: Any) -> list[str]:
    plan, breath = [], stage.breath
    while stage.place != stage.goal:
        plan.append(f"go {stage.way()}")
        stage.act(plan[-1])
    stage.breath = breath
    return plan


COLOURS = ("red", "blue", "green", "yellow", "white", "black")


def parameters(rng: random.Random, level: int) -> dict[str, Any]:
    return {"distance": 3 + level, "slack": level // 3, "colours": rng.sample(COLOURS, len(COLOURS))[:4]}


def lesson(meanings: random.Random, rng: random.Random, level: int) -> dict[str, Any]:
    return {"distance": 1 + level, "slack": 0, "colours": parameters(meanings, level)["colours"]}


NAVIGATION = Mechanic(
    "navigation",
    Navigation,
    solve,
    parameters,
    "Find the bright room before you are out of breath: the colour of a room's sign tells in which direction to go. "
    "Each colour always means the same direction.",
    lambda _: ["go <north|east|south|west>"],
    lambda p: ", ".join(f"{colour} is {step[0]}" for step, colour in zip(Navigation.STEPS, p["colours"])),
    ("Maze", "Labyrinth", "Cellars", "Gardens"),
    lesson,
)
