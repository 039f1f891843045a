"""Batched generation over sessions that keep their keys and values between calls.

A batch goes through three steps: every prompt's new tokens are fed (`_prefill`), then units are sampled token by token
(`_sample`, with `sampling.py`) or candidates are scored side by side on the cached prompt (`_choose`), and calls are
made of the results. Any set of sessions may be asked for at any time; a history that was rewritten is recomputed from
where it differs.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from ...envs.core.errors import InvalidArgument
from ..policy import Sampling
from ..records import Call, Context
from .chat import ChatFormat
from .kv import RowCache
from .sampling import Job, OnToken, Session, draw, sample_free, sample_trie
from .trie import Trie

PREFILL_TOKENS = 16_384  # per forward pass
SCORE_LOGITS = 1 << 25  # (rows x nodes x vocabulary) per forward pass of choice decoding


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
        self.on_token: OnToken | None = None
        self.sessions: dict[tuple[str, str], Session] = {}
        self.recorded: dict[str, tuple[int, ...]] = {}
        self.rows: list[Session] = []
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
        on_token: OnToken | None = None,
    ) -> list[Call]:
        """One call per context, in order. Keys and values of another `version` are not used."""
        self.version, self.value_head, self.on_token = version, value_head, on_token
        calls: list[Call] = []
        with torch.inference_mode():
            for start in range(0, len(contexts), self.batch_size):
                stop = start + self.batch_size
                calls += self._batch(contexts[start:stop], sampling, seeds[start:stop], start)
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

    def _batch(self, contexts: Sequence[Context], sampling: Sampling, seeds: Sequence[int], first: int) -> list[Call]:
        taken: set[int] = set()
        temporary: list[Session] = []
        jobs: list[Job] = []
        for context, seed in zip(contexts, seeds, strict=True):
            session = self.sessions.setdefault((context.session, context.role), Session()) if context.session else None
            if session is None or id(session) in taken:
                session = Session()
                temporary.append(session)
            taken.add(id(session))
            jobs.append(self._job(context, session, sampling, seed))
            jobs[-1].number = first + len(jobs) - 1
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

    def _job(self, context: Context, session: Session, sampling: Sampling, seed: int) -> Job:
        prompt = self.format.prompt(context.messages, self.recorded)
        job = Job(context, session, prompt, np.random.Generator(np.random.PCG64(seed)))
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

    def _arrange(self, wanted: Sequence[Session], columns: int) -> None:
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

    def _drop(self, session: Session) -> None:
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

    def _prefill(self, jobs: Sequence[Job]) -> torch.Tensor:
        """Feed what is new of every prompt, similar lengths together; (jobs, V) logits after it.

        A prompt that several new sessions have, as a group's episodes do in their first turn, is fed once and copied.
        """
        first: dict[tuple[int, ...], int] = {}
        leader = [first.setdefault(tuple(job.pending), n) if not job.session.ids else n for n, job in enumerate(jobs)]
        order = sorted(set(leader), key=lambda index: -len(jobs[index].pending))
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
            if len(group) == len(jobs):
                return out
            if logits is None:
                logits = out.new_empty(len(jobs), out.shape[1])
            logits[group] = out
        assert logits is not None
        followers: dict[int, list[int]] = {}
        for index, source in enumerate(leader):
            if source != index:
                followers.setdefault(source, []).append(index)
        for source, indices in followers.items():
            self._copy(jobs[source], [jobs[index] for index in indices])
            logits[indices] = logits[source].clone()
        return logits

    def _copy(self, source: Job, jobs: Sequence[Job]) -> None:
        """Give the jobs, whose prompts are equal, what was computed for `source`."""
        ids = source.session.ids
        self.cache.copy(source.session.row, [job.session.row for job in jobs], len(ids))
        for job in jobs:
            job.session.ids, job.pending, job.value = list(ids), [], source.value

    def _feed(self, jobs: Sequence[Job], *, first: bool = False) -> torch.Tensor:
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
        jobs: Sequence[Job],
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

    def _sample(self, jobs: list[Job], logits: torch.Tensor, sampling: Sampling) -> None:
        """Sample token by token until every job is done; done rows drop out as the batch shrinks."""
        while True:
            free = [index for index, job in enumerate(jobs) if job.trie is None]
            tries = [index for index, job in enumerate(jobs) if job.trie is not None]
            if free:
                among = logits[free] if tries else logits
                sample_free([jobs[index] for index in free], among, sampling, self.format.stop, self.on_token)
            if tries:
                sample_trie([jobs[index] for index in tries], logits[tries] if free else logits, sampling)
            jobs = [job for job in jobs if not job.finish]
            if not jobs:
                return
            logits = self._feed(jobs)

    def _choose(self, jobs: Sequence[Job], logits: torch.Tensor, sampling: Sampling) -> None:
        """Score all admissible actions on the cached prompts, some rows at a time, and draw one per job.

        Of jobs with the same prompt and actions, as a group's episodes in their first turn, one is scored.
        """
        first: dict[Any, int] = {}
        leader = [first.setdefault((tuple(j.session.ids), j.context.admissible), n) for n, j in enumerate(jobs)]
        scored, scores = sorted(set(leader)), dict[int, torch.Tensor]()
        start = 0
        while start < len(scored):
            stop, width = start, 1
            while stop < len(scored):
                width = max(width, len(_tree(jobs[scored[stop]]).tokens))
                if stop > start and (stop + 1 - start) * (width + 1) * logits.shape[1] > SCORE_LOGITS:
                    break
                stop += 1
            some = scored[start:stop]
            scores.update(zip(some, self._scores([jobs[index] for index in some], logits[some])))
            start = stop
        for job, source in zip(jobs, leader):
            among = torch.log_softmax(scores[source] / (sampling.temperature or 1.0), dim=1)
            job.choice = int(draw(among, [job], sampling.temperature)[0])
            job.logprobs = [float(among[0, job.choice])]
            job.finish = "choice"

    def _scores(self, jobs: Sequence[Job], logits: torch.Tensor) -> list[torch.Tensor]:
        """Per job, (1, actions) log-probabilities of its actions' tokens, added up."""
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
        scores = []
        for tree, table in zip(trees, logprobs):
            edges = table[torch.from_numpy(tree.edge_node), torch.from_numpy(tree.edge_token)]
            scores.append(torch.from_numpy(tree.scores(edges.double().cpu().numpy()))[None])
        return scores

    def _call(self, job: Job, sampling: Sampling) -> Call:
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
            allowed=tuple(job.allowed) if (job.trie is not None or job.allowed) and choices is None else None,
            choices=choices,
            choice=job.choice,
            spans={"action": ((0, length),)} if ids else {},
            temperature=sampling.temperature or 1.0,
            value=job.value,
            version=self.version,
            finish=job.finish,
        )


def _tree(job: Job) -> Any:
    assert job.trie is not None
    return job.trie.tree


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
