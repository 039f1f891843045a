"""`Blueprint`: which mechanics a program is composed of; it is written out as a program and read back from one."""

from __future__ import annotations

import ast
import random
from dataclasses import dataclass
from pprint import pformat
from typing import Any

from .mechanics import MECHANICS
from .program import HORIZON, Lineage, Manifest, Program, ProgramError
from .source import parse

_BUILD = '''
def make_stages(seed: int) -> tuple[list[str], list]:
    """The words on the notes, and the stages of the instance."""
    rng = random.Random(seed)
    notes = [rng.choice(NOTES) for _ in STAGES[1:]] if NOTES else []
    return notes, [stage(rng, notes[:at], **parameters) for at, (stage, level, parameters) in enumerate(STAGES)]
'''
_GAME = '''
class Game:
    """The stages one after the other. Who solves the last one wins; one failure ends it."""

    def reset(self, seed: int) -> str:
        self.notes, self.stages = make_stages(seed)
        self.at = 0
        self.taken = 0
        return self.show()

    def show(self) -> str:
        part = f"Part {self.at + 1} of {len(self.stages)}. " if len(self.stages) > 1 else ""
        return f"Turn {self.taken + 1:02}. {part}{self.stages[self.at].text()}"

    def actions(self) -> list[str]:
        return self.stages[self.at].actions()

    def step(self, action: str) -> tuple[str, float, bool]:
        if action not in self.actions():
            raise ValueError(f"Choose from: {', '.join(self.actions())}.")
        message, status = self.stages[self.at].act(action)
        self.taken += 1
        if status == "done":
            self.at += 1
            if self.at == len(self.stages):
                return f"{message} You have won.", 1.0, True
            if self.notes:
                message = f"{message} On a note you read: {self.notes[self.at - 1]}."
        if status == "failed":
            return f"{message} You have lost.", 0.0, True
        if self.taken >= LIMIT:
            return f"{message} Night falls, and you have lost.", 0.0, True
        return f"{message}\\n{self.show()}", 0.0, False

    def state(self) -> list:
        return [self.at, self.taken, self.notes, [stage.state() for stage in self.stages[self.at :]]]
'''
_SOLUTION = '''
class Solution:
    """Draws the instance of the seed and solves its stages one after the other."""

    def start(self, seed: int) -> None:
        self.plan = [action for stage, solve in zip(make_stages(seed)[1], SOLVERS) for action in solve(stage)]
        self.at = 0

    def act(self, observation: str) -> str:
        action = self.plan[min(self.at, len(self.plan) - 1)]
        self.at += 1
        return action

    def hint(self, seed: int) -> str:
        self.start(seed)
        return "\\n".join(f"Turn {number:02}: {action}" for number, action in enumerate(self.plan, 1))
'''
_ADJECTIVES = ("Quiet", "Crooked", "Old", "Hollow", "Bright", "Narrow", "Salted", "Windy", "Painted", "Sunken")
_TRIALS = 40  # seeds from which the longest solution is taken


@dataclass(frozen=True)
class Stage:
    """One stage: a mechanic, its level and its parameters."""

    tag: str
    level: int
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Blueprint:
    """The stages of a program, in order."""

    stages: tuple[Stage, ...]

    @property
    def tags(self) -> tuple[str, ...]:
        """The mechanics."""
        return tuple(stage.tag for stage in self.stages)

    @property
    def difficulty(self) -> int:
        """The sum of the stages' levels."""
        return sum(stage.level for stage in self.stages)

    def longest(self) -> int:
        """The most actions that a solution needs, over some seeds."""
        return max(sum(len(actions) for actions in self.solve(seed)) for seed in range(_TRIALS))

    def solve(self, seed: int) -> list[list[str]]:
        """The solution of each stage of one instance, as the written program would be solved."""
        rng = random.Random(seed)
        words = _notes(self)
        notes = [rng.choice(words) for _ in self.stages[1:]] if words else []
        stages = [MECHANICS[s.tag].stage(rng, notes[:at], **s.parameters) for at, s in enumerate(self.stages)]
        return [MECHANICS[s.tag].solve(stage) for s, stage in zip(self.stages, stages)]

    def write(self, lineage: Lineage, rng: random.Random) -> Program:
        """The program. `rng` only chooses the title.

        Raises:
            ProgramError: solutions would be longer than a program's horizon allows.
        """
        longest = self.longest()
        limit = longest + 2 + longest // 4
        if limit > HORIZON:
            raise ProgramError(f"{'+'.join(self.tags)} needs {longest} actions, too many for a horizon of {HORIZON}")
        used = list(dict.fromkeys(self.tags))
        word = " and ".join(rng.choice(MECHANICS[tag].words) for tag in used)
        title = f"The {rng.choice(_ADJECTIVES)} {word}"
        classes = "\n\n".join(MECHANICS[tag].source for tag in used)
        constants = f"{_table(self)}\nNOTES = {_notes(self)!r}\n"
        head = f'"""{title}."""\n\nimport random\n\n\n{classes}\n\n{constants}'
        solvers = "\n\n".join(MECHANICS[tag].solver for tag in used)
        order = f"SOLVERS = [{', '.join(f'solve_{tag}' for tag in self.tags)}]"
        solution = head.replace("import random\n", "import random\nfrom typing import Any\n", 1)
        return Program(
            f"{head}LIMIT = {limit}\n\n{_BUILD}\n{_GAME}",
            Manifest(
                title=title,
                rules=self._rules(),
                actions="\n".join(
                    dict.fromkeys(f for s in self.stages for f in MECHANICS[s.tag].grammar(s.parameters))
                ),
                horizon=limit,
                hint=f"{'; then '.join(MECHANICS[s.tag].advice(s.parameters) for s in self.stages)}.".capitalize(),
                solution=f"{solution}\n{_BUILD}\n\n{solvers}\n\n{order}\n\n{_SOLUTION}",
                mechanics=tuple(used),
            ),
            lineage,
        )

    def _rules(self) -> str:
        parts = [MECHANICS[s.tag].rules.format(**s.parameters) for s in self.stages]
        if len(parts) > 1:
            parts = [f"Part {number}: {text}" for number, text in enumerate(parts, 1)]
        return "\n".join([*parts, "Win by getting to the end; a failure ends the game."])

    @classmethod
    def read(cls, program: Program) -> Blueprint:
        """The blueprint that `program` was written from. Raises `ProgramError` where it was not written from one."""
        classes = {mechanic.stage.__name__: tag for tag, mechanic in MECHANICS.items()}
        try:
            table = next(
                node.value
                for node in parse(program.source).body
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "STAGES"
            )
            rows = [row.elts for row in table.elts]  # type: ignore[attr-defined]
            stages = [Stage(classes[row[0].id], *map(ast.literal_eval, row[1:])) for row in rows]
        except (StopIteration, AttributeError, KeyError, SyntaxError, ValueError, TypeError):
            raise ProgramError(f"program {program.id} was not made by the grammar designer") from None
        return cls(tuple(stages))


def _table(blueprint: Blueprint) -> str:
    """The stages as Python: class, level, parameters."""
    rows = []
    for stage in blueprint.stages:
        parameters = pformat(stage.parameters, width=100, sort_dicts=False).replace("\n", "\n     ")
        rows.append(f"    ({MECHANICS[stage.tag].stage.__name__}, {stage.level},\n     {parameters}),")
    return "# class, level (1 to 5), parameters\nSTAGES = [\n" + "\n".join(rows) + "\n]"


def _notes(blueprint: Blueprint) -> list[str]:
    """The words that may stand on notes: those that a recall stage asks for, if there is one."""
    return next((list(stage.parameters["words"]) for stage in blueprint.stages if stage.tag == "recall"), [])
