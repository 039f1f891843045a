"""The episode loop: groups keep their size, faults are retried, nothing finished is lost, order never matters."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from sandlot.envs.core import REGISTRY, EnvironmentFault, ListTasks, Outcome, Task, TextEnv, register
from sandlot.harness.context import FullHistory, Window
from sandlot.harness.loop import EnvMaker, Limits, Rollout, play, play_groups
from sandlot.harness.policies.scripted import NoopPolicy, OraclePolicy, RandomPolicy, ScriptedPolicy
from sandlot.harness.policy import Sampling
from sandlot.harness.records import Call, StopReason, Trajectory
from sandlot.harness.summary import summarise, wilson

TASKS = [Task(f"count-{n}", "train", {"goal": n}) for n in range(1, 9)]


class Counting(TextEnv):
    """Say "more" `goal` times. Class attributes inject trouble."""

    faults: dict[str, int] = {}
    hang: set[str] = set()
    live: set[int] = set()
    pause = 0.0

    def __init__(self, *, max_steps: int | None = None, render_mode: str | None = None) -> None:
        super().__init__(ListTasks(TASKS), max_steps=max_steps, render_mode=render_mode)
        self.live.add(id(self))
        self.thread = threading.get_ident()
        self.count = 0

    def close(self) -> None:
        self.live.discard(id(self))

    def _reset(self, task: Task) -> str:
        self.count = 0
        if self.faults.get(task.id, 0) > 0:
            self.faults[task.id] -= 1
            raise EnvironmentFault("the server is gone")
        return f"Count to {task.params['goal']}."

    def _step(self, action: str) -> Outcome:
        if self.waits:
            assert threading.get_ident() == self.thread, "an environment lives in one thread"
        time.sleep(self.pause)
        if self.task.id in self.hang:
            self.hang.discard(self.task.id)
            time.sleep(1.2)
        if action == "bug":
            raise ZeroDivisionError
        if action == "interrupt":
            raise KeyboardInterrupt
        if action != "more":
            return Outcome("Say more.", valid=False)
        self.count += 1
        return Outcome(f"{self.count}", float(self._success()), self._success())

    def _state(self) -> str:
        return str(self.count)

    def _save(self) -> Any:
        return self.count

    def _load(self, state: Any) -> None:
        self.count = state

    def _success(self) -> bool:
        return self.count == self.task.params["goal"]

    def _admissible(self) -> tuple[str, ...]:
        return ("more", "less")

    def oracle(self) -> Iterator[str]:
        while not self._success():
            yield "more"


class Inline(Counting):
    """The same without a thread per instance."""

    waits = False


@pytest.fixture(autouse=True, scope="module")
def registered() -> Iterator[None]:
    """For this module only: other tests look at the whole registry."""
    for cls in (Counting, Inline):
        register(id=f"test/{cls.__name__}-v0", entry_point=f"{__name__}:{cls.__name__}", max_episode_steps=20)
    yield
    for cls in (Counting, Inline):
        del REGISTRY[f"test/{cls.__name__}-v0"], gymnasium.registry[f"test/{cls.__name__}-v0"]


@pytest.fixture(params=["test/Counting-v0", "test/Inline-v0"])
def env_id(request: pytest.FixtureRequest) -> Iterator[str]:
    Counting.faults, Counting.hang, Counting.pause = {}, set(), 0.0
    Counting.live.clear()
    yield request.param
    assert not Counting.live, "every environment is closed"


def plain(trajectory: Trajectory) -> tuple[Any, ...]:
    return trajectory.id, [turn.action for turn in trajectory.turns], trajectory.reward, trajectory.stop


def test_every_member_of_every_group_in_order(env_id: str) -> None:
    groups = play_groups(OraclePolicy(), [(task, 3, "explore") for task in TASKS], Rollout(EnvMaker(env_id)))
    assert [group.task.id for group in groups] == [task.id for task in TASKS]
    for group in groups:
        assert [len(member.turns) for member in group.members] == [group.task.params["goal"]] * 3
        assert all(member.success and member.stop is StopReason.TERMINATED for member in group.members)
    ids = [member.id for group in groups for member in group.members]
    assert len(set(ids)) == 24


def test_concurrency_does_not_change_what_happens(env_id: str) -> None:
    def run(concurrency: int) -> list[Any]:
        rollout = Rollout(EnvMaker(env_id, {"max_steps": 6}), limits=Limits(concurrency=concurrency))
        return [plain(t) for t in play(RandomPolicy(), TASKS, rollout, seed=5)]

    assert run(1) == run(3) == run(64)


def test_the_seed_decides(env_id: str) -> None:
    rollout = Rollout(EnvMaker(env_id, {"max_steps": 6}))
    runs = [[plain(t)[1] for t in play(RandomPolicy(), TASKS, rollout, seed=seed)] for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_turns_record_the_state_before_the_action(env_id: str) -> None:
    (trajectory,) = play(OraclePolicy(), [TASKS[2]], Rollout(EnvMaker(env_id)))
    keys = [trajectory.first_info["state_key"], *(turn.info["state_key"] for turn in trajectory.turns)]
    assert [turn.state_key for turn in trajectory.turns] == keys[:-1]
    assert trajectory.rewards.tolist() == [0.0, 0.0, 1.0]


def test_a_fault_is_retried_and_the_group_keeps_its_size(env_id: str) -> None:
    Counting.faults = {"count-2": 2, "count-3": 99}
    seen: list[Trajectory] = []
    rollout = Rollout(EnvMaker(env_id), limits=Limits(tries=3, concurrency=2))
    groups = play_groups(OraclePolicy(), [(t, 2, "explore") for t in TASKS[:4]], rollout, on_trajectory=seen.append)
    assert [len(group.members) for group in groups] == [2, 2, 2, 2]
    assert [m.void for m in groups[2].members] == [True, True]
    assert all(m.error and "the server is gone" in m.error and m.tries == 3 for m in groups[2].members)
    assert all(m.success for m in groups[1].members)
    assert sum(m.tries for m in groups[1].members) == 4  # two faults, two successes
    assert len(seen) == 8
    assert summarise(seen)["void"] == 2 and summarise(seen)["success"] == 1.0


def test_a_hung_step_is_abandoned_and_retried() -> None:
    Counting.faults, Counting.hang, Counting.pause = {}, {"count-2"}, 0.0
    rollout = Rollout(EnvMaker("test/Counting-v0"), limits=Limits(turn_seconds=0.3))
    began = time.monotonic()
    trajectories = play(OraclePolicy(), TASKS[:3], rollout)
    assert all(t.success for t in trajectories) and time.monotonic() - began < 1.2
    assert [t.tries for t in trajectories] == [1, 2, 1]
    deadline = time.monotonic() + 3
    while Counting.live and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Counting.live, "the abandoned thread closed its environment when it came back"


def test_an_episode_deadline_ends_it_as_it_stands(env_id: str) -> None:
    Counting.pause = 0.05
    rollout = Rollout(EnvMaker(env_id), limits=Limits(episode_seconds=0.12))
    (trajectory,) = play(NoopPolicy(), TASKS[:1], rollout)
    assert trajectory.stop is StopReason.DEADLINE and not trajectory.void and 1 <= len(trajectory.turns) < 8


def test_a_bug_is_raised_after_closing_everything_and_finished_episodes_are_kept(env_id: str) -> None:
    kept: list[Trajectory] = []
    policy = ScriptedPolicy(lambda context: "bug" if "5" in context.messages[0].text else "more")
    rollout = Rollout(EnvMaker(env_id), limits=Limits(concurrency=1))
    with pytest.raises(ZeroDivisionError):
        play(policy, TASKS, rollout, on_trajectory=kept.append)
    assert [t.task.id for t in kept] == ["count-1", "count-2", "count-3", "count-4"]


def test_ctrl_c_closes_everything_and_keeps_finished_episodes(env_id: str) -> None:
    kept: list[Trajectory] = []
    policy = ScriptedPolicy(lambda context: "interrupt" if "3" in context.messages[0].text else "more")
    with pytest.raises(KeyboardInterrupt):
        play(policy, TASKS, Rollout(EnvMaker(env_id), limits=Limits(concurrency=1)), on_trajectory=kept.append)
    assert [t.task.id for t in kept] == ["count-1", "count-2"]
    names = {thread.name for thread in threading.enumerate()}
    assert "sandlot-env" not in names


class Flaky(ScriptedPolicy):
    """Fails the first call of all, and reports that long contexts do not fit."""

    def __init__(self, longest: int = 99) -> None:
        super().__init__(["more"])
        self.failures, self.longest, self.forgotten = 1, longest, []

    def generate(self, contexts: Any, sampling: Sampling, seeds: Any) -> list[Call]:
        if self.failures:
            self.failures -= 1
            raise EnvironmentFault("the model server is gone")
        calls = super().generate(contexts, sampling, seeds)
        for call in calls:
            if len(call.context.messages) > self.longest:
                call.finish = "context"
        return calls

    def forget(self, sessions: Any) -> None:
        super().forget(sessions)
        self.forgotten += sessions


def test_a_fault_of_the_policy_is_retried(env_id: str) -> None:
    trajectories = play(Flaky(), TASKS[:3], Rollout(EnvMaker(env_id)))
    assert [t.tries for t in trajectories] == [2, 2, 2] and all(t.success for t in trajectories)


def test_a_full_context_ends_the_episode(env_id: str) -> None:
    policy = Flaky(longest=5)
    trajectories = play(policy, TASKS[3:4], Rollout(EnvMaker(env_id)))
    assert trajectories[0].stop is StopReason.CONTEXT and len(trajectories[0].turns) == 3
    assert len(policy.forgotten) == 2  # the faulted try and the finished one


def test_waiting_environments_wait_together() -> None:
    Counting.pause = 0.05
    began = time.monotonic()
    play(OraclePolicy(), [TASKS[3]] * 16, Rollout(EnvMaker("test/Counting-v0")))
    assert time.monotonic() - began < 0.05 * 4 * 4, "16 episodes of 4 steps take about one episode's time, not sixteen"
    Counting.pause = 0.0


def test_full_history_and_window_keep_the_task() -> None:
    call = Call("c", None, "more", np.zeros(1))  # type: ignore[arg-type]
    info = {"instruction": "Count.", "admissible": ("more", "less")}
    full, window, markov = FullHistory("Be brief."), Window(1), Window(0, list_actions=True)
    for builder in (full, window, markov):
        builder.start("Start.", info)
        for n in range(3):
            builder.record(call, "more", f"Now {n}.", info)
    assert [m.role for m in full.render()] == ["system", "user", *["assistant", "user"] * 3]
    assert full.render()[1].text == "Count.\n\nStart."
    assert [m.text for m in window.render()] == ["Count.\n\nStart.", "more", "Now 2."]
    assert [m.text for m in markov.render()] == [
        "Count.\n\nStart.\n\nActions: more; less",
        "Now 2.\n\nActions: more; less",
    ]


def test_wilson_interval() -> None:
    # n = 10, 5 successes, z = 1.96: centre = (.5 + 3.8416/20) / 1.38416 = .5; half = 1.96 * sqrt(.025 + 3.8416/400)
    # / 1.38416 = 1.96 * .18602 / 1.38416 = .26341
    low, high = wilson(5, 10)
    assert (low, high) == pytest.approx((0.23659, 0.76341), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0) and wilson(0, 5)[0] == 0.0 and wilson(5, 5)[1] == 1.0
