"""The training loop: it learns, resumes to the same numbers, and loses nothing when it is stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sandlot.envs.core import InvalidArgument, MissingData
from sandlot.harness.context import Window
from sandlot.harness.loop import EnvMaker, Rollout
from sandlot.harness.policies.bag import BagPolicy
from sandlot.harness.policies.tabular import TabularPolicy
from sandlot.harness.records import Trajectory
from sandlot.harness.runs import RunFolder
from sandlot.trainers import checkpoint
from sandlot.trainers.job import MODEL, Job, run_job
from sandlot.trainers.learner import Learner
from sandlot.trainers.loop import Schedule, train
from sandlot.trainers.methods import make_recipe
from sandlot.trainers.recipe import Recipe

ENV = EnvMaker("sandlot/Corridor-v0", {"rooms": 4})
ROLLOUT = Rollout(ENV)


def run(
    recipe: Recipe, policy: Any, steps: int, folder: RunFolder | None = None, **kwargs: Any
) -> list[dict[str, float]]:
    return train(recipe, policy, ROLLOUT, ENV().tasks, Schedule(steps=steps, seed=3), run=folder, **kwargs)


def small(name: str, **options: Any) -> Recipe:
    return make_recipe(name, **{"groups": 4, "group_size": 6, "lr": 0.2, "max_grad_norm": 10.0, **options})


def rewards(history: list[dict[str, float]]) -> list[float]:
    return [metrics["rollout/success"] for metrics in history]


@pytest.mark.behaviour
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("grpo", {}),
        ("dr_grpo", {"length": 4}),
        ("dapo", {"overlong": 4, "limit": 8}),
        ("gspo", {"minibatches": 1}),
        ("cispo", {}),
        ("rloo", {}),
        ("reinforcepp", {}),
        ("ppo", {"value_lr": 0.3, "minibatches": 1, "gamma": 0.95}),
        ("gigpo", {}),
        ("ecpo", {}),
    ],
)
def test_every_baseline_learns_the_corridor(name: str, options: dict[str, Any]) -> None:
    late, early = [], []
    for seed in range(3):
        recipe = small(name, **options)
        policy = TabularPolicy(key="obs_key", critic=recipe.critic)
        history = train(recipe, policy, ROLLOUT, ENV().tasks, Schedule(steps=40, seed=seed))
        early.append(np.mean(rewards(history)[:3]))
        late.append(np.mean(rewards(history)[-5:]))
    assert np.mean(late) > np.mean(early) + 0.3, (early, late)


def test_a_bag_of_words_learns_from_what_it_reads() -> None:
    """Measured on 3 seeds: from .08-.17 to .92-1.0 within 45 steps."""
    env = EnvMaker("sandlot/Corridor-v0", {"rooms": 5})
    rollout = Rollout(env, context=lambda: Window(0, brief=True))
    recipe = small("rloo", lr=0.04, groups=8, group_size=8)
    history = train(recipe, BagPolicy(), rollout, env().tasks, Schedule(steps=45, seed=0))
    assert np.mean(rewards(history)[-5:]) > np.mean(rewards(history)[:3]) + 0.4


def test_a_resumed_run_repeats_the_uninterrupted_numbers(tmp_path: Path) -> None:
    def fresh() -> tuple[Recipe, TabularPolicy]:
        return small("ppo", value_lr=0.1, kl_coef=0.01), TabularPolicy(key="obs_key", critic=True)

    recipe, policy = fresh()
    whole = run(recipe, policy, 6)
    folder = RunFolder.create("resume", {}, root=tmp_path)
    recipe, stopped = fresh()
    run(recipe, stopped, 3, folder)
    recipe, resumed = fresh()
    history = run(recipe, resumed, 6, folder, resume=True)
    assert len(history) == len(whole) == 6
    for mine, other in zip(history, whole, strict=True):
        for key in mine:
            if not key.startswith("time/"):
                assert mine[key] == pytest.approx(other[key], abs=0, nan_ok=True), key
    assert torch.equal(resumed.weights, policy.weights)
    assert [row["step"] for row in folder.metrics()] == list(range(6))


class Stop(Exception):
    """Stands for Ctrl-C in the middle of a step."""


def test_stopping_in_the_middle_keeps_episodes_and_the_last_checkpoint(tmp_path: Path) -> None:
    folder = RunFolder.create("stop", {}, root=tmp_path)
    seen: list[Trajectory] = []

    def stop(trajectory: Trajectory) -> None:
        seen.append(trajectory)
        if len(seen) == 24 * 2 + 7:  # in the third step
            raise KeyboardInterrupt

    policy = TabularPolicy(key="obs_key")
    with pytest.raises(KeyboardInterrupt):
        run(small("grpo"), policy, 6, folder, on_trajectory=stop)
    assert [t.id for t in folder.trajectories()] == [t.id for t in seen]
    assert checkpoint.load(folder.folder)["step"] == 1
    history = run(small("grpo"), TabularPolicy(key="obs_key"), 6, folder, resume=True)
    assert rewards(history) == rewards(run(small("grpo"), TabularPolicy(key="obs_key"), 6))


def test_a_missing_or_broken_checkpoint_is_one_clear_error(tmp_path: Path) -> None:
    folder = RunFolder.create("none", {}, root=tmp_path)
    with pytest.raises(MissingData, match="nothing to resume"):
        run(small("grpo"), TabularPolicy(), 2, folder, resume=True)
    (folder.folder / checkpoint.LAST).write_bytes(b"not a checkpoint")
    with pytest.raises(MissingData, match="cannot be read"):
        run(small("grpo"), TabularPolicy(), 2, folder, resume=True)


def test_minibatches_and_skipping_do_not_change_what_one_step_does() -> None:
    """Trajectories without advantage are left out of the forward pass; their weight in the mean stays."""
    policies = []
    for entropy in (0.0, 1e-300):  # a coefficient that is not 0 keeps every trajectory in the pass
        policy = TabularPolicy(key="obs_key")
        recipe = small("rloo", entropy_coef=entropy)
        run(recipe, policy, 3)
        policies.append(policy.weights.detach().clone())
    assert torch.allclose(policies[0], policies[1], atol=1e-12)


def test_a_correction_compares_with_the_trainers_own_probabilities() -> None:
    """The sampler's log-probabilities are off by log 4: TIS caps the factor 1/4 or 4, and the ratio itself is 1."""
    from sandlot.harness.loop import play_groups

    policy = TabularPolicy(key="obs_key")
    groups = play_groups(policy, [(ENV().tasks.at(i), 6, "explore") for i in range(4)], ROLLOUT)
    plain = make_recipe("rloo", lr=0.1)
    advantages = plain.estimator(groups)
    fair = Learner(policy, plain).update(groups, advantages)["loss/policy"]
    assert abs(fair) > 1e-3
    policy.weights.data.zero_()
    for member in (member for group in groups for member in group.members):
        for call in member.calls:
            call.logprobs = call.logprobs - np.float32(np.log(4))  # the trainer finds everything 4 times as likely
    for mode, factor in (("truncate", 2.0), ("mask", 0.0)):
        policy.weights.data.zero_()
        metrics = Learner(policy, replace(plain, objective=replace(plain.objective, correction=mode))).update(
            groups, advantages
        )
        assert metrics["ratio/mean"] == pytest.approx(1, abs=1e-6)
        assert metrics["loss/policy"] == pytest.approx(factor * fair, abs=1e-6)
        assert metrics["logprob_gap_mean"] == pytest.approx(np.log(4), abs=1e-5)
        assert metrics["ess"] == pytest.approx(1)  # a constant factor changes no sample's share


def test_void_members_teach_nothing() -> None:
    from sandlot.harness.loop import play_groups
    from sandlot.harness.records import StopReason

    policy = TabularPolicy(key="obs_key")
    (group,) = play_groups(policy, [(ENV().tasks.at(0), 4, "explore")], ROLLOUT)
    for member in group.members:
        member.stop = StopReason.FAULT
    recipe = small("grpo")
    assert Learner(policy, recipe).update([group], recipe.estimator([group])) == {}
    assert not policy.weights.any()


def test_what_the_critic_said_is_logged_beside_what_came() -> None:
    from sandlot.harness.loop import play_groups

    policy = TabularPolicy(key="obs_key", critic=True)
    (group,) = play_groups(policy, [(ENV().tasks.at(0), 2, "explore")], ROLLOUT)
    for member, rewards, values in zip(group.members, ((0.0, 1.0), (0.0, 0.0)), ((0.2, 0.4), (0.6, 0.8)), strict=True):
        member.turns = member.turns[:2]
        for turn, reward, value in zip(member.turns, rewards, values, strict=True):
            turn.reward, turn.call.value = reward, value
    recipe = small("ppo", lam=1.0, minibatches=1)
    metrics = Learner(policy, recipe).update([group], recipe.estimator([group]))
    # lambda 1: targets 1 1 | 0 0, variance .25; errors .8 .6 -.6 -.8, variance (.64 + .36 + .36 + .64) / 4 = .5
    expected = {"start": (0.2 + 0.6) / 2, "value": 0.5, "target": 0.5, "explained": 1 - 0.5 / 0.25}
    assert {name: metrics[f"critic/{name}"] for name in expected} == pytest.approx(expected)


def test_a_gradient_that_is_not_finite_is_dropped_and_counted() -> None:
    policy = TabularPolicy(key="obs_key")
    recipe = small("grpo")
    learner = Learner(policy, recipe)
    policy.weights.grad = torch.full_like(policy.weights, torch.nan)
    assert learner.updater.step()["skipped"] == 1.0
    assert not policy.weights.any()


def language_job(**changes: Any) -> Job:
    settings: dict[str, Any] = {
        "env_kwargs": {"task_types": [1], "max_receptacles": 6, "max_steps": 6, "source": "generated"},
        "recipe_kwargs": {"groups": 2, "group_size": 4, "lr": 1e-3},
        "tiny": {"d_model": 32, "layers": 2},
        "steps": 2,
        "demonstrations": 24,
        "demonstrator": "expert",
        "eval_tasks": 4,
        "history": {"window": 0, "brief": True},
        "threads": 1,
    }
    return Job(**{**settings, **changes})


def numbers(history: list[dict[str, float]]) -> list[dict[str, float]]:
    return [{key: value for key, value in metrics.items() if not key.startswith("time/")} for metrics in history]


def test_a_language_model_resumes_to_the_same_numbers_with_a_critic(tmp_path: Path) -> None:
    options = {"groups": 2, "group_size": 4, "lr": 1e-3, "minibatches": 2}
    corridor = {"env": "sandlot/Corridor-v0", "env_kwargs": {"rooms": 3}, "demonstrator": "oracle"}
    job = language_job(recipe="ppo", recipe_kwargs=options, **corridor)
    whole = run_job(job, RunFolder.create("whole", {}, root=tmp_path))
    assert whole.history[-1]["update/loss/value"] > 0
    half = RunFolder.create("half", {}, root=tmp_path)
    run_job(replace(job, steps=1), half)
    resumed = run_job(job, half, resume=True)
    assert numbers(resumed.history) == numbers(whole.history)
    assert resumed.results["after"] == whole.results["after"]


def test_the_whole_job_with_a_language_model(tmp_path: Path) -> None:
    pytest.importorskip("alfworld")
    job = language_job()
    folder = RunFolder.create("job", vars(job), root=tmp_path)
    outcome = run_job(job, folder)
    assert outcome.results["oracle"]["success"] == 1.0
    assert set(outcome.results) == {"random", "oracle", "before", "after"}
    assert max(m["update/logprob_gap"] for m in outcome.history) < 1e-3
    names = {path.name for path in folder.folder.iterdir()}
    assert {"config.toml", "metrics.jsonl", "curve.png", "report.html", "last.pt", MODEL, "calls"} <= names
    again = run_job(job, None, warm=folder.folder / "warm")
    assert numbers(again.history) == numbers(outcome.history)


def test_a_job_flushes_subnormals_only_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def flushed() -> bool:
        return (torch.tensor([1e-40]) * 1.0).item() == 0.0

    seen: list[bool] = []

    def stop(*_: Any) -> None:
        seen.append(flushed())
        raise InvalidArgument("enough")

    monkeypatch.setattr("sandlot.trainers.job.rollouts", stop)
    assert not flushed()
    with pytest.raises(InvalidArgument, match="enough"):
        run_job(Job(env="Corridor", model="tabular"), None)
    assert seen == [True] and not flushed()


def test_a_warm_start_needs_a_language_model() -> None:
    with pytest.raises(InvalidArgument, match="cannot be warm-started"):
        run_job(Job(env="sandlot/Corridor-v0", model="tabular", demonstrations=2, eval_tasks=2), None)
