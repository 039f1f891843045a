from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs.core.errors import InvalidArgument
from sandlot.trainers.estimators import RLOO
from sandlot.trainers.losses import cispo, clipped, importance, kl, log_ratio, value_loss
from sandlot.trainers.objective import AGGREGATIONS, Batch, merge, policy_loss, unit_weights
from sandlot.trainers.recipe import Objective

few = settings(max_examples=40, deadline=None)  # a busy machine is no failure

D = torch.float64


def tensor(*values: float, grad: bool = False) -> torch.Tensor:
    return torch.tensor(values, dtype=D, requires_grad=grad)


def batch(n: int, **fields) -> Batch:
    given = {
        "old_logprobs": torch.zeros(n, dtype=D),
        "advantages": torch.ones(n, dtype=D),
        "weights": torch.full((n,), 1 / max(n, 1), dtype=D),
        "call": torch.arange(n),
    }
    return Batch(**(given | fields))


# -- weights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        # trajectory 0: calls of 1 and 2 units; trajectory 1: one call of 1 unit; 4 units, 2 trajectories
        ("token", [[[1 / 4], [1 / 4, 1 / 4]], [[1 / 4]]]),
        ("trajectory", [[[1 / 6], [1 / 6, 1 / 6]], [[1 / 2]]]),
        # 2 trajectories; the first has 2 calls: 1/2 * 1/2 * 1 and 1/2 * 1/2 * 1/2
        ("turn", [[[1 / 4], [1 / 8, 1 / 8]], [[1 / 2]]]),
        ("call", [[[1 / 3], [1 / 6, 1 / 6]], [[1 / 3]]]),  # 3 calls
        ("constant", [[[1 / 20], [1 / 20, 1 / 20]], [[1 / 20]]]),  # 2 trajectories * L_max 10
    ],
)
def test_unit_weights_by_hand(aggregation, expected):
    weights = unit_weights([[1, 2], [1]], aggregation, length=10)
    assert [[call.tolist() for call in row] for row in weights] == expected


@few
@given(units=st.lists(st.lists(st.integers(0, 4), max_size=4), min_size=1, max_size=5))
def test_weights_are_means(units):
    if sum(map(sum, units)):
        assert sum(w.sum() for row in unit_weights(units, "token") for w in row) == pytest.approx(1)
    if all(sum(row) for row in units):
        assert sum(w.sum() for row in unit_weights(units, "trajectory") for w in row) == pytest.approx(1)
    if all(row and all(row) for row in units):
        for aggregation in ("turn", "call"):
            assert sum(w.sum() for row in unit_weights(units, aggregation) for w in row) == pytest.approx(1)
    shapes = [[len(w) for w in row] for row in unit_weights(units, "constant", 7)]
    assert shapes == units


def test_weights_of_nothing():
    for aggregation in AGGREGATIONS:
        assert unit_weights([], aggregation) == []


def test_unknown_names_are_refused():
    with pytest.raises(InvalidArgument, match="aggregation"):
        unit_weights([[1]], "mean")
    with pytest.raises(InvalidArgument, match="length"):
        unit_weights([[1]], "constant", 0)
    with pytest.raises(InvalidArgument, match="kl must be"):
        kl(tensor(0), tensor(0), "k4")
    with pytest.raises(InvalidArgument, match="ratio must be"):
        log_ratio(tensor(0), tensor(0), torch.zeros(1, dtype=torch.long), "token")
    with pytest.raises(InvalidArgument, match="surrogate must be"):
        policy_loss(Objective(surrogate="ppo"), batch(1), torch.zeros(1), torch.zeros(1))
    with pytest.raises(InvalidArgument, match="dual_clip"):
        clipped(tensor(1), tensor(1), 0.2, 0.2, dual=1.0)
    for arguments, message in (
        (("clamp", 2.0, "unit"), "correction must be"),
        (("mask", 0.5, "unit"), "correction_cap"),
        (("mask", 2.0, "token"), "correction_level"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            importance(tensor(0), tensor(0), torch.zeros(1, dtype=torch.long), *arguments)


# -- the clipped ratio ------------------------------------------------------------------------------------------------


def test_clipped_ratio_by_hand():
    ratio = tensor(1.5, 0.5, 1.5, 0.5, 1.25)
    advantages = tensor(2, 2, -2, -2, 2)
    # low .2, high .28.  r 1.5, A 2: min(3, 2.56);  r .5, A 2: min(1, 1.6);  r 1.5, A -2: min(-3, -2.56);
    # r .5, A -2: min(-1, -1.6);  r 1.25, A 2: inside the range, 2.5
    assert clipped(ratio, advantages, 0.2, 0.28).tolist() == pytest.approx([-2.56, -1, 3, 1.6, -2.5])


def test_a_clipped_unit_has_no_gradient_and_an_unclipped_one_has_ratio_times_advantage():
    logprobs = tensor(np.log(1.5), np.log(0.5), np.log(1.1), grad=True)
    total, metrics = policy_loss(
        Objective(), batch(3, advantages=tensor(1, -1, 2), weights=tensor(1, 1, 1)), logprobs, torch.zeros(3, dtype=D)
    )
    total.backward()
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == pytest.approx([0, 0, -2.2])  # -r A = -1.1 * 2
    # one unit of three is cut above, one below; ratios 1.5, .5, 1.1
    assert metrics["clip/high"] == pytest.approx(1 / 3)
    assert metrics["clip/low"] == pytest.approx(1 / 3)
    assert metrics["ratio/mean"] == pytest.approx(3.1 / 3)
    assert metrics["ratio/max"] == pytest.approx(1.5)


def test_on_policy_the_gradient_is_the_policy_gradient_and_nothing_is_clipped():
    logprobs = tensor(-1.0, -0.3, grad=True)
    fields = {"old_logprobs": logprobs.detach().clone(), "advantages": tensor(3, -1), "weights": tensor(0.25, 0.75)}
    total, metrics = policy_loss(Objective(), batch(2, **fields), logprobs, torch.zeros(2, dtype=D))
    total.backward()
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == pytest.approx([-0.75, 0.75])  # -w A
    assert metrics["clip/high"] == metrics["clip/low"] == metrics["kl/behaviour_k3"] == 0
    assert metrics["ratio/max"] == 1


def test_sequence_ratio_by_hand():
    # call 0: log-ratios .2 and .4, mean .3; call 1: -.5
    logprobs, call = tensor(0.2, 0.4, -0.5, grad=True), torch.tensor([0, 0, 1])
    ratio = log_ratio(logprobs, torch.zeros(3, dtype=D), call, "sequence").exp()
    assert ratio.tolist() == pytest.approx([np.exp(0.3), np.exp(0.3), np.exp(-0.5)])
    # GSPO's own form: sum over calls of s with s = exp(mean); here its units are weighted 1/|T|.
    (ratio * tensor(0.5, 0.5, 1)).sum().backward()
    plain = tensor(0.2, 0.4, -0.5, grad=True)
    (plain[:2].mean().exp() + plain[2:].mean().exp()).backward()
    assert logprobs.grad is not None and plain.grad is not None
    assert logprobs.grad.tolist() == pytest.approx(plain.grad.tolist())


def test_a_dual_clip_bounds_what_a_bad_action_costs():
    # r 5, A -2, c 3: plain loss -min(-10, -2.4) = 10, bounded by 3 * 2 = 6; r 2: 4 < 6 stays; A > 0 is untouched
    losses = clipped(tensor(5, 2, 5), tensor(-2, -2, 2), 0.2, 0.2, dual=3.0)
    assert losses.tolist() == pytest.approx([6, 4, -2.4])


def test_cispo_by_hand():
    now = tensor(np.log(0.6), np.log(0.1), grad=True)
    ratio = (now - tensor(np.log(0.2), np.log(0.2))).exp()  # 3 and 0.5
    losses = cispo(ratio, tensor(1.0, -2.0), now, high=1.0)
    # -min(3, 2) * 1 * log .6 = 1.0217;  -.5 * -2 * log .1 = -2.3026
    assert losses.tolist() == pytest.approx([-2 * np.log(0.6), np.log(0.1)])
    losses.sum().backward()
    # the weight is a constant: -min(r, 2) A, although the first ratio is beyond its bound
    assert now.grad is not None and now.grad.tolist() == pytest.approx([-2.0, 1.0])


def test_importance_corrections_by_hand():
    trainer, sampler = tensor(np.log(0.6), np.log(0.3), np.log(0.1)), tensor(np.log(0.2), np.log(0.2), np.log(0.4))
    call = torch.tensor([0, 0, 1])
    # ratios 3, 1.5, .25; cap 2
    assert importance(trainer, sampler, call, "truncate", 2.0).tolist() == pytest.approx([2, 1.5, 0.25])
    assert importance(trainer, sampler, call, "mask", 2.0).tolist() == pytest.approx([0, 1.5, 0])  # .25 < 1/2
    # the first call's product is 4.5
    assert importance(trainer, sampler, call, "truncate", 5.0, "sequence").tolist() == pytest.approx([4.5, 4.5, 0.25])
    assert importance(trainer, sampler, call, "mask", 4.0, "sequence").tolist() == pytest.approx([0, 0, 0.25])
    assert importance(trainer[:0], sampler[:0], call[:0], "mask", 4.0, "sequence").tolist() == []


@few
@given(st.lists(st.floats(-3, 0), min_size=1, max_size=5))
def test_equal_engines_need_no_correction(values):
    same, call = torch.tensor(values, dtype=D), torch.zeros(len(values), dtype=torch.long)
    for mode in ("truncate", "mask"):
        for level in ("unit", "sequence"):
            assert torch.equal(importance(same, same, call, mode, 2.0, level), torch.ones_like(same))


def test_the_correction_multiplies_the_surrogate_alone():
    part = batch(2, importance=tensor(2.0, 0.5))
    total, metrics = policy_loss(Objective(entropy_coef=1.0), part, torch.zeros(2, dtype=D), torch.ones(2, dtype=D))
    # -(2 + .5) / 2 = -1.25 and the entropy's -1
    assert metrics["loss/policy"] == pytest.approx(-1.25)
    assert total.item() == pytest.approx(-2.25)


def test_gspo_is_the_mean_over_calls_of_the_sequence_ratio():
    now, old = tensor(-1.0, -2.0, -0.5, grad=True), tensor(-1.2, -2.0, -0.5)
    part = batch(
        3,
        old_logprobs=old,
        advantages=tensor(2, 2, -1),
        weights=torch.tensor(np.concatenate(unit_weights([[2], [1]], "call")[0] + unit_weights([[2], [1]], "call")[1])),
        call=torch.tensor([0, 0, 1]),
    )
    total, _ = policy_loss(Objective(ratio="sequence", clip_low=0.5, clip_high=0.5), part, now, torch.zeros(3, dtype=D))
    # s_0 = exp((.2 + 0) / 2) = e^.1, s_1 = 1; loss = -(2 e^.1 - 1) / 2
    assert total.item() == pytest.approx(-(2 * np.exp(0.1) - 1) / 2)
    total.backward()
    # d/dlogp of -s_0 A_0 / 2 = -e^.1 * 2 / 2 / |y| = -e^.1 / 2 for both tokens; the other call: +1/2
    assert now.grad is not None
    assert now.grad.tolist() == pytest.approx([-np.exp(0.1) / 2, -np.exp(0.1) / 2, 0.5])


def test_extreme_log_ratios_stay_finite():
    logprobs = torch.tensor([0.0, -200.0, -1e30], requires_grad=True)
    reference = torch.tensor([-500.0, 0.0, 0.0])
    for ratio in ("unit", "sequence"):
        total, metrics = policy_loss(
            Objective(kl_coef=1.0, kl="k3", ratio=ratio),
            Batch(
                old_logprobs=reference,
                advantages=torch.tensor([-1.0, 1.0, -1.0]),
                weights=torch.ones(3) / 3,
                call=torch.tensor([0, 1, 2]),
                ref_logprobs=reference,
            ),
            logprobs,
            torch.zeros(3),
        )
        total.backward()
        assert logprobs.grad is not None and logprobs.grad.isfinite().all()
        assert all(np.isfinite(value) for value in metrics.values())


# -- KL ---------------------------------------------------------------------------------------------------------------


def test_kl_estimators_by_hand():
    # x = log .5 - log .25 = log 2: k1 = -.6931, k2 = .6931^2 / 2 = .2402, k3 = 2 - .6931 - 1 = .3069
    logprobs, reference = tensor(np.log(0.25)), tensor(np.log(0.5))
    assert kl(logprobs, reference, "k1").item() == pytest.approx(-0.693147, abs=1e-6)
    assert kl(logprobs, reference, "k2").item() == pytest.approx(0.240227, abs=1e-6)
    assert kl(logprobs, reference, "k3").item() == pytest.approx(0.306853, abs=1e-6)


@few
@given(st.lists(st.floats(-60, 0), min_size=1, max_size=6), st.lists(st.floats(-60, 0), min_size=6, max_size=6))
def test_k2_and_k3_are_never_negative_and_zero_at_equality(logprobs, reference):
    ours, theirs = tensor(*logprobs), tensor(*reference[: len(logprobs)])
    assert (kl(ours, theirs, "k2") >= 0).all() and (kl(ours, theirs, "k3") >= 0).all()
    for estimator in ("k1", "k2", "k3"):
        assert not kl(ours, ours, estimator).any()
        assert (kl(ours, theirs, estimator).abs() <= np.exp(20)).all()


def test_k1_and_k3_are_unbiased_and_k2_has_the_divergences_gradient():
    logits, reference = tensor(0.3, -0.2, 0.9, grad=True), torch.log_softmax(tensor(0.0, 0.5, -0.1), 0)
    logprobs = torch.log_softmax(logits, 0)
    exact = (logprobs.exp() * (logprobs - reference)).sum()
    (gradient,) = torch.autograd.grad(exact, logits, retain_graph=True)
    weights = logprobs.exp().detach()  # the expectation over units that the policy samples
    for estimator in ("k1", "k3"):
        assert (weights * kl(logprobs, reference, estimator)).sum().item() == pytest.approx(exact.item())
    (k2,) = torch.autograd.grad((weights * kl(logprobs, reference, "k2")).sum(), logits, retain_graph=True)
    assert torch.allclose(k2, gradient)
    (k1,) = torch.autograd.grad((weights * kl(logprobs, reference, "k1")).sum(), logits, retain_graph=True)
    assert torch.allclose(k1, torch.zeros_like(k1))  # why k1 belongs into the reward


def test_the_kl_term_is_a_loss_only_where_it_is_asked_for():
    logprobs, zeros = tensor(-1.0, -2.0, grad=True), torch.zeros(2, dtype=D)
    fields = {"old_logprobs": logprobs.detach().clone(), "ref_logprobs": tensor(-2.0, -2.0)}
    # k2: x = -1, 0: .5 and 0; coefficient .1, weights 1/2: .025
    _, metrics = policy_loss(Objective(kl="k2", kl_coef=0.1), batch(2, **fields), logprobs, zeros)
    assert metrics["loss/kl"] == pytest.approx(0.025)
    assert metrics["kl/ref_k1"] == pytest.approx(0.5)
    _, metrics = policy_loss(Objective(kl_coef=0.1, kl_in_reward=True), batch(2, **fields), logprobs, zeros)
    assert "loss/kl" not in metrics
    with pytest.raises(InvalidArgument, match="reference"):
        policy_loss(Objective(kl_coef=0.1), batch(2), logprobs, zeros)


# -- entropy and value ------------------------------------------------------------------------------------------------


def test_a_weighted_k3_has_the_divergences_gradient():
    """E_old[r k3] differentiated at r = 1 is the gradient of KL(p || ref): exact, over a distribution of three."""
    logits, reference = tensor(0.2, -0.4, 0.9, grad=True), torch.log_softmax(tensor(0.5, 0.5, -0.3), 0)
    logp = torch.log_softmax(logits, 0)
    p = logp.detach().exp()
    part = batch(3, old_logprobs=logp.detach(), advantages=torch.zeros(3, dtype=D), weights=p, ref_logprobs=reference)
    loss, _ = policy_loss(Objective(kl_coef=1.0, kl_weighted=True), part, logp, torch.zeros(3, dtype=D))
    (estimated,) = torch.autograd.grad(loss, logits, retain_graph=True)
    (exact,) = torch.autograd.grad((logp.exp() * (logp - reference)).sum(), logits)
    assert torch.allclose(estimated, exact)


def test_entropy_is_rewarded():
    entropy = tensor(1.0, 3.0, grad=True)
    total, metrics = policy_loss(
        Objective(entropy_coef=0.01), batch(2, advantages=torch.zeros(2, dtype=D)), torch.zeros(2, dtype=D), entropy
    )
    assert total.item() == pytest.approx(-0.02)  # -.01 * mean(1, 3)
    assert metrics["entropy"] == 2
    total.backward()
    assert entropy.grad is not None
    assert entropy.grad.tolist() == pytest.approx([-0.005, -0.005])


def test_value_loss_by_hand():
    values, returns, old = tensor(1.0, 0.0), tensor(0.0, 1.0), tensor(0.5, 0.5)
    assert value_loss(values, returns).tolist() == pytest.approx([0.5, 0.5])
    # clip .2: clip(v, .3, .7) = .7 and .3; (.7 - 0)^2 = .49 < 1, (.3 - 1)^2 = .49 < 1: the larger one stays
    assert value_loss(values, returns, old, 0.2).tolist() == pytest.approx([0.5, 0.5])
    # v = .1 has moved by -.4 towards the return 0: clipped .3, .3^2 = .09 > .01, and no gradient
    moved = tensor(0.1, grad=True)
    loss = value_loss(moved, tensor(0.0), tensor(0.5), 0.2)
    assert loss.item() == pytest.approx(0.045)
    loss.sum().backward()
    assert moved.grad is not None and moved.grad.item() == 0
    with pytest.raises(InvalidArgument, match="old values"):
        value_loss(values, returns, None, 0.2)


def test_the_critics_part_of_the_loss():
    fields = {"returns": tensor(1.0, 0.0), "value_weights": tensor(0.5, 0.5), "advantages": torch.zeros(3, dtype=D)}
    part = batch(3, call=torch.tensor([0, 0, 1]), **fields)
    zeros = torch.zeros(3, dtype=D)
    total, metrics = policy_loss(Objective(value_coef=0.5), part, zeros, zeros, tensor(0.0, 2.0))
    # .5 * (.5 * .5 * 1 + .5 * .5 * 4) = .625
    assert total.item() == metrics["loss/value"] == pytest.approx(0.625)
    with pytest.raises(InvalidArgument, match="critic=True"):
        policy_loss(Objective(), part, zeros, zeros)


def test_shapes_that_would_broadcast_silently_are_refused():
    with pytest.raises(InvalidArgument, match="shape"):
        policy_loss(Objective(), batch(3, advantages=tensor(1.0)), torch.zeros(3), torch.zeros(3))


# -- micro-batches ----------------------------------------------------------------------------------------------------

NAMES = st.tuples(
    st.sampled_from(AGGREGATIONS),
    st.sampled_from(["unit", "sequence"]),
    st.sampled_from(["clip", "cispo"]),
    st.sampled_from(["k1", "k2", "k3"]),
)


@settings(max_examples=40, deadline=None)
@given(
    units=st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=3), min_size=1, max_size=4),
    names=NAMES,
    seed=st.integers(0, 9999),
)
def test_gradients_of_micro_batches_add_up_to_the_whole_batchs(units, names, seed):
    aggregation, ratio, surrogate, estimator = names
    rng = np.random.default_rng(seed)
    objective = Objective(
        surrogate=surrogate,
        dual_clip=3.0,
        ratio=ratio,
        aggregation=aggregation,
        kl=estimator,
        kl_coef=0.1,
        entropy_coef=0.05,
        value_clip=0.2,
    )
    sizes = [n for row in units for n in row]
    weights = [w for row in unit_weights(units, aggregation, 5) for w in row]
    total, calls = sum(sizes), len(sizes)
    call = np.repeat(np.arange(calls), sizes)
    draw = {name: rng.normal(size=total) for name in ("old", "ref", "now", "advantage", "entropy")}
    critic = {name: rng.normal(size=calls) for name in ("value", "old", "return")}
    leaves = {name: torch.tensor(draw[name], requires_grad=True) for name in ("now", "entropy")}
    leaves["value"] = torch.tensor(critic["value"], requires_grad=True)

    def part(first: int, last: int):
        chosen = torch.tensor((call >= first) & (call < last))
        return policy_loss(
            objective,
            Batch(
                old_logprobs=torch.tensor(draw["old"])[chosen],
                advantages=torch.tensor(draw["advantage"])[chosen],
                weights=torch.tensor(np.concatenate(weights))[chosen],
                call=torch.tensor(call)[chosen] - first,
                importance=torch.tensor(draw["advantage"]).exp()[chosen],
                ref_logprobs=torch.tensor(draw["ref"])[chosen],
                returns=torch.tensor(critic["return"])[first:last],
                old_values=torch.tensor(critic["old"])[first:last],
                value_weights=torch.full((last - first,), 1 / calls, dtype=D),
            ),
            leaves["now"][chosen],
            leaves["entropy"][chosen],
            leaves["value"][first:last],
        )

    whole, metrics = part(0, calls)
    expected = torch.autograd.grad(whole, list(leaves.values()))
    cut = int(rng.integers(0, calls + 1))
    pieces = [part(first, last) for first, last in ((0, cut), (cut, calls)) if last > first]
    for loss, _ in pieces:
        loss.backward()
    for leaf, gradient in zip(leaves.values(), expected, strict=True):
        assert leaf.grad is not None and torch.allclose(leaf.grad, gradient, atol=1e-12)
    assert merge([logged for _, logged in pieces]) == pytest.approx(metrics)


def test_a_micro_batch_without_units_is_no_error():
    empty = torch.zeros(0, dtype=D)
    total, metrics = policy_loss(Objective(ratio="sequence"), batch(0), empty, empty)
    assert total.item() == 0 and metrics["units"] == 0
    assert merge([metrics])["units"] == 0


def test_metrics_of_the_kl_to_the_behaviour_are_of_the_sampled_side():
    # log-ratio of the current to the old policy: log 2 and 0. KL(old || now): k1 = mean(-log-ratio), k3 = 2 - log 2 - 1
    logprobs, zeros = tensor(np.log(0.5), np.log(0.25)), torch.zeros(2, dtype=D)
    old = tensor(np.log(0.25), np.log(0.25))
    _, metrics = policy_loss(Objective(), batch(2, old_logprobs=old), logprobs, zeros)
    assert metrics["kl/behaviour_k1"] == pytest.approx(-np.log(2) / 2)
    assert metrics["kl/behaviour_k3"] == pytest.approx((1 - np.log(2)) / 2)


# -- estimator and loss together against an exact gradient ------------------------------------------------------------

# Two rooms; (room, action) -> (next room or None, reward). At most three steps.
MOVES = {(0, 0): (None, 0.2), (0, 1): (1, 0.0), (1, 0): (0, -0.1), (1, 1): (None, 1.0)}


def test_the_expected_gradient_of_the_loss_is_the_exact_policy_gradient(episode, group):
    """All pairs of trajectories, weighed by their probability: E[-grad loss] = grad J / L_max for RLOO on-policy."""
    logits = torch.tensor([[0.1, 0.4], [-0.3, 0.2]], dtype=D, requires_grad=True)
    paths: list[list[tuple[int, int, float]]] = []
    for actions in product((0, 1), repeat=3):
        room, path = 0, []
        for action in actions:
            following, reward = MOVES[room, action]
            path.append((room, action, reward))
            if following is None:
                break
            room = following
        if path not in paths:
            paths.append(path)

    def logprobs(path: list[tuple[int, int, float]]) -> torch.Tensor:
        table = torch.log_softmax(logits, 1)
        return torch.stack([table[room, action] for room, action, _ in path])

    mean = sum(logprobs(path).sum().exp() * sum(reward for *_, reward in path) for path in paths)
    assert isinstance(mean, torch.Tensor)
    (exact,) = torch.autograd.grad(mean, logits)

    objective = Objective(aggregation="constant", length=4)
    expected = torch.zeros_like(exact)
    for pair in product(paths, repeat=2):
        members = [episode(*((str(room), str(action), reward) for room, action, reward in path)) for path in pair]
        advantages = RLOO()([group(*members)])[0]
        now = torch.cat([logprobs(path) for path in pair])
        n = len(now)
        weights = unit_weights([[1] * len(path) for path in pair], "constant", objective.length)
        loss, _ = policy_loss(
            objective,
            Batch(
                old_logprobs=now.detach(),
                advantages=torch.tensor([turn[0] for member in advantages for turn in member]),
                weights=torch.tensor(np.concatenate([w for row in weights for w in row])),
                call=torch.arange(n),
            ),
            now,
            torch.zeros(n, dtype=D),
        )
        (gradient,) = torch.autograd.grad(loss, logits)
        expected -= now.sum().exp().detach() * gradient
    assert torch.allclose(expected * objective.length, exact, atol=1e-10)
