"""What goes wrong in training, recognised from the metrics and said in plain words with what usually helps.

Every rule looks at the history (one dict of metrics per step, the newest last) and answers with one sentence or None.
The thresholds are ours, from the runs that this project made; they are meant to make a person look, not to stop a run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median

History = Sequence[dict[str, float]]
WINDOW = 5


def _recent(history: History, metric: str, n: int = WINDOW) -> list[float]:
    return [m[metric] for m in history[-n:] if metric in m]


def not_finite(history: History) -> str | None:
    """A gradient was dropped."""
    if history[-1].get("update/skipped", 0) > 0:
        return "a gradient was not finite and was dropped: lower lr, or look for a reward that is not a number"
    return None


def engines_disagree(history: History) -> str | None:
    """On fresh episodes the player's and the learner's log-probabilities must agree."""
    last = history[-1]
    fresh = last.get("rollout/staleness_max", 0) == 0
    if fresh and last.get("update/logprob_gap_mean", 0) > 0.05:
        return (
            f"the player's and the learner's log-probabilities differ by {last['update/logprob_gap_mean']:.2f} nats on "
            "average: masks, temperature or precision differ (an engine other than hf: set correction=truncate)"
        )
    return None


def too_old(history: History) -> str | None:
    """Few of the samples count."""
    if history[-1].get("update/ess", 1.0) < 0.5:
        return (
            f"the effective sample size is {history[-1]['update/ess']:.0%}: episodes are too old or another engine's; "
            "lower staleness, lr or epochs"
        )
    return None


def exploding_gradient(history: History) -> str | None:
    """The norm is far above what it was."""
    norms = [m["update/grad_norm"] for m in history if math.isfinite(m.get("update/grad_norm", math.nan))]
    before = [norm for norm in norms[-21:-1] if norm > 0]
    if len(before) >= WINDOW and norms[-1] > 20 * median(before):
        return f"the gradient's norm is {norms[-1]:.3g}, {norms[-1] / median(before):.0f} times its usual: lower lr"
    return None


def clipped_away(history: History) -> str | None:
    """Much of the batch has no gradient any more."""
    share = history[-1].get("update/clip/low", 0) + history[-1].get("update/clip/high", 0)
    if share > 0.3:
        return f"{share:.0%} of the units are clipped: fewer epochs, fewer minibatches or a lower lr"
    return None


def nothing_to_learn(history: History) -> str | None:
    """Groups whose members all did equally well."""
    shares = _recent(history, "rollout/mixed_groups")
    if len(shares) == WINDOW and max(shares) == 0:
        solved = history[-1].get("rollout/success", 0) > 0.5
        hint = (
            "the tasks are solved: take harder ones" if solved else "no task is ever solved: warm-start or easier tasks"
        )
        return f"no group had different returns in {WINDOW} steps; {hint}"
    return None


def no_exploration(history: History) -> str | None:
    """Entropy has fallen to almost nothing while there is still something to solve."""
    entropies = [m["update/entropy"] for m in history if "update/entropy" in m]
    unsolved = history[-1].get("rollout/success", 1) < 0.9
    if len(entropies) > WINDOW and unsolved and entropies[-1] < 0.05 * max(entropies[:WINDOW]):
        return "entropy has fallen to a twentieth: exploration is over; raise entropy_coef or clip_high, lower lr"
    return None


def far_from_reference(history: History) -> str | None:
    """The k3 estimate explodes on a peaked policy."""
    if history[-1].get("update/kl/ref_k3", 0) > 10:
        return (
            f"the divergence from the reference is {history[-1]['update/kl/ref_k3']:.3g} nats (k3): "
            "use kl=k2 or kl_in_reward=true, or a larger kl_coef"
        )
    return None


def collapse(history: History) -> str | None:
    """Success has fallen to less than half of its best."""
    success = [m["rollout/success"] for m in history if "rollout/success" in m]
    if len(success) < 2 * WINDOW:
        return None
    means = [sum(success[i : i + WINDOW]) / WINDOW for i in range(len(success) - WINDOW + 1)]
    if means[-1] < 0.5 * max(means) and max(means) - means[-1] > 0.1:
        return f"success fell from {max(means):.0%} to {means[-1]:.0%}: go back to the best checkpoint with a lower lr"
    return None


def hopeful_critic(history: History) -> str | None:
    """The critic promises what no episode returns: its targets feed on its own values."""
    starts, returns = _recent(history, "update/critic/start", 3), _recent(history, "rollout/return", 3)
    if len(starts) < 3 or len(returns) < 3:
        return None
    hoped, got = sum(starts) / 3, sum(returns) / 3
    if hoped - got > 0.25 * max(abs(hoped), abs(got)) and hoped - got > 0.2:
        return (
            f"the critic expects {hoped:.2f} of an episode, and episodes return {got:.2f}: lower gamma or lam, raise "
            "value_lr, and where episodes are cut set bootstrap=false"
        )
    return None


def many_void(history: History) -> str | None:
    """The infrastructure fails."""
    last = history[-1]
    total = last.get("rollout/episodes", 0) + last.get("rollout/void", 0)
    if total and last.get("rollout/void", 0) / total > 0.1:
        return (
            f"{last['rollout/void'] / total:.0%} of the episodes failed on every try: look at the environment's server"
        )
    return None


RULES: tuple[Callable[[History], str | None], ...] = (
    not_finite,
    engines_disagree,
    too_old,
    exploding_gradient,
    clipped_away,
    nothing_to_learn,
    no_exploration,
    far_from_reference,
    collapse,
    hopeful_critic,
    many_void,
)


class Alarms:
    """A watcher that tells each kind of trouble once, when it begins.

    Args:
        tell: called with (step, sentence).
    """

    def __init__(self, tell: Callable[[int, str], None]) -> None:
        self.tell = tell
        self.ringing: set[str] = set()

    def __call__(self, history: History) -> str | None:
        """Never a reason to stop."""
        for rule in RULES if history else ():
            sentence = rule(history)
            if sentence and rule.__name__ not in self.ringing:
                self.tell(len(history) - 1, sentence)
            (self.ringing.add if sentence else self.ringing.discard)(rule.__name__)
        return None
