"""`Recipe`: a training method as a handful of parts. A published system is a function that returns one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ..envs.core.tasks import Task
from ..harness.policy import Policy
from ..harness.records import Advantages, Call, Context, Group

if TYPE_CHECKING:
    import numpy as np
    import torch

    from ..harness.policies.evaluation import Evaluation


@dataclass(frozen=True, slots=True)
class Request:
    """Which task to roll out, how often and in which mode."""

    task: Task
    n: int
    """Members of the group."""
    mode: str = "explore"


class Sampler(Protocol):
    """Chooses what to play next and watches what came of it. Stateful: `state_dict`, `load_state_dict`.

    One that also has `metrics()` adds numbers of its own to the step's, after `observe`.
    """

    def plan(self, step: int, retry: int = 0) -> list[Request]:
        """The requests of this step; `retry` counts the further rounds of dynamic sampling."""
        ...

    def observe(self, groups: Sequence[Group]) -> None:
        """Learn from the step's groups, before any shaping."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything that a resumed run needs."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore it."""
        ...


class Shaper(Protocol):
    """Rewrites rewards (`turn.reward`) in place, seeing whole groups. The environment's score is never touched."""

    def __call__(self, groups: Sequence[Group]) -> None:
        """Shape the groups' rewards."""
        ...


class Estimator(Protocol):
    """Advantages from groups: `[group][member][turn] -> (units,)`. Void members get zeros.

    One that also has `prepare(policy, groups)` is shown the policy first (for values, for other scores).
    """

    def __call__(self, groups: Sequence[Group]) -> Advantages:
        """Advantages of the groups."""
        ...


class Modulator(Protocol):
    """Rescales or filters advantages after the estimator."""

    def __call__(self, advantages: Advantages, groups: Sequence[Group], scorer: Any) -> Advantages:
        """The changed advantages; `scorer` is the policy being trained."""
        ...


class Replay(Protocol):
    """Keeps groups of earlier steps and gives some back. Stateful."""

    def select(self, scorer: Any, budget: int) -> list[Group]:
        """Up to `budget` stored groups to learn from now."""
        ...

    def add(self, groups: Sequence[Group]) -> None:
        """Store the step's groups."""
        ...


class AuxLoss(Protocol):
    """Extra losses on a micro-batch of calls, already weighted: `{name: scalar tensor}`."""

    def __call__(self, policy: Any, calls: Sequence[Call]) -> dict[str, torch.Tensor]:
        """The losses by name."""
        ...


class Trainable(Policy, Protocol):
    """A policy whose weights can be moved: it also evaluates recorded calls differentiably."""

    def evaluate(self, calls: Sequence[Call]) -> Evaluation:
        """Log-probabilities, entropies (one per unit, calls concatenated in order) and, with a critic, values."""
        ...

    def score(self, calls: Sequence[Call], contexts: Sequence[Context] | None = None) -> list[np.ndarray]:
        """Per call, the (units,) log-probabilities of its recorded units; see `harness.policy.Scorer`."""
        ...

    def trainable_parameters(self) -> list[torch.nn.Parameter]:
        """The weights that move."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything that a resumed run needs."""
        ...

    def load_state_dict(self, state: Mapping[str, Any], /) -> Any:
        """Restore it."""
        ...


@dataclass(frozen=True)
class Objective:
    """The unit loss -w * min(r A, clip(r, 1-low, 1+high) A) + KL + value - entropy, with r = exp(logp - logp_old).

    The weights w come from `aggregation` and are fixed before the batch is cut up, so that gradient accumulation
    over micro-batches equals one big batch.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    surrogate: str = "clip"
    """"clip" (PPO and most others) or "cispo": -sg(min(r, 1+high)) A logp, where no unit loses its gradient."""
    dual_clip: float | None = None
    """c > 1: a unit with A < 0 loses at most c |A|, however large its ratio. None: no such bound."""
    ratio: str = "unit"
    """"unit" (PPO, GRPO) or "sequence" (GSPO's length-normalised ratio per call)."""
    correction: str = "none"
    """Where the sampler's probabilities are not the trainer's (another engine, older weights): "truncate" (TIS) or
    "mask" multiplies the surrogate by exp(logp_trainer_old - logp_sampler), cut off at `correction_cap` or zero beyond
    it; the ratio then compares with the trainer's own old log-probabilities, which costs one more forward pass.
    "none" puts the sampler's into the ratio, which covers both."""
    correction_cap: float = 2.0
    correction_level: str = "unit"
    """"unit", or "sequence": the correction is the product over the call's units."""
    aggregation: str = "token"
    """"token": mean over all units of the batch (DAPO); "trajectory": mean over a trajectory's units, then over
    trajectories (GRPO's paper); "turn": mean over a call's units, then over the calls of a trajectory, then over
    trajectories; "call": mean over a call's units, then over all calls (verl-agent's step rows); "constant": sum over
    units / (trajectories * `length`) (Dr.GRPO)."""
    length: int = 512
    """L_max of "constant"."""
    kl: str = "k3"
    """Estimator against the reference policy: "k1", "k2" or "k3"."""
    kl_coef: float = 0.0
    """0 needs no reference policy."""
    kl_weighted: bool = False
    """Multiply the KL term by the ratio, which makes k3's gradient unbiased (TRL's `use_bias_correction_kl`)."""
    kl_in_reward: bool = False
    """Subtract the (k1) penalty from the unit rewards before estimation instead of adding it to the loss."""
    entropy_coef: float = 0.0
    value_coef: float = 0.5
    """Weight of the critic's loss; used only where the estimator gives returns."""
    value_clip: float | None = None


@dataclass
class Recipe:
    """A method. Unset parts are skipped; the loop is the same for all (`trainers/loop.py`)."""

    name: str
    estimator: Estimator
    objective: Objective = field(default_factory=Objective)
    shapers: Sequence[Shaper] = ()
    modulators: Sequence[Modulator] = ()
    aux: Sequence[AuxLoss] = ()
    replay: Replay | None = None
    make_sampler: Callable[..., Sampler] | None = None
    """Builds the sampler from (tasks, groups, group_size, seed); None draws tasks uniformly."""
    make_updater: Callable[..., Any] | None = None
    """Builds the updater from (policy, optimizer settings); None is AdamW on the summed loss."""
    groups: int = 16
    """Groups (tasks) per step."""
    group_size: int = 16
    """Trajectories per group."""
    resample: int = 0
    """Dynamic sampling: replace groups whose returns are all equal, in at most so many further rounds per step."""
    epochs: int = 1
    """Passes over a step's trajectories."""
    minibatches: int = 1
    """Optimiser steps per pass."""
    critic: bool = False
    """Whether the policy needs a value head."""
    lr: float = 1e-4
    value_lr: float | None = None
    warmup: int = 0
    """Steps over which the learning rate rises linearly; a fresh Adam without it moves every weight by lr."""
    max_grad_norm: float = 1.0
    weight_decay: float = 0.0
