"""Policies: the oracle solves the tasks; silence, refusals, echoes and chance do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..tasks import SPLITS
from ..text_env import TextEnv
from .subject import Subject, follow_oracle, play, random_action

IDLE = ("", "I am sorry, but I cannot help with that.")


def oracle_solves(subject: Subject) -> None:
    """The oracle's actions are valid and solve tasks of every split within the step limit."""
    splits = [{"split": split} for split in SPLITS] if subject.accepts("split") else [{}]
    for kwargs in splits:
        with subject.bare(**kwargs) as env:
            for task in env.tasks.first(max(1, subject.episodes // 4)):
                observation, info = env.reset(seed=1, options={"task": task.id})
                records = list(play(env, follow_oracle(env), subject.limit))
                for step, (observation, _, _, _, info) in enumerate(records):
                    assert info["valid"], f"{task.id}: the oracle's action {step + 1} is invalid: {observation[:200]!r}"
                assert info["success"], f"{task.id}: not solved after {len(records)} oracle actions"
                assert info["score"] == 1.0, f"{task.id}: score {info['score']} after the oracle"
                assert records[-1][2], f"{task.id}: solved but not terminated"


def doing_nothing_fails(subject: Subject) -> None:
    """Empty actions and polite refusals earn nothing."""
    with subject.bare() as env:
        for text in IDLE:
            for seed in range(min(subject.episodes, 5)):
                env.reset(seed=seed)
                records = list(play(env, lambda observation, info, text=text: text, subject.limit))
                info, case = records[-1][4], f"seed {seed}, always {text!r}"
                assert not info["success"], f"{case}: success"
                assert info["score"] == 0.0, f"{case}: score {info['score']}"
                total = sum(record[1] for record in records)
                assert total <= 0.0, f"{case}: return {total}"


def random_actions_fail(subject: Subject) -> None:
    """Uniformly random admissible actions have a mean score below 0.1."""
    rng = np.random.default_rng(0)
    with subject.bare() as env:
        mean = _mean_score(env, subject, lambda observation, info: random_action(env, rng, info))
        assert mean < 0.1, f"random actions have a mean score of {mean:.3f}"


def echoing_fails(subject: Subject) -> None:
    """Sending observations back, or the instruction, earns nothing."""
    with subject.bare() as env:
        for policy, name in (
            (lambda observation, info: observation, "echoed observations"),
            (lambda observation, info: info["instruction"], "echoed instructions"),
        ):
            mean = _mean_score(env, subject, policy)
            assert mean == 0.0, f"{name} have a mean score of {mean:.3f}"


def _mean_score(env: TextEnv, subject: Subject, policy: Callable[[str, dict[str, Any]], str]) -> float:
    scores = []
    for seed in range(3 * subject.episodes):
        env.reset(seed=seed)
        scores.append(list(play(env, policy, subject.limit))[-1][4]["score"])
    return float(np.mean(scores))
