"""`TextEnv`: the contract that every sandlot environment keeps (plain Gymnasium, plus keys, oracle and snapshots)."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple, TypedDict

import gymnasium

from .errors import InvalidArgument
from .picture import Picture
from .spaces import UnicodeText
from .tasks import Task, TaskSet

# Characters that break terminals, logs or encoders: C0/C1 controls except tab and newline, and lone surrogates.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
ENDED = "The episode is over. Reset to start another."


class StepInfo(TypedDict):
    """What `info` holds after every reset and step, besides a family's `extra_info`. Nothing in it is privileged."""

    task_id: str
    """Names the task in any process: `reset(options={"task": task_id})` starts it again."""
    instruction: str
    """What the agent is asked to do."""
    state_key: str
    """Hash of the full state (the task included): equal keys, same state."""
    obs_key: str
    """Hash of the observation text."""
    admissible: tuple[str, ...] | None
    """The valid actions in a stable order, or None where they cannot be listed."""
    valid: bool
    """The last action was understood and allowed. An invalid one changed nothing. True after a reset."""
    success: bool
    score: float
    """In [0, 1]."""
    progress: float | None
    """Fraction of the task's verifiable sub-goals met, or None."""


class Outcome(NamedTuple):
    """What a family's `_step` returns."""

    observation: str
    reward: float = 0.0
    terminated: bool = False
    valid: bool = True


@dataclass(frozen=True)
class Snapshot:
    """An exact branch point; opaque and picklable. Made by `TextEnv.snapshot`."""

    task: Task
    steps: int
    ended: bool
    outcome: tuple[str, bool]
    rng: Mapping[str, Any]
    state: Any


def printable(text: str) -> str:
    """The text with characters that break terminals, logs or encoders replaced."""
    return text if text.isascii() and text.isprintable() else _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text)


def text_key(*parts: str | bytes) -> str:
    """A short stable hash of texts: 16 hexadecimal digits, the same in every process and version of Python."""
    digest = blake2b(digest_size=8)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class TextEnv(gymnasium.Env[str, str], ABC):
    """A Gymnasium environment whose observations and actions are text.

    A family writes `_reset`, `_step`, `_state`, `_save`, `_load`, `_success` and `oracle`, and whatever else it has;
    this class keeps the rest of the contract: task choice, `info`, keys, hostile or late actions, length limits, the
    optional step limit and snapshots.

    Determinism: the same version, task, seed and actions give the same observations, rewards and keys in any
    process. Environments with `stochastic = False` do not even look at the seed once the task is chosen.

    Args:
        tasks: the tasks to draw from at `reset`.
        max_steps: truncate after this many steps; None leaves the limit to Gymnasium's registration. It can only
            shorten the registered limit; to lengthen it pass `max_episode_steps` to `gymnasium.make`.
        render_mode: None or "ansi" (`render` returns the last observation).
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 (Gymnasium's own type)
    max_observation: ClassVar[int] = 16_384  # characters
    max_action: ClassVar[int] = 4_096  # characters
    reward_range: ClassVar[tuple[float, float]] = (0.0, 1.0)  # of one step
    stochastic: ClassVar[bool] = False
    """Whether transitions draw from `np_random` after the task is chosen."""
    waits: ClassVar[bool] = True
    """Whether a step may wait (files, processes, servers): the harness then gives the instance a thread of its own,
    and can abandon a step that never returns. Pure computations say False and are stepped inline, which is faster."""
    extra_info: ClassVar[tuple[str, ...]] = ()
    """Names of further public keys of `info`, explained under the docstring's Information; see `_extra_info`."""
    breakdown: ClassVar[str | None] = None
    """The key of `info` by whose values evaluations also show their results one by one, e.g. "family"."""

    def __init__(self, tasks: TaskSet, *, max_steps: int | None = None, render_mode: str | None = None) -> None:
        if render_mode not in (None, "ansi"):
            raise InvalidArgument(f"render_mode must be None or 'ansi', not {render_mode!r}")
        if max_steps is not None and (not isinstance(max_steps, int) or max_steps < 1):
            raise InvalidArgument(f"max_steps must be a positive integer or None, not {max_steps!r}")
        self.tasks = tasks
        self.max_steps = max_steps
        self.render_mode = render_mode
        self.observation_space = UnicodeText(self.max_observation)
        self.action_space = UnicodeText(self.max_action)
        self._task: Task | None = None
        self._steps = 0
        self._ended = False
        self._last = ("", True)  # observation, valid

    # -- what a family writes -------------------------------------------------------------------------------------

    @abstractmethod
    def _reset(self, task: Task) -> str:
        """Start `task` and return the first observation."""

    @abstractmethod
    def _step(self, action: str) -> Outcome:
        """Carry out `action` (cleaned, within the length) or refuse it with `valid=False`, changing nothing."""

    @abstractmethod
    def _state(self) -> str | bytes:
        """The full state in canonical form, for `state_key`."""

    @abstractmethod
    def _save(self) -> Any:
        """The mutable state, picklable and not shared with the running episode."""

    @abstractmethod
    def _load(self, state: Any) -> None:
        """Bring back what `_save` returned (after `_reset` of the same task)."""

    @abstractmethod
    def _success(self) -> bool: ...

    @abstractmethod
    def oracle(self) -> Iterator[str]:
        """Privileged: actions that solve the task from the current state. Take one, step it, take the next."""

    def _score(self) -> float:
        return float(self._success())

    def _progress(self) -> float | None:
        return None

    def _admissible(self) -> tuple[str, ...] | None:
        return None

    def _instruction(self) -> str:
        return ""

    def _extra_info(self) -> dict[str, str | int | float | bool | None]:
        """The values of `extra_info`: plain ones, so that they survive every file format. Nothing privileged."""
        return {}

    def hint(self) -> str:
        """Privileged: a textual hint for the current task."""
        return next(iter(self.oracle()), "")

    def verify(self) -> dict[str, float]:
        """Privileged: each criterion of the task with how far it is met, in [0, 1]."""
        return {"success": float(self._success())}

    @classmethod
    def tallies(cls, info: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
        """What evaluations add up besides success, from an episode's last `info`: name -> (numerator, denominator).

        Both are summed over the episodes before they are divided, so that means, precision and recall come out right.
        """
        return {}

    def picture(self) -> Picture | None:
        """For people: the state as a drawing, or None. Looking changes nothing, and shows nothing privileged."""
        return None

    def canonical(self, action: str) -> str:
        """The action in the form in which equal actions are equal strings."""
        return " ".join(action.split())

    # -- the contract ---------------------------------------------------------------------------------------------

    @property
    def task(self) -> Task:
        """The task being played. Raises before the first `reset`."""
        if self._task is None:
            raise gymnasium.error.ResetNeeded("call reset() first")
        return self._task

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start the task `options["task"]` (an id), or one drawn from `np_random`.

        Raises:
            UnknownTask: there is no such task; the message says what ids look like.
            EnvironmentFault: the environment could not be started; try again.
        """
        super().reset(seed=seed)
        # `gymnasium.make` keeps the limit out of the bare environment's own spec.
        registered = gymnasium.registry.get(self.spec.id) if self.spec else None
        limit = registered.max_episode_steps if registered else None
        if self.max_steps is not None and limit is not None and self.max_steps > limit:
            raise InvalidArgument(
                f"max_steps={self.max_steps} is above the registered limit {limit}: "
                f"pass max_episode_steps={self.max_steps} to gymnasium.make instead"
            )
        task_id = (options or {}).get("task")
        self._task = self.tasks.sample(self.np_random) if task_id is None else self.tasks.get(str(task_id))
        self._steps, self._ended = 0, False
        self._last = (self._fit(self._reset(self._task)), True)
        return self._last[0], self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """One turn. Any string is accepted; one that makes no sense costs a step, changes nothing and is answered."""
        if self._task is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        if self._ended:
            self._last = (ENDED, False)
            return ENDED, 0.0, True, False, self._info()
        if not isinstance(action, str):
            outcome = Outcome(f"An action is text, not {type(action).__name__}.", valid=False)
        elif len(action) > self.max_action:
            outcome = Outcome(
                f"The action has {len(action)} characters; at most {self.max_action} are accepted.", valid=False
            )
        else:
            outcome = self._step(printable(action))
        self._steps += 1
        self._ended = outcome.terminated
        truncated = self.max_steps is not None and self._steps >= self.max_steps and not outcome.terminated
        self._last = (self._fit(outcome.observation), outcome.valid)
        return self._last[0], float(outcome.reward), outcome.terminated, truncated, self._info()

    def snapshot(self) -> Snapshot:
        """An exact branch point of the running episode."""
        return Snapshot(
            self.task, self._steps, self._ended, self._last, self.np_random.bit_generator.state, self._save()
        )

    def restore(self, snapshot: Snapshot) -> tuple[str, dict[str, Any]]:
        """Go back to `snapshot`, taken here or in another instance; returns its observation and info."""
        if self._task is None or self._task.id != snapshot.task.id:
            self._task = snapshot.task
            self._reset(snapshot.task)
        self._load(snapshot.state)
        self.np_random.bit_generator.state = snapshot.rng
        self._steps, self._ended, self._last = snapshot.steps, snapshot.ended, snapshot.outcome
        return self._last[0], self._info()

    def render(self) -> str | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The last observation under `render_mode="ansi"`, else None."""
        return self._last[0] if self.render_mode == "ansi" else None

    def _fit(self, text: str) -> str:
        if len(text) <= self.max_observation:
            return text
        keep = self.max_observation - 40
        return f"{text[:keep]}\n[{len(text) - keep} characters cut]"

    def _info(self) -> dict[str, Any]:
        observation, valid = self._last
        info = StepInfo(
            task_id=self.task.id,
            instruction=self._instruction(),
            state_key=text_key(self.task.id, self._state()),
            obs_key=text_key(observation),
            admissible=self._admissible(),
            valid=valid,
            success=self._success(),
            score=self._score(),
            progress=self._progress(),
        )
        return {**info, **self._extra_info()}
