from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs.core.errors import InvalidArgument
from sandlot.harness.records import StopReason
from sandlot.trainers.estimators import GRPO, normalise
from sandlot.trainers.methods import make_recipe
from sandlot.trainers.systems.ecpo import ECPO, action_credit
from sandlot.trainers.systems.gigpo import GiGPO

few = settings(max_examples=40, deadline=None)  # a busy machine is no failure

members = st.lists(
    st.lists(
        st.tuples(st.sampled_from("stuv"), st.sampled_from("abc"), st.sampled_from([0.0, 0.0, 0.5, 1.0])),
        min_size=1,
        max_size=4,
    ),
    min_size=1,
    max_size=5,
)
visits = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([0.0, 0.3, 1.0, -2.0])), min_size=1, max_size=12)


def split(pairs) -> tuple[list[str], np.ndarray]:
    return [action for action, _ in pairs], np.array([value for _, value in pairs])


def test_a_noisy_anchor_by_hand():
    # a: 1 0 1 0 1 0, b: 1, c: 0. mu 4/8 = .5; G_a .5, G_b 1, G_c 0.
    # V_b = (6 * 0 + .25 + .25) / 8 = .0625; V_w = 6 * .25 / 8 = .1875; rho = .0625 / .25 = .25
    # C_b = 1/(1+2) * .5 = .1667, times .25 = .0417; C_c the negative; C_a 0
    actions, returns = ["a"] * 6 + ["b", "c"], np.array([1, 0, 1, 0, 1, 0, 1, 0.0])
    credit = action_credit(actions, returns, kappa=2)
    assert credit == pytest.approx([0] * 6 + [1 / 24, -1 / 24], abs=1e-6)
    # GiGPO gives the single lucky b the whole +.5.
    assert normalise(returns, std=False)[6] == 0.5


def test_a_clean_anchor_by_hand():
    # a: 1 x4, b: 0 x4. mu .5, V_b .25, V_w 0, rho 1; C = 4/6 * +-.5 = +-.3333
    credit = action_credit(["a"] * 4 + ["b"] * 4, np.array([1.0] * 4 + [0.0] * 4), kappa=2)
    assert credit == pytest.approx([1 / 3] * 4 + [-1 / 3] * 4, abs=1e-6)


def test_two_traces_by_hand(episode, group, first):
    # Win s0-a, s1-b; loss s0-c, s0-a, s1-d; gamma .95; episode part +-.5 (without the standard deviation).
    # s0: a: .95 0, c: 0; mu .31667, G_a - mu = .15833, G_c - mu = -.31667
    #     V_b = (2 * .15833^2 + .31667^2) / 3 = .05014, V_w = 2 * .475^2 / 3 = .15042, rho .25
    #     C_a = 2/4 * .15833 * .25 = .01979, C_c = 1/3 * -.31667 * .25 = -.02639
    # s1: b: 1, d: 0; rho 1; C = 1/3 * +-.5 = +-.16667
    played = group(episode(("s0", "a", 0), ("s1", "b", 1)), episode(("s0", "c", 0), ("s0", "a", 0), ("s1", "d", 0)))
    win, loss = first(ECPO(std=False)([played])[0])
    assert win == pytest.approx([0.5198, 0.6667], abs=1e-4)
    assert loss == pytest.approx([-0.5264, -0.4802, -0.6667], abs=1e-4)


@few
@given(visits)
def test_without_shrinkage_and_noise_it_is_gigpos_step_term(pairs):
    # One return per action makes V_w = 0, so rho = 1; kappa 0 leaves the action means, which are the returns.
    by_action = dict(pairs)
    actions = [action for action, _ in pairs]
    returns = np.array([by_action[action] for action in actions])
    assert np.allclose(action_credit(actions, returns, kappa=0), normalise(returns, std=False), atol=1e-6)


@few
@given(visits)
def test_a_single_action_or_equal_returns_give_exactly_zero(pairs):
    actions, returns = split(pairs)
    assert not action_credit(["a"] * len(pairs), returns, kappa=2).any()
    assert not action_credit(actions, np.full(len(pairs), 0.1), kappa=2).any()


@few
@given(visits, st.floats(0, 10))
def test_credit_is_an_attenuated_gap_with_the_same_sign(pairs, kappa):
    actions, returns = split(pairs)
    credit = action_credit(actions, returns, kappa)
    for action in set(actions):
        mine = np.array([a == action for a in actions])
        gap = returns[mine].mean() - returns.mean()
        assert len(set(credit[mine])) == 1
        assert abs(credit[mine][0]) <= abs(gap) + 1e-12
        assert credit[mine][0] * gap >= -1e-12
    assert np.allclose(action_credit(actions, returns + 5, kappa), credit, atol=1e-6)
    if kappa == 0:
        assert abs(credit.sum()) < 1e-9


def test_more_visits_of_an_action_are_trusted_more():
    # The same gap, .5, and no noise: n / (n + 2) with n = 1, 3, 10
    sizes = [action_credit(["a"] * n + ["b"] * n, np.array([1.0] * n + [0.0] * n), 2)[0] for n in (1, 3, 10)]
    assert sizes == pytest.approx([0.5 / 3, 0.5 * 3 / 5, 0.5 * 10 / 12], abs=1e-6)


def test_actions_are_compared_as_whole_texts():
    # numpy would cut a trailing NUL and make one action of these two.
    assert action_credit(["a", "a\0"], np.array([1.0, 0.0]), 0) == pytest.approx([0.5, -0.5], abs=1e-6)


@pytest.mark.parametrize(("n", "gigpo", "ecpo"), [(8, 0.67, 0.29), (16, 0.46, 0.113), (32, 0.33, 0.041)])
def test_noise_anchors_weigh_less_beside_clean_ones_than_under_gigpo(n, gigpo, ecpo):
    """Size of the step's policy gradient on an anchor of pure chance, over that on one where the action decides.

    Four equally likely actions and n visits; the gradient of the logits is sum (onehot - 1/4) credit. Clean: action 0
    returns 1, the others 0. Noise: 1 or 0 at random. The figures were measured once with 1,500 draws.
    """
    rng = np.random.default_rng(0)
    sizes = np.zeros((2, 2))  # method, anchor
    for _ in range(600):
        actions = rng.integers(0, 4, n)
        for anchor, returns in enumerate((rng.integers(0, 2, n).astype(float), (actions == 0).astype(float))):
            credits = normalise(returns, std=False), action_credit(list(map(str, actions)), returns, 2)
            for method, credit in enumerate(credits):
                sizes[method, anchor] += np.linalg.norm(credit @ (np.eye(4)[actions] - 1 / 4))
    assert sizes[:, 0] / sizes[:, 1] == pytest.approx([gigpo, ecpo], rel=0.15)


@few
@given(paths=members)
def test_omega_zero_is_grpo(paths, episode, group, first):
    played = [group(*(episode(*path) for path in paths))]
    for std in (True, False):
        assert first(ECPO(omega=0, std=std)(played)[0]) == first(GRPO(std=std)(played)[0])


@few
@given(paths=members, seed=st.integers(0, 99))
def test_the_order_of_members_does_not_matter(paths, seed, episode, group, first):
    order = np.random.default_rng(seed).permutation(len(paths))
    plain = first(ECPO()([group(*(episode(*path) for path in paths))])[0])
    permuted = first(ECPO()([group(*(episode(*paths[i]) for i in order))])[0])
    for place, i in enumerate(order):
        assert permuted[place] == pytest.approx(plain[i], abs=1e-9)


@few
@given(paths=members)
def test_void_members_are_ignored(paths, episode, group, first):
    void = episode(("s", "a", 0, 2), ("t", "b", 9, 1), stop=StopReason.FAULT)
    plain = ECPO()([group(*(episode(*path) for path in paths))])[0]
    spoiled = ECPO()([group(void, *(episode(*path) for path in paths))])[0]
    assert [turn.tolist() for turn in spoiled[0]] == [[0, 0], [0]]
    assert first(spoiled[1:]) == first(plain)


@few
@given(paths=members)
def test_states_visited_once_have_no_step_credit(paths, episode, group):
    played = group(*(episode(*path) for path in paths))
    seen = [turn.obs_key for member in played.members for turn in member.turns]
    for member, row in zip(played.members, ECPO().steps(played), strict=True):
        assert all(credit == 0 for turn, credit in zip(member.turns, row) if seen.count(turn.obs_key) == 1)


def test_equal_observations_of_different_states_are_one_anchor_only_by_obs_key(episode, group):
    played = group(episode((("with", "door"), "open", 1)), episode((("without", "door"), "wait", 0)))
    assert [row.tolist() for row in ECPO(kappa=0).steps(played)] == [pytest.approx([0.5]), pytest.approx([-0.5])]
    assert [row.tolist() for row in ECPO(kappa=0, anchor="state_key").steps(played)] == [[0], [0]]


def test_anchors_are_compared_inside_a_group_only(episode, group, first):
    ones, zeros = group(*(episode(("s", "a", 1)),) * 2), group(*(episode(("s", "b", 0)),) * 2)
    assert [first(rows) for rows in ECPO()([ones, zeros])] == [[[0], [0]], [[0], [0]]]


def test_it_agrees_with_gigpo_on_the_episodes_part(episode, group, first):
    played = [group(episode(("s", "a", 1)), episode(("t", "a", 0)))]
    assert first(ECPO()(played)[0]) == first(GiGPO()(played)[0])


def test_settings_outside_their_range_are_refused():
    for make, name in (
        (lambda: ECPO(anchor="x"), "anchor"),
        (lambda: ECPO(gamma=-1), "gamma"),
        (lambda: ECPO(kappa=-0.1), "kappa"),
    ):
        with pytest.raises(InvalidArgument, match=name):
            make()


def test_the_recipe():
    recipe = make_recipe("ecpo", kappa=1.0, clip_high=0.28)
    assert recipe.name == "ecpo"
    assert recipe.estimator == ECPO(kappa=1.0)
    assert (recipe.objective.clip_high, recipe.objective.aggregation) == (0.28, "trajectory")
    assert (recipe.groups, recipe.group_size, recipe.critic) == (16, 8, False)
