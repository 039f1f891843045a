"""`Codesign`: the sampler of recipes in which a designer makes the environments that the policy learns in.

It is the recipe's replay too: that is where a step's designer groups join the batch, and where the policy may design.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..envs.core.errors import InvalidArgument
from ..envs.selfplay.designer import GrammarDesigner
from ..envs.selfplay.gates import GateSettings
from ..envs.selfplay.statistics import FEASIBLE, regret
from ..envs.selfplay.tasks import DIGITS, SEEDS, ProgramTasks
from ..harness.records import Group
from .designers import DesignerRole, Proposal, difficulty
from .estimators import one_of
from .grammar_role import GrammarRole
from .model_role import ModelRole
from .recipe import Request
from .sharded import ranks

Reward = Callable[[float, float, float], float]
HINT = "hint"
"""The mode of episodes that show the hint."""
_FLOOR = 0.02  # a program that teaches nothing now is still played now and then


@dataclass(frozen=True)
class CodesignSettings:
    """The settings of `Codesign`."""

    designer: str | DesignerRole = "grammar"
    """"grammar", "model" (the policy that is trained), or a role of your own (another policy: `ModelRole`)."""
    designs: int = 4
    """New designs per step."""
    instances: int = 1
    """Seeds on which each of a step's programs is played; each makes a group."""
    hinted: int = 8
    """Episodes with the hint per instance."""
    hint: bool = True
    """Measure with hints; False takes 1 for what would be reached with them."""
    memory: bool = True
    """Show the designer what was tried, and pay for novelty."""
    fixed_pool: bool = False
    """Play only the programs that are there at the start, all alike; nothing is designed, retired or hinted."""
    penalty: float = 0.5
    """What a design costs that the gates refuse."""
    solved: float = 0.95
    """A program is retired when at least 16 plain episodes have this mean score."""
    chance: float = GateSettings.chance
    """See `GateSettings`; programs that are easy at first need more."""
    constant: float = GateSettings.constant
    """See `GateSettings`."""
    hardest: int = 10
    """See `GrammarRole`."""
    designer_lr: float = 1.0
    """`GrammarRole.lr`."""
    explore: float = 0.1
    """See `GrammarRole`."""
    slope: float = 0.0
    """See `GrammarRole`."""
    dialect: str | None = None
    """See `GrammarDesigner`."""
    mechanics: Sequence[str] = GrammarDesigner.mechanics
    """The grammar designer's."""
    documents: Sequence[str] = ()
    """What the model designer builds on."""

    def role(self, seed: int) -> DesignerRole:
        """The designer.

        Raises:
            InvalidArgument: there is none of that name, or it has no such mechanic or size.
        """
        if not isinstance(self.designer, str):
            return self.designer
        one_of("designer", self.designer, ("grammar", "model"))
        gates = GateSettings(chance=self.chance, constant=self.constant)
        if self.designer == "model":
            return ModelRole(gates, documents=tuple(self.documents), seed=seed)
        grammar = GrammarDesigner(seed, tuple(self.mechanics), dialect=self.dialect)
        sizes = {"hardest": self.hardest, "lr": self.designer_lr, "explore": self.explore, "slope": self.slope}
        return GrammarRole(grammar, gates, seed=seed, **sizes)


class Codesign:
    """Sampler and replay of a recipe whose tasks are designed on the way: the pool, the designer, and what is played.

    A step plays the last designs and fills up with programs of the pool, drawn by how often groups of them differ, each
    with its hint and without; then the designer learns and designs again. Solved programs are retired.

    Args:
        settings: what it does.
        reward: (mean score with the hint, without, novelty) of a design -> what the designer gets for it.
    """

    def __init__(self, settings: CodesignSettings, reward: Reward) -> None:
        self.settings, self.reward = settings, reward
        self.told: dict[str, float] = {}

    def start(self, tasks: Any, groups: int, group_size: int, seed: int) -> Codesign:
        """Begin a run: the recipe's `make_sampler`.

        Raises:
            InvalidArgument: the tasks are not those of a pool on disk, or several processes train.
        """
        if not isinstance(tasks, ProgramTasks) or tasks.pool is None or tasks.split != "train":
            raise InvalidArgument("this recipe needs sandlot/SelfPlay-v0 with a pool of its own (-k pool=FOLDER)")
        if ranks().world > 1:
            raise InvalidArgument("this recipe writes to one pool: train with one process")
        self.tasks, self.pool = tasks, tasks.pool
        self.groups, self.group_size, self.seed, self.step = groups, group_size, seed, 0
        self.role = self.settings.role(seed)
        self.live = list(self.pool.ids("train"))
        self.open: list[Proposal] = []
        self.ready: list[tuple[Proposal, float]] = []
        self.levels: dict[str, int | None] = {}
        return self

    def plan(self, step: int, retry: int = 0) -> list[Request]:
        """New designs first, then programs of the pool that the learner half can do; without hints and with them."""
        self.step = step
        rng = np.random.default_rng((self.seed, step, retry))
        new = [proposal.program_id for proposal in self.open if proposal.program_id][: self.groups]
        old = [name for name in self.live if name not in new]
        spare = min(self.groups - len(new), len(old))
        weights = np.array([self._weight(name) for name in old]) if spare else np.ones(0)
        drawn = rng.choice(len(old), size=spare, replace=False, p=weights / weights.sum()) if spare else []
        requests = []
        for name in [*new, *(old[i] for i in drawn)]:
            for _ in range(self.settings.instances):
                number = 10 * int(rng.integers(SEEDS // 10)) + int(rng.choice(DIGITS["train"]))
                task = self.tasks.get(f"selfplay/{name}/{number}")
                requests.append(Request(task, self.group_size))
                if self.settings.hint and not self.settings.fixed_pool:
                    requests.append(Request(self.tasks.hinted(task), self.settings.hinted, HINT))
        return requests

    def _weight(self, name: str) -> float:
        """4 p (1 - p) with p its mean plain score, as a measure of how groups differ; 1 before it was played."""
        plain = self.pool.statistics(name).plain
        if self.settings.fixed_pool or plain is None:
            return 1.0
        return 4 * plain * (1 - plain) + _FLOOR

    def observe(self, groups: Sequence[Group]) -> None:
        """Record the scores, reward the designs that were played both ways, retire what is solved."""
        open_ = {proposal.program_id: proposal for proposal in self.open}
        played: dict[str, tuple[list[float], list[float]]] = {}
        for group in groups:
            name, hinted = group.task.params["program"], group.mode == HINT
            scores = [float(m.last_info["score"]) for m in group.members if not m.void]
            self.pool.record(name, policy_version=group.version, **{"hinted" if hinted else "plain": scores})
            played.setdefault(name, ([], []))[hinted].extend(scores)
            if name in open_:
                (open_[name].hinted if hinted else open_[name].plain).extend(scores)
        self.ready = [(proposal, self._reward(proposal)) for proposal in self.open if self._decided(proposal)]
        self.open = [proposal for proposal in self.open if not self._decided(proposal)]
        if not self.settings.fixed_pool:
            self._retire(played)
        self.told = self._describe(played)

    def _decided(self, proposal: Proposal) -> bool:
        """Refused, or played in every way that is measured."""
        return not proposal.program_id or bool(proposal.plain and (proposal.hinted or not self.settings.hint))

    def _reward(self, proposal: Proposal) -> float:
        if not proposal.program_id:
            return -self.settings.penalty
        hinted = float(np.mean(proposal.hinted)) if self.settings.hint else 1.0
        novelty = proposal.novelty if self.settings.memory else 0.0
        return self.reward(hinted, float(np.mean(proposal.plain)), novelty)

    def _retire(self, played: Mapping[str, Any]) -> None:
        for name in played:
            found = self.pool.statistics(name)
            done = found.plain is not None and found.plain_episodes >= 16 and found.plain >= self.settings.solved
            if done and name in self.live and len(self.live) > self.groups:
                self.pool.retire(name, "solved")
                self.live.remove(name)

    def _describe(self, played: Mapping[str, tuple[list[float], list[float]]]) -> dict[str, float]:
        """The step's metrics, see docs/metrics.md."""
        scores = [score for plain, _ in played.values() for score in plain]
        told: dict[str, Any] = {"pool": len(self.live), "plain": _mean(scores)}
        told["level"] = _mean([level for name in played if (level := self._level(name)) is not None])
        both = [(float(np.mean(h)), float(np.mean(p))) for p, h in played.values() if p and h]
        if both:
            told["hinted"] = _mean([hinted for hinted, _ in both])
            told["regret"] = _mean([regret(*pair) for pair in both])
            told["feasible"] = _mean([hinted >= FEASIBLE for hinted, _ in both])
        if self.ready:
            proposals = [proposal for proposal, _ in self.ready]
            told["reward"] = _mean([reward for _, reward in self.ready])
            told["accepted"] = _mean([bool(proposal.program_id) for proposal in proposals])
            told["novelty"] = _mean([proposal.novelty for proposal in proposals if proposal.program_id])
            told["difficulty"] = _mean([p.difficulty for p in proposals if p.difficulty is not None])
        told |= self.role.metrics()
        return {f"design/{name}": float(value) for name, value in told.items() if value is not None}

    def _level(self, name: str) -> int | None:
        if name not in self.levels:
            self.levels[name] = difficulty(self.pool.get(name))
        return self.levels[name]

    def metrics(self) -> dict[str, float]:
        """Of the last step."""
        return self.told

    def select(self, scorer: Any, budget: int) -> list[Group]:
        """The designer learns from the designs that were rewarded, then designs; its own groups join the batch."""
        if self.settings.fixed_pool:
            return []
        groups = self.role.learn([p for p, _ in self.ready], [reward for _, reward in self.ready]) if self.ready else []
        self.ready = []
        count, memory = self.settings.designs, self.settings.memory
        proposals = self.role.propose(scorer, self.pool, count, self.step, memory=memory)
        self.open += proposals
        self.live += [proposal.program_id for proposal in proposals if proposal.program_id]
        return groups

    def add(self, groups: Sequence[Group]) -> None:
        """Nothing is stored: the pool is the memory."""

    def state_dict(self) -> dict[str, Any]:
        """The designer, its open designs, what is played, and where the pool stands."""
        return {
            "role": self.role.state_dict(),
            "open": [proposal.to_dict() for proposal in self.open],
            "live": list(self.live),
            "step": self.step,
            "mark": self.pool.mark(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore it; what the pool got after the checkpoint is forgotten, for it will come again."""
        self.pool.rewind(state["mark"])
        self.tasks.refresh()
        self.role.load_state_dict(state["role"])
        self.open = [Proposal.from_dict(values) for values in state["open"]]
        self.live, self.step = list(state["live"]), state["step"]


def _mean(values: Sequence[Any]) -> float | None:
    return float(np.mean(values)) if len(values) else None
