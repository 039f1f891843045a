"""Imitating what a search found: several distinct ways to do a task, each step with its value.

An environment that can search has a method `ways(keep)`: successful sequences of (action, value) from the start of the
task, a value being the mean return after the action. They are played again here, so that what is imitated has the
policy's own prompts, and has succeeded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..envs.core.errors import InvalidArgument
from ..envs.core.tasks import Task
from ..harness.loop import Rollout, play_groups
from ..harness.policies.scripted import ScriptedPolicy
from ..harness.policy import Sampling
from ..harness.records import Call, Context, Trajectory

Way = Sequence[tuple[str, float]]


class FollowPolicy(ScriptedPolicy):
    """Follows given ways: the first episode of a task the task's first way, the second one the second, and so on.

    Args:
        ways: per task id, its ways; no task is played more often than it has ways.
    """

    def __init__(self, ways: Mapping[str, Sequence[Way]]) -> None:
        super().__init__(())
        self._left = {task: iter(found) for task, found in ways.items()}
        self._envs: dict[str, Any] = {}
        self._plans: dict[str, Way] = {}

    def attach(self, session: str, env: Any) -> None:
        """An episode begins in `env`."""
        self._envs[session] = env

    def generate(self, contexts: Sequence[Context], sampling: Sampling, seeds: Sequence[int]) -> list[Call]:
        """The next action of each episode's way, with its value."""
        calls = []
        for context in contexts:
            session = context.session
            if session not in self._plans:
                self._plans[session] = next(self._left[self._envs[session].task.id])
            turn = self._turn.get(session, 0)
            self._turn[session] = turn + 1
            text, value = self._plans[session][turn] if turn < len(self._plans[session]) else ("", 0.0)
            (call,) = ScriptedPolicy(lambda _, text=text: text).generate([context], sampling, [0])
            call.id, call.value = f"{session}#{turn}", value
            calls.append(call)
        return calls

    def forget(self, sessions: Sequence[str]) -> None:
        """Let go of these episodes."""
        super().forget(sessions)
        for session in sessions:
            self._envs.pop(session, None)
            self._plans.pop(session, None)


def find_ways(
    tasks: Sequence[Task], rollout: Rollout, keep: int, on_task: Callable[[], None] = lambda: None
) -> dict[str, Sequence[Way]]:
    """Up to `keep` ways for each task, by task id, from the environment's search.

    Raises:
        InvalidArgument: the environment has no `ways`.
    """
    env, found = rollout.env(), dict[str, Sequence[Way]]()
    try:
        if not hasattr(env, "ways"):
            raise InvalidArgument(f"{rollout.env.env_id} has no search: set ways to 0")
        for task in tasks:
            env.reset(options={"task": task.id})
            found[task.id] = env.ways(keep)  # pyright: ignore[reportAttributeAccessIssue]
            on_task()
    finally:
        env.close()
    return found


def play_ways(found: Mapping[str, Sequence[Way]], rollout: Rollout, *, seed: int = 0) -> list[Trajectory]:
    """The ways, played: the episodes that succeeded, with `call.value` set.

    Raises:
        UnknownTask: the environment has no such task.
    """
    tasks = rollout.env.tasks()
    requests = [(tasks.get(task), len(ways), "explore") for task, ways in found.items() if ways]
    groups = play_groups(FollowPolicy(found), requests, rollout, seed=seed)
    return [member for group in groups for member in group.members if member.success]


def write_ways(path: str | Path, shown: Sequence[Trajectory]) -> int:
    """Write episodes as JSON lines with task, instruction, steps (observation, action, value) and success."""
    rows = []
    for trajectory in shown:
        seen = [trajectory.first_observation, *(turn.observation for turn in trajectory.turns)]
        steps = [
            {"observation": before, "action": turn.action, "value": turn.call.value}
            for before, turn in zip(seen, trajectory.turns, strict=False)
        ]
        instruction = trajectory.first_info["instruction"]
        row = {"task": trajectory.task.id, "instruction": instruction, "steps": steps, "success": trajectory.success}
        rows.append(json.dumps(row, ensure_ascii=False) + "\n")
    Path(path).write_text("".join(rows), encoding="utf-8")
    return len(rows)


def read_ways(path: str | Path) -> dict[str, list[Way]]:
    """The ways in a file that `write_ways` wrote (or a search's own export), by task id.

    Raises:
        InvalidArgument: there is no such file, or it is another kind of file.
    """
    found = dict[str, list[Way]]()
    try:
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            way = tuple((str(step["action"]), float(step["value"])) for step in row["steps"])
            found.setdefault(str(row["task"]), []).append(way)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidArgument(f"{path} holds no ways as JSON lines with task and steps: {error!r}") from error
    return found
