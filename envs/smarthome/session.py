"""One running task: the home with its record, and the clock that tool calls use up."""

from __future__ import annotations

from dataclasses import dataclass

from .blueprint.evaluate import Verdict, judge
from .blueprint.run import Recorder, Run, run_without_agent
from .sim.home import HomeSnapshot, SimHome
from .task import HomeTask

CALL_SECONDS, ASK_SECONDS = 1.0, 5.0
"""What a service call and a question take of the home's time; looking takes none."""


@dataclass(frozen=True)
class Beginning:
    """What every session of a task begins with."""

    snapshot: HomeSnapshot
    """The home at the moment of the request."""
    alone: Run
    """What happens if nobody does anything, up to the goal's horizon."""


def beginning(task: HomeTask, snapshot: HomeSnapshot | None = None) -> Beginning:
    """Let a task's home run for its warm-up, or take it from where it has, and look ahead."""
    home = SimHome(task.home)
    if snapshot is None:
        home.advance(task.warmup)
    else:
        home.restore(snapshot)
    return Beginning(home.snapshot(), run_without_agent(home, task.goal.horizon, task.world))


class Session:
    """A task that runs.

    Args:
        task: what is to be done.
        begin: where the record begins; made here where it is not given.
    """

    def __init__(self, task: HomeTask, begin: Beginning | None = None) -> None:
        begin = begin or beginning(task)
        self.task = task
        self.home = SimHome(task.home, strict=True)
        self.home.restore(begin.snapshot)
        self.alone = begin.alone
        self.recorder = Recorder(self.home, task.world)
        start = judge(task.goal, self.recorder.run(), self.alone)
        self.open = tuple(index for index, met in enumerate(start.must) if not met)
        """The numbers of the goal's `must` that did not hold at the start."""

    @property
    def end(self) -> float:
        """When the goal is judged."""
        return self.recorder.start + self.task.goal.horizon

    def pass_time(self, seconds: float) -> None:
        """Let time pass, up to the horizon."""
        self.recorder.advance(max(0.0, min(seconds, self.end - self.home.time)))

    def verdict(self) -> Verdict:
        """The goal, judged now."""
        return judge(self.task.goal, self.recorder.run(), self.alone)

    def progress(self, verdict: Verdict) -> float:
        """The share of what had to be reached that is; what held from the start does not count."""
        return sum(verdict.must[index] for index in self.open) / len(self.open) if self.open else 1.0
