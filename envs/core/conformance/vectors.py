"""Vectors of environments play what single environments play."""

from __future__ import annotations

import gymnasium
import numpy as np

from .subject import Record, Subject, random_action


def vector_sync(subject: Subject) -> None:
    """`gymnasium.make_vec(..., vectorization_mode="sync")` plays the same episodes as single environments."""
    _compare_vector(subject, "sync")


def vector_async(subject: Subject) -> None:
    """`gymnasium.make_vec(..., vectorization_mode="async")`, with its default shared memory, too."""
    _compare_vector(subject, "async")


def _compare_vector(subject: Subject, mode: str) -> None:
    seeds, rng = [11, 12], np.random.default_rng(5)
    singles: list[list[tuple[str, Record]]] = []
    for seed in seeds:
        env = subject.wrapped()
        observation, info = env.reset(seed=seed)
        steps = [("", (observation, 0.0, False, False, info))]
        while len(steps) < 5 and not (steps[-1][1][2] or steps[-1][1][3]):
            action = random_action(env.unwrapped, rng, steps[-1][1][4])
            steps.append((action, env.step(action)))  # type: ignore[arg-type]
        singles.append(steps)
        env.close()
    vector = gymnasium.make_vec(subject.spec, num_envs=2, vectorization_mode=mode)
    try:
        observations, infos = vector.reset(seed=seeds)  # type: ignore[arg-type]
        for step in range(min(map(len, singles))):
            expected = [single[step] for single in singles]
            if step:
                actions = tuple(action for action, _ in expected)
                observations, rewards, terminated, _, infos = vector.step(actions)  # type: ignore[arg-type]
                assert list(rewards) == [record[1] for _, record in expected], f"step {step}: rewards {rewards}"
                assert list(terminated) == [record[2] for _, record in expected], f"step {step}: {terminated}"
            assert list(observations) == [record[0] for _, record in expected], f"step {step}: other observations"
            assert list(infos["state_key"]) == [record[4]["state_key"] for _, record in expected], f"step {step}: keys"
        for _ in range(3):  # over the end of an episode: autoreset
            vector.step(("", ""))  # type: ignore[arg-type]
    finally:
        vector.close()
