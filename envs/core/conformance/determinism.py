"""Determinism: the same seed and actions give the same episode, in this process and in another."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from gymnasium.envs.registration import EnvSpec

from ..text_env import text_key
from .subject import Skip, Subject, difference, trace


def deterministic(subject: Subject) -> None:
    """The same seed and actions give the same observations, rewards and infos in two instances, used in turn."""
    with subject.bare() as first, subject.bare() as second:
        for seed in range(3):
            expected, found = trace(first, seed, 15), trace(second, seed, 15)
            for step, (before, after) in enumerate(zip(expected, found, strict=True)):
                assert before == after, f"seed {seed}, step {step}: {difference(before, after)}"


def deterministic_across_processes(subject: Subject) -> None:
    """The same in a fresh process with another hash seed."""
    if not isinstance(subject.spec.entry_point, str):
        raise Skip("the class cannot be imported by name, so another process cannot build it")
    module = f"from {__name__} import print_digests; print_digests()"
    # Another hash seed than this process has, whichever that is; and no PYTHONPATH tricks but this process's own path.
    other = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    child = {**os.environ, "PYTHONHASHSEED": other, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", module],
        input=subject.spec.to_json(),
        env=child,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"the other process failed: {done.stderr.strip().splitlines()[-1:]}"
    assert json.loads(done.stdout.splitlines()[-1]) == _digests(subject.spec), "another process gives other episodes"


def print_digests() -> None:
    """What the other process runs: the spec comes in as JSON, the digests go out as JSON."""
    print(json.dumps(_digests(EnvSpec.from_json(sys.stdin.read()))))


def _digests(spec: EnvSpec) -> list[str]:
    with Subject(spec, 1).bare() as env:
        return [text_key(repr(trace(env, seed, 10))) for seed in range(3)]
