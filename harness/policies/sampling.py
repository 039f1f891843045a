"""Sampling: from logits to the next token of every completion that is under way, and the record of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from ...envs.core.errors import UserError
from ..policy import Sampling
from ..records import Context
from .trie import Node, Trie

# (number of the context, token, log-probability) -> true to end that completion here; called for free text only
OnToken = Callable[[int, int, float], bool]


@dataclass(slots=True)
class Session:
    """What is kept between the turns of one (session, role)."""

    row: int = -1
    ids: list[int] = field(default_factory=list)  # the tokens whose keys and values are in the cache
    version: int = -1
    calls: int = 0
    recorded: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Job:
    """One context on its way to a call."""

    context: Context
    session: Session
    prompt: list[int]
    random: np.random.Generator
    trie: Trie | None = None
    node: Node | None = None
    room: int = 0  # tokens that may still be sampled
    side: int = 0  # tokens of all candidates, fed beside the history
    pending: list[int] = field(default_factory=list)  # to be fed before the next token can be sampled
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    allowed: list[tuple[int, ...]] = field(default_factory=list)
    choice: int = -1
    value: float | None = None
    finish: str = ""
    number: int = 0  # of the context among those asked for together


def sample_free(
    jobs: Sequence[Job], logits: torch.Tensor, sampling: Sampling, stop: int, on_token: OnToken | None
) -> None:
    """Draw one token per job from everything that has a probability; (jobs, V) logits."""
    scores = logits / (sampling.temperature or 1.0)
    inside = nucleus(scores, sampling.top_p) if sampling.top_p < 1 and sampling.temperature else None
    if inside is not None:
        scores = scores.masked_fill(~inside, -torch.inf)
    logprobs = torch.log_softmax(scores, dim=1)
    picked = draw(logprobs, jobs, sampling.temperature)
    taken = logprobs.gather(1, picked[:, None])[:, 0].tolist()
    if inside is not None:
        for job, row in zip(jobs, inside.cpu().numpy()):
            job.allowed.append(tuple(np.flatnonzero(row).tolist()))
    for job, token, logprob in zip(jobs, picked.tolist(), taken):
        job.ids.append(token)
        job.logprobs.append(logprob)
        job.pending = [token]
        job.room -= 1
        if token == stop:
            job.finish = "stop"
        elif job.room == 0:
            job.finish = "length"
        if on_token is not None and on_token(job.number, token, logprob):
            job.finish = job.finish or "stop"


def sample_trie(jobs: Sequence[Job], logits: torch.Tensor, sampling: Sampling) -> None:
    """One decision per job, and the tokens before and after it that leave no choice."""
    open_ = [index for index, job in enumerate(jobs) if not follow(job)]
    if not open_:
        return
    undecided = [jobs[index] for index in open_]
    allowed = [job.node.allowed for job in undecided if job.node is not None]
    width = max(len(among) for among in allowed)
    among = np.array([[*tokens, *[-1] * (width - len(tokens))] for tokens in allowed], dtype=np.int64)
    index = torch.from_numpy(np.maximum(among, 0)).to(logits.device)
    scores = logits[open_].gather(1, index) / (sampling.temperature or 1.0)
    scores.masked_fill_(torch.from_numpy(among < 0).to(logits.device), -torch.inf)
    logprobs = torch.log_softmax(scores, dim=1)
    picked = draw(logprobs, undecided, sampling.temperature)
    taken = logprobs.gather(1, picked[:, None])[:, 0].tolist()
    for job, column, logprob in zip(undecided, picked.tolist(), taken):
        take(job, job.node.allowed[column], logprob)  # pyright: ignore[reportOptionalMemberAccess]
        follow(job)


def take(job: Job, token: int, logprob: float) -> None:
    """Go down the trie by one token."""
    assert job.node is not None
    job.ids.append(token)
    job.logprobs.append(logprob)
    job.allowed.append(job.node.allowed)
    job.pending.append(token)
    job.node = job.node.child(token)
    if job.node.action is not None:
        job.finish = "stop"


def follow(job: Job) -> bool:
    """Take the tokens that are the only allowed ones (log-probability 0); true if that ends the action."""
    while not job.finish and job.node is not None and len(job.node.allowed) == 1:
        take(job, job.node.allowed[0], 0.0)
    return bool(job.finish)


def nucleus(scores: torch.Tensor, top_p: float) -> torch.Tensor:
    """(n, V) bool: the fewest most likely tokens whose probabilities reach `top_p` together."""
    ordered, order = scores.double().softmax(dim=1).sort(dim=1, descending=True, stable=True)
    inside = ordered.cumsum(dim=1) - ordered < top_p
    return inside.gather(1, order.argsort(dim=1))


def draw(logprobs: torch.Tensor, jobs: Sequence[Job], temperature: float) -> torch.Tensor:
    """(n,) columns drawn by inverse transform, each row with its own generator; the most likely at temperature 0."""
    weights = logprobs.double().exp()
    if weights.isnan().any():
        raise UserError("the model's output is not a number: its weights have diverged")
    if temperature == 0:
        return logprobs.argmax(dim=1)
    edges = weights.cumsum(dim=1)
    points = torch.tensor([job.random.random() for job in jobs], dtype=torch.float64, device=edges.device)
    return (edges <= points[:, None] * edges[:, -1:]).sum(dim=1).clamp_(max=edges.shape[1] - 1)
