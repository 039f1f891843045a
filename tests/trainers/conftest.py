"""Builders of recorded episodes for the tests of estimators and systems."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from sandlot.harness.records import Call, Context, Group, StopReason, Task, Trajectory, Turn

TASK = Task("toy/train/0", "train")


def _episode(
    *steps: tuple, stop: StopReason = StopReason.TERMINATED, bootstrap: float | None = None, score: float | None = None
) -> Trajectory:
    """An episode from steps `(state, action, reward[, units[, value]])`; the state is both keys unless it is a pair."""
    turns = []
    for state, action, reward, *rest in steps:
        units = rest[0] if rest else 1
        value = rest[1] if len(rest) > 1 else None
        state_key, obs_key = state if isinstance(state, tuple) else (state, state)
        call = Call("call", Context(()), action, logprobs=np.zeros(units, np.float32), value=value)
        turns.append(Turn(call, action, "", reward, {"valid": True}, state_key, obs_key))
    if turns:
        turns[-1].info["score"] = sum(step[2] for step in steps) if score is None else score
    metrics = {} if bootstrap is None else {"bootstrap_value": bootstrap}
    return Trajectory("episode", "toy", TASK, "", {"score": 0.0}, turns, stop, metrics=metrics)


def _group(*members: Trajectory) -> Group:
    return Group(TASK, list(members))


def _returns(*rewards: float, turns: int = 1) -> Group:
    """A group whose members have these returns, paid on the last of `turns` turns in states of their own."""
    return _group(
        *(
            _episode(*((f"{i}.{k}", "go", reward if k == turns - 1 else 0.0) for k in range(turns)))
            for i, reward in enumerate(rewards)
        )
    )


def _first(advantages: Sequence[Sequence[np.ndarray]]) -> list[list[float]]:
    """`[member][turn]`: the first unit of each turn of one group."""
    return [[float(turn[0]) for turn in member] for member in advantages]


@pytest.fixture(scope="session")
def episode() -> Callable[..., Trajectory]:
    return _episode


@pytest.fixture(scope="session")
def group() -> Callable[..., Group]:
    return _group


@pytest.fixture(scope="session")
def returns() -> Callable[..., Group]:
    return _returns


@pytest.fixture(scope="session")
def first() -> Callable[..., list[list[float]]]:
    return _first
