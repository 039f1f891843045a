"""Playing and learning at the same time: how stale, how repeatable, and that nothing is lost or left running."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sandlot.envs.core.errors import EnvironmentFault, InvalidArgument
from sandlot.harness.loop import EnvMaker, Limits, Rollout
from sandlot.harness.policies.tabular import TabularPolicy
from sandlot.harness.records import Trajectory
from sandlot.harness.runs import RunFolder
from sandlot.trainers import checkpoint
from sandlot.trainers.loop import Schedule, train
from sandlot.trainers.methods import make_recipe
from sandlot.trainers.pipeline import Stream, make_pipeline
from sandlot.trainers.recipe import Recipe
from sandlot.trainers.samplers import UniformSampler

ENV = EnvMaker("sandlot/Corridor-v0", {"rooms": 4})
ROLLOUT = Rollout(ENV, limits=Limits(concurrency=8))


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() == before


def small(name: str = "rloo", **options: Any) -> Recipe:
    return make_recipe(name, **{"groups": 4, "group_size": 6, "lr": 0.2, "max_grad_norm": 10.0, **options})


def run(
    mode: str, steps: int = 6, *, staleness: int = 1, folder: RunFolder | None = None, recipe: Any = None, **kwargs: Any
) -> tuple[TabularPolicy, list[dict[str, float]]]:
    policy = kwargs.pop("policy", None) or TabularPolicy(key="obs_key")
    schedule = Schedule(steps, 3, mode=mode, staleness=staleness)
    history = train(recipe or small(), policy, ROLLOUT, ENV().tasks, schedule, run=folder, **kwargs)
    return policy, history


def numbers(history: list[dict[str, float]]) -> list[dict[str, float]]:
    return [{key: value for key, value in metrics.items() if not key.startswith("time/")} for metrics in history]


@pytest.mark.parametrize("staleness", [1, 2])
def test_ahead_is_stale_by_a_fixed_number_of_updates_and_repeats(staleness: int) -> None:
    policy, history = run("ahead", staleness=staleness)
    assert [m["rollout/staleness"] for m in history] == [min(step, staleness) for step in range(6)]
    again, repeated = run("ahead", staleness=staleness)
    assert numbers(repeated) == numbers(history)
    assert torch.equal(policy.weights, again.weights)
    assert history[-1]["update/ess"] < 1.0  # older weights are another distribution
    assert numbers(history) != numbers(run("sync")[1])


def test_weights_that_do_not_move_make_no_difference() -> None:
    still = [run(mode, recipe=small(lr=0.0))[1] for mode in ("sync", "ahead")]
    for sync, ahead in zip(*map(numbers, still), strict=True):
        differing = {key for key in sync if sync[key] != pytest.approx(ahead[key], abs=1e-12)}
        assert differing <= {"rollout/staleness", "rollout/staleness_max"}


def test_ahead_resumes_to_the_same_numbers(tmp_path: Path) -> None:
    whole, history = run("ahead", staleness=2)
    folder = RunFolder.create("ahead", {}, root=tmp_path)
    seen: list[Trajectory] = []

    def stop(trajectory: Trajectory) -> None:
        seen.append(trajectory)
        if checkpoint_step(folder) >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("ahead", staleness=2, folder=folder, on_trajectory=stop)
    assert [t.id for t in folder.trajectories()] == [t.id for t in seen]  # what had ended is on disk
    resumed, rest = run("ahead", staleness=2, folder=folder, resume=True)
    assert numbers(rest) == numbers(history)
    assert torch.equal(resumed.weights, whole.weights)


def checkpoint_step(folder: RunFolder) -> int:
    return checkpoint.load(folder.folder)["step"] if (folder.folder / checkpoint.LAST).exists() else -1


@pytest.mark.parametrize(("staleness", "resample"), [(1, 0), (2, 0), (1, 2)])
def test_a_stream_keeps_its_bound(staleness: int, resample: int) -> None:
    _, history = run("stream", 12, staleness=staleness, recipe=small(resample=resample))
    assert max(m["rollout/staleness_max"] for m in history) <= staleness
    assert all(m["rollout/episodes"] >= 24 for m in history)
    if not resample:
        assert all(m["rollout/episodes"] == 24 for m in history)


@pytest.mark.behaviour
@pytest.mark.parametrize("mode", ["ahead", "stream"])
def test_it_learns_as_the_synchronous_loop_does(mode: str) -> None:
    """Measured on 3 seeds: .07-.17 to .98-1.0 within 40 steps."""
    early, late = [], []
    for seed in range(2):
        schedule = Schedule(40, seed, mode=mode, staleness=1)
        history = train(small(), TabularPolicy(key="obs_key"), ROLLOUT, ENV().tasks, schedule)
        success = [metrics["rollout/success"] for metrics in history]
        early.append(np.mean(success[:3]))
        late.append(np.mean(success[-5:]))
    assert np.mean(late) > np.mean(early) + 0.4, (early, late)


class Failing(TabularPolicy):
    """Dies `failures` times of a fault that no episode's retry covers, counted over all copies."""

    left = 0

    def forget(self, sessions: Any) -> None:
        if type(self).left and sessions and threading.current_thread().name == "sandlot-actor":
            type(self).left -= 1
            raise EnvironmentFault("the server is gone")


@pytest.mark.parametrize("mode", ["ahead", "stream"])
def test_a_crashed_player_starts_again(mode: str) -> None:
    Failing.left = 2
    _, history = run(mode, 4, policy=Failing(key="obs_key"))
    assert Failing.left == 0
    assert len(history) == 4 and all(m["rollout/episodes"] == 24 for m in history)


@pytest.mark.parametrize("mode", ["ahead", "stream"])
def test_a_player_that_stays_down_is_an_error_where_it_is_missed(mode: str) -> None:
    Failing.left = 10**6
    with pytest.raises(EnvironmentFault, match="the server is gone"):
        run(mode, 4, policy=Failing(key="obs_key"))
    Failing.left = 0


def test_a_resumed_stream_keeps_the_groups_that_had_ended(tmp_path: Path) -> None:
    policy, recipe, tasks = TabularPolicy(key="obs_key"), small(), ENV().tasks
    parts = (policy, recipe, UniformSampler(tasks, 4, 6, 0), ROLLOUT, tasks)
    stream = make_pipeline("stream", 1, *parts, steps=9, seed=0)
    assert isinstance(stream, Stream)
    stream.take(0)
    stream.publish(0)
    stream.wait_for(lambda: len(stream.done) >= 2)
    stream.close()
    checkpoint.save(tmp_path, {"pipeline": stream.state_dict()})
    kept = [(began, [member.id for member in group.members]) for began, group in stream.done]
    again = make_pipeline("stream", 1, *parts, steps=9, seed=0)
    assert isinstance(again, Stream)
    again.load_state_dict(checkpoint.load(tmp_path)["pipeline"])
    assert [(began, [member.id for member in group.members]) for began, group in again.done] == kept
    assert again.started == 4 + len(kept) and again.updates == 1
    taken = again.take(1)
    assert {member.id for group in taken.groups for member in group.members} >= {i for _, ids in kept[:4] for i in ids}
    again.close()


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="mode must be"):
        run("async")
    with pytest.raises(InvalidArgument, match="staleness"):
        run("ahead", staleness=0)


@pytest.mark.parametrize("mode", ["ahead", "stream"])
def test_a_language_model_with_a_critic_plays_while_it_learns(mode: str) -> None:
    from sandlot.harness.context import FullHistory
    from sandlot.harness.policies.hf import HFPolicy
    from sandlot.harness.policies.tiny import build_word_tokenizer, tiny_llama
    from sandlot.harness.policy import Sampling

    observation, info = ENV().reset(seed=0)
    tokenizer = build_word_tokenizer([observation, " ".join(info["admissible"])])
    rollout = Rollout(ENV, Sampling(decode="trie"), FullHistory, limits=Limits(concurrency=8))
    runs = []
    for _ in range(2):
        policy = HFPolicy(tiny_llama(len(tokenizer), 32, 2, 2, seed=0), tokenizer, critic=True)
        recipe = make_recipe("ppo", groups=2, group_size=4, lr=1e-3)
        runs.append(train(recipe, policy, rollout, ENV().tasks, Schedule(3, 0, mode=mode)))
    assert all(m["rollout/staleness_max"] <= 1 for m in runs[0])
    assert runs[0][0]["update/logprob_gap"] < 1e-4  # the copy is exact
    if mode == "ahead":
        assert numbers(runs[0]) == numbers(runs[1])
        assert [m["rollout/staleness"] for m in runs[0]] == [0, 1, 1]
