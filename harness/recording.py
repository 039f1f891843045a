"""Recording an episode that somebody else drives (a person at a web site, say), as the loop records its own."""

from __future__ import annotations

import secrets
import time

import numpy as np

from ..envs.core.text_env import TextEnv
from .context import FullHistory
from .records import Call, Context, StopReason, Trajectory, Turn

_CERTAIN = np.zeros(1, dtype=np.float32)  # log-probability of a choice that no model made


class EpisodeRecorder:
    """Plays one episode of an environment, action by action, and keeps what happens.

    Args:
        env: the environment; it is reset here.
        env_id: its registered id.
        seed: draws the task, if none is named.
        task: the task's id; None draws one.
        mode: goes into the trajectory: who played.

    Raises:
        UnknownTask: there is no such task.
    """

    def __init__(
        self, env: TextEnv, env_id: str, *, seed: int = 0, task: str | None = None, mode: str = "human"
    ) -> None:
        self.env, self.env_id, self.seed, self.mode = env, env_id, seed, mode
        self.observation, self.info = env.reset(seed=seed, options=None if task is None else {"task": task})
        self.first = self.observation, self.info
        self.turns: list[Turn] = []
        self.stop: StopReason | None = None
        """Why the episode ended; None while it goes on."""
        # A person plays a task more than once: the id says which time.
        self._session = f"{env.task.id}~{mode}-{secrets.token_hex(6)}"
        self._history = FullHistory()
        self._history.start(*self.first)

    def step(self, action: str) -> None:
        """Play one action; `observation` and `info` are what followed. Ignored after the end."""
        if self.stop is not None:
            return
        context = Context(
            messages=self._history.render(),
            admissible=self.info["admissible"],
            session=self._session,
            state_key=self.info["state_key"],
            obs_key=self.info["obs_key"],
        )
        call = Call(id=f"{self._session}#{len(self.turns)}", context=context, text=action, logprobs=_CERTAIN)
        canonical = self.env.canonical(action) if len(action) <= self.env.max_action else action
        began = time.perf_counter()
        observation, reward, terminated, truncated, info = self.env.step(action)
        seconds = time.perf_counter() - began
        self.turns.append(Turn(call, canonical, observation, reward, info, context.state_key, context.obs_key, seconds))
        self._history.record(call, canonical, observation, info)
        self.observation, self.info = observation, info
        if terminated:
            self.stop = StopReason.TERMINATED
        elif truncated:
            self.stop = StopReason.STEP_LIMIT

    def trajectory(self) -> Trajectory:
        """What was played so far; an episode that has not ended counts as one whose time is up."""
        return Trajectory(
            id=self._session,
            env_id=self.env_id,
            task=self.env.task,
            first_observation=self.first[0],
            first_info=self.first[1],
            turns=self.turns,
            stop=self.stop or StopReason.DEADLINE,
            seed=self.seed,
            mode=self.mode,
        )
