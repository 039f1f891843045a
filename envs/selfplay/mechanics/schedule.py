"""Scheduling: jobs with durations and due times, done in an order that meets all of them."""

# ruff: noqa: D102, D103 (what the methods do is told once, in the package's docstring)
from __future__ import annotations

import random
from typing import Any

from .mechanic import Mechanic


class Schedule:
    """Jobs on one machine: each takes its time and is due at a time; a late job ruins the day."""

    def __init__(self, rng: random.Random, notes: list[str], *, jobs: list[str], slack: int) -> None:
        order = rng.sample(jobs, len(jobs))
        self.jobs = {}
        clock = 0
        for name in order:
            takes = rng.randint(2, 5)
            clock += takes
            self.jobs[name] = [takes, clock + rng.randint(0, slack)]
        self.shown = rng.sample(jobs, len(jobs))
        self.clock = 0
        self.done: list[str] = []

    def text(self) -> str:
        open_jobs = [name for name in self.shown if name not in self.done]
        listed = "; ".join(f"{name} takes {self.jobs[name][0]}, due at {self.jobs[name][1]}" for name in open_jobs)
        return f"It is {self.clock} o'clock. Open jobs: {listed}."

    def actions(self) -> list[str]:
        return [f"do {name}" for name in self.shown if name not in self.done]

    def act(self, action: str) -> tuple[str, str]:
        name = action.split()[1]
        takes, due = self.jobs[name]
        self.clock += takes
        self.done.append(name)
        if self.clock > due:
            return f"The {name} is late.", "failed"
        return f"The {name} is in time.", "done" if len(self.done) == len(self.jobs) else "on"

    def state(self) -> list:
        return [sorted(self.jobs.items()), self.shown, self.clock, self.done]


def solve(stage: Any) -> list[str]:
    return [f"do {name}" for name in sorted(stage.jobs, key=lambda name: stage.jobs[name][1])]


JOBS = ("bread", "soup", "roast", "cake", "salad", "pie", "stew", "tart")


def parameters(rng: random.Random, level: int) -> dict[str, Any]:
    return {"jobs": rng.sample(JOBS, len(JOBS))[: 3 + level], "slack": 0 if level < 4 else 1}


SCHEDULE = Mechanic(
    "scheduling",
    Schedule,
    solve,
    parameters,
    "Do all jobs, one after the other, so that none is done after it is due.",
    lambda p: [f"do <{'|'.join(p['jobs'])}>"],
    lambda _: "the job that is due first comes first",
    ("Kitchen", "Workshop", "Bakery", "Timetable"),
)
