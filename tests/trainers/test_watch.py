"""Early stop, the best checkpoint, trackers and alarms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sandlot.envs.core.errors import InvalidArgument, MissingExtra
from sandlot.harness.loop import EnvMaker, Rollout
from sandlot.harness.policies.tabular import TabularPolicy
from sandlot.harness.runs import RunFolder
from sandlot.trainers.alarms import RULES, Alarms
from sandlot.trainers.job import Job, run_job
from sandlot.trainers.loop import Schedule, train
from sandlot.trainers.methods import make_recipe
from sandlot.trainers.settings import Tiny
from sandlot.trainers.watch import Best, EarlyStop, trackers


def evaluations(*values: float) -> list[dict[str, float]]:
    return [{"eval/success": value} for value in values]


@pytest.mark.parametrize(
    ("values", "stops"),
    [
        ((0.1, 0.5, 0.4), False),
        ((0.1, 0.5, 0.4, 0.5), True),  # as good is not better
        ((0.1, 0.5, 0.4, 0.6), False),
        ((0.5, float("nan"), 0.4, 0.3), True),
        ((), False),
    ],
)
def test_early_stop_counts_evaluations_since_the_best(values: tuple[float, ...], stops: bool) -> None:
    assert bool(EarlyStop(2)(evaluations(*values))) is stops


def test_early_stop_waits_for_an_evaluation() -> None:
    history = [*evaluations(0.5, 0.4, 0.3), {"rollout/success": 0.1}]
    assert EarlyStop(2)(history) is None
    assert EarlyStop(2)(history[:3]) == "eval/success has not risen above 0.500 in 2 evaluations"
    assert EarlyStop(2, min_delta=0.2)(evaluations(0.5, 0.6, 0.65))
    with pytest.raises(InvalidArgument, match="patience"):
        EarlyStop(0)


class Saved:
    def __init__(self) -> None:
        self.times = 0

    def save(self, folder: Path) -> None:
        self.times += 1


def test_the_best_is_saved_when_it_is_better() -> None:
    policy = Saved()
    best = Best(policy, Path("unused"))
    history: list[dict[str, float]] = []
    for value, times in ((0.2, 1), (0.1, 1), (0.2, 1), (0.3, 2)):
        history += evaluations(value)
        best(history)
        best([*history, {"rollout/success": 1.0}])  # a step without an evaluation
        assert policy.times == times


def test_a_watcher_ends_the_run_and_every_watcher_is_asked(tmp_path: Path) -> None:
    env = EnvMaker("sandlot/Corridor-v0", {"rooms": 3})
    seen: list[int] = []

    def stop(history: Any) -> str | None:
        return "enough" if len(history) == 3 else None

    history = train(
        make_recipe("grpo", groups=2, group_size=2),
        TabularPolicy(),
        Rollout(env),
        env().tasks,
        Schedule(steps=9),
        watchers=[stop, lambda history: seen.append(len(history))],  # type: ignore[func-returns-value]
    )
    assert len(history) == 3 and seen == [1, 2, 3]


def test_tensorboard_has_every_metric(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed (extra: tensorboard)")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (writer,) = trackers(["tensorboard"], tmp_path, {})
    history: list[dict[str, float]] = []
    for value in (0.25, 0.5):
        history.append({"rollout/success": value, "update/lr": float("nan")})
        writer(history)
    found = EventAccumulator(str(tmp_path / "tensorboard"))
    found.Reload()
    assert [(e.step, e.value) for e in found.Scalars("rollout/success")] == [(0, 0.25), (1, 0.5)]
    assert found.Tags()["scalars"] == ["rollout/success"]


def test_unknown_trackers_and_missing_packages_are_clear(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="tracker is one of"):
        trackers(["mlflow"], tmp_path, {})
    try:
        import wandb  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        with pytest.raises(MissingExtra, match=r"sandlot\[wandb\]"):
            trackers(["wandb"], tmp_path, {})
    with pytest.raises(InvalidArgument, match="eval_every"):
        run_job(Job(env="sandlot/Corridor-v0", model="tabular", early_stop=2), None)


def test_a_job_keeps_its_best_and_stops_early(tmp_path: Path) -> None:
    job = Job(
        env="sandlot/Corridor-v0",
        env_kwargs={"rooms": 3},
        model="tiny",
        tiny=Tiny(d_model=16, layers=1),
        steps=30,
        eval_tasks=4,
        eval_every=1,
        early_stop=2,
        keep_best=True,
        threads=1,
        recipe_kwargs={"groups": 1, "group_size": 2, "lr": 0.0},
    )
    run = RunFolder.create("best", vars(job), root=tmp_path)
    outcome = run_job(job, run)
    assert len([m for m in outcome.history if "rollout/success" in m]) == 2  # nothing gets better at lr 0
    assert (run.folder / "best" / "config.json").is_file()


STEADY = {"rollout/success": 0.5, "rollout/episodes": 64.0, "rollout/void": 0.0, "rollout/mixed_groups": 0.5}
STEADY |= {"update/grad_norm": 1.0, "update/entropy": 1.0, "update/ess": 1.0, "update/logprob_gap_mean": 1e-6}
STEADY |= {"rollout/return": 0.5, "update/critic/start": 0.6}
STEADY |= {"update/clip/low": 0.01, "update/clip/high": 0.01, "update/skipped": 0.0, "rollout/staleness_max": 0.0}

TROUBLE: dict[str, list[dict[str, float]]] = {
    "not_finite": [{**STEADY, "update/skipped": 0.25}],
    "engines_disagree": [{**STEADY, "update/logprob_gap_mean": 0.2}],
    "too_old": [{**STEADY, "update/ess": 0.3, "rollout/staleness_max": 3.0}],
    "exploding_gradient": [*[STEADY] * 8, {**STEADY, "update/grad_norm": 50.0}],
    "clipped_away": [{**STEADY, "update/clip/low": 0.2, "update/clip/high": 0.2}],
    "nothing_to_learn": [{**STEADY, "rollout/mixed_groups": 0.0}] * 5,
    "no_exploration": [*[STEADY] * 5, {**STEADY, "update/entropy": 0.01}],
    "far_from_reference": [{**STEADY, "update/kl/ref_k3": 74.0}],
    "collapse": [*[STEADY] * 5, *[{**STEADY, "rollout/success": 0.1}] * 5],
    "hopeful_critic": [{**STEADY, "update/critic/start": 1.05}] * 3,
    "many_void": [{**STEADY, "rollout/void": 32.0}],
}


def test_every_alarm_rings_for_its_own_trouble_only() -> None:
    assert set(TROUBLE) == {rule.__name__ for rule in RULES}
    for name, history in TROUBLE.items():
        ringing = {rule.__name__ for rule in RULES if rule(history)}
        assert ringing == {name}
    assert not any(rule([STEADY] * 30) for rule in RULES)
    assert not any(rule([{}]) for rule in RULES)


def test_an_alarm_is_told_once_until_it_is_over() -> None:
    told: list[tuple[int, str]] = []
    alarms = Alarms(lambda step, text: told.append((step, text)))
    history: list[dict[str, float]] = []
    for skipped in (0, 1, 1, 0, 1):
        history.append({"update/skipped": float(skipped)})
        alarms(history)
    assert [step for step, _ in told] == [1, 4]
    alarms([])


def test_a_healthy_run_rings_nothing(tmp_path: Path) -> None:
    job = Job(env="sandlot/Corridor-v0", model="tabular", steps=12, eval_tasks=4, recipe_kwargs={"lr": 0.3})
    run = RunFolder.create("quiet", vars(job), root=tmp_path)
    run_job(job, run)
    assert not (run.folder / "alarms.log").exists()
