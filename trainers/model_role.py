"""`ModelRole`: a language model as the designer; what it wrote becomes a group that the learner trains on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..envs.core.tasks import Task
from ..envs.core.text_env import text_key
from ..envs.selfplay.gates import Gates, GateSettings
from ..envs.selfplay.pool import Pool
from ..harness.designer import ROLE, Design, ModelDesigner
from ..harness.loop import derive_seed
from ..harness.records import Group, StopReason, Trajectory, Turn
from .designers import Proposal, difficulty, take


class ModelRole:
    """One prompt per step and several answers to it, mended a few times after the gates' reports.

    Args:
        settings: how strict the gates are.
        policy: writes; None is the policy that is being trained, which then learns from its designs as from episodes.
        remembered: entries of memory in the prompt.
        seed: decides the sampling, together with the step.
        options: further arguments of `harness.designer.ModelDesigner`.
    """

    def __init__(
        self,
        settings: GateSettings | None = None,
        policy: Any = None,
        *,
        remembered: int = 8,
        seed: int = 0,
        **options: Any,
    ) -> None:
        self.settings, self.policy, self.options = settings, policy, options
        self.remembered, self.seed = remembered, seed

    def propose(self, policy: Any, pool: Pool, count: int, step: int, *, memory: bool) -> list[Proposal]:
        """See `DesignerRole`."""
        known, proposals = pool.known(), []
        with Gates(settings=self.settings) as gates:
            designs = ModelDesigner(gates, **self.options).design(
                self.policy or policy,
                [step] * count,
                memory=pool.memory(self.remembered) if memory else (),
                known=known,
                seed=derive_seed(self.seed, step),
                generation=step,
            )
        for design in designs:
            proposal = take(pool, design.program, design.verdict, known)
            if proposal.program_id and design.program is not None:
                proposal.difficulty = difficulty(design.program)
            if design.calls:
                proposal.episode = _episode(design, bool(proposal.program_id), step)
            proposals.append(proposal)
        return proposals

    def learn(self, proposals: Sequence[Proposal], rewards: Sequence[float]) -> list[Group]:
        """One group of the designs, each an episode whose last turn earns the design's reward."""
        members = []
        for proposal, reward in zip(proposals, rewards, strict=True):
            if proposal.episode is not None:
                proposal.episode.turns[-1].reward = reward
                members.append(proposal.episode)
        if self.policy is not None or not members:
            return []
        return [Group(members[0].task, members, members[0].turns[0].call.version, ROLE)]

    def metrics(self) -> dict[str, float]:
        """There are none."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """There is none: the loop saves the policy, and open designs are saved with the proposals."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """There is none."""


def _episode(design: Design, accepted: bool, step: int) -> Trajectory:
    """A design as an episode: one turn per answer, with the gates' report as what followed."""
    task = Task(f"design/{step}", "train")
    turns = []
    for number, (call, report) in enumerate(zip(design.calls, design.reports, strict=True), 1):
        done = accepted and number == len(design.calls)
        info = {"valid": True, "success": done, "score": float(done)}
        key = text_key(task.id, str(number))
        turns.append(Turn(call, call.text, report, 0.0, info, key, key))
    context = design.calls[0].context
    return Trajectory(
        context.session, "design", task, context.messages[-1].text, {}, turns, StopReason.TERMINATED, mode=ROLE
    )
