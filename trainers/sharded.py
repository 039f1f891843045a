"""Several processes, one run: weights, gradients and optimiser state sharded by FSDP2, episodes shared out.

Every process (rank) runs the same loop on the same numbers. Of a step's groups each rank plays its share, with an
unsharded copy of the policy, and hands the episodes to all; of a minibatch's trajectories each rank evaluates its
share, and the gradients are summed. What a run computes does not depend on how many ranks there are, up to rounding.

    torchrun --nproc-per-node 2 -m sandlot.cli train --env Corridor --model tiny

Nothing of our own stands in for the engine: sharding is `torch.distributed.fsdp.fully_shard`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from ..envs.core.errors import InvalidArgument
from ..envs.core.tasks import Task
from ..harness.loop import Rollout, play_groups
from ..harness.policies.hf import HFPolicy
from ..harness.policy import Sampling
from ..harness.records import Call, Context, Group, Trajectory

OnTrajectory = Callable[[Trajectory], None]


@dataclass(frozen=True)
class Ranks:
    """This process among those of the run; alone where nothing was started."""

    rank: int = 0
    world: int = 1

    def gather(self, item: Any) -> list[Any]:
        """Every rank's item (pickled), in the order of the ranks; all ranks must call it."""
        if self.world == 1:
            return [item]
        items: list[Any] = [None] * self.world
        distributed.all_gather_object(items, item)
        return items

    def mine(self, items: Sequence[Any]) -> list[Any]:
        """This rank's share of what all ranks have."""
        return list(items[self.rank :: self.world])


def ranks() -> Ranks:
    """This process's place; `Ranks()` outside `torchrun`."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return Ranks()
    return Ranks(distributed.get_rank(), distributed.get_world_size())


def start() -> Ranks:
    """Join the processes that `torchrun` started (its variables tell); alone without it. Harmless when called twice."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not distributed.is_initialized():
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        # gloo beside nccl: norms of gradients that were moved to the CPU
        distributed.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    return ranks()


def stop() -> None:
    """Leave them."""
    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def play_shared(
    policy: Any,
    requests: Sequence[tuple[Task, int, str]],
    rollout: Rollout,
    *,
    seed: int,
    on_trajectory: OnTrajectory | None = None,
) -> list[Group]:
    """As `play_groups`; with several ranks each plays its share and all get all groups, in order.

    An episode's seed is that of its group's number among all requests, so the episodes are those that one process
    would have played.
    """
    here = ranks()
    numbers = here.mine(range(len(requests)))
    played = play_groups(
        policy, [requests[i] for i in numbers], rollout, seed=seed, numbers=numbers, on_trajectory=on_trajectory
    )
    everywhere = here.gather(list(zip(numbers, played, strict=True)))
    return [group for _, group in sorted((pair for part in everywhere for pair in part), key=lambda pair: pair[0])]


class ShardedPolicy:
    """A language-model policy whose weights are spread over the ranks; it plays with a whole copy of its own.

    Args:
        policy: the same on every rank; its model is sharded in place.

    Raises:
        InvalidArgument: the policy is no `HFPolicy`.
    """

    def __init__(self, policy: Any) -> None:
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        if not isinstance(policy, HFPolicy):
            raise InvalidArgument(f"several processes need a language model, not {type(policy).__name__}")
        self.player = policy.copy()
        self.inner = policy
        precision = MixedPrecisionPolicy()
        if policy.compute_dtype == torch.bfloat16:
            precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        blocks = [m for m in policy.model.modules() if type(m).__name__ in set(_blocks(policy.model))]
        for block in blocks:
            fully_shard(block, mp_policy=precision)
        fully_shard(policy.model, mp_policy=precision)
        if policy.value_head is not None:
            fully_shard(policy.value_head)
        self.format, self.max_tokens, self.name = policy.format, policy.max_tokens, policy.name
        self.optimizer_device = policy.optimizer_device

    @property
    def version(self) -> int:
        """Of the weights."""
        return self.player.version

    @version.setter
    def version(self, value: int) -> None:
        """A new version means that the weights have moved: the copy that plays takes them over (on all ranks)."""
        self._refresh()
        self.player.version = self.inner.version = value

    def generate(self, contexts: Sequence[Context], sampling: Sampling, seeds: Sequence[int]) -> list[Call]:
        """One call per context, in order; needs no other rank."""
        return self.player.generate(contexts, sampling, seeds)

    def forget(self, sessions: Sequence[str]) -> None:
        """These sessions ended."""
        self.player.forget(sessions)

    def evaluate(self, calls: Sequence[Call]) -> Any:
        """With gradients: by the sharded model, on all ranks at once. Without: by this rank's copy alone."""
        return self.inner.evaluate(calls) if torch.is_grad_enabled() else self.player.evaluate(calls)

    def score(self, calls: Sequence[Call], contexts: Sequence[Context] | None = None) -> list[Any]:
        """Log-probabilities of the recorded units; needs no other rank."""
        return self.player.score(calls, contexts)

    def reference(self) -> Any:
        """The policy as it is now, frozen and whole, on each rank."""
        return self.player.copy()

    def trainable_parameters(self) -> list[torch.nn.Parameter]:
        """This rank's shards."""
        return self.inner.trainable_parameters()

    def value_parameters(self) -> list[torch.nn.Parameter]:
        """The value head's shards."""
        return self.inner.value_parameters()

    def state_dict(self) -> dict[str, Any]:
        """The whole weights: those of the copy."""
        return self.player.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over whole weights, on all ranks at once."""
        from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

        self.player.load_state_dict(state)
        whole = StateDictOptions(full_state_dict=True)
        set_model_state_dict(self.inner.model, self.player.model.state_dict(), options=whole)
        if self.inner.value_head is not None and self.player.value_head is not None:
            set_model_state_dict(self.inner.value_head, self.player.value_head.state_dict(), options=whole)
        self.inner.version = self.player.version

    def save(self, directory: str | Path) -> None:
        """Write the model, on rank 0."""
        if ranks().rank == 0:
            self.player.save(directory)

    def _refresh(self) -> None:
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

        whole = StateDictOptions(full_state_dict=True)
        self.player.model.load_state_dict(get_model_state_dict(self.inner.model, options=whole))
        if self.inner.value_head is not None and self.player.value_head is not None:
            self.player.value_head.load_state_dict(get_model_state_dict(self.inner.value_head, options=whole))


def _blocks(model: Any) -> list[str]:
    """Names of the classes that transformers says must not be split: the transformer blocks."""
    inner = model.get_base_model() if hasattr(model, "peft_config") else model
    return list(getattr(inner, "_no_split_modules", None) or [])
