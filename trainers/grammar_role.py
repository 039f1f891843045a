"""`GrammarRole`: the grammar designer with a learned distribution over difficulties and mechanics in front of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..envs.core.errors import InvalidArgument
from ..envs.selfplay.blueprint import Blueprint
from ..envs.selfplay.designer import GrammarDesigner
from ..envs.selfplay.gates import Gates, GateSettings
from ..envs.selfplay.pool import Pool
from ..envs.selfplay.program import Program, ProgramError
from ..envs.selfplay.reasons import Reason
from ..envs.selfplay.verdict import Finding, Verdict
from ..harness.loop import derive_seed
from ..harness.records import Group
from .designers import Proposal, difficulty, take
from .estimators import in_unit_interval, normalise


class GrammarRole:
    """The designer's policy: a softmax over difficulties, then one over mechanics, drawn one after the other.

        p(d)       = (1 - explore) softmax(a x + b x^2)_d + explore / D     x: d from 1 to D put onto [-1, 1]
        p(m | S)   = (1 - explore) softmax(c over S)_m + explore / |S|      S: the mechanics that are not drawn yet

    What one difficulty was worth thus says something of its neighbours, and the distribution can travel as the solver
    gets better. How many mechanics is drawn uniformly from what the difficulty allows. a, b and c move by lr times the
    mean over designs of A_i grad log p(design i), with A the rewards minus their mean over their standard deviation.

    With memory, every second design is a change of a remembered program, drawn in proportion to its regret. Such
    designs did not come from p, so that nothing is learned from them; they count in the mean.

    Args:
        designer: writes the programs.
        settings: how strict the gates are.
        hardest: difficulties are 1 to this (D).
        lr: step size.
        explore: how much of p is uniform, so that no design ever becomes impossible.
        tries: how many programs of one draw may go to the gates before it counts as refused.
        slope: the first a; below 0 the designer begins with easy programs.
        seed: decides all drawing, together with the step.

    Raises:
        InvalidArgument: `explore` is not in [0, 1], or `hardest` is out of the designer's reach.
    """

    def __init__(
        self,
        designer: GrammarDesigner,
        settings: GateSettings | None = None,
        *,
        hardest: int = 10,
        lr: float = 1.0,
        explore: float = 0.1,
        slope: float = 0.0,
        tries: int = 4,
        seed: int = 0,
    ) -> None:
        in_unit_interval("explore", explore)
        most = 5 * min(designer.most_stages, len(designer.mechanics))
        if not 1 <= hardest <= most:
            raise InvalidArgument(f"hardest must be from 1 to {most} with this designer, not {hardest!r}")
        self.designer, self.settings, self.lr, self.explore = designer, settings, lr, explore
        self.tries, self.seed = max(1, tries), seed
        x = np.linspace(-1, 1, hardest) if hardest > 1 else np.zeros(1)
        self.shapes = np.stack([x, x**2])
        self.sizes = np.array([slope, 0.0])
        self.tags = np.zeros(len(designer.mechanics))

    def propose(self, policy: Any, pool: Pool, count: int, step: int, *, memory: bool) -> list[Proposal]:
        """See `DesignerRole`."""
        known, proposals = pool.known(), []
        tried = pool.memory(16) if memory else []
        worth = [(entry.program_id, entry.regret) for entry in tried if entry.regret]
        with Gates(settings=self.settings) as gates:
            for place in range(count):
                rng = np.random.default_rng((self.seed, step, place))
                parent = self._parent(pool, worth, rng) if place % 2 else None
                size, tags = self.draw(rng)
                program, verdict = None, Verdict("")
                for attempt in range(self.tries):
                    number = derive_seed(self.seed, step, place, attempt)
                    program, verdict = self._write(parent, size, tags, number, step)
                    if program is not None and all(other.id != program.id for other in known):
                        verdict = gates.check(program, known)
                        if verdict.passed:
                            break
                found = take(pool, program, verdict, known)
                level = size if program is None else difficulty(program)
                proposals.append(replace(found, difficulty=level, tags=() if parent else tags))
        return proposals

    def draw(self, rng: np.random.Generator) -> tuple[int, tuple[str, ...]]:
        """A difficulty, and mechanics in the order of drawing."""
        size = 1 + int(rng.choice(self.hardest, p=self.difficulties))
        most = min(self.designer.most_stages, size, len(self.tags))
        count = int(rng.integers(min(-(-size // 5), most), most + 1))
        left, drawn = list(range(len(self.tags))), []
        for _ in range(count):
            drawn.append(left.pop(int(rng.choice(len(left), p=self.mixed(self.tags[left])))))
        return size, tuple(self.designer.mechanics[i] for i in drawn)

    @property
    def hardest(self) -> int:
        """D."""
        return self.shapes.shape[1]

    @property
    def difficulties(self) -> np.ndarray:
        """(D,) probabilities."""
        return self.mixed(self.sizes @ self.shapes)

    def mixed(self, logits: np.ndarray) -> np.ndarray:
        """(n,) probabilities of (n,) logits, a share of them uniform."""
        return (1 - self.explore) * _softmax(logits) + self.explore / len(logits)

    def gradient(self, size: int, tags: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Of log p(design) with respect to (a, b) and c."""
        sizes, mechanics = self.shapes @ self._score(self.sizes @ self.shapes, size - 1), np.zeros(len(self.tags))
        left = list(range(len(self.tags)))
        for tag in tags:
            chosen = self.designer.mechanics.index(tag)
            mechanics[left] += self._score(self.tags[left], left.index(chosen))
            left.remove(chosen)
        return sizes, mechanics

    def _score(self, logits: np.ndarray, chosen: int) -> np.ndarray:
        """Gradient of log((1 - e) s_c + e / n): (1 - e) s_c / p_c (onehot(c) - s)."""
        soft = _softmax(logits)
        weight = (1 - self.explore) * soft[chosen] / self.mixed(logits)[chosen]
        return weight * (np.eye(len(logits))[chosen] - soft)

    def _write(
        self, parent: Program | None, size: int, tags: Sequence[str], number: int, step: int
    ) -> tuple[Program | None, Verdict]:
        """A change of the parent or a new program; None with the verdict where there is none."""
        try:
            if parent is not None:
                program = self.designer.mutate(parent, number, generation=step)
                if Blueprint.read(program).difficulty > self.hardest:
                    raise ProgramError(f"program {program.id} is harder than {self.hardest}")
                return program, Verdict("")
            ordered = sorted(tags, key=lambda tag: tag == "recall")  # it asks for what the others gave
            return self.designer.compose(number, difficulty=size, tags=ordered, generation=step), Verdict("")
        except (InvalidArgument, ProgramError) as error:
            return None, Verdict("", (Finding(Reason.MANIFEST, f"{error}."),))

    def _parent(self, pool: Pool, worth: Sequence[tuple[str, float]], rng: np.random.Generator) -> Program | None:
        """A remembered program, drawn in proportion to its regret; None where none was worth anything."""
        if not worth:
            return None
        weights = np.array([regret for _, regret in worth])
        return pool.get(worth[int(rng.choice(len(worth), p=weights / weights.sum()))][0])

    def learn(self, proposals: Sequence[Proposal], rewards: Sequence[float]) -> list[Group]:
        """Move a, b and c; there is nothing for the learner."""
        advantages = normalise(np.array(rewards, dtype=np.float64), std=True)
        moves = [np.zeros_like(self.sizes), np.zeros_like(self.tags)]
        for proposal, advantage in zip(proposals, advantages, strict=True):
            if proposal.tags and proposal.difficulty:
                for move, gradient in zip(moves, self.gradient(proposal.difficulty, proposal.tags)):
                    move += advantage * gradient
        scale = self.lr / max(len(proposals), 1)
        self.sizes, self.tags = self.sizes + scale * moves[0], self.tags + scale * moves[1]
        return []

    def metrics(self) -> dict[str, float]:
        """Mean and entropy (nats) of the distribution over difficulties."""
        p = self.difficulties
        return {
            "aim": float(p @ np.arange(1, len(p) + 1)),
            "entropy": float(-(p * np.log(np.maximum(p, 1e-300))).sum()),
        }

    def state_dict(self) -> dict[str, Any]:
        """a, b and c."""
        return {"sizes": self.sizes.tolist(), "tags": self.tags.tolist()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them."""
        self.sizes, self.tags = (np.array(state[name], dtype=np.float64) for name in ("sizes", "tags"))


def _softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()
