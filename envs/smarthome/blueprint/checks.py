"""What a goal must pass before it is given to anybody: nothing for free, and it can be reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..sim.home import SimHome
from .evaluate import Verdict, judge
from .goal import REASONS, Blueprint
from .run import Act, Happening, Recorder, Run, run_without_agent

Plan = Callable[[Recorder], None]
"""Carries out a plan: calls services of the recorder's home, lets time pass, notes acts."""


def played(
    goal: Blueprint, home: SimHome, plan: Plan, world: Sequence[Happening] = (), alone: Run | None = None
) -> Verdict:
    """The verdict over a plan and what follows up to the horizon; the home is left as it is.

    Args:
        goal: what is judged.
        home: at the start.
        plan: what is done.
        world: what happens besides.
        alone: the run without the agent, where it is known.
    """
    before = home.snapshot()
    alone = alone or run_without_agent(home, goal.horizon, world)
    recorder = Recorder(home, world)
    plan(recorder)
    recorder.advance(max(0.0, recorder.start + goal.horizon - home.time))
    verdict = judge(goal, recorder.run(), alone)
    home.restore(before)
    return verdict


def problems(
    goal: Blueprint, home: SimHome, plan: Plan, world: Sequence[Happening] = (), alone: Run | None = None
) -> list[str]:
    """What is wrong with a goal in a home: empty where it is false at the start, and the plan alone makes it true.

    Doing nothing must not reach it, nor refusing for any reason without a word of what cannot be done. The arguments
    are those of `played`.
    """
    found = []
    start = Recorder(home, world).run()
    alone = alone or run_without_agent(home, goal.horizon, world)
    if judge(goal, start, alone).success:
        found.append("it holds at the start")
    if judge(goal, alone, alone).success:
        found.append("it holds if nobody does anything")
    refused = replace(alone, acts=[Act(alone.start, "refuse", reason) for reason in REASONS])
    if judge(goal, refused, alone).success:
        found.append("it holds if the agent just refuses")
    return [*found, *_unreached(goal, home, plan, world, alone)]


def _unreached(goal: Blueprint, home: SimHome, plan: Plan, world: Sequence[Happening], alone: Run) -> list[str]:
    verdict = played(goal, home, plan, world, alone)
    if verdict.success:
        return []
    missing = [index for index, met in enumerate(verdict.must) if not met]
    return [f"the plan does not reach it: must {missing}, must_not {list(verdict.broken)}"]
