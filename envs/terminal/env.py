"""`sandlot/Terminal-v0`: one action is one shell command in a sandbox."""

from __future__ import annotations

import base64
import itertools
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gymnasium.error import ResetNeeded

from ...sandboxes.limits import Limits
from ..core.errors import EnvironmentFault, InvalidArgument
from ..core.tasks import Task
from ..core.text_env import Outcome, TextEnv, text_key
from .backends import BACKENDS, workspaces
from .folders import FolderTasks, load_task
from .generator import generate
from .output import show
from .scoring import Verdict, VerifierFault, combine
from .task import File, Step, TerminalTask
from .tasks import GeneratedTasks
from .verifier import MODES, judge
from .workspace import Saved, Workspace

SUBMIT = "submit"
_CHUNK = 12_000  # bytes of a file that one action of the oracle carries
_FILE = re.compile(r"(?<![\w./-])[\w-]+(?:/[\w-]+)*\.[A-Za-z]\w*")
_USAGE = f"Each action is one command of a bash shell in {{}}. Send '{SUBMIT}' when the work is done."


@dataclass(frozen=True)
class _Moment:
    """What `_save` returns."""

    actions: tuple[str, ...]
    saved: Saved
    at: int
    verdicts: tuple[Verdict, ...]
    files: tuple[str, ...]


class TerminalEnv(TextEnv):
    """A task to be done in a shell: real Terminal-Bench folders, or generated tasks without end.

    ## Description
    The agent works in a sandbox with a persistent shell and hands its work in; a verifier that it never sees judges
    what is there. Generated tasks come from twelve families at three levels, any number of each; folders in the
    Terminal-Bench 1 and Harbor formats are played unmodified. [Terminal tasks](../terminal.md) is the page for people
    who bring their own.

    ## Action Space
    Text. One command, of one or more lines, as it would be typed; or `submit`. Folder, variables, functions and
    background processes last from command to command. Nothing is on a command's standard input, so that programs that
    ask get no answer instead of hanging; each command has a time limit. With `commands="menu"` only the listed
    commands are accepted.

    ## Observation Space
    Text. What the command printed, errors included, with terminal colours taken out and undecodable bytes replaced.
    Notes in brackets tell a non-zero exit code, cut output, a time-out, or that the shell had to be started again.
    The first observation is the assignment. Listings show no dates: `TIME_STYLE` is set, so that a command's output
    repeats.

    ## Starting State
    The task's image and files, and a fresh shell in its working directory, /app for generated tasks.

    ## Rewards
    The verifier's score in [0, 1] at `submit`, or at the last step, whose command is followed by the judgement.
    Generated tasks give 1 when every criterion is met, else 0. In a task of several steps each hand-in gives its
    share.

    ## Episode End
    Terminated by `submit`, in a task of several steps by the last one or one below its `min_reward`. Truncated by the
    step limit (30 registered).

    ## Information
    The contract's keys. `exit_code` is the last command's. `progress` is None unless `progress=True`. `admissible` is
    None unless `commands="menu"`: then it lists the family's commands for the files whose names the agent has seen.

    ## Privileged Information
    `oracle()` types the commands of the author's solution that have not been typed yet, then `submit`; `hint()` tells
    the way; `verify()` runs the verifier on a copy and gives its criteria. None of them leaves a trace.

    ## State Key
    Hash of the files that differ from the image (names, modes, contents; no times; of a Git index its existence
    only), of the shell's folder, variables, functions and options, and of the names of running programs. A snapshot
    holds the files and the shell's state and can be restored in any instance on the same backend; where background
    processes run, the commands are played again instead, and a restore that does not come out the same is an
    `EnvironmentFault`.

    ## Arguments
    - `split`: `train`, `valid_seen` (same words, other tasks), `valid_unseen` or `test` (other words and names).
    - `source`: "generated", or a folder with tasks in either format. Folders have no splits.
    - `family`, `level`: of generated tasks; one, several or None for all.
    - `backend`: "auto", "namespace", "oci" or "docker". `image`: for tasks that name none, a root file system's
      folder, a Docker image, or None for the backend's own. `image_map`: from names after `FROM`, or of tasks, to
      such images.
    - `commands`: "free" or "menu" (families that have one). `progress`: judge a copy after each step, which costs time.
    - `verifier`: "auto" (what the task says), "clean", "shared" or "live", see the page on terminal tasks.
    - `timeout` (20): seconds for a command. `output` (8000): bytes of output that are shown.
    - `variables`: values for `${NAME}` in Harbor tasks. `max_steps`, `render_mode`: see `TextEnv`.

    ## Source and Licence
    Written for this project; Apache-2.0. The formats are those of https://github.com/laude-institute/terminal-bench and
    https://github.com/laude-institute/harbor (both Apache-2.0); no task of theirs is included.

    ## Version History
    - v0: first version.
    """

    max_action: ClassVar[int] = 32_768
    extra_info: ClassVar[tuple[str, ...]] = ("exit_code",)

    def __init__(
        self,
        split: str = "train",
        source: str | Path = "generated",
        family: str | list[str] | None = None,
        level: int | list[int] | None = None,
        backend: str = "auto",
        image: str | None = None,
        image_map: Mapping[str, str] | None = None,
        commands: str = "free",
        progress: bool = False,
        verifier: str = "auto",
        timeout: float = 20.0,
        output: int = 8_000,
        variables: Mapping[str, str] | None = None,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        for name, value, options in (
            ("backend", backend, BACKENDS),
            ("commands", commands, ("free", "menu")),
            ("verifier", verifier, MODES),
        ):
            if value not in options:
                raise InvalidArgument(f"{name} must be one of {', '.join(options)}, not {value!r}")
        if not timeout > 0 or not 100 <= output <= self.max_observation // 2:
            raise InvalidArgument(f"timeout must be positive and output 100 to {self.max_observation // 2}")
        generated = source == "generated"
        if not generated and (family is not None or level is not None):
            raise InvalidArgument("family and level choose among generated tasks; a folder has neither")
        tasks = GeneratedTasks(split, family, level) if generated else FolderTasks(source, split)
        super().__init__(tasks, max_steps=max_steps, render_mode=render_mode)
        self._menu, self._track, self._mode = commands == "menu", progress, verifier
        self._timeout, self._output = timeout, output
        self._variables = dict(variables or {})
        self._where = (backend, image, dict(image_map or {}))
        self._spaces: tuple[Workspace, Workspace] | None = None  # the agent's and the verifier's
        self._played: TerminalTask | None = None
        self._actions: tuple[str, ...] = ()
        self._at = 0
        self._verdicts: tuple[Verdict, ...] = ()
        self._files: tuple[str, ...] = ()
        self._criteria: tuple[str, dict[str, float]] | None = None

    # -- the episode ----------------------------------------------------------------------------------------------

    @property
    def terminal_task(self) -> TerminalTask:
        """Privileged: everything about the task being played. Raises before the first `reset`."""
        if self._played is None:
            raise ResetNeeded("call reset() first")
        return self._played

    def _reset(self, task: Task) -> str:
        params = task.params
        played = load_task(params["folder"], self._variables) if "folder" in params else generate(**params)
        if self._menu and not played.menu:
            raise InvalidArgument(f"{task.id} has no menu of commands: use commands='free'")
        self._played, self._actions, self._at, self._verdicts, self._files = played, (), 0, (), ()
        self._criteria = None
        self._agent.begin(played, self._step_now)
        return self._introduce()

    def _step(self, action: str) -> Outcome:
        if len(self._verdicts) > self._at:
            return Outcome("The work was handed in. Reset to start another task.", valid=False)
        command = self.canonical(action)
        listed = self._admissible()
        if not command or (listed is not None and command not in listed):
            asked = "Choose one of the listed commands." if listed else f"Send a shell command, or '{SUBMIT}'."
            return Outcome(asked, valid=False)
        self._actions = (*self._actions, command)
        if command == SUBMIT:
            return self._hand_in("")
        result = self._agent.run(command, self._timeout, self._output)
        text = show(result, self._timeout)
        self._see(text)
        if self._steps + 1 == self._limit():
            return self._hand_in(f"{text}\n")
        return Outcome(text)

    def _hand_in(self, text: str) -> Outcome:
        before, step = self._score(), self._step_now
        verdict = self._judge()
        self._verdicts = (*self._verdicts, verdict)
        enough = all(verdict.rewards.get(name, 0.0) >= least for name, least in step.min_reward.items())
        submitted = self._actions[-1] == SUBMIT
        if enough and submitted and self._at + 1 < len(self.terminal_task.steps):
            self._at += 1
            self._agent.enter(self.terminal_task, self._step_now)
            return Outcome(f"{text}{self._introduce()}", self._score() - before)
        return Outcome(f"{text}The work was handed in.", self._score() - before, submitted)

    def _introduce(self) -> str:
        self._see(self._step_now.instruction)
        return f"{self._step_now.instruction}\n\n{_USAGE.format(self._agent.workdir)}"

    def _judge(self) -> Verdict:
        shims = self.terminal_task.metadata.get("format") != "generated"
        return judge(self.terminal_task, self._step_now, self._agent, self._judging, mode=self._mode, shims=shims)

    def _limit(self) -> int | None:
        """The step limit, as far as this environment can know it."""
        if self.max_steps is not None:
            return self.max_steps
        return self.spec.max_episode_steps if self.spec else None

    # -- state ----------------------------------------------------------------------------------------------------

    def _state(self) -> str:
        scores = ",".join(f"{verdict.score:.6g}" for verdict in self._verdicts)
        return text_key(self._agent.state()[1], str(self._at), scores, *(self._files if self._menu else ()))

    def _save(self) -> _Moment:
        return _Moment(self._actions, self._agent.save(), self._at, self._verdicts, self._files)

    def _load(self, state: _Moment) -> None:
        if not self._agent.load(state.saved):
            self._agent.begin(self.terminal_task, self.terminal_task.steps[0])
            at = 0
            for command in state.actions:
                if command != SUBMIT:
                    self._agent.run(command, self._timeout, self._output)
                elif at < state.at:
                    at += 1
                    self._agent.enter(self.terminal_task, self.terminal_task.steps[at])
            if not self._agent.comes_to(state.saved.key):
                raise EnvironmentFault(f"{self.task.id}: the commands played again did not lead to the same state")
        self._actions, self._at = state.actions, state.at
        self._verdicts, self._files, self._criteria = state.verdicts, state.files, None

    def _success(self) -> bool:
        steps = self.terminal_task.steps
        return len(self._verdicts) == len(steps) and all(verdict.success for verdict in self._verdicts)

    def _score(self) -> float:
        return combine(self._verdicts, len(self.terminal_task.steps), self.terminal_task.strategy)

    def _progress(self) -> float | None:
        if not self._track:
            return None
        criteria = self.verify()
        return sum(criteria.values()) / len(criteria)

    def _instruction(self) -> str:
        return self._step_now.instruction

    def _extra_info(self) -> dict[str, str | int | float | bool | None]:
        return {"exit_code": self._agent.code}

    # -- privileged -----------------------------------------------------------------------------------------------

    def oracle(self) -> Iterator[str]:
        """Privileged: the author's commands that have not been typed yet, then `submit`; nothing without a solution."""
        typed, steps = iter(self._actions), self.terminal_task.steps
        script = [command for step in steps for command in solution_actions(step)]
        done = 0
        for command in typed:
            done += done < len(script) and command == script[done]
        yield from itertools.islice(script, done, None)

    def hint(self) -> str:
        """Privileged: the way to go; for tasks without a hint, the next command of the solution."""
        return self.terminal_task.hint or next(self.oracle(), "")

    def verify(self) -> dict[str, float]:
        """Privileged: the criteria of the current step, judged on a copy of what is there now."""
        if len(self._verdicts) == self._at + 1:
            return dict(self._verdicts[-1].criteria)
        key = self._state()
        if self._criteria is None or self._criteria[0] != key:
            if self._mode == "live":
                raise InvalidArgument("verifier='live' can judge only at the end: it needs the agent's own sandbox")
            try:
                found = dict(self._judge().criteria)
            except VerifierFault:
                found = {"verdict": 0.0}
            self._criteria = key, found
        return dict(self._criteria[1])

    # -- parts ----------------------------------------------------------------------------------------------------

    def canonical(self, action: str) -> str:
        """The action without the white space around it: within a command, spaces and line breaks count."""
        return action.strip()

    def _admissible(self) -> tuple[str, ...] | None:
        if not self._menu:
            return None
        if self._ended:
            return ()
        templates = self.terminal_task.menu
        plain = [template for template in templates if "{file}" not in template]
        filled = [template.format(file=file) for file in self._files for template in templates if "{file}" in template]
        return (*plain, *filled, SUBMIT)

    def _see(self, text: str) -> None:
        found = (match.removeprefix(f"{self._agent.workdir}/") for match in _FILE.findall(text))
        self._files = tuple(dict.fromkeys((*self._files, *found)))

    @property
    def _step_now(self) -> Step:
        return self.terminal_task.steps[self._at]

    @property
    def _agent(self) -> Workspace:
        return self._workspaces()[0]

    @property
    def _judging(self) -> Workspace:
        return self._workspaces()[1]

    def _workspaces(self) -> tuple[Workspace, Workspace]:
        if self._spaces is None:
            self._spaces = workspaces(*self._where, Limits(output=max(self._output, 64_000)))
        return self._spaces

    def close(self) -> None:
        """End both sandboxes; a later `reset` starts new ones."""
        spaces, self._spaces = self._spaces, None
        for space in spaces or ():
            space.close()
        super().close()


def solution_actions(step: Step) -> Iterator[str]:
    """Privileged: the author's solution as actions, files and all."""
    if step.solution is not None:
        for file in step.solution.files:
            yield from _upload(file)
        yield from step.solution.commands
        yield SUBMIT


def _upload(file: File) -> Iterator[str]:
    """Commands that write a file, a piece at a time."""
    path, folder = shlex.quote(file.path), shlex.quote(file.path.rsplit("/", 1)[0] or "/")
    for start in range(0, max(len(file.data), 1), _CHUNK):
        text = base64.encodebytes(file.data[start : start + _CHUNK]).decode()
        arrow = ">>" if start else ">"
        yield f"mkdir -p {folder} && base64 -d {arrow} {path} <<'END' && chmod {file.mode:o} {path}\n{text}END"
