"""Results by group: sums are divided, never ratios averaged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from sandlot.envs.core.text_env import TextEnv
from sandlot.envs.toys.corridor import Corridor
from sandlot.harness.records import Call, Context, StopReason, Task, Trajectory, Turn
from sandlot.harness.summary import by_group, paired


class Asking(Corridor):
    """Has a breakdown."""

    breakdown = "family"

    @classmethod
    def tallies(cls, info: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
        """Precision, where questions were counted."""
        return {"precision": (info["right"], info["asked"])} if "asked" in info else {}


def episode(family: str, stop: StopReason = StopReason.TERMINATED, **info: Any) -> Trajectory:
    told = {"family": family, "valid": True, "success": False, "score": 0.0, **info}
    call = Call("c", Context(()), "x", np.zeros(1, np.float32))
    return Trajectory("t", "env", Task("t", "test"), "", {}, [Turn(call, "x", "", 0.0, told, "", "")], stop)


def test_sums_are_divided() -> None:
    """a: 1 of 1 and 1 of 4 right questions are 2 / 5 = 0.4, not the mean of 1 and 0.25; all: 2 / 7."""
    rows = by_group(
        [
            episode("b", right=0, asked=2, valid=False),
            episode("a", right=1, asked=1, success=True, score=1.0),
            episode("a", right=1, asked=4),
            episode("c", right=0, asked=0),
            episode("a"),
            episode("a", StopReason.FAULT, right=9, asked=9),
        ],
        Asking,
    )
    assert list(rows) == ["a", "b", "c", "all"]
    assert rows["a"] == {
        **{"episodes": 3.0, "success": pytest.approx(1 / 3), "score": pytest.approx(1 / 3)},
        **{"turns": 1.0, "invalid": 0.0, "precision": 0.4},
    }
    assert rows["b"]["invalid"] == 1.0 and rows["b"]["precision"] == 0.0 and math.isnan(rows["c"]["precision"])
    assert rows["all"]["precision"] == pytest.approx(2 / 7) and rows["all"]["episodes"] == 5


def test_environments_without_a_breakdown_have_no_groups() -> None:
    assert TextEnv.breakdown is None and by_group([episode("a")], Corridor) == {} == by_group([], Asking)


def test_paired_differences() -> None:
    """10 tasks, 4 won, 1 lost, 2 solved both times, 3 never: gain 3 / 10.

    p = 5 / 12, q = 2 / 12: p - q = 0.25, half = 1.96 sqrt((7 / 12 - 0.0625) / 12) = 1.96 sqrt(0.0434028) = 0.408331.
    """
    pairs = [(False, True)] * 4 + [(True, False)] + [(True, True)] * 2 + [(False, False)] * 3
    found = paired(pairs)
    assert (found["gain"], found["won"], found["lost"], found["pairs"]) == (pytest.approx(0.3), 4, 1, 10)
    assert found["gain_low"] == pytest.approx(0.25 - 0.408331, abs=1e-5)
    assert found["gain_high"] == pytest.approx(0.25 + 0.408331, abs=1e-5)
    swapped = paired([(after, before) for before, after in pairs])
    assert swapped["gain_high"] == pytest.approx(-found["gain_low"]) and swapped["gain"] == -found["gain"]
    assert math.isnan(paired([])["gain"])
