"""A language model as a designer of environments: prompt, documents as grounding, memory, and repair from the gates.

The model answers with three fenced blocks (manifest, `env.py`, `solution.py`). Whatever it writes is judged by the
gates in their sandboxes; what they find goes back to it, a few times. Nothing that it writes runs anywhere else.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from ..envs.core.errors import InvalidArgument
from ..envs.core.text_env import printable
from ..envs.selfplay.gates import Gates
from ..envs.selfplay.program import LONGEST, Lineage, Program, ProgramError
from ..envs.selfplay.signature import Known
from ..envs.selfplay.source import MODULES
from ..envs.selfplay.statistics import MemoryEntry
from ..envs.selfplay.verdict import Verdict
from .loop import derive_seed
from .policy import Policy, Sampling
from .records import Call, Context, Message

ROLE = "designer"
_BLOCK = re.compile(r"```[ \t]*([\w.+-]*)[^\n]*\n(.*?)(?:\n```|\Z)", re.DOTALL)
_DOCUMENT = 4_000  # characters of a document that the prompt shows
_REPORT = 2_000  # characters of a report

FORMAT = """Write a small text game as a Python program. Answer with exactly three fenced blocks:

```toml
title = "a few words"
rules = \"\"\"what the player is told\"\"\"
actions = \"\"\"one form per line, such as: go <north|south>\"\"\"
horizon = 20
hint = "what would help a player"
mechanics = ["navigation"]
```
```python env.py
import random

class Game:
    def reset(self, seed: int) -> str: ...   # the first observation; draw from random.Random(seed) only
    def step(self, action: str) -> tuple[str, float, bool]: ...   # observation, reward from 0 to 1, ended
    def actions(self) -> list[str]: ...   # optional: the actions that are possible now
```
```python solution.py
class Solution:
    def start(self, seed: int) -> None: ...
    def act(self, observation: str) -> str: ...   # the next action of a player who knows everything
```

The rewards of an episode add up to 1 exactly when it is won. It ends within the horizon whatever is played. Each seed
is another instance. Doing nothing, constant and random actions must fail; the hint must help. Keep all state on self.
To refuse a senseless action raise ValueError. Modules that may be imported: {modules}."""


@dataclass
class Design:
    """What came of one request to the designer."""

    verdict: Verdict
    """The gates' last word."""
    program: Program | None
    """The last program that could be read; None where there never was one."""
    calls: list[Call] = field(default_factory=list)
    """The model's answers, the first one and the repairs."""
    reports: list[str] = field(default_factory=list)
    """What the gates said to each."""

    @property
    def accepted(self) -> bool:
        """Whether it passed all gates."""
        return self.verdict.passed


@dataclass(frozen=True)
class ModelDesigner:
    """Asks a policy for programs.

    Args:
        gates: judge what it writes.
        documents: texts to build on; a design takes the one of its number.
        repairs: how often a design may be mended after a report.
        sampling: how the model writes.
        name: the designer's name in lineages.
        example: shown in the prompt as a model answer; None shows none.
    """

    gates: Gates
    documents: Sequence[str] = ()
    repairs: int = 2
    sampling: Sampling = field(default_factory=lambda: Sampling(max_tokens=4_000))
    name: str = "model"
    example: Program | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.repairs, int) or self.repairs < 0:
            raise InvalidArgument(f"repairs must be a number, 0 or more, not {self.repairs!r}")

    def prompt(self, number: int, memory: Sequence[MemoryEntry] = ()) -> tuple[Message, ...]:
        """The first messages of design `number`."""
        parts = []
        if self.example is not None:
            parts.append(f"An example of a good answer:\n\n{write_blocks(self.example)}")
        if self.documents:
            document = self.documents[number % len(self.documents)]
            parts.append(f"Build the game on this text:\n\n{printable(document)[:_DOCUMENT]}")
        if memory:
            lines = "\n".join(describe(entry) for entry in memory)
            parts.append(f"Tried before (write something else; a large regret is good):\n{lines}")
        parts.append(f"Write game number {number}.")
        system = FORMAT.replace("{modules}", ", ".join(name for name in MODULES if name[0] != "_"))
        return Message("system", system), Message("user", "\n\n".join(parts))

    def design(
        self,
        policy: Policy,
        numbers: Sequence[int],
        *,
        memory: Sequence[MemoryEntry] = (),
        known: Sequence[Known] = (),
        seed: int = 0,
        generation: int = 0,
        on_design: Callable[[Design], None] | None = None,
    ) -> list[Design]:
        """One design per number; the requests of a round go to the policy in one batch.

        Args:
            policy: writes.
            numbers: of the designs; equal numbers are independent answers to the same prompt.
            memory: what was tried before, for the prompt.
            known: what a program must not repeat; those accepted here count as well.
            seed: decides the sampling, together with the place in `numbers`.
            generation: which round of design it is.
            on_design: called with each design when it is finished.

        Raises:
            EnvironmentFault: a sandbox or the model's server broke.
        """
        taken = list(known)
        sessions = [f"designer/{seed}/{place}" for place in range(len(numbers))]
        talks = [self.prompt(number, memory) for number in numbers]
        designs = [Design(Verdict(""), None) for _ in numbers]
        open_ = list(range(len(numbers)))
        try:
            for attempt in range(self.repairs + 1):
                contexts = [Context(talks[place], session=sessions[place], role=ROLE) for place in open_]
                seeds = [derive_seed(seed, place, attempt) for place in open_]
                calls = policy.generate(contexts, self.sampling, seeds)
                for place, call in zip(open_, calls, strict=True):
                    self._judge(designs[place], call, taken, generation)
                    answer = Message("assistant", call.text, call.id)
                    request = Message("user", f"{designs[place].reports[-1]}\n\nMend it. Answer with all three blocks.")
                    talks[place] = (*talks[place], answer, request)
                still = [p for p in open_ if not designs[p].accepted and designs[p].calls[-1].finish != "context"]
                for place in set(open_) - set(still):
                    if on_design:
                        on_design(designs[place])
                open_ = still
                if not open_:
                    break
        finally:
            policy.forget(sessions)
        for place in open_:
            if on_design:
                on_design(designs[place])
        return designs

    def _judge(self, design: Design, call: Call, known: list[Known], generation: int) -> None:
        candidate = read_blocks(call.text)
        operation = "write" if not design.calls else "repair"
        lineage = Lineage(self.name, (), operation, generation)
        design.verdict = self.gates.check(candidate, known)
        with suppress(ProgramError):  # the verdict says what it lacks
            design.program = replace(Program.from_dict(candidate), lineage=lineage)
        design.calls.append(call)
        cut = "" if call.finish not in ("length", "context") else "The answer was cut off: write less.\n"
        design.reports.append((cut + design.verdict.report())[:_REPORT])
        if design.verdict.passed and design.verdict.signature is not None:
            known.append(Known(design.verdict.program_id, design.verdict.signature))


def describe(entry: MemoryEntry) -> str:
    """One line on a program that was tried."""
    worth = "" if entry.regret is None else f", regret {entry.regret:.2f}"
    what = f"{entry.title or 'no program'} ({', '.join(entry.mechanics) or 'unknown'})"
    return printable(f"- {what}: {entry.outcome}{worth}")


def read_blocks(text: str) -> dict[str, Any]:
    """The fenced blocks of an answer as plain values for the gates; what is missing is missing there too.

    A block belongs to the file that its first line names, else to what it contains.
    """
    found: dict[str, Any] = {}
    for language, body in _BLOCK.findall(text[: 4 * LONGEST["source"]]):
        body = body.strip("\n") + "\n"
        if language == "toml":
            try:
                found = {**tomllib.loads(body), **{key: found[key] for key in ("source", "solution") if key in found}}
            except (tomllib.TOMLDecodeError, RecursionError):
                continue
        elif re.search(r"^class Solution\b", body, re.MULTILINE) and not re.search(
            r"^class Game\b", body, re.MULTILINE
        ):
            found["solution"] = body
        elif language in ("python", "py", ""):
            # a solution may bring the game's class along: then the first block is the game
            found["solution" if "source" in found and "class Solution" in body else "source"] = body
    return {key: value for key, value in found.items() if key != "lineage"}


def write_blocks(program: Program) -> str:
    """A program in the form in which a model writes one."""
    import tomli_w

    manifest = program.manifest
    names = ("title", "rules", "actions", "horizon", "hint")
    table = {name: getattr(manifest, name) for name in names} | {"mechanics": list(manifest.mechanics)}
    blocks = (("toml", tomli_w.dumps(table)), ("python env.py", program.source))
    text = "".join(f"```{head}\n{body.strip()}\n```\n" for head, body in blocks)
    return f"{text}```python solution.py\n{manifest.solution.strip()}\n```\n"
