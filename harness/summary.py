"""Numbers that describe a set of trajectories."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from .records import StopReason, Trajectory


def wilson(successes: float, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson score interval of a proportion (Wilson 1927); (0, 1) for n = 0."""
    if n == 0:
        return 0.0, 1.0
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, centre - half), min(1.0, centre + half)


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
