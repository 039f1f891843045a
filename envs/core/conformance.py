"""The checks behind `check_text_env`: one function per clause of the contract; its name is what a failure reports."""

from __future__ import annotations

import gc
import inspect
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
import types
import typing
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

from .errors import InvalidArgument, UnknownTask, UserError
from .tasks import SPLITS
from .text_env import StepInfo, TextEnv, text_key

HEADINGS = (
    *("Description", "Action Space", "Observation Space", "Starting State", "Rewards", "Episode End"),
    *("Information", "Privileged Information", "State Key", "Arguments", "Source and Licence", "Version History"),
)
# What a confused or hostile model may send. None of it is an action of any environment that lists its actions.
GARBAGE = (
    *(
        "",
        " ",
        "\n",
        "\x00",
        "\x1b[2J\x1b[31m",
        "\r\b\b\b",
        "\ud800\udfff",
        "\u202e\u200b\ufeff",
        "é" * 50,
        "🦊" * 4096,
    ),
    *("qwertyuiop zxcvbnm", "{0.__class__} %s %n ${HOME} `id`", "'; DROP TABLE tasks; --", "../" * 99 + "etc/passwd"),
    *("a" * 4095 + "!", "(" * 4000, "[" * 2000 + "]" * 2000, "<action>" * 500, '{"action": {"action": 1e999}}'),
)
TOO_LONG = ("x" * 10_000_000, "\x00" * 10_000_000)
NOT_TEXT = (None, 7, b"go", ["go"], {"action": "go"})
_CONTROL = {chr(code) for code in (*range(9), *range(11, 32), *range(127, 160))}
Record = tuple[str, float, bool, bool, dict[str, Any]]


class Skip(Exception):
    """Raised by a check that does not apply; the message says why."""


@dataclass(frozen=True)
class Subject:
    """The environment under test."""

    spec: EnvSpec
    episodes: int

    @property
    def limit(self) -> int:
        """The registered step limit."""
        return self.spec.max_episode_steps or 50

    def wrapped(self, **kwargs: Any) -> gymnasium.Env[str, str]:
        """As `gymnasium.make` gives it: checked, ordered, limited."""
        return gymnasium.make(self.spec, **kwargs)

    @contextmanager
    def bare(self, **kwargs: Any) -> Iterator[TextEnv]:
        """The environment without wrappers, closed at the end."""
        env = gymnasium.make(self.spec, disable_env_checker=True, **kwargs).unwrapped
        assert isinstance(env, TextEnv), f"{type(env).__name__} is no TextEnv"
        try:
            yield env
        finally:
            env.close()

    def accepts(self, argument: str) -> bool:
        """Whether the constructor has this argument."""
        with self.bare() as env:
            return argument in inspect.signature(type(env)).parameters


# -- the class ----------------------------------------------------------------------------------------------------


def docstring_headings(subject: Subject) -> None:
    """The class docstring has the fixed headings, in order, each with text below it."""
    with subject.bare() as env:
        text = inspect.cleandoc(type(env).__doc__ or "")
    found = [line[3:].strip() for line in text.splitlines() if line.startswith("## ")]
    assert tuple(found) == HEADINGS, f"headings are {found}, expected {list(HEADINGS)}"
    for part in text.split("\n## ")[1:]:
        heading, _, body = part.partition("\n")
        assert body.strip(), f"nothing is written below {heading!r}"


def gymnasium_checker(subject: Subject) -> None:
    """Gymnasium's own `check_env` passes without warnings."""
    with subject.bare() as env, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env)
    unexpected = [str(warning.message) for warning in caught if "WARN" in str(warning.message)]
    assert not unexpected, unexpected[0]


def spec_round_trip(subject: Subject) -> None:
    """`env.spec` builds the environment again: directly, pickled, and as JSON where the entry point has a name."""
    env = subject.wrapped()
    expected = env.reset(seed=3)
    env.close()
    assert env.spec is not None, "env.spec is None"
    specs = [env.spec]
    if isinstance(specs[0].entry_point, str):
        specs += [pickle.loads(pickle.dumps(specs[0])), EnvSpec.from_json(specs[0].to_json())]
    for spec in specs:
        again = gymnasium.make(spec)
        assert again.reset(seed=3) == expected, "an environment made from env.spec starts differently"
        again.close()


# -- tasks --------------------------------------------------------------------------------------------------------


def splits_are_disjoint(subject: Subject) -> None:
    """Every split has tasks, and no task is in two."""
    if not subject.accepts("split"):
        raise Skip("the constructor has no `split`")
    ids: dict[str, str] = {}
    contents: dict[str, str] = {}
    for split in SPLITS:
        with subject.bare(split=split) as env:
            tasks = env.tasks.first(100)
            assert tasks, f"split {split!r} is empty"
            for task in tasks:
                assert task.split == split, f"{task.id} says it is in {task.split!r}, drawn from {split!r}"
                assert ids.setdefault(task.id, split) == split, f"task {task.id} is in {ids[task.id]} and in {split}"
                content = repr(sorted(task.params.items()))
                if task.params:
                    assert contents.setdefault(content, split) == split, (
                        f"{task.id} equals a task of {contents[content]}"
                    )
            drawn = env.reset(seed=0)[1]["task_id"]
            assert env.tasks.get(drawn).split == split, f"reset() of split {split!r} drew {drawn}"
    try:
        with subject.bare(split="no such split") as env:
            env.reset(seed=0)
    except UserError:
        return
    raise AssertionError("an unknown split raises no UserError")


def task_ids_start_the_same_task(subject: Subject) -> None:
    """`info["task_id"]` starts the same task in another instance, after other tasks; wrong ids raise `UnknownTask`."""
    with subject.bare() as first, subject.bare() as second:
        second.reset(seed=99)
        for seed in range(min(subject.episodes, 10)):
            observation, info = first.reset(seed=seed)
            again, info_again = second.reset(seed=seed + 1000, options={"task": info["task_id"]})
            assert info == info_again, f"task {info['task_id']} starts differently: {_difference(info, info_again)}"
            assert observation == again, f"task {info['task_id']} shows {again!r}, before {observation!r}"
            assert first.task == second.task or first.task.id == second.task.id
        for wrong in ("", "no such task", "\x00\ud800", "9" * 5000, "../x"):
            try:
                first.reset(options={"task": wrong})
            except UnknownTask:
                continue
            raise AssertionError(f"task id {wrong[:20]!r} raises no UnknownTask")


def group_starts_are_identical(subject: Subject) -> None:
    """`reset(seed=[7, 7, 7])` starts one group: equal observations and keys."""
    vector = gymnasium.make_vec(subject.spec, num_envs=3, vectorization_mode="sync")
    try:
        observations, infos = vector.reset(seed=[7, 7, 7])  # type: ignore[arg-type]
        assert len(set(observations)) == 1, "equal seeds give different observations"
        assert len(set(infos["state_key"])) == 1, "equal seeds give different state keys"
    finally:
        vector.close()


# -- determinism --------------------------------------------------------------------------------------------------


def deterministic(subject: Subject) -> None:
    """The same seed and actions give the same observations, rewards and infos in two instances, used in turn."""
    with subject.bare() as first, subject.bare() as second:
        for seed in range(3):
            expected, found = _trace(first, seed, 15), _trace(second, seed, 15)
            for step, (before, after) in enumerate(zip(expected, found, strict=True)):
                assert before == after, f"seed {seed}, step {step}: {_difference(before, after)}"


def deterministic_across_processes(subject: Subject) -> None:
    """The same in a fresh process with another hash seed."""
    if not isinstance(subject.spec.entry_point, str):
        raise Skip("the class cannot be imported by name, so another process cannot build it")
    module = f"from {__package__}.conformance import print_digests; print_digests()"
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
        return [text_key(repr(_trace(env, seed, 10))) for seed in range(3)]


# -- policies -----------------------------------------------------------------------------------------------------


def oracle_solves(subject: Subject) -> None:
    """The oracle's actions are valid and solve tasks of every split within the step limit."""
    splits = [{"split": split} for split in SPLITS] if subject.accepts("split") else [{}]
    for kwargs in splits:
        with subject.bare(**kwargs) as env:
            for task in env.tasks.first(max(1, subject.episodes // 4)):
                observation, info = env.reset(seed=1, options={"task": task.id})
                records = list(_play(env, _oracle(env), subject.limit))
                for step, (observation, _, _, _, info) in enumerate(records):
                    assert info["valid"], f"{task.id}: the oracle's action {step + 1} is invalid: {observation[:200]!r}"
                assert info["success"], f"{task.id}: not solved after {len(records)} oracle actions"
                assert info["score"] == 1.0, f"{task.id}: score {info['score']} after the oracle"
                assert records[-1][2], f"{task.id}: solved but not terminated"


def doing_nothing_fails(subject: Subject) -> None:
    """Empty actions earn nothing."""
    with subject.bare() as env:
        for seed in range(min(subject.episodes, 5)):
            env.reset(seed=seed)
            records = list(_play(env, lambda observation, info: "", subject.limit))
            assert not records[-1][4]["success"], f"seed {seed}: success without an action"
            assert records[-1][4]["score"] == 0.0, f"seed {seed}: score {records[-1][4]['score']} without an action"
            total = sum(record[1] for record in records)
            assert total <= 0.0, f"seed {seed}: return {total} without an action"


def random_actions_fail(subject: Subject) -> None:
    """Uniformly random admissible actions have a mean score below 0.1."""
    rng = np.random.default_rng(0)
    with subject.bare() as env:
        _assert_poor(env, subject, lambda observation, info: _random_action(env, rng, info), "random actions")


def echoing_fails(subject: Subject) -> None:
    """Sending observations back, or the instruction, has a mean score below 0.1."""
    with subject.bare() as env:
        _assert_poor(env, subject, lambda observation, info: observation, "echoed observations")
        _assert_poor(env, subject, lambda observation, info: info["instruction"], "echoed instructions")


def _assert_poor(env: TextEnv, subject: Subject, policy: Callable[[str, dict[str, Any]], str], name: str) -> None:
    scores = []
    for seed in range(3 * subject.episodes):
        env.reset(seed=seed)
        scores.append(list(_play(env, policy, subject.limit))[-1][4]["score"])
    assert np.mean(scores) < 0.1, f"{name} have a mean score of {np.mean(scores):.3f}"


# -- every step ---------------------------------------------------------------------------------------------------


def info_is_step_info(subject: Subject) -> None:
    """`info` holds exactly the keys and types of `StepInfo`; observations and rewards keep their declared ranges."""
    hints = typing.get_type_hints(StepInfo)
    rng = np.random.default_rng(1)
    with subject.bare() as env:
        low, high = env.reward_range
        for seed, policy in enumerate((_oracle(env), lambda o, i: _random_action(env, rng, i), lambda o, i: "?")):
            observation, info = env.reset(seed=seed)
            assert info["valid"] is True, "info['valid'] is not True after a reset"
            records = [(observation, 0.0, False, False, info), *_play(env, policy, subject.limit)]
            for observation, reward, terminated, _, info in records:
                assert set(info) == set(hints), f"keys differ: {sorted(set(info) ^ set(hints))}"
                for key, hint in hints.items():
                    assert _is(info[key], hint), f"info[{key!r}] is {info[key]!r}, expected {hint}"
                assert observation in env.observation_space, f"an observation of {len(observation)} characters"
                assert not _CONTROL & set(observation), "control characters in an observation"
                assert info["obs_key"] == text_key(observation), "obs_key is not text_key(observation)"
                assert 0.0 <= info["score"] <= 1.0, f"score {info['score']}"
                assert info["progress"] is None or 0.0 <= info["progress"] <= 1.0, f"progress {info['progress']}"
                assert type(reward) is float and low <= reward <= high, f"reward {reward!r} outside [{low}, {high}]"
                listed = info["admissible"]
                assert listed is None or len(set(listed)) == len(listed), "an action is listed twice"
                assert terminated or listed is None or listed, "no action is left although the episode goes on"


def invalid_actions_change_nothing(subject: Subject) -> None:
    """Garbage is answered and marked invalid, and changes nothing; it neither raises nor hangs."""
    with subject.bare() as env:
        _, before = env.reset(seed=5)
        for action in (*GARBAGE, *TOO_LONG, *NOT_TEXT):
            label = repr(action[:20]) if isinstance(action, str | bytes) else repr(action)
            started = time.perf_counter()
            observation, reward, terminated, _, info = env.step(action)  # type: ignore[arg-type]
            assert time.perf_counter() - started < 5, f"{label} takes {time.perf_counter() - started:.1f} s"
            must_refuse = before["admissible"] is not None or action in TOO_LONG or not isinstance(action, str)
            assert not (must_refuse and info["valid"]), f"{label} is accepted"
            if not info["valid"]:
                assert observation.strip(), f"{label} is refused without a message"
                assert observation in env.observation_space and not _CONTROL & set(observation), f"{label}: bad message"
                assert reward <= 0 and not terminated, f"{label} is refused, yet earns {reward} or ends the episode"
                changed = [key for key in before if key not in ("valid", "obs_key") and info[key] != before[key]]
                assert not changed, f"{label} is refused, yet changes {changed}"
            else:
                _, before = env.reset(seed=5)


def admissible_actions_are_valid(subject: Subject) -> None:
    """Every listed action is accepted as it is listed, and stays the same when made canonical twice."""
    rng = np.random.default_rng(2)
    with subject.bare() as env:
        _, info = env.reset(seed=0)
        if info["admissible"] is None:
            raise Skip("this environment does not list its actions")
        for seed in range(3):
            _, info = env.reset(seed=seed)
            for _ in range(4):
                here = env.snapshot()
                for action in info["admissible"][:40]:
                    assert env.canonical(env.canonical(action)) == env.canonical(action), f"canonical({action!r}) moves"
                    observation, _, _, _, after = env.step(action)
                    assert after["valid"], f"{action!r} is listed and refused: {observation[:200]!r}"
                    env.restore(here)
                info = env.step(_random_action(env, rng, info))[4]
                if not info["admissible"]:
                    break


def late_actions_are_refused(subject: Subject) -> None:
    """After the end, actions earn nothing and change nothing."""
    with subject.bare() as env:
        env.reset(seed=2)
        info = list(_play(env, _oracle(env), subject.limit))[-1][4]
        _, reward, terminated, _, late = env.step("anything")
        assert (reward, terminated, late["valid"]) == (0.0, True, False), "an action after the end is not refused"
        assert late["state_key"] == info["state_key"], "an action after the end changes the state"


def step_limit_truncates(subject: Subject) -> None:
    """The registered limit truncates and nothing else does; `max_steps` shortens it and cannot lengthen it."""
    limits = {subject.limit: {}}
    if subject.accepts("max_steps"):
        limits[2] = {"max_steps": 2}
    for limit, kwargs in limits.items():
        env = subject.wrapped(**kwargs)
        env.reset(seed=4)
        for step in range(1, limit + 1):
            _, _, terminated, truncated, _ = env.step("")
            assert not terminated, "an empty action ends the episode"
            assert truncated == (step == limit), f"truncated={truncated} at step {step} of {limit}"
        env.close()
    if subject.accepts("max_steps") and subject.spec.id in gymnasium.registry:
        with subject.bare(max_steps=subject.limit + 1) as env:
            try:
                env.reset(seed=0)
            except InvalidArgument:
                return
        raise AssertionError("max_steps above the registered limit raises no InvalidArgument")


# -- keys, snapshots, privileged parts -----------------------------------------------------------------------------


def snapshots_restore(subject: Subject) -> None:
    """A snapshot brings back observation, info and future, here and in another instance, and survives pickling."""
    rng = np.random.default_rng(3)
    with subject.bare() as env, subject.bare() as other:
        for seed in range(3):
            observation, info = env.reset(seed=seed)
            for _ in range(3):
                branch, here = env.snapshot(), (observation, info)
                script = [action for action in (_oracle(env)(*here), "no such action", _random_action(env, rng, info))]
                future = [env.step(action) for action in script]
                stored = pickle.loads(pickle.dumps(branch))
                for place, snapshot in ((env, branch), (other, stored), (env, branch)):
                    back = place.restore(snapshot)
                    assert back == here, f"restore gives something else: {_difference(here, back)}"
                    again = [place.step(action) for action in script]
                    assert again == future, f"the future differs after restore: {_difference(future, again)}"
                observation, info = env.restore(branch)
                observation, _, terminated, _, info = env.step(_random_action(env, rng, info))
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
                    assert known == tuple(facts), f"one key, two states: {_difference(known, tuple(facts))}"
                    _, _, terminated, _, info = env.step(_random_action(env, rng, info))
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


def everything_pickles(subject: Subject) -> None:
    """Infos, tasks and snapshots pickle, as the contract promises: they travel between processes."""
    with subject.bare() as env:
        _, info = env.reset(seed=0)
        for thing in (info, env.task, env.snapshot()):
            assert pickle.loads(pickle.dumps(thing)) == thing, f"{type(thing).__name__} changes in a pickle"


def render_returns_text(subject: Subject) -> None:
    """`render_mode="ansi"` gives the last observation, None nothing."""
    if not subject.accepts("render_mode"):
        raise Skip("the constructor has no `render_mode`")
    with subject.bare(render_mode="ansi") as shown, subject.bare() as silent:
        assert shown.reset(seed=0)[0] == shown.render(), "render() is not the observation"
        silent.reset(seed=0)
        assert silent.render() is None


# -- vectors and clean-up -----------------------------------------------------------------------------------------


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
            action = _random_action(env.unwrapped, rng, steps[-1][1][4])
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


def close_leaves_nothing_behind(subject: Subject) -> None:
    """After `close()`, twice, there are no more processes, threads, open files or temporary files than before."""
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, TMPDIR=folder),
        mock.patch.object(tempfile, "tempdir", folder),
    ):
        _open_and_close(subject)  # the first time may fill caches that live on
        before = _resources(folder)
        _open_and_close(subject)
        _open_and_close(subject)
        deadline = time.monotonic() + 3  # processes and threads take a moment to go
        while True:
            after = _resources(folder)
            left = {name: f"{before[name]} -> {after[name]}" for name in before if after[name] > before[name]}
            if not left or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        assert not left, f"left behind: {left}"
    unused = gymnasium.make(subject.spec)
    unused.close()  # before any reset
    unused.close()


def _open_and_close(subject: Subject) -> None:
    env = subject.wrapped()
    env.reset(seed=0)
    env.step("")
    env.close()
    env.close()
    gc.collect()


def _resources(folder: str) -> dict[str, int]:
    counts = {
        "threads": threading.active_count(),
        "worker processes": len(multiprocessing.active_children()),
        "temporary files": sum(1 for _ in Path(folder).rglob("*")),
    }
    if Path("/proc/self/fd").exists():  # Linux
        counts["open files"] = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 (closes its own descriptor at once)
        children = Path(f"/proc/self/task/{os.getpid()}/children")
        counts["processes"] = len(children.read_text().split()) if children.exists() else 0
    return counts


# -- shared pieces ------------------------------------------------------------------------------------------------


def _play(env: TextEnv, policy: Callable[[str, dict[str, Any]], str], limit: int) -> Iterator[Record]:
    """The steps of an episode that has been reset, up to `limit`."""
    observation, info = env.restore(env.snapshot())
    for _ in range(limit):
        record = env.step(policy(observation, info))
        yield record
        observation, _, terminated, truncated, info = record
        if terminated or truncated:
            return


def _oracle(env: TextEnv) -> Callable[[str, dict[str, Any]], str]:
    """A policy that follows one run of the oracle, started at its first action."""
    running: list[Iterator[str]] = []

    def policy(observation: str, info: dict[str, Any]) -> str:
        if not running:
            running.append(iter(env.oracle()))
        return next(running[0], "")

    return policy


def _random_action(env: Any, rng: np.random.Generator, info: dict[str, Any]) -> str:
    """An admissible action; where they are not listed, random text."""
    if info["admissible"]:
        return info["admissible"][int(rng.integers(len(info["admissible"])))]
    length = int(rng.integers(1, 30))
    return "".join(chr(int(code)) for code in rng.integers(32, 127, size=length))


def _trace(env: TextEnv, seed: int, steps: int) -> list[Any]:
    """One episode of scripted choices: random ones where actions are listed, else the oracle's and garbage."""
    rng = np.random.default_rng(seed)
    trace: list[Any] = [env.reset(seed=seed)]
    info = trace[0][1]
    for step in range(steps):
        follow = info["admissible"] is None and step % 3 != 2
        action = next(iter(env.oracle()), "") if follow else _random_action(env, rng, info)
        record = env.step(action)
        trace.append((action, record))
        info = record[4]
        if record[2] or record[3]:
            break
    return trace


def _is(value: Any, hint: Any) -> bool:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return any(_is(value, option) for option in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return type(value) is tuple and all(type(item) is str for item in value)
    return type(value) is hint


def _difference(before: Any, after: Any) -> str:
    """The first place where two nested values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        pairs = [(key, before.get(key), after.get(key)) for key in {**before, **after}]
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple) and len(before) == len(after):
        pairs = [(index, *pair) for index, pair in enumerate(zip(before, after, strict=True))]
    else:
        return f"{str(before)[:200]!r} != {str(after)[:200]!r}"
    key, first, second = next((pair for pair in pairs if pair[1] != pair[2]), ("", before, after))
    return f"[{key}] {_difference(first, second) if first is not before else 'equal'}"


CHECKS: tuple[Callable[[Subject], None], ...] = (
    *(docstring_headings, gymnasium_checker, spec_round_trip),
    *(splits_are_disjoint, task_ids_start_the_same_task, group_starts_are_identical),
    *(deterministic, deterministic_across_processes),
    *(oracle_solves, doing_nothing_fails, random_actions_fail, echoing_fails),
    *(info_is_step_info, invalid_actions_change_nothing, admissible_actions_are_valid),
    *(late_actions_are_refused, step_limit_truncates),
    *(snapshots_restore, equal_keys_mean_equal_states, privileged_calls_leave_no_trace, everything_pickles),
    *(render_returns_text, vector_sync, vector_async, close_leaves_nothing_behind),
)
