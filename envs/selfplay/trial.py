"""One program before the gates: episodes of it under simple policies, as `SelfPlayEnv` would play them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..core.text_env import text_key
from .grammar import Grammar
from .program import Program
from .reasons import ProgramFault, Reason
from .runner import Moment, Refusal, Runner, Solver

REFUSALS = 30
"""So many refused actions end an episode."""
Choose = Callable[[Moment], str]
"""A policy: the action for a moment."""


@dataclass
class Episode:
    """What was played."""

    seed: int
    moments: list[Moment]
    """The first, and one for each accepted action."""
    actions: list[str] = field(default_factory=list)
    """Accepted actions."""
    refused: list[tuple[int, str]] = field(default_factory=list)
    """Actions that the program or its list refused, with the number of accepted ones before."""

    @property
    def ended(self) -> bool:
        """Whether the program ended it."""
        return self.moments[-1].terminated

    @property
    def score(self) -> float:
        """The rewards together."""
        return sum(moment.reward for moment in self.moments)

    @property
    def success(self) -> bool:
        """Ended with all that can be earned."""
        return self.ended and self.score >= 1.0 - 1e-9


class Trial:
    """A program with its sandboxes.

    Args:
        program: what is judged; its grammar parses.
        runner: runs it.
        solver: runs its reference solution.
        seconds: how long all of it may take.
    """

    def __init__(self, program: Program, runner: Runner, solver: Solver, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.program, self.runner, self.solver = program, runner, solver
        self.grammar = Grammar(program.manifest.actions)
        self.measures: dict[str, float] = {}
        self.episodes: list[Episode] = []
        """Random ones, kept for the gates that play them again."""
        self.solved: list[Episode] = []
        """Those of the reference solution."""

    @property
    def horizon(self) -> int:
        """The manifest's."""
        return self.program.manifest.horizon

    def rng(self, *parts: str | int) -> np.random.Generator:
        """A generator that depends on `parts` only."""
        return np.random.default_rng(int(text_key(*map(str, parts)), 16))

    def play(self, seed: int, choose: Choose) -> Episode:
        """An episode: until the program ends it, `horizon` actions were accepted, or `REFUSALS` refused.

        Raises:
            ProgramFault: the program failed, or broke what it promises.
        """
        first = self.runner.reset(seed)
        episode = Episode(seed, [first])
        while not episode.ended and len(episode.actions) < self.horizon and len(episode.refused) < REFUSALS:
            self._turn(episode, choose(episode.moments[-1]))
        return episode

    def _turn(self, episode: Episode, action: str) -> None:
        if time.monotonic() > self._end:
            raise ProgramFault(Reason.TIMEOUT, "each of its steps is slow, and all episodes together take too long")
        listed = episode.moments[-1].actions
        if listed is not None:
            strange = [name for name in listed if not self.grammar.accepts(name)]
            if strange:
                raise ProgramFault(
                    Reason.ACTIONS, f"actions() lists {strange[0]!r:.80}, which the grammar does not allow"
                )
        if not action or not (self.grammar.accepts(action) if listed is None else action in listed):
            episode.refused.append((len(episode.actions), action))
            return
        found = self.runner.step(action)
        where = f"seed {episode.seed}, after {len(episode.actions)} actions, {action!r:.80}"
        if isinstance(found, Refusal):
            if found.unchanged is False:
                raise ProgramFault(Reason.REFUSAL, f"{where}: refused, yet the state changed")
            if listed is not None:
                raise ProgramFault(Reason.REFUSAL, f"{where}: listed by actions(), yet refused: {found.message:.200}")
            episode.refused.append((len(episode.actions), action))
            return
        episode.actions.append(action)
        episode.moments.append(found)
        if episode.score > 1.0 + 1e-9:
            raise ProgramFault(Reason.REWARD, f"{where}: the rewards add up to {episode.score:.6g}, more than 1")

    def random(self, rng: np.random.Generator) -> Choose:
        """Uniform over what is listed, else over the grammar."""

        def choose(moment: Moment) -> str:
            if moment.actions is None:
                return self.grammar.sample(rng, moment.observation)
            return moment.actions[int(rng.integers(len(moment.actions)))]

        return choose

    def follow(self, actions: Sequence[str]) -> Choose:
        """These actions one after the other, whatever happens."""
        script = iter(actions)
        return lambda moment: next(script, "")

    def solve(self, seed: int) -> Episode:
        """The reference solution's episode. Raises `SolutionFault` too."""
        self.solver.start(seed)
        return self.play(seed, lambda moment: self.solver.act(moment.observation))
