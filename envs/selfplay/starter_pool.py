"""Makes the programs that are shipped; `python -m sandlot.envs.selfplay.starter_pool FOLDER` writes the same again.

Every mechanic stands alone, in pairs and in threes; what is held out are other compositions of the same mechanics.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from .designer import GrammarDesigner
from .gates import Gates
from .mechanics import MECHANICS
from .program import Program
from .signature import Known

DESIGNER = GrammarDesigner(seed=7)
HELD_OUT = {"valid_unseen": 7, "test": 7}
"""Programs of each role besides training."""
_PAIRS, _TRIPLES, _CHANGED = 14, 5, 6


def designs() -> Iterator[tuple[str, Program]]:
    """(role, program) of every design, in a fixed order; some may fail the gates."""
    rng = DESIGNER.rng("starter")
    pairs = [(a, b) for a, b in combinations(MECHANICS, 2)]
    triples = [(a, b, c) for a, b, c in combinations(MECHANICS, 3)]
    rng.shuffle(pairs)
    rng.shuffle(triples)
    made: list[Program] = []
    for number, tag in enumerate(MECHANICS):
        made.append(DESIGNER.compose(number, difficulty=1 + number % 3, tags=(tag,)))
    for number, tags in enumerate(pairs[:_PAIRS]):
        made.append(DESIGNER.compose(100 + number, difficulty=2 + number % 4, tags=tags))
    for number, tags in enumerate(triples[:_TRIPLES]):
        made.append(DESIGNER.compose(200 + number, difficulty=3 + number % 3, tags=tags))
    for number in range(_CHANGED):
        first, second = made[number * 3 % len(made)], made[-1 - number]
        if number % 2:
            made.append(DESIGNER.cross(first, second, number, generation=1))
        else:
            made.append(DESIGNER.mutate(second, number, generation=1))
    yield from (("train", program) for program in made)
    rest = [*pairs[_PAIRS:], *triples[_TRIPLES:]]
    rng.shuffle(rest)
    for number, tags in enumerate(rest[: sum(HELD_OUT.values())]):
        program = DESIGNER.compose(300 + number, difficulty=len(tags) + number % 4, tags=tags)
        yield ("valid_unseen" if number < HELD_OUT["valid_unseen"] else "test"), program


def make(folder: Path) -> list[Path]:
    """Write every design that passes all gates, one file each, into a folder per role. Returns the files."""
    written: list[Path] = []
    known: list[Known] = []
    with Gates() as gates:
        for role, program in designs():
            verdict = gates.check(program, known)
            if not verdict.passed:
                print(f"{program.manifest.title}: {verdict.report()}", file=sys.stderr)
                continue
            assert verdict.signature is not None
            known.append(Known(program.id, verdict.signature))
            slug = re.sub(r"[^a-z]+", "-", program.manifest.title.lower().removeprefix("the ")).strip("-")
            written.append(program.save(folder / role / f"{slug}-{program.id[:4]}.toml"))
    return written


if __name__ == "__main__":
    print(len(make(Path(sys.argv[1]))), "programs")
