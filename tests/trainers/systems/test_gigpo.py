from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs.core.errors import InvalidArgument
from sandlot.harness.records import StopReason
from sandlot.trainers.estimators import GRPO
from sandlot.trainers.methods import make_recipe
from sandlot.trainers.systems.gigpo import GiGPO

few = settings(max_examples=40, deadline=None)  # a busy machine is no failure

# A member is a list of (state, action, reward): few states, so that they meet.
members = st.lists(
    st.lists(
        st.tuples(st.sampled_from("stuv"), st.sampled_from("ab"), st.sampled_from([0.0, 0.0, 0.5, 1.0])),
        min_size=1,
        max_size=4,
    ),
    min_size=1,
    max_size=5,
)


@pytest.fixture
def two_traces(episode, group):
    win = episode(("s0", "a", 0), ("s1", "b", 1))
    loss = episode(("s0", "c", 0), ("s0", "a", 0), ("s1", "d", 0))
    return group(win, loss)


def test_two_traces_by_hand(two_traces, first):
    # Episode: +-.5. To go, gamma .95: win .95, 1; loss 0, 0, 0.
    # Anchor s0 holds .95 0 0, mean .31667: +.63333, -.31667, -.31667.  Anchor s1 holds 1 0: +-.5.
    win, loss = first(GiGPO(std=False)([two_traces])[0])
    assert win == pytest.approx([1.13333, 1.0], abs=1e-4)
    assert loss == pytest.approx([-0.81667, -0.81667, -1.0], abs=1e-4)


def test_two_traces_with_standard_deviations_by_hand(two_traces, first):
    # Episode: .5 / .70711 = .70711. s0: deviation .95 / sqrt(3) = .54848: 1.15470, -.57735 twice. s1: +-.70711.
    win, loss = first(GiGPO()([two_traces])[0])
    assert win == pytest.approx([1.86181, 1.41421], abs=1e-4)
    assert loss == pytest.approx([-1.28446, -1.28446, -1.41421], abs=1e-4)


def test_counting_turns_is_verl_agents_episode_mean(two_traces, first):
    # mean .4 instead of .5: the episode part is +.6 and -.4
    win, loss = first(GiGPO(std=False, count="turn", omega=0)([two_traces])[0])
    assert win == pytest.approx([0.6, 0.6])
    assert loss == pytest.approx([-0.4, -0.4, -0.4])


def test_a_state_visited_once_has_no_step_credit(episode, group):
    played = group(episode(("s", "a", 1)), episode(("t", "a", 0)))
    assert [row.tolist() for row in GiGPO().steps(played)] == [[0], [0]]


def test_equal_observations_of_different_states_are_one_anchor_only_by_obs_key(episode, group):
    # The same text, with and without a key in the pocket.
    played = group(episode((("with", "door"), "open", 1)), episode((("without", "door"), "open", 0)))
    assert [row.tolist() for row in GiGPO(std=False).steps(played)] == [[0.5], [-0.5]]
    assert [row.tolist() for row in GiGPO(std=False, anchor="state_key").steps(played)] == [[0], [0]]


def test_anchors_are_compared_inside_a_group_only(episode, group, first):
    ones, zeros = group(*(episode(("s", "a", 1)),) * 2), group(*(episode(("s", "a", 0)),) * 2)
    assert [first(rows) for rows in GiGPO()([ones, zeros])] == [[[0], [0]], [[0], [0]]]


@few
@given(paths=members)
def test_omega_zero_is_grpo(paths, episode, group, first):
    played = [group(*(episode(*path) for path in paths))]
    for std in (True, False):
        assert first(GiGPO(omega=0, std=std)(played)[0]) == first(GRPO(std=std)(played)[0])


@few
@given(paths=members)
def test_step_credit_sums_to_zero_at_every_anchor(paths, episode, group):
    played = group(*(episode(*path) for path in paths))
    for std in (True, False):
        sums: dict[str, float] = {}
        for member, row in zip(played.members, GiGPO(std=std).steps(played), strict=True):
            for turn, credit in zip(member.turns, row, strict=True):
                sums[turn.obs_key] = sums.get(turn.obs_key, 0.0) + credit
        assert all(abs(total) < 1e-9 for total in sums.values())


@few
@given(paths=members, shift=st.sampled_from([-1.0, 3.0]))
def test_a_shift_of_the_last_reward_changes_nothing_undiscounted(paths, shift, episode, group, first):
    def shifted(path):
        *head, (state, action, reward) = path
        return [*head, (state, action, reward + shift)]

    plain = GiGPO(gamma=1)([group(*(episode(*path) for path in paths))])[0]
    moved = GiGPO(gamma=1)([group(*(episode(*shifted(path)) for path in paths))])[0]
    for ours, theirs in zip(first(plain), first(moved), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)


@few
@given(paths=members, seed=st.integers(0, 99))
def test_the_order_of_members_does_not_matter(paths, seed, episode, group, first):
    order = np.random.default_rng(seed).permutation(len(paths))
    plain = first(GiGPO()([group(*(episode(*path) for path in paths))])[0])
    permuted = first(GiGPO()([group(*(episode(*paths[i]) for i in order))])[0])
    for place, i in enumerate(order):
        assert permuted[place] == pytest.approx(plain[i], abs=1e-9)


@few
@given(paths=members)
def test_void_members_are_ignored(paths, episode, group, first):
    void = episode(("s", "a", 0, 2), ("t", "b", 9, 1), stop=StopReason.FAULT)
    plain = GiGPO()([group(*(episode(*path) for path in paths))])[0]
    spoiled = GiGPO()([group(void, *(episode(*path) for path in paths))])[0]
    assert [turn.tolist() for turn in spoiled[0]] == [[0, 0], [0]]
    assert first(spoiled[1:]) == first(plain)


def test_an_all_fail_group_teaches_nothing(episode, group, first):
    played = group(*(episode(("s", "a", 0), ("t", "b", 0)) for _ in range(3)))
    assert first(GiGPO()([played])[0]) == [[0, 0]] * 3


def test_settings_outside_their_range_are_refused():
    with pytest.raises(InvalidArgument, match="anchor"):
        GiGPO(anchor="prompt")
    with pytest.raises(InvalidArgument, match="gamma"):
        GiGPO(gamma=1.1)


def test_the_recipe():
    recipe = make_recipe("gigpo", omega=0.5, kl_coef=0.01, lr=1e-5)
    assert recipe.name == "gigpo"
    assert recipe.estimator == GiGPO(omega=0.5)
    assert (recipe.objective.kl_coef, recipe.objective.aggregation) == (0.01, "trajectory")
    assert (recipe.lr, recipe.groups, recipe.group_size, recipe.critic) == (1e-5, 16, 8, False)
