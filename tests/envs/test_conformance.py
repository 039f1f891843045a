"""The conformance suite must be able to fail: each broken environment is caught by the check that is named for it."""

from __future__ import annotations

import itertools
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sandlot.envs.core import InvalidArgument, Outcome, Task
from sandlot.envs.core.conformance import CHECKS
from sandlot.envs.core.testing import ConformanceError, check_text_env
from sandlot.envs.toys.corridor import Corridor

_calls = itertools.count()


class Base(Corridor):
    __doc__ = Corridor.__doc__


class NoHeadings(Base):
    """An environment."""


class HiddenWarning(Base):
    metadata = {"render_modes": []}

    def reset(self, *, seed: int | None = 5, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        return super().reset(seed=seed, options=options)


class SplitIgnored(Base):
    def __init__(self, split: str = "train", **kwargs: Any) -> None:
        super().__init__("train", **kwargs)


class TaskForgotten(Base):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        return super().reset(seed=seed)


class CountingObservation(Base):
    def describe(self) -> str:
        return f"{super().describe()} {next(_calls)}"


class HashedObservation(Base):
    def describe(self) -> str:
        return f"{super().describe()} {hash('salt')}"


class WrongOracle(Base):
    def oracle(self) -> Iterator[str]:
        while True:
            yield self.verbs[0]


class FreeReward(Base):
    def refuse(self, reason: str) -> Outcome:
        return super().refuse(reason)._replace(reward=0.1)


class RefusalWins(Base):
    def _step(self, action: str) -> Outcome:
        return EasyWin.apply(self, action) if "sorry" in action else super()._step(action)  # type: ignore[arg-type]


class EasyWin(Base):
    def apply(self, action: str) -> Outcome:
        self.state = (self.rooms - 1,)
        return Outcome("Done.", 1.0, True)


class EchoWins(Base):
    def _step(self, action: str) -> Outcome:
        return EasyWin.apply(self, action) if action == self.describe() else super()._step(action)  # type: ignore[arg-type]


class EchoWinsSometimes(EchoWins):
    def _step(self, action: str) -> Outcome:  # in one task in sixteen: a mean score below 0.1
        first, second, *_ = self.task.params["signs"]
        return super()._step(action if (first == 0 and second < 4) or action in self.verbs else "")


class ExtraInfo(Base):
    def _info(self) -> dict[str, Any]:
        return {**super()._info(), "answer": self._way_on()}


class DeclaredInfo(Base):
    __doc__ = f"{Corridor.__doc__}".replace("`progress`:", "`sign`: the number of the sign. `progress`:")
    extra_info = ("sign",)

    def _extra_info(self) -> dict[str, str | int | float | bool | None]:
        return {"sign": self.state[0]}


class UndeclaredInfo(DeclaredInfo):
    __doc__ = DeclaredInfo.__doc__
    extra_info = ()


class UntoldInfo(DeclaredInfo):
    __doc__ = Corridor.__doc__


class BulkyInfo(DeclaredInfo):
    __doc__ = DeclaredInfo.__doc__

    def _extra_info(self) -> dict[str, Any]:
        return {"sign": [self.state[0]]}


class NumberSuccess(Base):
    def _success(self) -> bool:
        return int(super()._success())  # type: ignore[return-value]


class MovesOnGarbage(Base):
    def _step(self, action: str) -> Outcome:
        outcome = super()._step(action)
        if not outcome.valid:
            self.state = (1,)
        return outcome


class RaisesOnGarbage(Base):
    def _step(self, action: str) -> Outcome:
        return super()._step(action.split()[0])


class ListsTooMuch(Base):
    def _admissible(self) -> tuple[str, ...]:
        return () if self._ended else (*self.actions(), "fly")


class ActsLate(Base):
    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self._ended:
            self.state = (0,)
        return super().step(action)


class OwnLimit(Base):
    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, self._steps >= 5, info


class ForgetsInSnapshot(Base):
    def _load(self, state: tuple[Any, ...]) -> None:
        self.state = (0,)


class PoorKey(Base):
    def _state(self) -> str:
        return "always"


class NoisyHint(Base):
    def hint(self) -> str:
        self.np_random.random()
        return super().hint()


class ShownHint(Base):
    def describe(self) -> str:
        return f"{super().describe()} {self.hint()}"


class UnpicklableTask(Base):
    def start(self, task: Task) -> tuple[int]:
        task.params["signs_lock"] = threading.Lock()  # type: ignore[index]
        return super().start(task)


class SilentRender(Base):
    def render(self) -> str | None:
        return "nothing to see" if self.render_mode else None


class LeavesFile(Base):
    def start(self, task: Task) -> tuple[int]:
        self.scratch = tempfile.mkdtemp()
        return super().start(task)


class LeavesThread(Base):
    def start(self, task: Task) -> tuple[int]:
        threading.Thread(target=threading.Event().wait, args=(20,), daemon=True).start()
        return super().start(task)


class BadClose(Base):
    closed = False

    def close(self) -> None:
        assert not self.closed, "closed twice"
        self.closed = True


BROKEN = [
    (NoHeadings, "docstring_headings"),
    (HiddenWarning, "gymnasium_checker"),
    (SplitIgnored, "splits_are_disjoint"),
    (TaskForgotten, "task_ids_start_the_same_task"),
    (CountingObservation, "deterministic"),
    (HashedObservation, "deterministic_across_processes"),
    (WrongOracle, "oracle_solves"),
    (FreeReward, "doing_nothing_fails"),
    (RefusalWins, "doing_nothing_fails"),
    (EasyWin, "random_actions_fail"),
    (EchoWins, "echoing_fails"),
    (EchoWinsSometimes, "echoing_fails"),
    (ExtraInfo, "info_is_step_info"),
    (UndeclaredInfo, "info_is_step_info"),
    (UntoldInfo, "info_is_step_info"),
    (BulkyInfo, "info_is_step_info"),
    (NumberSuccess, "info_is_step_info"),
    (MovesOnGarbage, "invalid_actions_change_nothing"),
    (RaisesOnGarbage, "invalid_actions_change_nothing"),
    (ListsTooMuch, "admissible_actions_are_valid"),
    (ActsLate, "late_actions_are_refused"),
    (OwnLimit, "step_limit_truncates"),
    (ForgetsInSnapshot, "snapshots_restore"),
    (PoorKey, "equal_keys_mean_equal_states"),
    (NoisyHint, "privileged_calls_leave_no_trace"),
    (ShownHint, "privileged_calls_leave_no_trace"),
    (UnpicklableTask, "everything_pickles"),
    (SilentRender, "render_returns_text"),
    (LeavesFile, "close_leaves_nothing_behind"),
    (LeavesThread, "close_leaves_nothing_behind"),
    (BadClose, "close_leaves_nothing_behind"),
    (CountingObservation, "group_starts_are_identical"),
]


@pytest.mark.parametrize("sound", [Base, DeclaredInfo])
def test_a_sound_class_passes_without_registration(sound: type[Corridor]) -> None:
    report = check_text_env(sound, max_episode_steps=12, skip=["vector_async"])
    assert report.ok
    assert not report.skipped


@pytest.mark.filterwarnings("ignore:.*Calling `env.close..` on the closed environment")
@pytest.mark.parametrize(("broken", "check"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_broken_environment_is_caught(broken: type[Corridor], check: str) -> None:
    report = check_text_env(broken, max_episode_steps=12, only=[check], raise_on_failure=False)
    assert list(report.failed) == [check], report


def test_every_check_can_fail() -> None:
    # The other three compare Gymnasium's own machinery with single environments: no small mutation reaches them.
    untested = {check.__name__ for check in CHECKS} - {check for _, check in BROKEN}
    assert untested == {"spec_round_trip", "vector_sync", "vector_async"}


def test_a_local_class_is_checked_in_this_process_only() -> None:
    class Local(Corridor):
        __doc__ = Corridor.__doc__

    report = check_text_env(Local, max_episode_steps=12, only=["deterministic_across_processes", "spec_round_trip"])
    assert list(report.skipped) == ["deterministic_across_processes"]
    assert report.passed == ["spec_round_trip"]


def test_failures_are_collected_and_named() -> None:
    with pytest.raises(ConformanceError, match="FAILED docstring_headings: headings are") as caught:
        check_text_env(NoHeadings, max_episode_steps=12, only=["docstring_headings", "render_returns_text"])
    assert "1 passed, 1 failed" in str(caught.value)


def test_unknown_names_are_user_errors() -> None:
    with pytest.raises(InvalidArgument, match="no check 'nothing'"):
        check_text_env("Corridor", only=["nothing"])
    with pytest.raises(InvalidArgument, match="did you mean sandlot/Corridor-v0"):
        check_text_env("Corridr")
