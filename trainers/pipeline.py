"""Where a step's groups come from: played now, played ahead by a fixed number of updates, or streamed.

    sync    step s is played with the weights of s updates, then learned from. Nothing overlaps.
    ahead   step s is played with the weights of max(0, s - k) updates, while the learner works on earlier steps: the
            k-step off-policy mode. Which weights play is fixed, so the numbers repeat and a resumed run is exact.
    stream  episodes never stop: each model call takes the newest weights, and the learner takes groups in the order
            in which they end. A group starts only while (groups started) < (updates + k + 1) x groups per step, so
            that no group is older than k updates when it is learned from. Fast, and not repeatable.

Playing ahead happens in one thread with a copy of the policy (the actor). A thread that dies of an infrastructure
fault starts again; any other error is raised in the learner's thread; episodes that had ended are kept either way.
Sources: one step off-policy, arXiv 2410.18252; the admission rule, arXiv 2505.24298 (AReaL), equation 3; new weights
in the middle of episodes, arXiv 2509.19128 (PipelineRL).
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Protocol

import torch

from ..envs.core.errors import EnvironmentFault, InvalidArgument
from ..envs.core.tasks import TaskSet
from ..harness.loop import Rollout, derive_seed, play_stream
from ..harness.policy import Sampling
from ..harness.records import Call, Context, Group, Task, Trajectory
from ..harness.trajectories import dumps, loads
from .collect import Collected, collect, mixed, plans
from .recipe import Recipe, Request, Sampler
from .sharded import ranks

OnTrajectory = Callable[[Trajectory], None]
TRIES = 3  # how often in a row the playing thread may die of a fault


class Pipeline(Protocol):
    """A source of groups. `take` and `publish` alternate; all calls come from the learner's thread."""

    def take(self, step: int) -> Collected:
        """The groups of this step; waits for them."""
        ...

    def publish(self, step: int) -> None:
        """The policy has learned from this step: its weights are the newest now."""
        ...

    def close(self) -> None:
        """Stop playing. Harmless when called twice."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What was planned, or played and not learned from yet."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore it (before the first `take`)."""
        ...


def make_pipeline(
    mode: str,
    staleness: int,
    policy: Any,
    recipe: Recipe,
    sampler: Sampler,
    rollout: Rollout,
    tasks: TaskSet,
    *,
    steps: int,
    seed: int,
    on_trajectory: OnTrajectory | None = None,
) -> Pipeline:
    """The pipeline of a mode: "sync", "ahead" or "stream" (see the module).

    Raises:
        InvalidArgument: another mode, or, in a mode that overlaps, a staleness below 1 or several processes.
    """
    if mode not in ("sync", "ahead", "stream"):
        raise InvalidArgument(f"mode must be one of sync, ahead, stream, not {mode!r}")
    if mode != "sync" and staleness < 1:
        raise InvalidArgument(f"staleness must be at least 1, not {staleness!r}")
    if mode != "sync" and ranks().world > 1:
        raise InvalidArgument(f"mode {mode!r} is for one process; several play and learn in turn (mode sync)")
    parts = (policy, recipe, sampler, rollout, tasks, steps, seed, on_trajectory)
    if mode == "sync":
        return Sync(*parts)
    return Ahead(*parts, staleness) if mode == "ahead" else Stream(*parts, staleness)


class Sync:
    """Plays each step when it is asked for."""

    def __init__(
        self,
        policy: Any,
        recipe: Recipe,
        sampler: Sampler,
        rollout: Rollout,
        tasks: TaskSet,
        steps: int,
        seed: int,
        on_trajectory: OnTrajectory | None,
    ) -> None:
        self.policy, self.recipe, self.sampler, self.rollout = policy, recipe, sampler, rollout
        self.tasks, self.steps, self.seed, self.on_trajectory = tasks, steps, seed, on_trajectory

    def play(self, policy: Any, step: int, rounds: Sequence[Sequence[Request]]) -> Collected:
        """The groups of a step, played by `policy`."""
        return collect(
            policy, self.recipe, rounds, self.rollout, step=step, seed=self.seed, on_trajectory=self.on_trajectory
        )

    def take(self, step: int) -> Collected:
        """The groups of this step."""
        return self.play(self.policy, step, plans(self.sampler, self.recipe, step))

    def publish(self, step: int) -> None:
        """The policy that learns is the one that plays."""

    def close(self) -> None:
        """Nothing is running."""

    def state_dict(self) -> dict[str, Any]:
        """There is no state."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """There is no state."""


class Actor:
    """The copy of a policy that plays in another thread; `refresh` may bring new weights before every call."""

    def __init__(self, policy: Any, refresh: Callable[[Any], None]) -> None:
        self.policy = policy.copy() if hasattr(policy, "copy") else copy.deepcopy(policy)
        self.refresh = refresh

    @property
    def version(self) -> int:
        """Of the weights that play."""
        return self.policy.version

    def generate(self, contexts: Sequence[Context], sampling: Sampling, seeds: Sequence[int]) -> list[Call]:
        """One call per context, in order."""
        self.refresh(self.policy)
        return self.policy.generate(contexts, sampling, seeds)

    def forget(self, sessions: Sequence[str]) -> None:
        """These sessions ended."""
        self.policy.forget(sessions)


class Stopped(BaseException):
    """Unwinds the playing thread; not an `Exception`, so that nothing on the way takes it for a failure."""


class Overlapping(Sync):
    """What the two overlapping modes share: one playing thread, its actor, and how its errors arrive."""

    def __init__(self, *parts: Any) -> None:
        *rest, staleness = parts
        super().__init__(*rest)
        self.staleness = staleness
        self.changed = threading.Condition()
        self.error: BaseException | None = None
        self.stopping = False
        self.thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to play, if that has not happened."""
        if self.thread is None:
            self.actor = Actor(self.policy, self.refresh)
            self.thread = threading.Thread(target=self._run, name="sandlot-actor", daemon=True)
            self.thread.start()

    def refresh(self, actor: Any) -> None:
        """Called in the playing thread before every model call."""
        if self.stopping:
            raise Stopped

    def loop(self) -> None:
        """What the playing thread does until there is nothing more to play."""

    def _run(self) -> None:
        faults = 0
        while True:
            try:
                self.loop()
            except Stopped:
                return
            except EnvironmentFault as error:
                faults += 1
                if faults < TRIES:
                    continue
                self._fail(error)
            except BaseException as error:  # KeyboardInterrupt too: it belongs to the learner's thread
                self._fail(error)
            return

    def _fail(self, error: BaseException) -> None:
        with self.changed:
            self.error = error
            self.changed.notify_all()

    def wait_for(self, ready: Callable[[], bool]) -> None:
        """Wait in the learner's thread until `ready()`; raises what stopped the playing thread, if it is needed."""
        with self.changed:
            while not ready():
                if self.error is not None:
                    raise self.error
                self.changed.wait(0.5)

    def close(self) -> None:
        """Stop playing and wait for the thread; episodes under way are dropped."""
        with self.changed:
            self.stopping = True
            self.changed.notify_all()
        if self.thread is not None:
            self.thread.join(15.0)  # a step of an environment may hang; the thread is a daemon


class Ahead(Overlapping):
    """Plays steps in order, each with the weights of `staleness` updates before."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.jobs: deque[tuple[int, list[list[Request]], dict[str, Any]]] = deque()  # step, requests, weights
        self.results: dict[int, Collected] = {}
        self.planned = -1  # the last step that is planned
        self.played = -1  # the last step that is played

    def take(self, step: int) -> Collected:
        """The groups of this step."""
        if self.planned < step:
            self._plan(step, step + self.staleness)
        self.start()
        self.wait_for(lambda: step in self.results)
        return self.results.pop(step)

    def publish(self, step: int) -> None:
        """The step after the planned ones will be played with the policy's weights of now."""
        with self.changed:
            self.jobs = deque(job for job in self.jobs if job[0] > step)
        self._plan(self.planned + 1, step + 1 + self.staleness)

    def _plan(self, first: int, last: int) -> None:
        weights = snapshot(self.policy)
        for step in range(first, min(last, self.steps - 1) + 1):
            job = (step, plans(self.sampler, self.recipe, step), weights)
            with self.changed:
                self.jobs.append(job)
                self.changed.notify_all()
            self.planned = step

    def loop(self) -> None:
        """Play what is planned, in order."""
        while True:
            with self.changed:
                while (job := next((job for job in self.jobs if job[0] > self.played), None)) is None:
                    if self.stopping:
                        raise Stopped
                    self.changed.wait()
            step, rounds, weights = job
            self.actor.policy.load_state_dict(weights)
            result = self.play(self.actor, step, rounds)
            with self.changed:
                self.results[step] = result
                self.played = step
                self.changed.notify_all()

    def state_dict(self) -> dict[str, Any]:
        """The steps that are planned, with the weights that play them."""
        jobs = [
            (step, [[(request.task.id, request.n, request.mode) for request in row] for row in rounds], weights)
            for step, rounds, weights in self.jobs
        ]
        return {"jobs": jobs, "planned": self.planned}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Plan them again: they are played with the same weights, so their numbers repeat."""
        for step, rounds, weights in state["jobs"]:
            requests = [[Request(self.tasks.get(task), n, mode) for task, n, mode in row] for row in rounds]
            self.jobs.append((step, requests, weights))
        self.planned = state["planned"]


class Stream(Overlapping):
    """Plays without pause; the learner takes what has ended, the oldest first."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.queue: deque[Request] = deque()
        self.done: list[tuple[int, Group]] = []  # updates when the group began, the group
        self.begun: dict[int, int] = {}  # groups under way: number -> updates when it began
        self.numbers = count()
        self.started = 0  # groups, dropped ones not counted
        self.updates = 0
        self.plans = 0
        self.newest: dict[str, Any] | None = None

    def take(self, step: int) -> Collected:
        """The next groups, as many as a step has; waits for those that the next update would make too old."""
        self._refill()
        self.start()
        self.wait_for(self._ready)
        with self.changed:
            self.done.sort(key=lambda entry: entry[0])
            kept = [i for i, (_, group) in enumerate(self.done) if self._teaches(group)]
            last = kept[self.recipe.groups - 1]
            taken, self.done = self.done[: last + 1], self.done[last + 1 :]
        played = [group for _, group in taken]
        return Collected([group for group in played if self._teaches(group)], played)

    def publish(self, step: int) -> None:
        """From its next call on, the actor plays with the policy's weights of now."""
        weights = snapshot(self.policy)
        with self.changed:
            self.newest = weights
            self.updates += 1
            self.changed.notify_all()
        self._refill()

    def refresh(self, actor: Any) -> None:
        """Take over new weights, if there are any."""
        super().refresh(actor)
        with self.changed:
            weights, self.newest = self.newest, None
        if weights is not None:
            actor.load_state_dict(weights)

    def _teaches(self, group: Group) -> bool:
        return not self.recipe.resample or mixed(group)

    def _ready(self) -> bool:
        overdue = any(began <= self.updates - self.staleness for began in self.begun.values())
        return not overdue and sum(self._teaches(group) for _, group in self.done) >= self.recipe.groups

    def _refill(self) -> None:
        """Keeps requests at hand for all groups that may start before the next update: samplers need no lock."""
        while len(self.queue) < (self.staleness + 2) * self.recipe.groups * (1 + self.recipe.resample):
            requests = self.sampler.plan(self.plans)
            self.plans += 1
            with self.changed:
                self.queue.extend(requests)
                self.changed.notify_all()

    def loop(self) -> None:
        """Play until the pipeline is closed."""
        with self.changed:  # after a fault: what was under way is played anew
            self.started -= len(self.begun)
            self.begun.clear()
            self.numbers = count()
        seed = derive_seed(self.seed, self.updates, self.started)
        actor: Any = self.actor  # a read-only version is enough here
        play_stream(actor, self._next, self.rollout, seed=seed, on_group=self._ended, on_trajectory=self.on_trajectory)

    def _next(self, idle: bool) -> tuple[Task, int, str] | None:
        """The admission rule."""
        with self.changed:
            while True:
                if self.stopping:
                    raise Stopped
                allowed = min(self.updates + self.staleness + 1, self.steps) * self.recipe.groups
                if self.started < allowed and self.queue:
                    self.started += 1
                    self.begun[next(self.numbers)] = self.updates
                    request = self.queue.popleft()
                    return request.task, request.n, request.mode
                if not idle:
                    return None
                self.changed.wait()

    def _ended(self, number: int, group: Group) -> None:
        with self.changed:
            self.done.append((self.begun.pop(number), group))
            self.started -= not self._teaches(group)  # another may start in its place
            self.changed.notify_all()

    def state_dict(self) -> dict[str, Any]:
        """Groups that ended and were not learned from; those under way are played anew."""
        with self.changed:
            groups = [
                (began, group.task.id, group.version, group.mode, [dumps(member) for member in group.members])
                for began, group in self.done
            ]
            return {"groups": groups, "updates": self.updates, "plans": self.plans}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them."""
        for began, task, version, mode, members in state["groups"]:
            group = Group(self.tasks.get(task), [loads(member) for member in members], version, mode)
            self.done.append((began, group))
        self.updates, self.plans = state["updates"], state["plans"]
        self.started = self.updates * self.recipe.groups + sum(self._teaches(group) for _, group in self.done)


def snapshot(policy: Any) -> dict[str, Any]:
    """A copy of the policy's state that later updates do not reach."""

    def cloned(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.detach().clone()
        return {key: cloned(item) for key, item in value.items()} if isinstance(value, Mapping) else value

    return cloned(policy.state_dict())
