"""Programs that the tests of self-play share: a sound one, and the hostile ones of the table."""

from __future__ import annotations

import textwrap
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from sandlot.envs.selfplay.program import Manifest, Program

GAME = '''
import random


class Game:
    """Say the name of the day; the sheet on the wall shows its number."""

    NAMES = ["amber", "birch", "cedar", "dune", "ember", "fern", "grove", "heath", "iris", "jade", "kelp", "lark"]

    def reset(self, seed):
        draw = random.Random(seed)
        self.days = [draw.randrange(12) for _ in range(3)]
        self.said = 0
        self.left = 5
        return self.look()

    def look(self):
        return f"The sheet shows {self.days[self.said]}. Marks beside it: {self.left * '|'}"

    def actions(self):
        return [f"say {name}" for name in self.NAMES]

    def state(self):
        return [self.days, self.said, self.left]

    def step(self, action):
        self.left -= 1
        if action == f"say {self.NAMES[self.days[self.said]]}":
            self.said += 1
        if self.said == 3:
            return "That was all.", 1.0, True
        if self.left == 0:
            return "No tries are left.", 0.0, True
        return self.look(), 0.0, False
'''
SOLUTION = """
NAMES = ["amber", "birch", "cedar", "dune", "ember", "fern", "grove", "heath", "iris", "jade", "kelp", "lark"]


class Solution:
    def start(self, seed):
        self.acted = 0

    def act(self, observation):
        self.acted += 1
        return f"say {NAMES[int(observation.split()[3].strip('.'))]}"
"""
HINT = "When it shows 0, say amber. When it shows 1, say birch. When it shows 2, say cedar. When it shows 3, say dune. "
SOUND = Program(
    GAME,
    Manifest(
        title="The name of the day",
        rules="A sheet shows the number of a day. Say the day's name, three times.",
        actions="say <amber|birch|cedar|dune|ember|fern|grove|heath|iris|jade|kelp|lark>",
        horizon=5,
        hint=HINT
        + " ".join(
            f"When it shows {n}, say {name}."
            for n, name in enumerate(["ember", "fern", "grove", "heath", "iris", "jade", "kelp", "lark"], start=4)
        ),
        solution=SOLUTION,
        mechanics=("hidden_rules",),
    ),
)


def game(*, top: str = "", reset: str = "", step: str = "", **changes: str) -> Program:
    """A program that goes on for ever, with code in places; its hint and its solution hold a canary."""
    body = top + reset + step
    reach = "import random\nos = random._os\nsys = os.sys\n" if "os." in body or "sys." in body else ""
    source = f"""{reach}{top}
class Game:
    def reset(self, seed):
{textwrap.indent(textwrap.dedent(reset), " " * 8)}
        return "start"

    def step(self, action):
{textwrap.indent(textwrap.dedent(step), " " * 8)}
        return "on", 0.0, False
"""
    solution = "class Solution:\n    def start(self, seed):\n        self.word = 'CANARY-solution'\n"
    solution += "    def act(self, observation):\n        return 'go'\n"
    manifest = Manifest("A test", "Go on.", "go", 5, "CANARY-hint: go.", solution)
    return Program(source, replace(manifest, **changes))


@dataclass(frozen=True)
class Attack:
    """One row of the table."""

    name: str
    title: str
    gate: list[str]
    """What reading the source says."""
    run: list[str]
    """What may come of running it all the same."""
    top: str = ""
    reset: str = ""
    step: str = ""

    def program(self, secret: Path, port: int) -> Program:
        """The program, aimed at a file and a port of the host."""
        aimed = [
            text.replace("SECRET_FILE", str(secret)).replace("PORT", str(port))
            for text in (self.top, self.reset, self.step)
        ]
        return game(top=aimed[0], reset=aimed[1], step=aimed[2])


def attacks() -> list[Attack]:
    """The table."""
    path = Path(__file__).parent / "selfplay_attacks" / "table.toml"
    return [Attack(**row) for row in tomllib.loads(path.read_text(encoding="utf-8"))["attack"]]
