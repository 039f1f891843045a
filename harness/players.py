"""`PolicyPlayer`: a policy in a seat of a two-player game, to be frozen into a pool of opponents."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any, Self

from ..envs.core.errors import InvalidArgument
from ..envs.core.text_env import text_key
from ..envs.games.game import View
from .context import History
from .policies.scripted import RandomPolicy
from .policy import Policy, Sampling
from .records import Context

MODEL, TABLE = "model", "weights.pt"


class PolicyPlayer:
    """Plays what a policy answers to what the seat sees. A copy of it has weights of its own.

    The prompt is that of an episode's first turn: the instruction and the newest observation, which in these games
    tells all that has happened. An answer that is no action counts as the action that the chance number picks.

    Args:
        policy: any policy that answers from the prompt alone.
        instruction: what the environment's `info["instruction"]` says, so that the policy reads what it was trained on.
        sampling: how it answers; its draws come from the chance number alone.
        history: how the prompt is made; as in training.
    """

    def __init__(
        self,
        policy: Policy,
        instruction: str = "",
        sampling: Sampling | None = None,
        history: History | None = None,
    ) -> None:
        self.policy, self.instruction = policy, instruction
        self.sampling = sampling or Sampling(decode="choice")
        self.history = history or History(window=0, brief=True)
        self._count = count()
        self._lock = threading.Lock()  # one policy may sit in the games of several threads

    def act(self, view: View, chance: float) -> str:
        """The policy's action.

        Raises:
            EnvironmentFault: the model's server failed.
        """
        builder = self.history()
        builder.start(view.text, {"instruction": self.instruction, "admissible": view.actions})
        key = text_key(view.text)
        context = Context(builder.render(), view.actions, f"seat~{next(self._count)}", "opponent", key, key)
        with self._lock:
            (call,) = self.policy.generate([context], self.sampling, [int(chance * 2**53)])
            self.policy.forget([context.session])
        said = " ".join(call.text.lower().split())
        return said if said in view.actions else view.actions[int(chance * len(view.actions))]

    def __deepcopy__(self, memo: dict[int, Any]) -> PolicyPlayer:
        policy: Any = self.policy
        policy = policy.copy() if hasattr(policy, "copy") else copy.deepcopy(policy, memo)
        if hasattr(policy, "frozen"):
            policy.frozen = True
        return PolicyPlayer(policy, self.instruction, self.sampling, self.history)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_lock", "_count")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(**state)

    # -- files --------------------------------------------------------------------------------------------------------

    def keep(self, folder: Path) -> dict[str, Any]:
        """Write the policy's weights into `folder` and return the rest.

        Raises:
            InvalidArgument: a policy that cannot be kept.
        """
        settings = {"instruction": self.instruction, "sampling": asdict(self.sampling), "history": asdict(self.history)}
        policy: Any = self.policy
        if isinstance(policy, RandomPolicy):
            return {**settings, "policy": "random"}
        if hasattr(policy, "save"):
            policy.save(folder / MODEL)
            return {**settings, "policy": "language"}
        from .policies.bag import BagPolicy
        from .policies.tabular import TabularPolicy

        if not isinstance(policy, BagPolicy | TabularPolicy):
            raise InvalidArgument(f"a {type(policy).__name__} cannot be kept in a file")
        import torch

        torch.save(policy.state_dict(), folder / TABLE)
        made = {"size": len(policy.weights), "critic": policy.value_weights is not None}
        if isinstance(policy, TabularPolicy):
            return {**settings, "policy": "tabular", **made, "key": policy.key}
        return {**settings, "policy": "bag", **made}

    @classmethod
    def bring(cls, folder: Path, settings: Mapping[str, Any]) -> Self:
        """The player that `keep` wrote. Nothing in its files is run.

        Raises:
            MissingData: the weights are missing.
            InvalidArgument: no such kind of policy.
        """
        rest = Sampling(**settings["sampling"]), History(**settings["history"])
        return cls(_policy(folder, settings), settings["instruction"], *rest)


def _policy(folder: Path, settings: Mapping[str, Any]) -> Any:
    kind = settings["policy"]
    if kind == "random":
        return RandomPolicy()
    if kind == "language":
        from .policies.hf import HFPolicy

        return HFPolicy.load(folder / MODEL)
    import torch

    from .policies.bag import BagPolicy
    from .policies.tabular import TabularPolicy

    if kind == "tabular":
        policy: Any = TabularPolicy(settings["size"], key=settings["key"], critic=settings["critic"])
    elif kind == "bag":
        policy = BagPolicy(settings["size"], critic=settings["critic"])
    else:
        raise InvalidArgument(f"no policy of the kind {kind!r} can be brought back")
    policy.load_state_dict(torch.load(folder / TABLE, weights_only=True))
    if hasattr(policy, "frozen"):
        policy.frozen = True
    return policy
