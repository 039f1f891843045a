"""Resource arithmetic: reach an exact amount with few payments."""

# ruff: noqa: D102, D103 (what the methods do is told once, in the package's docstring)
from __future__ import annotations

import random
from typing import Any

from .mechanic import Mechanic


class Arithmetic:
    """A debt to pay exactly, in coins of a few values, with few payments."""

    def __init__(self, rng: random.Random, notes: list[str], *, coins: list[int], payments: int, slack: int) -> None:
        self.coins = coins
        self.debt = sum(rng.choice(coins) for _ in range(payments))
        self.fewest = [0]  # payments for each amount
        for amount in range(1, self.debt + 1):
            self.fewest.append(1 + min([self.fewest[amount - coin] for coin in coins if coin <= amount], default=99))
        self.left = self.fewest[self.debt] + slack

    def text(self) -> str:
        return f"You owe {self.debt}. Payments left: {self.left}."

    def actions(self) -> list[str]:
        return [f"pay {coin}" for coin in self.coins]

    def act(self, action: str) -> tuple[str, str]:
        self.debt -= int(action.split()[1])
        self.left -= 1
        if self.debt == 0:
            return "The debt is paid.", "done"
        if self.debt < 0:
            return "You paid too much.", "failed"
        return ("Part of it is paid.", "on") if self.left else ("You have no payment left.", "failed")

    def state(self) -> list:
        return [self.debt, self.left]


def solve(stage: Any) -> list[str]:
    plan, debt = [], stage.debt
    while debt:
        coin = next(c for c in sorted(stage.coins) if c <= debt and stage.fewest[debt - c] < stage.fewest[debt])
        plan.append(f"pay {coin}")
        debt -= coin
    return plan


SETS = ([1, 4, 6, 9, 13], [2, 3, 7, 11, 12], [1, 5, 8, 12, 14], [3, 4, 7, 10, 15], [2, 5, 9, 11, 13])


def parameters(rng: random.Random, level: int) -> dict[str, Any]:
    return {"coins": rng.choice(SETS), "payments": 3 + level, "slack": 0}


ARITHMETIC = Mechanic(
    "arithmetic",
    Arithmetic,
    solve,
    parameters,
    "Pay the debt exactly, with no more payments than you are allowed.",
    lambda p: [f"pay <{'|'.join(map(str, p['coins']))}>"],
    lambda p: f"large coins first, as long as {min(p['coins'])} and the others still make up the rest",
    ("Market", "Debt", "Toll", "Scales"),
)
