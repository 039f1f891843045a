"""Batched generation over sessions that keep their keys and values between calls.

A batch goes through three steps: every prompt's new tokens are fed (`_prefill`), then units are sampled token by token
(`_sample`) or candidates are scored side by side on the cached prompt (`_choose`), and calls are made of the results.
Any set of sessions may be asked for at any time; a history that was rewritten is recomputed from where it differs.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from ...envs.core.errors import InvalidArgument, UserError
from ..policy import Sampling
from ..records import Call, Context
from .chat import ChatFormat
from .kv import RowCache
from .trie import Node, Trie

PREFILL_TOKENS = 16_384  # per forward pass
SCORE_LOGITS = 1 << 25  # (rows x nodes x vocabulary) per forward pass of choice decoding


@dataclass(slots=True)
class _Session:
    """What is kept between the turns of one (session, role)."""

    row: int = -1
    ids: list[int] = field(default_factory=list)  # the tokens whose keys and values are in the cache
    version: int = -1
    calls: int = 0
    recorded: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Job:
    """One context on its way to a call."""

    context: Context
    session: _Session
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


class Generator:
    """Answers contexts with a model; see `HFPolicy` for what is sampled and recorded.

    Args:
        model: a causal LM with full attention in every layer.
        format: the chat format.
        max_context: tokens of prompt and completion together.
        batch_size: contexts per forward pass.

    Raises:
        InvalidArgument: the model has layers with another kind of attention.
    """

    def __init__(self, model: Any, format: ChatFormat, max_context: int, batch_size: int) -> None:
        _require_full_attention(model.config)
        self.model = model
        self.format = format
        self.max_context = max_context
        self.batch_size = batch_size
        self.device = next(model.parameters()).device
        self.version = 0
        self.value_head: torch.nn.Linear | None = None
        self.sessions: dict[tuple[str, str], _Session] = {}
        self.recorded: dict[str, tuple[int, ...]] = {}
        self.rows: list[_Session] = []
        self.cache = RowCache()
        self._anonymous = 0
        inner = model.get_base_model() if hasattr(model, "peft_config") else model
        parameters = inspect.signature(type(inner).forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"
        self._trie = lru_cache(maxsize=4096)(lambda actions: Trie(actions, format.encode, format.stop))

    def generate(
        self,
        contexts: Sequence[Context],
        sampling: Sampling,
        seeds: Sequence[int],
        *,
        version: int,
        value_head: torch.nn.Linear | None,
    ) -> list[Call]:
        """One call per context, in order. Keys and values of another `version` are not used."""
        self.version, self.value_head = version, value_head
        calls: list[Call] = []
        with torch.inference_mode():
            for start in range(0, len(contexts), self.batch_size):
                stop = start + self.batch_size
                calls += self._batch(contexts[start:stop], sampling, seeds[start:stop])
        return calls

    def forget(self, sessions: Sequence[str]) -> None:
        """Drop what is kept for these sessions; their rows go to the next ones."""
        ended = set(sessions)
        for key in [key for key in self.sessions if key[0] in ended]:
            self._drop(self.sessions.pop(key))
        if not self.rows:  # whatever comes next (often a training step) may need the memory
            self.cache = RowCache()

    def reset(self) -> None:
        """Forget all keys and values (not the recorded ids): the weights changed, or memory is wanted."""
        for session in self.rows:
            session.ids, session.row = [], -1
        self.rows, self.cache = [], RowCache()

    def _batch(self, contexts: Sequence[Context], sampling: Sampling, seeds: Sequence[int]) -> list[Call]:
        taken: set[int] = set()
        temporary: list[_Session] = []
        jobs: list[_Job] = []
        for context, seed in zip(contexts, seeds, strict=True):
            session = self.sessions.setdefault((context.session, context.role), _Session()) if context.session else None
            if session is None or id(session) in taken:
                session = _Session()
                temporary.append(session)
            taken.add(id(session))
            jobs.append(self._job(context, session, sampling, seed))
        fitting = [job for job in jobs if not job.finish]
        if fitting:
            columns = max(len(job.prompt) + max(job.room, job.side) for job in fitting)
            self._arrange([job.session for job in fitting], columns)
            fitting.sort(key=lambda job: job.session.row)
            logits = self._prefill(fitting)
            chosen = [index for index, job in enumerate(fitting) if job.trie and sampling.decode == "choice"]
            if chosen:
                self._choose([fitting[index] for index in chosen], logits[chosen], sampling)
            sampled = [index for index in range(len(fitting)) if not fitting[index].finish]
            if sampled:
                self._sample([fitting[index] for index in sampled], logits[sampled], sampling)
        calls = [self._call(job, sampling) for job in jobs]
        for session in temporary:
            self._drop(session)
        return calls

    def _job(self, context: Context, session: _Session, sampling: Sampling, seed: int) -> _Job:
        prompt = self.format.prompt(context.messages, self.recorded)
        job = _Job(context, session, prompt, np.random.Generator(np.random.PCG64(seed)))
        if context.admissible and sampling.decode != "free":
            job.trie = self._trie(context.admissible)
            job.node = job.trie.root
        room = self.max_context - len(prompt)
        needed = job.trie.depth if job.trie else 1
        job.room = job.trie.depth if job.trie else min(sampling.max_tokens, room)
        if room < needed:
            job.finish = "context"
            return job
        if job.trie is not None and sampling.decode == "choice":
            job.side = len(job.trie.tree.tokens)
        if session.version != self.version:
            session.ids, session.version = [], self.version
        # the last prompt token is always fed: its logits are wanted
        kept = min(_common_prefix(session.ids, prompt), len(prompt) - 1)
        del session.ids[kept:]
        job.pending = prompt[kept:]
        return job

    def _arrange(self, wanted: Sequence[_Session], columns: int) -> None:
        """Give every session a row and bring the wanted ones together: a batch is then a view of the cache."""
        for session in wanted:
            if session.row < 0:
                session.row = len(self.rows)
                self.rows.append(session)
        self.cache.reserve(len(self.rows), columns)
        chosen = np.zeros(len(self.rows), dtype=np.int64)
        chosen[[session.row for session in wanted]] = 1
        size = len(wanted)
        # the block of rows that holds most of them already
        start = int(np.convolve(chosen, np.ones(size, dtype=np.int64), mode="valid").argmax())
        inside = range(start, start + size)
        free = [row for row in inside if not chosen[row]]
        for session in wanted:
            if session.row not in inside:
                self._swap(session.row, free.pop())

    def _swap(self, a: int, b: int) -> None:
        first, second = self.rows[a], self.rows[b]
        self.cache.swap(a, b, max(len(first.ids), len(second.ids)))
        self.rows[a], self.rows[b] = second, first
        first.row, second.row = b, a

    def _drop(self, session: _Session) -> None:
        for call in session.recorded:
            self.recorded.pop(call, None)
        if session.row >= 0:
            with torch.inference_mode():
                last = len(self.rows) - 1
                if session.row != last:
                    session.ids = []
                    self._swap(session.row, last)
            self.rows.pop()
            session.row = -1

    # -- forward passes -----------------------------------------------------------------------------------------------

    def _prefill(self, jobs: Sequence[_Job]) -> torch.Tensor:
        """Feed what is new of every prompt, similar lengths together; (jobs, V) logits after it."""
        order = sorted(range(len(jobs)), key=lambda index: -len(jobs[index].pending))
        groups: list[list[int]] = []
        for index in order:
            widest = len(jobs[groups[-1][0]].pending) if groups else 0
            length = len(jobs[index].pending)
            if groups and (length * 2 >= widest or widest <= 64) and (len(groups[-1]) + 1) * widest <= PREFILL_TOKENS:
                groups[-1].append(index)
            else:
                groups.append([index])
        logits: torch.Tensor | None = None
        for group in groups:
            group.sort()
            out = self._feed([jobs[index] for index in group], first=True)
            if len(groups) == 1:
                return out
            if logits is None:
                logits = out.new_empty(len(jobs), out.shape[1])
            logits[group] = out
        assert logits is not None
        return logits

    def _feed(self, jobs: Sequence[_Job], *, first: bool = False) -> torch.Tensor:
        """Feed the jobs' pending tokens (rows rising); (jobs, V) logits after the last of each.

        Chunks are padded on the left, so that the last query of every row is real. Padding writes to the cache's last
        column, which nothing reads, and attends to column 0.
        """
        width = max(len(job.pending) for job in jobs)
        ids = np.zeros((len(jobs), width), dtype=np.int64)
        positions = np.full((len(jobs), width), -1, dtype=np.int64)
        for index, job in enumerate(jobs):
            done, new = len(job.session.ids), len(job.pending)
            if new:
                ids[index, width - new :] = job.pending
                positions[index, width - new :] = np.arange(done, done + new)
        length = int(positions.max()) + 1
        mask = np.arange(length) <= np.maximum(positions, 0)[:, :, None]
        logits, last = self._forward(jobs, ids, positions, np.maximum(positions, 0), mask, length, keep=1, hidden=first)
        for job in jobs:
            job.session.ids += job.pending
            job.pending = []
        if last is not None and self.value_head is not None:
            values = self.value_head(last[:, -1].to(self.value_head.weight.dtype))
            for job, value in zip(jobs, values[:, 0].float().tolist()):
                job.value = value
        return logits[:, -1].float()

    def _forward(
        self,
        jobs: Sequence[_Job],
        ids: np.ndarray,
        columns: np.ndarray,
        positions: np.ndarray,
        mask: np.ndarray,
        length: int,
        *,
        keep: int,
        hidden: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """One pass over `ids` (n, Q); `columns` -1 is padding, `mask` (n, Q, length) says what each token sees.

        Rows between the wanted ones are carried along as padding where that costs less than copying the wanted ones.
        """
        numbers = np.array([job.session.row for job in jobs])
        span = int(numbers[-1] - numbers[0]) + 1
        rows: Any = slice(int(numbers[0]), int(numbers[-1]) + 1)
        carried = span > len(jobs)
        if carried and span <= (2.5 if ids.shape[1] <= 4 else 1.25) * len(jobs):
            ids, positions = (_spread(array, numbers, span, 0) for array in (ids, positions))
            columns = _spread(columns, numbers, span, -1)
            mask = _spread(mask, numbers, span, np.arange(length) == 0)
        elif carried:
            rows, carried = torch.from_numpy(numbers).to(self.device), False
        at = torch.from_numpy(np.where(columns < 0, self.cache.columns - 1, columns)).to(self.device)
        seen = torch.from_numpy(mask[:, None]).to(self.device)
        if self.device.type == "cpu":  # the kernel would convert it in every layer
            seen = torch.zeros(seen.shape, dtype=self.model.dtype).masked_fill_(~seen, -torch.inf)
        self.cache.aim(rows, at, length)
        output = self.model(
            input_ids=torch.from_numpy(ids).to(self.device),
            attention_mask=seen,
            position_ids=torch.from_numpy(positions).to(self.device),
            use_cache=True,
            logits_to_keep=keep,
            output_hidden_states=hidden and self.value_head is not None,
            **{self._cache_argument: self.cache},
        )
        last = None if output.hidden_states is None else output.hidden_states[-1]
        if carried:
            wanted = torch.from_numpy(numbers - numbers[0]).to(self.device)
            return output.logits[wanted], None if last is None else last[wanted]
        return output.logits, last

    # -- sampling -----------------------------------------------------------------------------------------------------

    def _sample(self, jobs: list[_Job], logits: torch.Tensor, sampling: Sampling) -> None:
        """Sample token by token until every job is done; done rows drop out as the batch shrinks."""
        while True:
            free = [index for index, job in enumerate(jobs) if job.trie is None]
            tries = [index for index, job in enumerate(jobs) if job.trie is not None]
            if free:
                self._sample_free([jobs[index] for index in free], logits[free] if tries else logits, sampling)
            if tries:
                self._sample_trie([jobs[index] for index in tries], logits[tries] if free else logits, sampling)
            jobs = [job for job in jobs if not job.finish]
            if not jobs:
                return
            logits = self._feed(jobs)

    def _sample_free(self, jobs: Sequence[_Job], logits: torch.Tensor, sampling: Sampling) -> None:
        logprobs = torch.log_softmax(logits / (sampling.temperature or 1.0), dim=1)
        picked = _draw(logprobs, jobs, sampling)
        taken = logprobs.gather(1, picked[:, None])[:, 0].tolist()
        for job, token, logprob in zip(jobs, picked.tolist(), taken):
            job.ids.append(token)
            job.logprobs.append(logprob)
            job.pending = [token]
            job.room -= 1
            if token == self.format.stop:
                job.finish = "stop"
            elif job.room == 0:
                job.finish = "length"

    def _sample_trie(self, jobs: Sequence[_Job], logits: torch.Tensor, sampling: Sampling) -> None:
        """One decision per job, and the tokens before and after it that leave no choice."""
        open_ = [index for index, job in enumerate(jobs) if not _follow(job)]
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
        picked = _draw(logprobs, undecided, replace(sampling, top_p=1.0))
        taken = logprobs.gather(1, picked[:, None])[:, 0].tolist()
        for job, column, logprob in zip(undecided, picked.tolist(), taken):
            _take(job, job.node.allowed[column], logprob)  # pyright: ignore[reportOptionalMemberAccess]
            _follow(job)

    def _choose(self, jobs: Sequence[_Job], logits: torch.Tensor, sampling: Sampling) -> None:
        """Score all admissible actions on the cached prompts, some rows at a time, and draw one per job."""
        start = 0
        while start < len(jobs):
            stop, width = start, 1
            while stop < len(jobs):
                width = max(width, len(_tree(jobs[stop]).tokens))
                if stop > start and (stop + 1 - start) * (width + 1) * logits.shape[1] > SCORE_LOGITS:
                    break
                stop += 1
            self._choose_some(jobs[start:stop], logits[start:stop], sampling)
            start = stop

    def _choose_some(self, jobs: Sequence[_Job], logits: torch.Tensor, sampling: Sampling) -> None:
        trees = [_tree(job) for job in jobs]
        width = max(len(tree.tokens) for tree in trees)
        logprobs = torch.log_softmax(logits, dim=1)[:, None]
        if width:
            shape = (len(jobs), width)
            ids, positions = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
            columns = np.full(shape, -1, dtype=np.int64)
            length = max(len(job.session.ids) + len(tree.tokens) for job, tree in zip(jobs, trees))
            mask = np.zeros((*shape, length), dtype=bool)
            mask[:, :, 0] = True
            for row, (job, tree) in enumerate(zip(jobs, trees)):
                done, new = len(job.session.ids), len(tree.tokens)
                ids[row, :new] = tree.tokens
                positions[row, :new] = done + tree.depth
                columns[row, :new] = np.arange(done, done + new)
                mask[row, :new, :done] = True
                mask[row, :new, done : done + new] = tree.ancestors
            inner, _ = self._forward(jobs, ids, columns, positions, mask, length, keep=0)
            logprobs = torch.cat([logprobs, torch.log_softmax(inner.float(), dim=2)], dim=1)
        for job, tree, table in zip(jobs, trees, logprobs):
            edges = table[torch.from_numpy(tree.edge_node), torch.from_numpy(tree.edge_token)]
            scores = torch.from_numpy(tree.scores(edges.double().cpu().numpy()))[None]
            among = torch.log_softmax(scores / (sampling.temperature or 1.0), dim=1)
            job.choice = int(_draw(among, [job], replace(sampling, top_p=1.0))[0])
            job.logprobs = [float(among[0, job.choice])]
            job.finish = "choice"

    def _call(self, job: _Job, sampling: Sampling) -> Call:
        context = job.context
        owner = self.sessions.get((context.session, context.role))
        if owner is None:  # no session: nothing is kept
            name = f"call#{self._anonymous}"
            self._anonymous += 1
        else:
            role = "" if context.role == "actor" else f"/{context.role}"
            name = f"{context.session}{role}#{owner.calls}"
            owner.calls += 1
        choices = None
        if job.choice >= 0 and job.trie is not None:
            choices = job.trie.candidates
            job.ids = list(choices[job.choice])
            text = job.trie.actions[job.choice]
        elif job.trie is not None and job.node is not None and job.finish != "context":
            text = job.node.action or ""
        else:
            text = self.format.decode(job.ids)
        ids = tuple(job.ids)
        if owner is not None and ids:
            self.recorded[name] = ids
            owner.recorded.append(name)
        length = len(ids) - (bool(ids) and ids[-1] == self.format.stop)
        return Call(
            id=name,
            context=context,
            text=text,
            logprobs=np.array(job.logprobs, dtype=np.float32),
            prompt_ids=tuple(job.prompt),
            completion_ids=ids,
            allowed=tuple(job.allowed) if job.trie is not None and choices is None else None,
            choices=choices,
            choice=job.choice,
            spans={"action": ((0, length),)} if ids else {},
            temperature=sampling.temperature or 1.0,
            value=job.value,
            version=self.version,
            finish=job.finish,
        )


def _take(job: _Job, token: int, logprob: float) -> None:
    """Go down the trie by one token."""
    assert job.node is not None
    job.ids.append(token)
    job.logprobs.append(logprob)
    job.allowed.append(job.node.allowed)
    job.pending.append(token)
    job.node = job.node.child(token)
    if job.node.action is not None:
        job.finish = "stop"


def _follow(job: _Job) -> bool:
    """Take the tokens that are the only allowed ones (log-probability 0); true if that ends the action."""
    while not job.finish and job.node is not None and len(job.node.allowed) == 1:
        _take(job, job.node.allowed[0], 0.0)
    return bool(job.finish)


def _tree(job: _Job) -> Any:
    assert job.trie is not None
    return job.trie.tree


def _draw(logprobs: torch.Tensor, jobs: Sequence[_Job], sampling: Sampling) -> torch.Tensor:
    """(n,) columns drawn by inverse transform, each row with its own generator; the most likely at temperature 0."""
    weights = logprobs.double().exp()
    if weights.isnan().any():
        raise UserError("the model's output is not a number: its weights have diverged")
    if sampling.temperature == 0:
        return logprobs.argmax(dim=1)
    if sampling.top_p < 1:
        ordered, order = weights.sort(dim=1, descending=True, stable=True)
        outside = ordered.cumsum(dim=1) - ordered >= sampling.top_p
        weights = weights.masked_fill(outside.gather(1, order.argsort(dim=1)), 0.0)
    edges = weights.cumsum(dim=1)
    points = torch.tensor([job.random.random() for job in jobs], dtype=torch.float64, device=edges.device)
    return (edges <= points[:, None] * edges[:, -1:]).sum(dim=1).clamp_(max=edges.shape[1] - 1)


def _spread(array: np.ndarray, rows: np.ndarray, span: int, fill: Any) -> np.ndarray:
    """`array`'s rows at their places among `span` rows, the others filled."""
    spread = np.empty((span, *array.shape[1:]), dtype=array.dtype)
    spread[:] = fill
    spread[rows - rows[0]] = array
    return spread


def _common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many leading ids are equal."""
    length = min(len(a), len(b))
    if a[:length] == b[:length]:
        return length
    return next(index for index in range(length) if a[index] != b[index])


def _require_full_attention(config: Any) -> None:
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"}:
        raise InvalidArgument(
            f"{config.model_type} has layers with {', '.join(sorted(kinds - {'full_attention'}))}; "
            "HFPolicy needs full attention in every layer (serve such a model with vLLM and use the openai policy)"
        )
