"""Advantages from groups: GRPO, RLOO, REINFORCE++ and GAE over turns. Plain numpy, one class per method.

Every estimator returns `[group][member][turn] -> (units,)`. Members that are void get zeros and count in no statistic.
A set of equal values has exactly zero advantage, whatever the rounding of its mean.

Standard deviations use `ddof=1`, as the published code does (`torch.std`): returns [1, 0, 0, 1] become +-0.866
and not +-1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..envs.core.errors import InvalidArgument
from ..harness.records import Advantages, Group, StopReason, Trajectory

PerTurn = Sequence[Sequence[np.ndarray]]  # [group][member] -> (turns,)


def broadcast(groups: Sequence[Group], per_turn: PerTurn) -> list[list[list[np.ndarray]]]:
    """Gives every unit of a turn the turn's value; void members get zeros.

    Args:
        groups: the groups.
        per_turn: `[group][member] -> (turns,)`.
    """
    return [
        [
            [
                np.full(len(turn.call.logprobs), 0.0 if member.void else value, dtype=np.float64)
                for turn, value in zip(member.turns, values, strict=True)
            ]
            for member, values in zip(group.members, rows, strict=True)
        ]
        for group, rows in zip(groups, per_turn, strict=True)
    ]


def per_episode(groups: Sequence[Group], scores: Sequence[np.ndarray]) -> list[list[list[np.ndarray]]]:
    """Gives every unit of an episode the episode's value; `scores` is `[group] -> (members,)`."""
    return broadcast(
        groups,
        [
            [np.full(len(member.turns), score) for member, score in zip(group.members, row, strict=True)]
            for group, row in zip(groups, scores, strict=True)
        ],
    )


def kept(group: Group) -> np.ndarray:
    """(members,) bool: which members count, that is, are not void."""
    return np.array([not member.void for member in group.members], dtype=bool)


def returns_to_go(trajectory: Trajectory, gamma: float) -> np.ndarray:
    """(turns,) discounted sums of the rewards from each turn on: G_k = r_k + gamma G_{k+1}."""
    result, following = np.zeros(len(trajectory.turns)), 0.0
    for k in range(len(result) - 1, -1, -1):
        following = trajectory.turns[k].reward + gamma * following
        result[k] = following
    return result


def by_anchor(group: Group, anchor: str) -> dict[str, list[tuple[int, int]]]:
    """Where each anchor state of the group was visited: `{key: [(member, turn), ...]}`, void members left out.

    Args:
        group: one group; anchors of different groups are never compared.
        anchor: the key to compare: "obs_key" (same observation text) or "state_key" (same full state).
    """
    places: dict[str, list[tuple[int, int]]] = {}
    for i, member in enumerate(group.members):
        for k, turn in enumerate(() if member.void else member.turns):
            places.setdefault(turn.obs_key if anchor == "obs_key" else turn.state_key, []).append((i, k))
    return places


def spread(values: np.ndarray, *, ddof: int = 1, counts: np.ndarray | None = None) -> float:
    """The standard deviation of (n,) values; exactly 0 where all are equal. `counts`: how often each one counts."""
    if len(values) < 2 or np.ptp(values) == 0:
        return 0.0
    counts = np.ones(len(values)) if counts is None else counts
    deviations = values - np.average(values, weights=counts)
    return float(np.sqrt((counts * deviations**2).sum() / max(counts.sum() - ddof, 1)))


def normalise(
    values: np.ndarray, *, std: bool, eps: float = 1e-6, ddof: int = 1, counts: np.ndarray | None = None
) -> np.ndarray:
    """(values - mean) / (std + eps), or values - mean; exactly zeros where all values are equal.

    Args:
        values: (n,) numbers; n may be 0.
        std: whether to divide by the standard deviation.
        eps: added to the standard deviation.
        ddof: the variance is the squared deviations' sum / (number - ddof).
        counts: (n,) how often each value counts in mean and variance; None is once.
    """
    values = np.asarray(values, dtype=np.float64)
    if len(values) < 2 or np.ptp(values) == 0:
        return np.zeros(len(values))
    centred = values - np.average(values, weights=counts)
    return centred / (spread(values, ddof=ddof, counts=counts) + eps) if std else centred


def whitened(groups: Sequence[Group], per_turn: PerTurn, eps: float, ddof: int) -> PerTurn:
    """`per_turn` with mean 0 and standard deviation 1 over all units of the batch's members that are not void."""
    members = [member for group in groups for member in group.members]
    rows = [row for group in per_turn for row in group]
    counts = [[0 if m.void else len(turn.call.logprobs) for turn in m.turns] for m in members]
    flat = np.concatenate([np.zeros(0), *rows])
    weights = np.array([count for row in counts for count in row], dtype=np.float64)
    used = weights > 0
    flat[used] = normalise(flat[used], std=True, eps=eps, ddof=ddof, counts=weights[used])
    pieces = iter(np.split(flat, np.cumsum([len(row) for row in rows])[:-1]) if rows else ())
    return [[next(pieces) for _ in group] for group in per_turn]


def subtract_kl(groups: Sequence[Group], reference: Advantages, coef: float) -> None:
    """The KL penalty inside the reward: every turn's reward loses coef * sum over its units of (logp - reference).

    That sum is the k1 estimate of the divergence from the reference policy. Changes `turn.reward` in place.
    Source: arXiv 1909.08593.

    Args:
        groups: the groups.
        reference: `[group][member][turn] -> (units,)` log-probabilities under the reference policy.
        coef: the penalty's weight.
    """
    for group, members in zip(groups, reference, strict=True):
        for member, turns in zip(group.members, members, strict=True):
            for turn, logprobs in zip(member.turns, turns, strict=True):
                turn.reward -= coef * float(np.sum(turn.call.logprobs - logprobs, dtype=np.float64))


@dataclass(frozen=True)
class GRPO:
    """A_i = (R_i - mean) / (std + eps) over the group's returns, the same for every unit of the episode.

    `std=False` is Dr.GRPO's advantage. Source: arXiv 2402.03300 (GRPO), 2503.20783 (Dr.GRPO).
    """

    std: bool = True
    """Divide by the group's standard deviation. It blows small shaping terms up to +-1 in groups whose task reward is
    constant: use `std_of="score"` or `std=False` with shaped rewards."""
    eps: float = 1e-6
    ddof: int = 1
    """1 as in the published code, 0 for the population's standard deviation."""
    std_of: str = "reward"
    """"reward", or "score": divide by the standard deviation of the environment's own score, and give zeros to groups
    whose score is constant, so that shaping never decides alone."""
    count: str = "trajectory"
    """"trajectory": each member counts once in mean and standard deviation. "turn": each member counts once per turn,
    as in verl-agent's step rows, where long episodes weigh more."""

    def __post_init__(self) -> None:
        one_of("std_of", self.std_of, ("reward", "score"))
        one_of("count", self.count, ("trajectory", "turn"))

    def scores(self, group: Group) -> np.ndarray:
        """(members,) advantages of the episodes of one group; zeros for void members."""
        members = [member for member in group.members if not member.void]
        counts = np.array([len(member.turns) for member in members]) if self.count == "turn" else None
        returns = np.array([member.reward for member in members])
        result = np.zeros(len(group.members))
        if counts is not None and not counts.any():
            return result
        advantages = normalise(returns, std=False, counts=counts)
        if self.std:
            scores = [float(member.last_info["score"]) for member in members] if self.std_of == "score" else returns
            scale = spread(np.asarray(scores), ddof=self.ddof, counts=counts)
            advantages = advantages / (scale + self.eps) if scale else np.zeros(len(members))
        result[kept(group)] = advantages
        return result

    def __call__(self, groups: Sequence[Group]) -> Advantages:
        """Advantages of the groups."""
        return per_episode(groups, [self.scores(group) for group in groups])


def episode_and_steps(
    groups: Sequence[Group], episode: GRPO, steps: Callable[[Group], Sequence[np.ndarray]], omega: float
) -> list[list[list[np.ndarray]]]:
    """A_E + omega * A_S: the episode's advantage plus a credit of its own for every turn.

    Args:
        groups: the groups.
        episode: gives A_E.
        steps: gives A_S of one group, `[member] -> (turns,)`.
        omega: weight of the step credit.
    """
    return broadcast(
        groups,
        [
            [score + omega * row for score, row in zip(episode.scores(group), steps(group), strict=True)]
            for group in groups
        ],
    )


@dataclass(frozen=True)
class RLOO:
    """A_i = R_i - mean of the other members' returns = G/(G-1) (R_i - mean); a lone member gets 0.

    Source: arXiv 2402.14740.
    """

    def __call__(self, groups: Sequence[Group]) -> Advantages:
        """Advantages of the groups."""
        scores = [np.zeros(len(group.members)) for group in groups]
        for group, row in zip(groups, scores, strict=True):
            keep = kept(group)
            row[keep] = normalise(group.rewards[keep], std=False) * keep.sum() / max(keep.sum() - 1, 1)
        return per_episode(groups, scores)


@dataclass(frozen=True)
class ReinforcePlusPlus:
    """The return to go of each turn, whitened over all units of the batch: A_k = (G_k - mean) / (std + eps).

    G_k = r_k + gamma G_{k+1}. With `baseline`, the group's mean return is subtracted before whitening
    (REINFORCE++-baseline). The paper's KL penalty is part of the reward: `subtract_kl`. Source: arXiv 2501.03262.
    """

    baseline: bool = False
    gamma: float = 1.0
    """Discount per turn."""
    whiten: bool = True
    eps: float = 1e-6
    ddof: int = 1

    def __post_init__(self) -> None:
        in_unit_interval("gamma", self.gamma)

    def __call__(self, groups: Sequence[Group]) -> Advantages:
        """Advantages of the groups."""
        rows = [[returns_to_go(member, self.gamma) for member in group.members] for group in groups]
        if self.baseline:
            for group, members in zip(groups, rows, strict=True):
                starts = [go[0] if len(go) else 0.0 for go, keep in zip(members, kept(group), strict=True) if keep]
                # An equal return is centred to exactly 0, so that whitening cannot enlarge a rounding error.
                mean = (starts[0] if np.ptp(starts) == 0 else np.mean(starts)) if starts else 0.0
                members[:] = [go - mean for go in members]
        return broadcast(groups, whitened(groups, rows, self.eps, self.ddof) if self.whiten else rows)


def value_after(trajectory: Trajectory, bootstrap: bool) -> float:
    """The value of what comes after an episode's last turn, in reward: 0 where the environment ended the task.

    Where the episode was cut (step limit, deadline, context), it is 0 as well: whoever counts success within a number
    of steps wants the return within them, which is also what the group methods compare. With `bootstrap` it is
    `trajectory.metrics["bootstrap_value"]`, what the critic said of the state in which the episode was cut (0 where
    absent), as if the task went on. Then nothing but `gamma` < 1 grounds the values of those who neither fail nor
    succeed: with 1 a critic that calls every state equally good agrees with itself.
    Source: arXiv 1712.00378 (time limits that are part of the task, and those that are not).
    """
    if trajectory.stop is StopReason.TERMINATED or not bootstrap:
        return 0.0
    return trajectory.metrics.get("bootstrap_value", 0.0)


def check_gae(gamma: float, lam: float, bootstrap: bool) -> None:
    """Raises `InvalidArgument` where GAE's settings are out of range or do not go together."""
    in_unit_interval("gamma", gamma)
    in_unit_interval("lam", lam)
    if bootstrap and gamma == 1:
        raise InvalidArgument("bootstrap=True needs gamma below 1: without a discount nothing grounds the cut episodes")


@dataclass
class GAE:
    """Generalised advantage estimation over turns, from the values that the calls recorded.

    delta_k = r_k + gamma v_{k+1} - v_k,  A_k = delta_k + gamma lam A_{k+1},  return_k = A_k + v_k. What follows the
    last turn: `value_after`. Between turns there are no other steps: the tokens of observations never enter.
    Source: arXiv 1506.02438.
    """

    gamma: float = 1.0
    """Discount per turn."""
    lam: float = 0.95
    whiten: bool = True
    """Whiten the advantages (not the returns) over all units of the batch."""
    eps: float = 1e-6
    ddof: int = 1
    bootstrap: bool = False
    """Let episodes that were cut go on in value (`value_after`). Only with `gamma` < 1."""
    returns: list[list[np.ndarray]] = field(default_factory=list, init=False)
    """The critic's targets of the last call of the estimator: `[group][member] -> (turns,)`."""

    def __post_init__(self) -> None:
        check_gae(self.gamma, self.lam, self.bootstrap)

    def raw(self, trajectory: Trajectory) -> tuple[np.ndarray, np.ndarray]:
        """(turns,) advantages before whitening, and (turns,) returns; zeros for a void trajectory.

        Raises:
            InvalidArgument: a call has no value.
        """
        if trajectory.void:
            return np.zeros(len(trajectory.turns)), np.zeros(len(trajectory.turns))
        values = np.array([np.nan if call.value is None else call.value for call in trajectory.calls])
        if np.isnan(values).any():
            raise InvalidArgument(f"GAE needs a value for every call of {trajectory.id}: set Recipe(critic=True)")
        advantages, ahead, following = np.zeros(len(values)), 0.0, value_after(trajectory, self.bootstrap)
        for k in range(len(values) - 1, -1, -1):
            delta = trajectory.turns[k].reward + self.gamma * following - values[k]
            advantages[k] = ahead = delta + self.gamma * self.lam * ahead
            following = values[k]
        return advantages, advantages + values

    def __call__(self, groups: Sequence[Group]) -> Advantages:
        """Advantages of the groups; leaves the critic's targets in `returns`."""
        advantages: list[list[np.ndarray]] = []
        self.returns = []
        for group in groups:
            pairs = [self.raw(member) for member in group.members]
            advantages.append([advantage for advantage, _ in pairs])
            self.returns.append([target for _, target in pairs])
        return broadcast(groups, whitened(groups, advantages, self.eps, self.ddof) if self.whiten else advantages)


def in_unit_interval(name: str, value: float) -> None:
    """Raises `InvalidArgument` where `value` is outside [0, 1]."""
    if not 0 <= value <= 1:
        raise InvalidArgument(f"{name} must be in [0, 1], not {value!r}")


def one_of(name: str, value: str, known: Sequence[str]) -> None:
    """Raises `InvalidArgument` where `value` is not one of `known`."""
    if value not in known:
        raise InvalidArgument(f"{name} must be one of {', '.join(known)}, not {value!r}")
