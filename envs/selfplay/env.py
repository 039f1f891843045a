"""`sandlot/SelfPlay-v0`: a program of a pool, played in its sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from ..core.errors import EnvironmentFault, InvalidArgument
from ..core.tasks import Task
from ..core.text_env import Outcome, TextEnv
from .grammar import Grammar
from .pool import Pool, starter
from .program import Program
from .reasons import ProgramFault, Reason
from .runner import Cell, Moment, Refusal, Runner, RunSettings, Solver
from .tasks import Entry, ProgramTasks

FAULTS = 3
"""After this many failures of its program an episode ends."""
WON = 1.0 - 1e-9
"""Rewards that add up to this are a success."""


class _Moment(NamedTuple):
    """What `_save` returns: the episode is played again from its actions."""

    actions: tuple[str, ...]
    faults: int
    over: bool
    trouble: str
    key: str


class SelfPlayEnv(TextEnv):
    """A small world written as a program by a designer, chosen from a pool, and run in a sandbox.

    ## Description
    Every task is one program with one seed. Programs differ in everything: what there is, what can be done, what
    is to be found out. The pool that is shipped was made by the grammar designer and has passed all gates; your
    own designer fills others. [Self-play](../selfplay.md) says how a program looks, what the gates check, and
    what isolation covers.

    ## Action Space
    Text. The instruction names the forms, such as `go <north|south>` or `answer <0..99>`; letters' case and
    repeated spaces do not count. Many programs list what is possible now in `admissible`, and then nothing else
    is accepted.

    ## Observation Space
    Text, whatever the program says, at most 4,000 printable characters.

    ## Starting State
    The instance that the program makes from the task's seed: `selfplay/<program>/<seed>`. The same id with `/hint`
    behind it starts the same instance with the hint in the instruction.

    ## Rewards
    The program's: each from 0 to 1, in an episode at most 1 together. Many give 1 at the end and nothing before.

    ## Episode End
    Terminated by the program, which says so after at most as many accepted actions as its horizon; it is held to
    that. Registered limit: 50 steps, refused actions included. A program that fails three times in an episode
    ends it.

    ## Information
    `score`: the rewards so far. `success`: they add up to 1 and the episode is over. `progress` is None.
    `program`: the program's id. `trouble`: the reason code of what the program did wrong with the last action,
    else "": such an action is refused, and the episode is as it was before.

    ## Privileged Information
    `oracle()`: the reference solution, which runs in a sandbox of its own and has seen the episode so far; it is
    only held to solve an episode from its start. `hint()`: the solution's hint for the seed, else the manifest's.
    `verify()`: success and score.

    ## State Key
    The state as the program tells it, where it does (gates look for states that are told alike and go on
    differently); else the accepted actions.

    ## Arguments
    - `split`: "train", "valid_seen" (training programs, other seeds), "valid_unseen" or "test" (other programs).
    - `program` (None): play only this one: the id of one in the pool, the path of a file or folder, or a
      `Program`. It then serves every split, by its seeds.
    - `pool` (None): the folder of a pool, or a `Pool`; None is the one that is shipped.
    - `hint` (False): put the hint into the instruction.
    - `backend` ("auto"): the sandbox: "oci", "namespace", "docker", or the first that works here.
    - `settings`: a `RunSettings`, what a program may use.

    ## Source and Licence
    After the idea of SPADE (arXiv 2608.19197): environments as code, rewarded by what a hint is worth. Programs,
    gates and pool were written for this project; Apache-2.0.

    ## Version History
    - v0: first version.
    """

    extra_info: ClassVar[tuple[str, ...]] = ("program", "trouble")

    def __init__(
        self,
        split: str = "train",
        *,
        program: str | Path | Program | None = None,
        pool: str | Path | Pool | None = None,
        hint: bool = False,
        backend: str = "auto",
        settings: RunSettings | None = None,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        tasks = program_tasks(split, program, pool)
        super().__init__(tasks, max_steps=max_steps, render_mode=render_mode)
        self._programs = tasks
        self._hinted = hint
        self._cell, self._solving = Cell(backend, settings), Cell(backend, settings)
        self._runner: Runner | None = None
        self._solver: Solver | None = None
        self._grammar = Grammar("wait")
        self._actions: tuple[str, ...] = ()
        self._seen: list[Moment] = []
        self._faults, self._over, self._trouble = 0, False, ""
        self._hint: tuple[str, str] | None = None

    # -- the episode ----------------------------------------------------------------------------------------------

    @property
    def program(self) -> Program:
        """The program being played. Raises before the first `reset`."""
        return self._programs.program(self.task.params["program"])

    def _reset(self, task: Task) -> str:
        program = self.program
        if self._runner is None or self._runner.program != program:
            self._runner = Runner(program, cell=self._cell)
            self._solver = Solver(program, cell=self._solving)
            self._grammar = Grammar(program.manifest.actions)
        self._seen = []
        self._faults, self._over, self._trouble = 0, False, ""
        self._again(())
        return self._seen[0].observation

    def _step(self, action: str) -> Outcome:
        self._trouble = ""
        chosen = self._understand(self.canonical(action))
        if chosen is None:
            return self._refuse("")
        try:
            found = self._playing.step(chosen)
            if isinstance(found, Refusal):
                if not found.unchanged:
                    self._again(self._actions)
                return self._refuse(found.message)
            if self._score() + found.reward > 1.0 + 1e-9:
                raise ProgramFault(Reason.REWARD, "the rewards of an episode add up to more than 1")
        except ProgramFault as fault:
            return self._fail(fault)
        self._actions = (*self._actions, chosen)
        self._seen.append(found)
        spent = len(self._actions) >= self.program.manifest.horizon
        self._over = found.terminated or spent
        return Outcome(found.observation, found.reward, self._over)

    def _understand(self, action: str) -> str | None:
        """The action as the program knows it, or None."""
        listed = self._seen[-1].actions
        if listed is not None:
            folded = action.casefold()
            return next((name for name in listed if name.casefold() == folded), None)
        return action if action and self._grammar.accepts(action) else None

    def _refuse(self, why: str) -> Outcome:
        if not why:
            listed = self._seen[-1].actions
            forms = self.program.manifest.actions.strip().splitlines() if listed is None else listed
            why = f"That is not possible. Choose from: {'; '.join(forms)}."
        return Outcome(why, valid=False)

    def _fail(self, fault: ProgramFault) -> Outcome:
        """The program failed on an action: it is as if it had not been sent, and after `FAULTS` the episode ends.

        To void the episode instead would let an agent that knows how to make a program fail throw bad episodes away.
        """
        self._faults += 1
        self._trouble = str(fault.reason)
        if self._faults >= FAULTS:
            self._over = True
            self._cell.end()
            return Outcome("The world has broken down. The episode ends.", terminated=True)
        self._again(self._actions)
        return Outcome("Nothing happens: this world could not carry that out.", valid=False)

    def _again(self, actions: tuple[str, ...]) -> None:
        """Play the episode from its start up to `actions`."""
        seed = self.task.params["seed"]
        try:
            found = self._playing.replay(seed, actions)
        except ProgramFault:
            self._cell.end()  # perhaps its process was worn out: once more in a fresh one
            try:
                found = self._playing.replay(seed, actions)
            except ProgramFault as fault:
                raise EnvironmentFault(f"{self.task.id}: {fault.reason}: {fault}") from fault
        moments = [moment for moment in found if isinstance(moment, Moment)]
        if len(moments) != len(actions) + 1:
            raise EnvironmentFault(f"{self.task.id}: its actions cannot be played again")
        if actions == self._actions and self._seen and moments != self._seen:
            raise EnvironmentFault(f"{self.task.id}: its actions played again give another episode")
        self._actions, self._seen = actions, moments

    @property
    def _playing(self) -> Runner:
        assert self._runner is not None
        return self._runner

    # -- state ----------------------------------------------------------------------------------------------------

    def _state(self) -> str:
        told = self._seen[-1].state
        history = "\n".join(self._actions) if told is None else told
        return f"{self._score():.9f} {self._over} {history}"

    def _save(self) -> _Moment:
        return _Moment(self._actions, self._faults, self._over, self._trouble, self._state())

    def _load(self, state: _Moment) -> None:
        if state.actions != self._actions or not self._cell.alive:
            self._seen = self._seen if state.actions == self._actions else []
            self._again(state.actions)
        self._faults, self._over, self._trouble = state.faults, state.over, state.trouble
        if self._state() != state.key:
            raise EnvironmentFault(f"{self.task.id}: its actions played again give another episode")

    def _admissible(self) -> tuple[str, ...] | None:
        return () if self._over and self._listing else self._seen[-1].actions

    @property
    def _listing(self) -> bool:
        return self._seen[0].actions is not None

    def _success(self) -> bool:
        return self._over and self._score() >= WON

    def _score(self) -> float:
        return min(1.0, sum(moment.reward for moment in self._seen))

    def _instruction(self) -> str:
        manifest = self.program.manifest
        text = f"{manifest.rules.strip()}\n\nActions:\n{manifest.actions.strip()}"
        return f"{text}\n\nHint: {self.hint()}" if self._hinted or self.task.params.get("hint") else text

    def _extra_info(self) -> dict[str, Any]:
        return {"program": self.task.params["program"], "trouble": self._trouble}

    # -- privileged -----------------------------------------------------------------------------------------------

    def oracle(self) -> Iterator[str]:
        """Privileged: what the reference solution does next, after it has watched the episode so far."""
        solver = self._solution
        watched = 0
        self._ask(lambda: solver.start(self.task.params["seed"]))
        while not self._over:
            action = ""
            while watched < len(self._seen):
                observation = self._seen[watched].observation
                action = self._ask(lambda observation=observation: solver.act(observation))
                watched += 1
            yield action

    def hint(self) -> str:
        """Privileged: the hint for this task."""
        if self._hint is None or self._hint[0] != self.task.id:
            self._hint = self.task.id, self._ask(lambda: self._solution.hint(self.task.params["seed"]))
        return self._hint[1]

    def verify(self) -> dict[str, float]:
        """Privileged: success and score."""
        return {"success": float(self._success()), "score": self._score()}

    def _ask(self, question: Any) -> Any:
        try:
            return question()
        except ProgramFault as fault:
            raise EnvironmentFault(f"{self.task.id}: the reference solution: {fault.reason}: {fault}") from fault

    @property
    def _solution(self) -> Solver:
        if self._solver is None:
            raise InvalidArgument("call reset() first")
        return self._solver

    def close(self) -> None:
        """End both sandboxes; a later `reset` opens new ones."""
        self._cell.close()
        self._solving.close()
        super().close()


def program_tasks(split: str, program: str | Path | Program | None, pool: str | Path | Pool | None) -> ProgramTasks:
    """The tasks of one program, or of a pool.

    Raises:
        InvalidArgument: no program or pool is there, or none for that split.
    """
    opened = pool if isinstance(pool, Pool) or pool is None else Pool.open(Path(pool))
    everything = starter if opened is None else opened.entries
    if program is None:
        return ProgramTasks(split, everything, opened)
    if not isinstance(program, Program):
        known = everything().get(str(program))
        program = known.program if known else Program.load(Path(program))
    problems = program.problems()
    if problems:
        raise InvalidArgument(f"program {program.id}: {problems[0]}")
    single = {program.id: Entry(program, None)}
    return ProgramTasks(split, lambda: single)
