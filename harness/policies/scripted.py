"""Policies that need no weights: scripts, uniform choice, refusals, echoes, and the environment's own oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np

from ...envs.core.text_env import TextEnv
from ..policy import Sampling
from ..records import Call, Context

_CERTAIN = np.zeros(1, dtype=np.float32)  # log-probability of a deterministic answer


class ScriptedPolicy:
    """Answers with a function of the context, or with a list of texts per episode (then repeats the last one).

    Args:
        script: `context -> text`, or the texts to say in turn.
    """

    version = 0

    def __init__(self, script: Callable[[Context], str] | Sequence[str]) -> None:
        self.script = script
        self._turn: dict[str, int] = {}
        self._ids = count()

    def answer(self, context: Context, seed: int) -> str:
        """The text for one context."""
        if callable(self.script):
            return self.script(context)
        turn = self._turn.get(context.session, 0)
        self._turn[context.session] = turn + 1
        return self.script[min(turn, len(self.script) - 1)]

    def generate(self, contexts: Sequence[Context], sampling: Sampling, seeds: Sequence[int]) -> list[Call]:
        """One call per context."""
        return [
            Call(
                id=f"{context.session}#{next(self._ids)}",
                context=context,
                text=self.answer(context, seed),
                logprobs=_CERTAIN,
            )
            for context, seed in zip(contexts, seeds, strict=True)
        ]

    def forget(self, sessions: Sequence[str]) -> None:
        """Drop the script's position in these episodes."""
        for session in sessions:
            self._turn.pop(session, None)


class RandomPolicy(ScriptedPolicy):
    """A uniform draw from the admissible actions; random letters where they are not listed."""

    def __init__(self) -> None:
        super().__init__(())

    def answer(self, context: Context, seed: int) -> str:
        """One admissible action, by the seed."""
        rng = np.random.default_rng(seed)
        if context.admissible:
            return context.admissible[int(rng.integers(len(context.admissible)))]
        return "".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz "), size=12))


class NoopPolicy(ScriptedPolicy):
    """Says nothing."""

    def __init__(self) -> None:
        super().__init__([""])


class EchoPolicy(ScriptedPolicy):
    """Repeats the last observation."""

    def __init__(self) -> None:
        super().__init__(lambda context: context.messages[-1].text)


class RefusePolicy(ScriptedPolicy):
    """Declines politely, every time."""

    def __init__(self) -> None:
        super().__init__(["I am sorry, I cannot help with that."])


class OraclePolicy(ScriptedPolicy):
    """Plays the environment's privileged oracle; the harness hands it the environment of each episode.

    Args:
        source: the environment method that yields actions: "oracle", or another such as ALFWorld's "expert".
        noise: share of turns on which a uniformly drawn admissible action is played instead (the oracle then
            goes on from where that led).
    """

    def __init__(self, source: str = "oracle", noise: float = 0.0) -> None:
        super().__init__(())
        self.source = source
        self.noise = noise
        self._envs: dict[str, TextEnv] = {}
        self._plans: dict[str, Iterator[str]] = {}

    def attach(self, session: str, env: TextEnv) -> None:
        """An episode begins in `env`."""
        self._envs[session] = env

    def answer(self, context: Context, seed: int) -> str:
        """The oracle's next action, or "" when it has none."""
        rng = np.random.default_rng(seed)
        if self.noise and context.admissible and rng.random() < self.noise:
            self._plans.pop(context.session, None)
            return context.admissible[int(rng.integers(len(context.admissible)))]
        plan = self._plans.get(context.session)
        if plan is None:
            plan = iter(getattr(self._envs[context.session], self.source)())
            self._plans[context.session] = plan
        return next(plan, "")

    def forget(self, sessions: Sequence[str]) -> None:
        """Let go of the environments of these episodes."""
        super().forget(sessions)
        for session in sessions:
            self._envs.pop(session, None)
            self._plans.pop(session, None)


BASELINES: dict[str, Callable[[], Any]] = {
    "oracle": OraclePolicy,
    "random": RandomPolicy,
    "noop": NoopPolicy,
    "echo": EchoPolicy,
    "refuse": RefusePolicy,
}
