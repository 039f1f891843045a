"""The search: PUCT over snapshots of `SmartHome-v0`, with the environment's rewards as values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from math import sqrt
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from .candidates import candidates

if TYPE_CHECKING:
    from ..env import SmartHomeEnv

Proposals = Callable[["SmartHomeEnv"], list[tuple[str, float]]]


@dataclass(frozen=True)
class Step:
    """One step of a trajectory."""

    observation: str
    """What was seen before the action."""
    action: str
    value: float
    """Mean return, from here, of the simulations that took the action."""


@dataclass(frozen=True)
class Trajectory:
    """A way through an episode."""

    task: str
    instruction: str
    steps: tuple[Step, ...]
    success: bool


@dataclass(frozen=True)
class Found:
    """What a search has found."""

    trajectories: tuple[Trajectory, ...]
    """Distinct successful ones, the shortest first; each has been played again from the start and succeeded."""
    failed: tuple[Trajectory, ...]
    """Some that finished without success: negatives."""
    steps: int
    """Environment steps taken."""


@dataclass
class _Edge:
    prior: float
    visits: int = 0
    total: float = 0.0
    child: _Node | None = None
    closed: bool = False
    """Everything below has been seen."""


@dataclass
class _Node:
    observation: str
    snapshot: Any
    over: bool
    success: bool
    potential: float
    """Sum of the rewards on the way here."""
    edges: dict[str, _Edge] = field(default_factory=dict)


def search(
    env: SmartHomeEnv,
    task: str,
    *,
    simulations: int = 64,
    keep: int = 4,
    depth: int = 8,
    c: float = 1.4,
    propose: Proposals = candidates,
) -> Found:
    """Search a task for several different ways to succeed.

    Args:
        env: is reset to the task; its `split` does not matter.
        task: an id.
        simulations: ways from the root to a leaf.
        keep: trajectories kept of each sort.
        depth: steps of a way, at most.
        c: PUCT's constant of exploration.
        propose: the actions to try in a state with their priors, e.g. a policy's; the default uses the request's words.
    """
    observation, info = env.reset(options={"task": task})
    root, ways, failed, steps = _Node(observation, env.snapshot(), False, False, 0.0), {}, {}, 0
    for _ in range(simulations):
        node, way = root, list[tuple[_Node, str]]()
        while not node.over and len(way) < depth:
            if not node.edges:
                env.restore(node.snapshot)
                done = {action for _, action in way}  # saying the same again is no other way
                node.edges = {action: _Edge(prior) for action, prior in propose(env) if action not in done}
            if all(edge.closed for edge in node.edges.values()):
                break
            action = _choose(node, c)
            edge = node.edges[action]
            way.append((node, action))
            if edge.child is None:
                env.restore(node.snapshot)
                seen, reward, over, _, after = env.step(action)
                steps += 1
                if not after["valid"] or (not over and after["state_key"] in _keys(way, env)):
                    del node.edges[action]  # refused, or nothing has changed
                    way.pop()
                    continue
                edge.child = _Node(seen, env.snapshot(), over, bool(after["success"]), node.potential + reward)
                node = edge.child
                break
            node = edge.child
        for place, action in way:
            edge = place.edges[action]
            edge.visits += 1
            edge.total += node.potential
        for place, action in reversed(way):  # what has been seen to its end is not walked again
            child = place.edges[action].child
            assert child is not None
            if child.over or (child.edges and all(edge.closed for edge in child.edges.values())):
                place.edges[action].closed = True
        if node.over:
            names = tuple(action for _, action in way)
            (ways if node.success else failed).setdefault(tuple(sorted(names)), list(way))
    made = [_trajectory(task, info["instruction"], way, True) for way in ways.values()]
    good = [item for item in sorted(made, key=lambda item: len(item.steps)) if verifies(env, item)]
    bad = [_trajectory(task, info["instruction"], way, False) for way in list(failed.values())[:keep]]
    return Found(tuple(good[:keep]), tuple(bad), steps)


def random_search(
    env: SmartHomeEnv, task: str, rng: Random, *, steps: int, depth: int = 8, propose: Proposals = candidates
) -> Found:
    """The baseline: episodes of uniformly drawn proposals, for about as many environment steps."""
    found, taken = dict[tuple[str, ...], Trajectory](), 0
    while taken < steps:
        observation, info = env.reset(options={"task": task})
        way = list[Step]()
        over = False
        while not over and len(way) < depth:
            action = rng.choice(propose(env))[0]
            after, _, over, _, info = env.step(action)
            taken += 1
            if info["valid"]:
                way.append(Step(observation, action, float(info["success"])))
                observation = after
        if over and info["success"]:
            found.setdefault(
                tuple(sorted(step.action for step in way)), Trajectory(task, info["instruction"], tuple(way), True)
            )
    return Found(tuple(found.values()), (), taken)


def apart(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """Those that contain no other one (the shortest come first): a way that only does more is no other way."""
    kept = list[Trajectory]()
    for way in trajectories:
        said = {step.action for step in way.steps}
        if not any(said >= {step.action for step in other.steps} for other in kept):
            kept.append(way)
    return kept


def verifies(env: SmartHomeEnv, trajectory: Trajectory) -> bool:
    """Whether a trajectory, played from the start, succeeds and sees what it says."""
    observation, info = env.reset(options={"task": trajectory.task})
    for step in trajectory.steps:
        if observation != step.observation:
            return False
        observation, _, _, _, info = env.step(step.action)
    return bool(info["success"])


def export(path: str | Path, trajectories: Iterable[Trajectory]) -> int:
    """Write trajectories as JSON lines, for supervised training with values; returns how many."""
    rows = [json.dumps(asdict(item), ensure_ascii=False) for item in trajectories]
    Path(path).write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return len(rows)


def load(path: str | Path) -> tuple[Trajectory, ...]:
    """Read what `export` wrote."""
    rows = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    return tuple(Trajectory(**{**row, "steps": tuple(Step(**step) for step in row["steps"])}) for row in rows)


def _choose(node: _Node, c: float) -> str:
    visits = sqrt(1 + sum(edge.visits for edge in node.edges.values()))

    def score(edge: _Edge) -> float:
        mean = edge.total / edge.visits if edge.visits else node.potential
        return mean + c * edge.prior * visits / (1 + edge.visits)

    return max((action for action in node.edges if not node.edges[action].closed), key=lambda a: score(node.edges[a]))


def _keys(way: list[tuple[_Node, str]], env: SmartHomeEnv) -> set[str]:
    """The keys of the states on a way."""
    here, keys = env.snapshot(), set[str]()
    for node, _ in way:
        keys.add(env.restore(node.snapshot)[1]["state_key"])
    env.restore(here)
    return keys


def _trajectory(task: str, instruction: str, way: list[tuple[_Node, str]], success: bool) -> Trajectory:
    steps = (
        Step(node.observation, action, node.edges[action].total / node.edges[action].visits) for node, action in way
    )
    return Trajectory(task, instruction, tuple(steps), success)
