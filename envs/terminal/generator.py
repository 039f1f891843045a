"""Generated tasks: `generate(family, level, seed, split)` is the same task, to the byte, on every machine."""

from __future__ import annotations

from functools import lru_cache

from ..core.errors import InvalidArgument
from .dice import Dice
from .draft import TEST_FILE, WORKDIR, Draft
from .families import FAMILIES, LEVELS
from .task import TESTS, Artifact, File, Setting, Solution, Step, TerminalTask, Verifier

VERSION = "gen1"
CHECK = f"/usr/bin/python3 -I -S {TESTS}/{TEST_FILE}"
_TIMEOUT = 60.0  # seconds for the verifier


@lru_cache(512)
def generate(family: str, level: int, seed: int, split: str = "train") -> TerminalTask:
    """One task.

    Args:
        family: a key of `families.FAMILIES`.
        level: 1 to 3.
        seed: any non-negative integer.
        split: tasks of `valid_unseen` and `test` use words that `train` and `valid_seen` never show.

    Raises:
        InvalidArgument: an unknown family or level.
    """
    draft = make_draft(family, level, seed, split)
    files = tuple(
        File(f"{WORKDIR}/{path}", data.encode() if isinstance(data, str) else data, draft.modes.get(path, 0o644))
        for path, data in draft.files.items()
    )
    verifier = Verifier(
        command=f"bash {TESTS}/test.sh",
        files=(
            File("test.sh", f"#!/bin/bash\n{CHECK}\n".encode(), 0o755),
            File(TEST_FILE, draft.test_program().encode()),
        ),
        timeout=_TIMEOUT,
        mode="clean",
        artifacts=(Artifact(WORKDIR, WORKDIR),),
    )
    step = Step("", draft.instruction, verifier, Solution(draft.solution))
    return TerminalTask(
        f"{family}-{level}-{split}-{seed}",
        Setting(files=files, workdir=WORKDIR),
        (step,),
        hint=draft.hint,
        secrets=draft.secrets,
        menu=draft.menu,
        metadata={"family": family, "level": level, "seed": seed, "split": split, "format": "generated"},
    )


def make_draft(family: str, level: int, seed: int, split: str) -> Draft:
    """What the family writes down for this seed."""
    if family not in FAMILIES:
        raise InvalidArgument(f"no family {family!r}; choose from {', '.join(FAMILIES)}")
    if level not in LEVELS:
        raise InvalidArgument(f"level must be one of {', '.join(map(str, LEVELS))}, not {level!r}")
    pool = "seen" if split in ("train", "valid_seen") else "unseen"
    return FAMILIES[family](Dice(f"{VERSION}/{split}/{family}/{level}/{seed}", pool), level)
