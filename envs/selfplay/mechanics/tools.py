"""Tool calls: fill the fields that a schema asks for, from a request in words, and send the call."""

# ruff: noqa: D102, D103 (what the methods do is told once, in the package's docstring)
from __future__ import annotations

import random
from typing import Any

from .mechanic import Mechanic


class Tools:
    """Requests that need a call of a tool: each field of its schema must be set to what was asked, then it is sent."""

    def __init__(
        self, rng: random.Random, notes: list[str], *, tool: str, fields: dict[str, list[str]], requests: int
    ) -> None:
        self.tool = tool
        self.fields = fields
        self.asked = [{field: rng.choice(values) for field, values in fields.items()} for _ in range(requests)]
        self.at = 0
        self.call: dict[str, str] = {}
        self.moves = requests * (len(fields) + 2)

    def text(self) -> str:
        wish = ", ".join(f"{field} {value}" for field, value in self.asked[self.at].items() if field not in self.call)
        done = ", ".join(f"{field}={value}" for field, value in self.call.items())
        wish = f"The customer still wants {wish}." if wish else "The form is full."
        return f"{wish} Call so far: {self.tool}({done}). Moves left: {self.moves}."

    def actions(self) -> list[str]:
        return ["send", *(f"set {field} {value}" for field, values in self.fields.items() for value in values)]

    def act(self, action: str) -> tuple[str, str]:
        self.moves -= 1
        if action != "send":
            field, value = action.split()[1:]
            self.call[field] = value
            return ("It is set.", "on") if self.moves else ("The customer has left.", "failed")
        if self.call != self.asked[self.at]:
            return f"The tool refuses the call: it does not match {', '.join(sorted(self.fields))}.", "failed"
        self.at, self.call = self.at + 1, {}
        return ("The call is accepted.", "done") if self.at == len(self.asked) else ("Accepted. The next one.", "on")

    def state(self) -> list:
        return [self.asked, self.at, self.call, self.moves]


def solve(stage: Any) -> list[str]:
    return [
        action for asked in stage.asked for action in [*(f"set {key} {value}" for key, value in asked.items()), "send"]
    ]


SCHEMAS = {
    "book_table": {"city": ["rome", "oslo", "lima"], "guests": ["two", "four", "six"], "hour": ["noon", "six", "nine"]},
    "send_parcel": {"size": ["small", "medium", "large"], "speed": ["slow", "fast"], "to": ["kiel", "bern", "porto"]},
    "set_alarm": {"day": ["monday", "friday", "sunday"], "tone": ["bell", "horn", "bird"], "volume": ["low", "high"]},
    "rent_boat": {"boat": ["canoe", "kayak", "ferry"], "days": ["one", "three", "five"], "crew": ["none", "full"]},
}


def parameters(rng: random.Random, level: int) -> dict[str, Any]:
    tool = rng.choice(sorted(SCHEMAS))
    names = rng.sample(sorted(SCHEMAS[tool]), 3)[: 2 if level < 3 else 3]
    return {"tool": tool, "fields": {name: SCHEMAS[tool][name] for name in names}, "requests": 1 + level // 2}


TOOLS = Mechanic(
    "tool_calls",
    Tools,
    solve,
    parameters,
    "Serve each customer with one call of {tool}: set every field as asked, then send it. Wrong calls are refused for "
    "good.",
    lambda p: ["send", *(f"set {field} <{'|'.join(values)}>" for field, values in p["fields"].items())],
    lambda p: f"set {' and '.join(p['fields'])} to what the customer says, then send",
    ("Counter", "Office", "Desk", "Switchboard"),
)
