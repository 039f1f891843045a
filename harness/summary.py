"""Numbers that describe a set of trajectories."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from ..envs.core.text_env import TextEnv
from .records import StopReason, Trajectory


def wilson(successes: float, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson score interval of a proportion (Wilson 1927); (0, 1) for n = 0."""
    if n == 0:
        return 0.0, 1.0
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def paired(pairs: Sequence[tuple[bool, bool]], z: float = 1.96) -> dict[str, float]:
    """How success changed on the same tasks, with a 95 % interval that knows that they are the same.

    Bonett and Price's adjusted interval for paired proportions (2012, doi 10.3102/1076998611411915): with b tasks won
    and c lost of n, p = (b + 1) / (n + 2), q = (c + 1) / (n + 2): p - q -+ z sqrt((p + q - (p - q)^2) / (n + 2)).

    Args:
        pairs: per task, success before and after.
        z: quantile of the normal distribution.

    Returns:
        `gain` (the difference of the shares), `gain_low`, `gain_high`, `won`, `lost` and `pairs`.
    """
    n, won, lost = len(pairs), pairs.count((False, True)), pairs.count((True, False))
    p, q = (won + 1) / (n + 2), (lost + 1) / (n + 2)
    half = z * math.sqrt((p + q - (p - q) ** 2) / (n + 2))
    gain = (won - lost) / n if n else float("nan")
    counts = {"won": float(won), "lost": float(lost), "pairs": float(n)}
    return {"gain": gain, "gain_low": max(-1.0, p - q - half), "gain_high": min(1.0, p - q + half), **counts}


def summarise(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Means over the trajectories that are not void.

    Returns:
        `success`, its 95 % Wilson bounds `success_low` and `success_high`, `score`, `return`, `turns`, `invalid` (share
        of turns whose action was refused), `episodes`, `void`, and `stop/<reason>` shares.
    """
    kept = [trajectory for trajectory in trajectories if not trajectory.void]
    n, turns = len(kept), sum(len(trajectory.turns) for trajectory in kept)
    successes = sum(trajectory.success for trajectory in kept)
    low, high = wilson(successes, n)
    stops = Counter(trajectory.stop for trajectory in kept)
    per = max(n, 1)
    return {
        "success": successes / n if n else float("nan"),
        "success_low": low,
        "success_high": high,
        "score": sum(float(trajectory.last_info.get("score", 0.0)) for trajectory in kept) / per,
        "return": sum(trajectory.reward for trajectory in kept) / per,
        "turns": turns / per,
        "invalid": sum(not turn.valid for trajectory in kept for turn in trajectory.turns) / max(turns, 1),
        "episodes": float(n),
        "void": float(len(trajectories) - n),
        **{f"stop/{reason}": stops[reason] / per for reason in StopReason if reason is not StopReason.FAULT},
    }


def by_group(trajectories: Sequence[Trajectory], kind: type[TextEnv]) -> dict[str, dict[str, float]]:
    """Results for each value of the environment's `breakdown`, and for "all"; void trajectories are left out.

    Args:
        trajectories: episodes of one environment.
        kind: its class, which says what is added up (`TextEnv.tallies`).

    Returns:
        Value -> `episodes`, `success`, `score`, `turns`, `invalid`, and the tallies' ratios of sums, NaN where the
        denominator is 0. Empty where the environment declares no breakdown.
    """
    if kind.breakdown is None:
        return {}
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        if not trajectory.void:
            groups.setdefault(str(trajectory.last_info.get(kind.breakdown)), []).append(trajectory)
    named = {name: groups[name] for name in sorted(groups)}
    kept = [trajectory for group in named.values() for trajectory in group]
    return {name: _row(group, kind) for name, group in {**named, "all": kept}.items() if group}


def _row(group: Sequence[Trajectory], kind: type[TextEnv]) -> dict[str, float]:
    numbers = summarise(group)
    row = {name: numbers[name] for name in ("episodes", "success", "score", "turns", "invalid")}
    sums: dict[str, tuple[float, float]] = {}
    for trajectory in group:
        for name, (above, below) in kind.tallies(trajectory.last_info).items():
            a, b = sums.get(name, (0.0, 0.0))
            sums[name] = a + above, b + below
    return row | {name: above / below if below else float("nan") for name, (above, below) in sums.items()}
