"""From the environment to the gradient: harness, estimator, learner and loss together against an exact gradient."""

from __future__ import annotations

import numpy as np
import torch

from sandlot.envs import make
from sandlot.envs.toys.exact import unroll
from sandlot.harness.loop import EnvMaker, Rollout, play_groups
from sandlot.harness.policies.tabular import TabularPolicy
from sandlot.trainers.learner import Learner
from sandlot.trainers.methods import make_recipe

ENV, OPTIONS, HORIZON = "sandlot/Corridor-v0", {"rooms": 3, "verbs": 3, "max_steps": 4}, 4
BATCHES, GROUPS, SIZE = 20, 16, 4


class KeepGradient:
    """An updater that keeps the gradient of the loss and moves nothing."""

    def __init__(self, policy, recipe):
        self.policy, self.gradients = policy, []

    def accumulate(self, losses):
        torch.stack(list(losses.values())).sum().backward()

    def step(self):
        self.gradients.append(self.policy.weights.grad.numpy().copy())
        self.policy.weights.grad = None
        return {}


def test_sampled_gradients_agree_with_the_exact_one():
    env = make(ENV, **OPTIONS)
    env.reset(seed=0)
    task, mdp = env.task, unroll(env)

    policy = TabularPolicy(capacity=16)
    rollout = Rollout(EnvMaker(ENV, OPTIONS))
    rng = np.random.default_rng(0)
    play_groups(policy, [(task, 64, "explore")], rollout, seed=1)  # so that every entry of the table exists
    policy.weights.data[:] = policy.weights.data.new_tensor(rng.normal(size=16) * 0.5)
    names = [(info["state_key"], info["admissible"]) for info in mdp.infos]

    def value(weights):
        def chances(_, info):
            at = [policy.index[f"{info['state_key']}\n{action}"] for action in info["admissible"]]
            return np.exp(weights[at]) / np.exp(weights[at]).sum()

        return mdp.value(chances, HORIZON)

    used = sum(len(actions or ()) for _, actions in names)
    assert len(policy.index) == used == 6
    base, step = policy.weights.detach().numpy().copy(), 1e-6
    exact = np.array([(value(base + step * e) - value(base - step * e)) / (2 * step) for e in np.eye(16)])[:used]
    assert np.abs(exact).max() > 0.05

    # The same episodes serve every method; mean-only GRPO lacks the member's own share of the mean.
    requests = [[(task, SIZE, "explore")] * GROUPS for _ in range(BATCHES)]
    played = [play_groups(policy, batch, rollout, seed=100 + i) for i, batch in enumerate(requests)]
    cases = {
        "rloo": ({}, 1.0),
        "grpo": ({"std": False}, (SIZE - 1) / SIZE),
        "reinforcepp": ({"whiten": False}, 1.0),
    }
    for name, (options, factor) in cases.items():
        recipe = make_recipe(name, make_updater=KeepGradient, aggregation="constant", length=1, **options)
        learner = Learner(policy, recipe)
        assert isinstance(learner.updater, KeepGradient)
        for groups in played:
            learner.update(groups, recipe.estimator(groups))
        gradients = -np.array(learner.updater.gradients)[:, :used]  # the loss goes down where the return goes up
        error = gradients.std(0, ddof=1) / np.sqrt(BATCHES)
        assert gradients.shape == (BATCHES, used)
        assert (error < 0.1).all()
        assert np.abs((gradients.mean(0) - factor * exact) / error).max() < 4, name
        assert np.corrcoef(gradients.mean(0), exact)[0, 1] > 0.9
