"""State: snapshots bring it back, keys name it, privileged calls leave it alone."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from .subject import Subject, difference, follow_oracle, random_action


def snapshots_restore(subject: Subject) -> None:
    """A snapshot brings back observation, info and future, here and in another instance, and survives pickling."""
    rng = np.random.default_rng(3)
    with subject.bare() as env, subject.bare() as other:
        for seed in range(3):
            observation, info = env.reset(seed=seed)
            for _ in range(3):
                branch, here = env.snapshot(), (observation, info)
                script = [
                    action for action in (follow_oracle(env)(*here), "no such action", random_action(env, rng, info))
                ]
                future = [env.step(action) for action in script]
                stored = pickle.loads(pickle.dumps(branch))
                for place, snapshot in ((env, branch), (other, stored), (env, branch)):
                    back = place.restore(snapshot)
                    assert back == here, f"restore gives something else: {difference(here, back)}"
                    again = [place.step(action) for action in script]
                    assert again == future, f"the future differs after restore: {difference(future, again)}"
                observation, info = env.restore(branch)
                observation, _, terminated, _, info = env.step(random_action(env, rng, info))
                if terminated:
                    break


def equal_keys_mean_equal_states(subject: Subject) -> None:
    """Different tasks have different keys; states met twice under one key list and answer the same."""
    rng = np.random.default_rng(4)
    seen: dict[str, tuple[Any, ...]] = {}
    starts: dict[str, str] = {}
    with subject.bare() as env:
        for seed in range(6):
            _, info = env.reset(seed=seed)
            task = info["task_id"]
            assert starts.setdefault(info["state_key"], task) == task, "two tasks share a state key"
            for _ in range(2):
                _, info = env.reset(seed=seed, options={"task": task})
                for _ in range(10):
                    facts = [info[key] for key in ("task_id", "admissible", "success", "score", "progress")]
                    if info["admissible"] and not env.stochastic:
                        here = env.snapshot()
                        facts.append(env.step(info["admissible"][0])[4]["state_key"])
                        env.restore(here)
                    known = seen.setdefault(info["state_key"], tuple(facts))
                    assert known == tuple(facts), f"one key, two states: {difference(known, tuple(facts))}"
                    _, _, terminated, _, info = env.step(random_action(env, rng, info))
                    if terminated:
                        break


def privileged_calls_leave_no_trace(subject: Subject) -> None:
    """`oracle`, `hint`, `verify` and `snapshot` change nothing, and what they say is not in what the agent sees."""
    with subject.bare() as env:
        for seed in range(3):
            observation, info = env.reset(seed=seed)
            before = env.snapshot()
            hint, criteria = env.hint(), env.verify()
            next(iter(env.oracle()), None)
            assert isinstance(hint, str), f"hint() is {hint!r}"
            assert criteria and all(0.0 <= value <= 1.0 for value in criteria.values()), f"verify() is {criteria}"
            after = env.snapshot()
            assert after == before, "a privileged call changes the state or draws random numbers"
            assert env.restore(after) == (observation, info)
            secret = len(hint) > 12 and hint not in (info["admissible"] or ())
            shown = f"{observation}\n{info['instruction']}"
            assert not (secret and hint in shown), f"the hint is shown to the agent: {hint!r}"
