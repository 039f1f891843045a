"""The grammar designer: composes, mutates and crosses programs from mechanics, from a seed and without a model."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from ..core.errors import InvalidArgument
from .blueprint import Blueprint, Stage
from .mechanics import LEVELS, MECHANICS
from .program import Lineage, Program, ProgramError

OPERATIONS = ("harder", "easier", "swap", "add", "drop", "redraw")
_TRIES = 40


@dataclass(frozen=True)
class GrammarDesigner:
    """Writes programs; what it writes is a function of its arguments and of the number of the design.

    Raises:
        InvalidArgument: there is no such mechanic, or a size is out of range.
    """

    seed: int = 0
    mechanics: tuple[str, ...] = tuple(MECHANICS)
    """The tags that it may use."""
    most_stages: int = 3
    dialect: str | None = None
    """With a name, what colours, marks and kinds mean is the same in all programs of that name, so that one policy can
    learn it from all, and sizes begin small (`Mechanic.lesson`); None draws it for every program."""
    name: str = "grammar"
    """The designer's name in lineages."""

    def __post_init__(self) -> None:
        unknown = set(self.mechanics) - set(MECHANICS)
        if unknown or not self.mechanics:
            raise InvalidArgument(f"no mechanics {sorted(unknown)}; choose from {', '.join(MECHANICS)}")
        if not 1 <= self.most_stages <= 4:
            raise InvalidArgument(f"most_stages must be from 1 to 4, not {self.most_stages!r}")

    def compose(
        self, number: int, *, difficulty: int | None = None, tags: Sequence[str] = (), generation: int = 0
    ) -> Program:
        """A new program.

        Args:
            number: of the design; other numbers, other programs.
            difficulty: the sum of its stages' levels; None draws it.
            tags: its mechanics in order; none draws them.
            generation: which round of design it belongs to.
        """
        rng = self.rng("compose", number)
        for _ in range(_TRIES):
            most = 5 * (len(tags) or self.most_stages)
            total = rng.randint(1, most) if difficulty is None else difficulty
            if not (len(tags) or 1) <= total <= most:
                raise InvalidArgument(f"a difficulty of {total} cannot be had with these stages: 1 to {most}")
            chosen = tuple(tags) or self._tags(rng, total)
            blueprint = Blueprint(
                tuple(self._stage(tag, level, rng) for tag, level in zip(chosen, _split(rng, total, len(chosen))))
            )
            if (program := self._write(blueprint, Lineage(self.name, (), "compose", generation), rng)) is not None:
                return program
        raise InvalidArgument(f"no program of difficulty {difficulty} with {tags or self.mechanics} fits the horizon")

    def mutate(self, parent: Program, number: int, operation: str | None = None, generation: int = 0) -> Program:
        """A changed copy: a stage harder, easier, swapped, added, dropped, or with other meanings.

        Args:
            parent: a program of this designer's kind.
            number: of the design.
            operation: one of `OPERATIONS`; None draws one that is possible.
            generation: which round of design it belongs to.

        Raises:
            ProgramError: the parent was not made by a grammar designer, or the operation is not possible on it.
        """
        rng, old = self.rng("mutate", parent.id, number), Blueprint.read(parent)
        order = list(OPERATIONS) if operation is None else [operation] * _TRIES
        if operation is None:
            rng.shuffle(order)
        for name in order:
            blueprint = self._changed(old, name, rng)
            lineage = Lineage(self.name, (parent.id,), f"mutate: {name}", generation)
            if blueprint is not None and (program := self._write(blueprint, lineage, rng)) is not None:
                return program
        raise ProgramError(f"program {parent.id} cannot be changed by {operation or 'any operation'}")

    def cross(self, first: Program, second: Program, number: int, generation: int = 0) -> Program:
        """A child that begins as the one and ends as the other, each cut at a place of its own.

        Raises:
            ProgramError: a parent was not made by a grammar designer, or no child of theirs is possible.
        """
        rng, a, b = self.rng("cross", first.id, second.id, number), Blueprint.read(first), Blueprint.read(second)
        for _ in range(_TRIES):
            stages = [*a.stages[: rng.randint(1, len(a.stages))], *b.stages[rng.randrange(len(b.stages)) :]]
            unique = {stage.tag: stage for stage in stages}
            blueprint = _ordered(list(unique.values())[: self.most_stages])
            if blueprint in (a, b):
                continue
            lineage = Lineage(self.name, (first.id, second.id), "cross", generation)
            if (program := self._write(blueprint, lineage, rng)) is not None:
                return program
        raise ProgramError(f"programs {first.id} and {second.id} have no child: they are too alike")

    def rng(self, *path: object) -> random.Random:
        """A generator that depends on the seed and the path alone."""
        return random.Random("/".join(map(str, (self.seed, *path))))

    def _tags(self, rng: random.Random, total: int) -> tuple[str, ...]:
        fewest = -(-total // 5)
        count = rng.randint(fewest, max(fewest, min(self.most_stages, total, len(self.mechanics))))
        if count > len(self.mechanics):
            raise InvalidArgument(f"a difficulty of {total} needs {count} mechanics; there are {len(self.mechanics)}")
        tags = rng.sample(self.mechanics, count)
        return tuple(sorted(tags, key=lambda tag: tag == "recall"))

    def _stage(self, tag: str, level: int, rng: random.Random) -> Stage:
        mechanic = MECHANICS[tag]
        if self.dialect is None or mechanic.lesson is None:
            return Stage(tag, level, mechanic.parameters(rng, level))
        return Stage(tag, level, mechanic.lesson(random.Random(f"{self.dialect}/{tag}"), rng, level))

    def _changed(self, old: Blueprint, operation: str, rng: random.Random) -> Blueprint | None:
        stages = list(old.stages)
        at = rng.randrange(len(stages))
        free = [tag for tag in self.mechanics if tag not in old.tags]
        if operation in ("harder", "easier"):
            step = 1 if operation == "harder" else -1
            fitting = [i for i, stage in enumerate(stages) if stage.level + step in LEVELS]
            if not fitting:
                return None
            at = rng.choice(fitting)
            stages[at] = self._stage(stages[at].tag, stages[at].level + step, rng)
        elif operation == "swap" and free:
            stages[at] = self._stage(rng.choice(free), stages[at].level, rng)
        elif operation == "add" and free and len(stages) < self.most_stages:
            stages.insert(at, self._stage(rng.choice(free), stages[at].level, rng))
        elif operation == "drop" and len(stages) > 1:
            del stages[at]
        elif operation == "redraw":
            stages[at] = self._stage(stages[at].tag, stages[at].level, rng)
        else:
            return None
        blueprint = _ordered(stages)
        return None if blueprint == old else blueprint

    @staticmethod
    def _write(blueprint: Blueprint, lineage: Lineage, rng: random.Random) -> Program | None:
        try:
            return blueprint.write(lineage, rng)
        except ProgramError:  # too long
            return None


def _ordered(stages: Sequence[Stage]) -> Blueprint:
    """Recall goes last: it asks for what the others gave."""
    return Blueprint(tuple(sorted(stages, key=lambda stage: stage.tag == "recall")))


def _split(rng: random.Random, total: int, parts: int) -> list[int]:
    """`total` as `parts` levels from 1 to 5."""
    levels = [1] * parts
    for _ in range(total - parts):
        open_ = [i for i, level in enumerate(levels) if level < 5]
        levels[rng.choice(open_)] += 1
    return levels
