from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs.core.errors import InvalidArgument
from sandlot.harness.records import StopReason
from sandlot.trainers.estimators import (
    GAE,
    GRPO,
    RLOO,
    ReinforcePlusPlus,
    broadcast,
    normalise,
    per_episode,
    returns_to_go,
    subtract_kl,
)
from sandlot.trainers.token_gae import TokenGAE

few = settings(max_examples=40, deadline=None)  # a busy machine is no failure

TIGHT = {"rel": 0, "abs": 1e-9}
GROUP_RELATIVE = [GRPO(), GRPO(std=False), RLOO(), ReinforcePlusPlus(baseline=True, whiten=False)]
ALL = [*GROUP_RELATIVE, ReinforcePlusPlus(), ReinforcePlusPlus(baseline=True)]
rewards = st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0, -0.3]), min_size=1, max_size=6)


def flat(rows: list[list[float]]) -> list[float]:
    return list(chain.from_iterable(rows))


def test_grpo_divides_by_the_sample_standard_deviation(returns, first):
    group = returns(1, 0, 0, 1)
    # mean 1/2, squared deviations 4 * 1/4 = 1, ddof 1: sqrt(1/3) = .57735; .5 / .57735 = .8660
    expected = [[0.8660254], [-0.8660254], [-0.8660254], [0.8660254]]
    assert np.allclose(first(GRPO()([group])[0]), expected, atol=1e-5)
    # ddof 0: sqrt(1/4) = .5, so +-1
    assert np.allclose(first(GRPO(ddof=0)([group])[0]), [[1], [-1], [-1], [1]], atol=1e-5)
    assert first(GRPO(std=False)([group])[0]) == [[0.5], [-0.5], [-0.5], [0.5]]


def test_rloo_is_the_return_less_the_mean_of_the_others(returns, first):
    # [3, 0, 0]: 3 - 0 = 3; 0 - 3/2 = -1.5
    assert np.allclose(first(RLOO()([returns(3, 0, 0)])[0]), [[3], [-1.5], [-1.5]])
    assert first(RLOO()([returns(3)])[0]) == [[0]]


def test_every_unit_of_every_turn_gets_the_episodes_advantage(episode, group):
    played = group(episode(("s", "a", 0, 3), ("t", "b", 1, 2)), episode(("s", "a", 0, 1)))
    (won, lost), *_ = RLOO()([played])
    assert [turn.tolist() for turn in won] == [[1, 1, 1], [1, 1]]
    assert [turn.tolist() for turn in lost] == [[-1]]


def test_counting_turns_weighs_long_episodes_more_as_verl_agent_does(episode, group, first):
    played = group(episode(("a", "x", 0), ("b", "x", 1)), episode(("a", "x", 0), ("c", "x", 0), ("d", "x", 0)))
    # rows 1 1 0 0 0: mean .4 (each trajectory once: .5)
    assert flat(first(GRPO(std=False, count="turn")([played])[0])) == pytest.approx([0.6] * 2 + [-0.4] * 3)
    assert flat(first(GRPO(std=False)([played])[0])) == pytest.approx([0.5] * 2 + [-0.5] * 3)
    # variance with ddof 1: (2 * .36 + 3 * .16) / 4 = .3, sqrt = .5477; .6 / .5477 = 1.0954, .4 / .5477 = .7303
    counted = flat(first(GRPO(count="turn")([played])[0]))
    assert counted == pytest.approx([1.09545] * 2 + [-0.73030] * 3, abs=1e-4)


def test_the_score_decides_the_scale_where_rewards_are_shaped(episode, group, first):
    failed = group(episode(("a", "x", -0.02), score=0.0), episode(("a", "y", 0.0), score=0.0))
    # The two differ only in a penalty of .02, which the returns' own deviation, .01414, blows up to .707.
    assert first(GRPO()([failed])[0])[0][0] == pytest.approx(-0.7071, abs=1e-3)
    assert first(GRPO(std_of="score")([failed])[0]) == [[0], [0]]
    mixed = group(episode(("a", "x", 0.98), score=1.0), episode(("a", "y", 0.0), score=0.0))
    # centred returns +-.49, the scores' deviation sqrt(2 * .25) = .7071: +-.693
    assert np.allclose(first(GRPO(std_of="score")([mixed])[0]), [[0.69296], [-0.69296]], atol=1e-4)


def test_returns_to_go_are_discounted_per_turn(episode):
    played = episode(("a", "x", 1), ("b", "x", 0), ("c", "x", 4))
    # 4; 0 + .5 * 4 = 2; 1 + .5 * 2 = 2
    assert returns_to_go(played, 0.5).tolist() == [2, 2, 4]


def test_reinforcepp_whitens_over_the_units_of_the_batch(episode, group, first):
    # One unit with return 1 and three units with return 0: mean .25, ddof 1 variance (.5625 + 3 * .0625) / 3 = .25
    batch = [group(episode(("a", "x", 1, 1))), group(episode(("b", "x", 0, 3)))]
    advantages = ReinforcePlusPlus()(batch)
    assert first(advantages[0])[0][0] == pytest.approx(1.5, abs=1e-4)
    assert np.allclose(advantages[1][0][0], [-0.5] * 3, atol=1e-4)


def test_reinforcepp_baseline_subtracts_the_groups_mean_first(returns, first):
    # group [1, 0] -> +-.5, group [5, 1] -> +-2; whitening: mean 0, variance (.5 + 8) / 3 = 2.8333, deviation 1.68325
    batch = [returns(1, 0), returns(5, 1)]
    advantages = ReinforcePlusPlus(baseline=True)(batch)
    assert np.allclose(first(advantages[0]), [[0.29704], [-0.29704]], atol=1e-4)
    assert np.allclose(first(advantages[1]), [[1.18818], [-1.18818]], atol=1e-4)


def test_reinforcepp_gives_each_turn_its_own_return_to_go(episode, group, first):
    played = group(episode(("a", "x", 1), ("b", "x", 2)))
    assert first(ReinforcePlusPlus(whiten=False, gamma=0.5)([played])[0]) == [[2, 2]]


def test_gae_by_hand(episode, group):
    # v = .2 .4 .6, r = 0 0 1, gamma 1, lam .95, ended: delta = .2 .2 .4
    # A_3 = .4; A_2 = .2 + .95 * .4 = .58; A_1 = .2 + .95 * .58 = .751; returns .951 .98 1
    played = episode(("a", "x", 0, 1, 0.2), ("b", "x", 0, 1, 0.4), ("c", "x", 1, 1, 0.6))
    estimator = GAE(whiten=False)
    advantages = estimator([group(played)])[0][0]
    assert np.concatenate(advantages) == pytest.approx([0.751, 0.58, 0.4], **TIGHT)
    assert estimator.returns[0][0] == pytest.approx([0.951, 0.98, 1.0], **TIGHT)


def test_gae_bootstraps_a_cut_episode_only_where_it_is_asked_to(episode, group):
    step = ("a", "x", 1, 1, 0.5)
    cut = episode(step, stop=StopReason.STEP_LIMIT, bootstrap=2.0)
    ended = episode(step, stop=StopReason.TERMINATED, bootstrap=2.0)
    unknown = episode(step, stop=StopReason.DEADLINE)
    # The return within the limit counts: 1 - .5 = .5 for all
    estimator = GAE(gamma=0.9, whiten=False)
    assert [turns[0][0] for turns in estimator([group(cut, ended, unknown)])[0]] == pytest.approx([0.5] * 3, **TIGHT)
    estimator = GAE(gamma=0.9, whiten=False, bootstrap=True)
    # 1 + .9 * 2 - .5 = 2.3; 1 - .5 = .5; without a value after the cut, as ended
    advantages = estimator([group(cut, ended, unknown)])[0]
    assert [turns[0][0] for turns in advantages] == pytest.approx([2.3, 0.5, 0.5], **TIGHT)
    assert [row[0] for row in estimator.returns[0]] == pytest.approx([2.8, 1.0, 1.0], **TIGHT)


def test_a_failed_episode_is_worse_than_the_critic_hoped(episode, group):
    # v = .8 .8, no reward, cut by the step limit where the critic still says .8. delta = 0, -.8;
    # A_2 = -.8, A_1 = 0 + .95 * -.8 = -.76; targets .04 and 0. (Bootstrapped, every delta would be 0: nothing learned.)
    failed = episode(("a", "x", 0, 1, 0.8), ("b", "x", 0, 1, 0.8), stop=StopReason.STEP_LIMIT, bootstrap=0.8)
    estimator = GAE(whiten=False)
    advantages = estimator([group(failed)])[0][0]
    assert np.concatenate(advantages) == pytest.approx([-0.76, -0.8], **TIGHT)
    assert estimator.returns[0][0] == pytest.approx([0.04, 0.0], **TIGHT)


@settings(max_examples=10, deadline=None)
@given(
    hopes=st.lists(st.floats(-2, 2), min_size=3, max_size=3),
    won=st.integers(1, 4),
    lost=st.integers(1, 4),
    lam=st.floats(0, 0.95),
)
def test_a_critic_that_fits_its_targets_learns_the_success_rate(hopes, won, lost, lam, episode, group):
    """From any start, without a discount: start -> goal (1) or start -> maze -> maze, cut by the step limit.

    This is what once broke PPO on ALFWorld: bootstrapped at the limit, the maze was worth what the critic said it was
    worth, and a success no better than a failure.
    """
    start, goal, maze = hopes
    advantages: Sequence[Sequence[np.ndarray]] = []
    for _ in range(100):
        success = episode(("start", "x", 0.0, 1, start), ("goal", "x", 1.0, 1, goal))
        failure = episode(
            ("start", "x", 0.0, 1, start),
            ("maze", "x", 0.0, 1, maze),
            ("maze", "x", 0.0, 1, maze),
            stop=StopReason.STEP_LIMIT,
            bootstrap=maze,
        )
        estimator = GAE(lam=lam, whiten=False)
        advantages = estimator([group(*[success] * won, *[failure] * lost)])[0]
        good, bad = estimator.returns[0][0], estimator.returns[0][-1]
        start = (won * good[0] + lost * bad[0]) / (won + lost)
        goal, maze = good[1], (bad[1] + bad[2]) / 2
    rate = won / (won + lost)
    assert [start, goal, maze] == pytest.approx([rate, 1, 0], abs=1e-6)
    # and the turn that decides is credited with the difference
    assert [advantages[0][0][0], advantages[-1][0][0]] == pytest.approx([1 - rate, -rate], abs=1e-6)


def test_gae_extremes_are_the_td_error_and_the_return(episode, group, first):
    played = group(episode(("a", "x", 1, 1, 0.3), ("b", "x", 2, 1, 0.7)))
    # lam 0: 1 + .7 - .3, 2 - .7; lam 1: 3 - .3, 2 - .7
    assert np.allclose(first(GAE(lam=0, whiten=False)([played])[0]), [[1.4, 1.3]])
    assert np.allclose(first(GAE(lam=1, whiten=False)([played])[0]), [[2.7, 1.3]])


def test_gae_whitens_advantages_but_not_returns(episode, group):
    played = [group(episode(("a", "x", 1, 2, 0.0)), episode(("a", "x", 0, 1, 0.0)))]
    estimator = GAE()
    (won, lost), *_ = estimator(played)
    # units 1 1 0: mean 2/3, ddof 1 variance (2/9 + 4/9) / 2 = 1/3, deviation .57735: +.57735, -1.1547
    assert np.allclose(won[0], [0.57735] * 2, atol=1e-4)
    assert np.allclose(lost[0], [-1.15470], atol=1e-4)
    assert [row.tolist() for row in estimator.returns[0]] == [[1.0], [0.0]]


def test_gae_without_a_critic_is_refused(episode, group):
    with pytest.raises(InvalidArgument, match="critic=True"):
        GAE()([group(episode(("a", "x", 1)))])


@pytest.mark.parametrize(
    "make",
    [
        lambda: GAE(gamma=1.5),
        lambda: GAE(lam=-1),
        lambda: TokenGAE(gamma=1.5),
        lambda: ReinforcePlusPlus(gamma=2),
        lambda: GRPO(std_of="luck"),
        lambda: GRPO(count="token"),
    ],
)
def test_settings_outside_their_range_are_refused(make):
    with pytest.raises(InvalidArgument, match="must be"):
        make()


@pytest.mark.parametrize("kind", [GAE, TokenGAE])
def test_cut_episodes_cannot_go_on_in_value_without_a_discount(kind):
    with pytest.raises(InvalidArgument, match="gamma below 1"):
        kind(bootstrap=True)
    assert kind(bootstrap=True, gamma=0.99).bootstrap


def test_the_kl_penalty_enters_the_reward_turn_by_turn(episode, group):
    played = group(episode(("a", "x", 0, 2), ("b", "x", 1, 1)))
    # behaviour log-probs are 0; reference -1 -2 | -.5: penalties .1 * 3 and .1 * .5
    subtract_kl([played], [[[np.array([-1.0, -2.0]), np.array([-0.5])]]], 0.1)
    assert [turn.reward for turn in played.members[0].turns] == pytest.approx([-0.3, 0.95])


def test_helpers_broadcast_to_units(episode, group):
    played = [group(episode(("a", "x", 0, 2), ("b", "x", 0, 1)), episode(("a", "x", 0, 3)))]
    per_turn = broadcast(played, [[np.array([1.0, 2.0]), np.array([3.0])]])
    assert [[turn.tolist() for turn in member] for member in per_turn[0]] == [[[1, 1], [2]], [[3, 3, 3]]]
    whole = per_episode(played, [np.array([4.0, 5.0])])
    assert [[turn.tolist() for turn in member] for member in whole[0]] == [[[4, 4], [4]], [[5, 5, 5]]]
    with pytest.raises(ValueError):
        broadcast(played, [[np.array([1.0]), np.array([3.0])]])


@pytest.mark.parametrize("estimator", ALL, ids=repr)
def test_an_episode_without_turns_counts_and_gets_nothing(estimator, episode, group):
    advantages = estimator([group(episode(("a", "x", 1)), episode())])
    assert advantages[0][1] == []
    assert advantages[0][0][0][0] > 0 or isinstance(estimator, ReinforcePlusPlus)  # whitening one unit gives 0


@pytest.mark.parametrize("estimator", [*ALL, GAE()], ids=repr)
def test_nothing_to_learn_from_is_no_error(estimator, episode, group):
    void = episode(("a", "x", 1), stop=StopReason.FAULT)
    assert estimator([]) == []
    assert estimator([group(void)])[0][0][0].tolist() == [0]
    assert estimator([group(episode())]) == [[[]]]


@few
@given(values=rewards)
def test_equal_returns_give_exactly_zero(values, returns):
    # Seven times .1 has a mean that differs from .1 by rounding; a division by eps would make that visible.
    same = [returns(*([values[0]] * len(values)))]
    for estimator in (GRPO(), GRPO(eps=1e-30), RLOO(), ReinforcePlusPlus(), ReinforcePlusPlus(baseline=True)):
        assert all(turn[0] == 0.0 for member in estimator(same)[0] for turn in member)


@few
@given(values=rewards, shift=st.sampled_from([-2.0, 0.25, 7.0]))
def test_group_relative_advantages_sum_to_zero_and_ignore_a_shift(values, shift, returns, first):
    for estimator in GROUP_RELATIVE:
        advantages = np.array(first(estimator([returns(*values)])[0]))
        assert abs(advantages.sum()) < 1e-9
        shifted = np.array(first(estimator([returns(*(value + shift for value in values))])[0]))
        assert np.allclose(advantages, shifted, atol=1e-5)


@few
@given(values=rewards, seed=st.integers(0, 99))
def test_the_order_of_members_does_not_matter(values, seed, returns, first):
    order = np.random.default_rng(seed).permutation(len(values))
    for estimator in ALL:
        plain = np.array(first(estimator([returns(*values)])[0]))
        permuted = np.array(first(estimator([returns(*np.array(values)[order])])[0]))
        assert np.allclose(plain[order], permuted, atol=1e-12)


@few
@given(values=rewards, at=st.integers(0, 6))
def test_void_members_get_zeros_and_change_nothing(values, at, episode, group, first):
    def members():
        return [episode((f"s{i}", "x", value, 1 + i % 2, 0.1 * i)) for i, value in enumerate(values)]

    at = min(at, len(values))
    void = episode(("s0", "x", 50.0, 4, 9.0), stop=StopReason.FAULT)
    other = group(episode(("t", "x", 1.0, 1, 0.0)), episode(("u", "x", 0.0, 1, 0.0)))
    for estimator in (*ALL, GAE(), GRPO(count="turn"), GRPO(std_of="score")):
        without = estimator([group(*members()), other])
        clean = [first(rows) for rows in without]
        spoiled = estimator([group(*members()[:at], void, *members()[at:]), other])
        assert spoiled[0][at][0].tolist() == [0, 0, 0, 0]
        rest = [*spoiled[0][:at], *spoiled[0][at + 1 :]]
        assert first(rest) == clean[0]
        assert first(spoiled[1]) == clean[1]


@few
@given(values=st.lists(st.floats(-5, 5), min_size=2, max_size=8), counts=st.data())
def test_counts_are_the_same_as_repeating_values(values, counts):
    times = counts.draw(st.lists(st.integers(1, 3), min_size=len(values), max_size=len(values)))
    repeated = normalise(np.repeat(values, times), std=True)
    counted = normalise(np.array(values), std=True, counts=np.array(times))
    assert np.allclose(np.repeat(counted, times), repeated, atol=1e-6)


# -- against an exact policy gradient ---------------------------------------------------------------------------------
# Two rooms, two actions, at most three steps. In room 0, action 1 leads to room 1 and action 0 pays .2 and ends. In
# room 1, action 1 pays 1 and ends, and action 0 costs .1 and leads back to room 0. Four trajectories, all listed below.

MOVES = {(0, 0): (None, 0.2), (0, 1): (1, 0.0), (1, 0): (0, -0.1), (1, 1): (None, 1.0)}
HORIZON = 3
THETA = np.array([0.3, -0.4])  # the logit of action 1 in each room


def probability(theta: np.ndarray, room: int, action: int) -> float:
    up = 1 / (1 + np.exp(-theta[room]))
    return up if action else 1 - up


def trajectories() -> list[list[tuple[int, int, float]]]:
    found = {}
    for actions in product((0, 1), repeat=HORIZON):
        room, path = 0, []
        for action in actions:
            following, reward = MOVES[room, action]
            path.append((room, action, reward))
            if following is None:
                break
            room = following
        found[tuple(path)] = path
    return list(found.values())


def likelihood(theta: np.ndarray, path: list) -> float:
    return float(np.prod([probability(theta, room, action) for room, action, _ in path]))


def value(theta: np.ndarray, room: int | None, left: int) -> float:
    if room is None or left == 0:
        return 0.0
    total = 0.0
    for action in (0, 1):
        following, reward = MOVES[room, action]
        total += probability(theta, room, action) * (reward + value(theta, following, left - 1))
    return total


def exact_gradient() -> np.ndarray:
    step = 1e-6
    return np.array(
        [(value(THETA + step * e, 0, HORIZON) - value(THETA - step * e, 0, HORIZON)) / (2 * step) for e in np.eye(2)]
    )


def expected_gradient(estimator, size: int, build, group) -> np.ndarray:
    """The mean over all groups of `size` of the mean over members of sum_k A_k grad log pi(a_k | s_k)."""
    paths, total = trajectories(), np.zeros(2)
    for members in product(paths, repeat=size):
        weight = np.prod([likelihood(THETA, path) for path in members])
        advantages = estimator([group(*(build(path) for path in members))])[0]
        for path, turns in zip(members, advantages, strict=True):
            for (room, action, _), advantage in zip(path, turns, strict=True):
                # d log pi / d logit = action - P(action 1)
                score = action - probability(THETA, room, 1)
                total[room] += weight * advantage[0] * score / size
    return total


def test_the_toy_is_what_its_comment_says():
    paths = trajectories()
    assert [[action for _, action, _ in path] for path in paths] == [[0], [1, 0, 0], [1, 0, 1], [1, 1]]
    assert sum(likelihood(THETA, path) for path in paths) == pytest.approx(1)
    mean = sum(likelihood(THETA, path) * sum(r for *_, r in path) for path in paths)
    assert mean == pytest.approx(value(THETA, 0, HORIZON))


@pytest.mark.parametrize(
    ("estimator", "size", "factor"),
    [
        (ReinforcePlusPlus(whiten=False), 1, 1.0),
        (RLOO(), 2, 1.0),
        (RLOO(), 4, 1.0),
        # The mean that is subtracted contains the member's own return, a G-th of it.
        (GRPO(std=False), 2, 1 / 2),
        (GRPO(std=False), 4, 3 / 4),
        (ReinforcePlusPlus(baseline=True, whiten=False), 3, 2 / 3),
    ],
    ids=repr,
)
def test_the_expected_gradient_is_the_exact_one(estimator, size, factor, episode, group):
    def build(path):
        return episode(*((f"room{room}", str(action), reward) for room, action, reward in path))

    assert np.allclose(expected_gradient(estimator, size, build, group), factor * exact_gradient(), atol=1e-8)


@pytest.mark.parametrize("lam", [0.0, 0.5, 0.95, 1.0])
def test_gae_with_exact_values_is_unbiased_for_every_lambda(lam, episode, group):
    def build(path):
        return episode(
            *(
                (f"room{room}", str(action), reward, 1, value(THETA, room, HORIZON - k))
                for k, (room, action, reward) in enumerate(path)
            )
        )

    found = expected_gradient(GAE(lam=lam, whiten=False), 1, build, group)
    assert np.allclose(found, exact_gradient(), atol=1e-8)


def test_gae_of_a_cut_episode_with_exact_bootstrap_is_unbiased(episode, group):
    # Cut after two of three steps; the value of what would have followed stands in for it. (The discount is as good as
    # none: without any, cut episodes are refused.)
    def build(path):
        steps = [
            (f"room{room}", str(action), reward, 1, value(THETA, room, HORIZON - k))
            for k, (room, action, reward) in enumerate(path)
        ]
        if len(steps) < HORIZON:
            return episode(*steps)
        following = MOVES[path[1][0], path[1][1]][0]
        return episode(*steps[:2], stop=StopReason.STEP_LIMIT, bootstrap=value(THETA, following, 1))

    paths = trajectories()
    kept = np.zeros(2)
    for path in paths:
        turns = GAE(gamma=1 - 1e-12, lam=0.7, whiten=False, bootstrap=True)([group(build(path))])[0][0]
        for (room, action, _), advantage in zip(path, turns, strict=False):
            kept[room] += likelihood(THETA, path) * advantage[0] * (action - probability(THETA, room, 1))
    # What the third step would have contributed: its own exact advantage, zero beyond it.
    third = np.zeros(2)
    for path in paths:
        if len(path) == HORIZON:
            room, action, reward = path[2]
            advantage = reward - value(THETA, room, 1)
            third[room] += likelihood(THETA, path) * advantage * (action - probability(THETA, room, 1))
    assert np.allclose(kept + third, exact_gradient(), atol=1e-8)
