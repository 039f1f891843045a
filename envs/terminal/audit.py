"""The auditor: what is wrong with a task shows when those play it who should fail, and the one who should not.

Labels: `weak` (doing nothing, or nonsense, scores), `leaking` (the answer lies where the agent can read it),
`impossible` (the author's own solution does not score 1), `flaky` (the same outcome is judged differently, or not at
all).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .artifacts import take
from .dice import Dice
from .env import SUBMIT, solution_actions
from .scoring import VerifierFault
from .task import TESTS, Artifact, Step, TerminalTask
from .verifier import judge
from .workspace import Workspace

LABELS = ("weak", "leaking", "impossible", "flaky")
_NAMED = re.compile(r"(?<![\w./-])/?(?:[\w-]+/)*[\w-]+\.[A-Za-z]\w*")
_TELLING = re.compile(r"(^|[/._-])(oracle|solution|solve|answer_key|expected_output|gold)([/._-]|$)", re.IGNORECASE)
_COPIED = 3  # such lines that a text of the solution must have for its copies to be looked for
_LONG = 20  # characters of a line that is not there by chance
_TIMEOUT = 120.0  # seconds for a command of the solution


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    label: str
    """One of `LABELS`."""
    reason: str


@dataclass(frozen=True)
class Audit:
    """What was found out about a task."""

    task: str
    oracle: float | None
    """Score of the author's solution; None without one, or without a verdict."""
    nothing: float | None
    """Score of doing nothing."""
    nonsense: float | None
    """Score of commands that touch, fill and remove the files that the instruction names."""
    findings: tuple[Finding, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, each once, in the order of `LABELS`."""
        return tuple(label for label in LABELS if any(finding.label == label for finding in self.findings))


def audit(task: TerminalTask, agent: Workspace, other: Workspace, *, repeats: int = 3) -> Audit:
    """Play and judge `task`.

    Args:
        task: the task.
        agent: where it is played.
        other: where it is judged.
        repeats: how often the same outcome is judged.
    """
    findings: list[Finding] = []
    step = task.steps[0]
    shims = task.metadata.get("format") != "generated"

    def scores(at: Step, times: int) -> tuple[float | None, bool]:
        """The first score and whether all are the same; a missing verdict is None."""
        found: list[float | None] = []
        for _ in range(times):
            try:
                found.append(judge(task, at, agent, other, shims=shims).score)
            except VerifierFault as fault:
                found.append(None)
                findings.append(Finding("flaky", f"no verdict: {fault}"))
        return found[0], len(set(found)) == 1

    agent.begin(task, step)
    findings += [Finding("leaking", reason) for reason in dict.fromkeys(_leaks(task, step, agent))]
    nothing, steady = scores(step, repeats)
    if nothing:
        findings.append(Finding("weak", f"doing nothing scores {nothing:g}"))
    if not steady:
        findings.append(Finding("flaky", f"doing nothing was judged differently in {repeats} tries"))
    for command in _nonsense(step):
        agent.run(command, _TIMEOUT, 1000)
    nonsense, _ = scores(step, 1)
    if nonsense:
        findings.append(Finding("weak", f"nonsense scores {nonsense:g}"))
    oracle, steady = _solve(task, agent, scores, repeats)
    if not steady:
        findings.append(Finding("flaky", f"the solution was judged differently in {repeats} tries"))
    if any(at.solution is None for at in task.steps):
        findings.append(Finding("impossible", "there is no solution to try"))
    elif oracle is None or oracle < 1.0:
        said = "gets no verdict" if oracle is None else f"scores {oracle:g}"
        findings.append(Finding("impossible", f"the author's solution {said}"))
    return Audit(task.name, oracle, nothing, nonsense, tuple(dict.fromkeys(findings)))


def _solve(task: TerminalTask, agent: Workspace, scores, repeats: int) -> tuple[float | None, bool]:
    found: list[float] = []
    steady = True
    for number, step in enumerate(task.steps):
        if number == 0:
            agent.begin(task, step)
        else:
            agent.enter(task, step)
        for action in solution_actions(step):
            if action != SUBMIT:
                agent.run(action, _TIMEOUT, 1000)
        score, same = scores(step, repeats)
        steady &= same
        if score is None:
            return None, steady
        found.append(score)
    return (min(found) if found else None), steady


def _nonsense(step: Step) -> Iterator[str]:
    """Commands of someone who read nothing but the names of files."""
    dice = Dice(f"nonsense/{step.instruction}")
    names = list(dict.fromkeys(match.rstrip(".") for match in _NAMED.findall(step.instruction)))[:8]
    for name in dice.shuffled(names):
        yield f"mkdir -p \"$(dirname '{name}')\""
        yield dice.choice(
            (f"touch '{name}'", f"echo {dice.word()} > '{name}'", f"chmod 777 '{name}'", f"rm -f '{name}'")
        )
    yield "touch done success passed; echo 1 > reward.txt; mkdir -p out result output"


def _leaks(task: TerminalTask, step: Step, agent: Workspace) -> Iterator[str]:
    """Why the agent could read the answer."""
    for secret in task.secrets:
        if secret in step.instruction:
            yield "the instruction holds the answer"
    for folder in (TESTS, "/solution", "/oracle"):
        if agent.box.exec(["sh", "-c", f'[ -n "$(ls -A {folder} 2>/dev/null)" ]'], cwd="/").exit_code == 0:
            yield f"{folder} exists before the agent starts"
    hidden = {file.data: file.path for file in (*step.verifier.files, *(step.solution.files if step.solution else ()))}
    copied = _distinctive(step)
    for path, data in _visible(agent):
        if len(data) > _LONG and data in hidden:
            yield f"{path} is a copy of {hidden[data]}"
        text = data.decode("utf-8", "replace")
        if any(len(secret) >= 4 and secret in text for secret in task.secrets):
            yield f"{path} holds the answer"
        if any(all(line in text for line in lines) for lines in copied):
            yield f"{path} holds the lines of the solution"
        if _TELLING.search(path):
            yield f"{path} is named like an answer"


def _visible(agent: Workspace) -> Sequence[tuple[str, bytes]]:
    """The regular files in the working directory."""
    found = take(agent.box, Artifact(agent.workdir, agent.workdir)) or []
    return [(entry.name, content) for entry, content in found if entry.isreg()]


def _distinctive(step: Step) -> list[set[str]]:
    """Of each text of the solution that has enough of them, the lines that are not elsewhere by chance."""
    if step.solution is None:
        return []
    texts = [*step.solution.commands, *(file.text for file in step.solution.files)]
    lines = [{line.strip() for line in text.splitlines() if len(line.strip()) >= _LONG} for text in texts]
    return [found for found in lines if len(found) >= _COPIED]
