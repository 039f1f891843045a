"""The only agent <-> environment loop: many episodes at once, generation batched over those that are ready.

Environments that wait run in threads of their own, pure ones inline. A fault of the infrastructure voids the try and
the episode is played again; after `Limits.tries` the member stays in its group, marked void, so that groups keep their
size. Every finished trajectory is handed to `on_trajectory` at once: an interruption loses none of them.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count
from typing import Any

from ..envs.core.errors import EnvironmentFault
from ..envs.core.registry import find, make
from ..envs.core.tasks import Task, TaskSet
from ..envs.core.text_env import TextEnv
from .context import ContextBuilder, FullHistory, MakeContext
from .policy import MAX_TEXT, Policy, Sampling
from .records import Call, Context, Group, StopReason, Trajectory, Turn
from .slots import Job, Slot

GRACE = 0.005  # seconds that ready episodes wait for others, so that batches are full without waiting for stragglers


@dataclass(frozen=True)
class EnvMaker:
    """Makes instances of one environment: an id and constructor arguments. Picklable."""

    env_id: str
    kwargs: dict[str, Any] = field(default_factory=dict)

    def __call__(self) -> TextEnv:
        """A new instance, without Gymnasium's wrappers."""
        return make(self.env_id, **self.kwargs)

    def tasks(self) -> TaskSet:
        """The environment's task set."""
        env = self()
        try:
            return env.tasks
        finally:
            env.close()

    @property
    def waits(self) -> bool:
        """Whether instances want a thread each."""
        return find(self.env_id).load().waits


@dataclass(frozen=True, slots=True)
class Limits:
    """What the loop allows."""

    concurrency: int = 64
    """Live episodes at once."""
    turn_seconds: float = 120.0
    """A reset or step that takes longer is a fault (enforced where environments run in threads)."""
    episode_seconds: float | None = None
    """An episode that lasts longer is ended with `StopReason.DEADLINE` and counts as it stands."""
    tries: int = 3
    """Tries per episode before it is given up as void."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """How episodes are played: everything but the policy and the tasks."""

    env: EnvMaker
    sampling: Sampling = field(default_factory=Sampling)
    context: MakeContext = FullHistory
    """Makes one context builder per episode."""
    parse: Callable[[Call], str] | None = None
    """Completion to action (`harness/codec.py`), None takes the completion's text as it is."""
    limits: Limits = field(default_factory=Limits)


@dataclass
class _Episode:
    """One try at one member of a group."""

    group: int
    member: int
    task: Task
    mode: str
    seed: int
    attempt: int = 1
    session: str = ""
    builder: ContextBuilder = field(default_factory=FullHistory)
    observation: str = ""
    info: dict[str, Any] = field(default_factory=dict)
    first: tuple[str, dict[str, Any]] = ("", {})
    turns: list[Turn] = field(default_factory=list)
    call: Call | None = None
    began: float = 0.0

    def seed_for(self, *path: int) -> int:
        """A 63-bit seed for one use within the episode, independent of every other use."""
        return derive_seed(self.seed, self.attempt, *path)


def play(
    policy: Policy,
    tasks: Iterable[Task],
    rollout: Rollout,
    *,
    seed: int = 0,
    on_trajectory: Callable[[Trajectory], None] | None = None,
) -> list[Trajectory]:
    """One episode per task, in the tasks' order."""
    groups = play_groups(
        policy, [(task, 1, "explore") for task in tasks], rollout, seed=seed, on_trajectory=on_trajectory
    )
    return [group.members[0] for group in groups]


def play_groups(
    policy: Policy,
    requests: Sequence[tuple[Task, int, str]],
    rollout: Rollout,
    *,
    seed: int = 0,
    numbers: Sequence[int] | None = None,
    on_trajectory: Callable[[Trajectory], None] | None = None,
) -> list[Group]:
    """Roll out groups: for each request (task, n, mode), `n` episodes of the task.

    Args:
        policy: answers the calls; a privileged one (with `attach`) is handed each episode's environment.
        requests: what to play.
        rollout: how to play it.
        seed: together with a group's and a member's number it decides everything random in an episode.
        numbers: the groups' numbers where these requests are a share of others; None counts from 0.
        on_trajectory: called with each trajectory as it finishes (also with void ones).

    Returns:
        One group per request, members in order. Members whose every try failed are present and void.

    Raises:
        Exception: a bug in an environment or policy, unchanged, after everything was closed. Faults are not raised.
    """
    groups: dict[int, Group] = {}
    own = range(len(requests)) if numbers is None else numbers
    _Loop(policy, list(zip(own, requests, strict=True)), rollout, seed, on_trajectory, groups.__setitem__).run()
    return [groups[number] for number in own]


def play_stream(
    policy: Policy,
    source: Callable[[bool], tuple[Task, int, str] | None],
    rollout: Rollout,
    *,
    seed: int = 0,
    on_group: Callable[[int, Group], None],
    on_trajectory: Callable[[Trajectory], None] | None = None,
) -> None:
    """Roll out groups as requests arrive, until `source` ends: no episode waits for another group's stragglers.

    Args:
        policy: as for `play_groups`.
        source: asked for the next request (task, n, mode) whenever a slot is free. It answers None where there is
            nothing to do now, and raises StopIteration where there will be nothing more. Called with True while no
            episode is playing: it may then wait.
        rollout: how to play.
        seed: as for `play_groups`; groups are numbered in the order of the requests.
        on_group: called with a group's number and the group when its last member ends.
        on_trajectory: called with each trajectory as it finishes.
    """
    _Loop(policy, [], rollout, seed, on_trajectory, on_group, source).run()


def derive_seed(*path: int) -> int:
    """A 63-bit seed from a path of numbers: the same in every process, unrelated for different paths."""
    return int.from_bytes(blake2b(repr(path).encode(), digest_size=8).digest(), "little") >> 1


def _act(env: TextEnv, action: str) -> tuple[str, tuple[str, float, bool, bool, dict[str, Any]]]:
    """The action in canonical form (what step-level credit compares), and what the environment answers to it."""
    canonical = env.canonical(action) if len(action) <= env.max_action else action
    return canonical, env.step(action)


class _Loop:
    def __init__(
        self,
        policy: Policy,
        requests: Sequence[tuple[int, tuple[Task, int, str]]],
        rollout: Rollout,
        seed: int,
        on_trajectory: Callable[[Trajectory], None] | None,
        on_group: Callable[[int, Group], None],
        source: Callable[[bool], tuple[Task, int, str] | None] | None = None,
    ) -> None:
        self.policy, self.rollout, self.seed = policy, rollout, seed
        self.on_trajectory, self.on_group, self.source = on_trajectory, on_group, source
        self.limits = rollout.limits
        self.numbers = count()
        self.open: dict[int, tuple[Group, int, dict[int, Trajectory]]] = {}  # group, its size, finished members
        self.pending: deque[_Episode] = deque()
        for number, request in requests:
            self._admit(number, request)
        self.done: deque[Job] | queue.SimpleQueue[Job] = queue.SimpleQueue() if rollout.env.waits else deque()
        size = self.limits.concurrency if source else min(self.limits.concurrency, len(self.pending))
        self.free = [Slot(rollout.env, self.done) for _ in range(size)]
        self.slots = list(self.free)
        self.playing: dict[int, _Episode] = {}  # by id(slot)
        self.ready: list[Slot] = []  # have an observation and wait for a call

    def run(self) -> None:
        try:
            while self._more():
                while self.free and self.pending:
                    self._begin(self.free.pop(), self.pending.popleft())
                self._collect()
                if self.ready:
                    self._generate()
        finally:
            self.policy.forget([episode.session for episode in self.playing.values()])
            for slot in self.slots:
                slot.close()

    def _admit(self, number: int, request: tuple[Task, int, str]) -> None:
        task, n, mode = request
        group = Group(task, [], getattr(self.policy, "version", 0), mode)
        if n < 1:
            self.on_group(number, group)
            return
        self.open[number] = (group, n, {})
        self.pending += (_Episode(number, m, task, mode, derive_seed(self.seed, number, m)) for m in range(n))

    def _more(self) -> bool:
        """Takes in requests for the free slots; False where all is done."""
        while self.source is not None and len(self.pending) < len(self.free):
            idle = not self.playing and not self.pending
            try:
                request = self.source(idle)
            except StopIteration:
                self.source = None
                break
            if request is None:
                time.sleep(0.01 if idle else 0.0)
                break
            self._admit(next(self.numbers), request)
        return bool(self.pending or self.playing or self.source)

    def _begin(self, slot: Slot, episode: _Episode) -> None:
        self.playing[id(slot)] = episode
        episode.session = f"{episode.task.id}~{episode.seed:016x}.{episode.attempt}"
        episode.began = time.monotonic()
        episode.turns, episode.call, episode.builder = [], None, self.rollout.context()
        options, seed = {"task": episode.task.id}, episode.seed_for(0) % 2**31
        slot.submit(lambda env: env.reset(seed=seed, options=options))

    def _collect(self) -> None:
        """Take in finished jobs: all there are, waiting for the first one only while nothing is ready."""
        busy = len(self.playing) - len(self.ready)
        until = time.monotonic() + (GRACE if self.ready else 0.2)
        while busy:
            try:
                if isinstance(self.done, deque):
                    job = self.done.popleft()
                else:
                    job = self.done.get(timeout=max(0.0, until - time.monotonic()))
            except (queue.Empty, IndexError):
                break
            if job.abandoned:
                continue
            busy -= 1
            self._take(job)
            if self.ready and busy:
                until = min(until, time.monotonic() + GRACE)
        self._give_up_on_hung()

    def _take(self, job: Job) -> None:
        slot, episode = job.slot, self.playing[id(job.slot)]
        slot.job = None
        if isinstance(job.error, EnvironmentFault):
            self._fault(slot, f"{type(job.error).__name__}: {job.error}")
        elif job.error is not None:
            raise job.error
        elif episode.call is None:
            episode.observation, episode.info = job.result
            episode.first = job.result
            episode.builder.start(*job.result)
            if slot.env is not None and hasattr(self.policy, "attach"):
                self.policy.attach(episode.session, slot.env)  # pyright: ignore[reportAttributeAccessIssue]
            self.ready.append(slot)
        else:
            self._turn(slot, episode, job)

    def _turn(self, slot: Slot, episode: _Episode, job: Job) -> None:
        action, (observation, reward, terminated, truncated, info) = job.result
        call, key = episode.call, episode.info
        assert call is not None
        episode.turns.append(
            Turn(call, action, observation, reward, info, key["state_key"], key["obs_key"], job.seconds)
        )
        episode.builder.record(call, action, observation, info)
        episode.observation, episode.info = observation, info
        late = (
            self.limits.episode_seconds is not None and time.monotonic() - episode.began > self.limits.episode_seconds
        )
        if terminated:
            self._finish(slot, StopReason.TERMINATED)
        elif truncated:
            self._finish(slot, StopReason.STEP_LIMIT)
        elif late:
            self._finish(slot, StopReason.DEADLINE)
        else:
            self.ready.append(slot)

    def _generate(self) -> None:
        slots, self.ready = self.ready, []
        slots.sort(key=lambda slot: (self.playing[id(slot)].group, self.playing[id(slot)].member))
        episodes = [self.playing[id(slot)] for slot in slots]
        contexts = [self._context(episode) for episode in episodes]
        seeds = [episode.seed_for(1, len(episode.turns)) for episode in episodes]
        try:
            calls = self.policy.generate(contexts, self.rollout.sampling, seeds)
        except EnvironmentFault as fault:
            for slot in slots:
                self._fault(slot, f"{type(fault).__name__}: {fault}")
            return
        for slot, episode, call in zip(slots, episodes, calls, strict=True):
            if call.finish == "context":
                self._finish(slot, StopReason.CONTEXT)
                continue
            if len(call.text) > MAX_TEXT:
                call.text, call.finish = call.text[:MAX_TEXT], "length"
            action = self.rollout.parse(call) if self.rollout.parse else call.text
            episode.call = call
            slot.submit(lambda env, action=action: _act(env, action))

    def _context(self, episode: _Episode) -> Context:
        return Context(
            messages=episode.builder.render(),
            admissible=episode.info["admissible"],
            session=episode.session,
            state_key=episode.info["state_key"],
            obs_key=episode.info["obs_key"],
        )

    def _give_up_on_hung(self) -> None:
        now = time.monotonic()
        for slot in self.slots:
            if slot.job is not None and now - slot.job.started > self.limits.turn_seconds:
                self._fault(slot, f"no answer from the environment within {self.limits.turn_seconds} s", hung=True)

    def _fault(self, slot: Slot, error: str, *, hung: bool = False) -> None:
        if hung:
            slot.abandon()
        else:
            slot.close()
        episode = self.playing[id(slot)]
        if episode.attempt >= self.limits.tries:
            self._finish(slot, StopReason.FAULT, error)
            return
        self._release(slot)
        episode.attempt += 1
        self.pending.appendleft(episode)

    def _release(self, slot: Slot) -> _Episode:
        episode = self.playing.pop(id(slot))
        self.policy.forget([episode.session])
        self.free.append(slot)
        return episode

    def _finish(self, slot: Slot, stop: StopReason, error: str | None = None) -> None:
        episode = self.playing[id(slot)]
        metrics: dict[str, float] = {}
        truncated = stop not in (StopReason.TERMINATED, StopReason.FAULT)
        if truncated and episode.turns and episode.turns[-1].call.value is not None:
            metrics["bootstrap_value"] = self._value(episode)
        self._release(slot)
        trajectory = Trajectory(
            id=f"{episode.task.id}~{episode.seed:016x}",
            env_id=self.rollout.env.env_id,
            task=episode.task,
            first_observation=episode.first[0],
            first_info=episode.first[1],
            turns=episode.turns,
            stop=stop,
            seed=episode.seed,
            mode=episode.mode,
            metrics=metrics,
            error=error,
            tries=episode.attempt,
        )
        group, size, members = self.open[episode.group]
        members[episode.member] = trajectory
        if self.on_trajectory:
            self.on_trajectory(trajectory)
        if len(members) == size:
            group.members = [members[m] for m in sorted(members)]
            del self.open[episode.group]
            self.on_group(episode.group, group)

    def _value(self, episode: _Episode) -> float:
        """The critic's value of the state in which the episode was cut off: what GAE bootstraps from."""
        sampling = Sampling(max_tokens=1)
        call = self.policy.generate([self._context(episode)], sampling, [episode.seed_for(2)])[0]
        return float(call.value or 0.0)
