"""A model that another engine runs, as a policy: `Engine` is what the engine must do, `EnginePolicy` does the rest.

An engine completes token ids and tells the log-probabilities of given next tokens. Everything above that is made from
it here, the same for every engine: prompts that only grow, free text, decoding along the admissible actions, exact
scoring. Token ids are sent, never text. Log-probabilities are those of the distribution that was sampled from.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, Protocol

import numpy as np

from ...envs.core.errors import InvalidArgument
from ..policy import Sampling
from ..records import Call, Context
from .chat import ChatFormat
from .trie import Node, Trie


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to an engine. Control tokens have no probability in its answer; the format's stop token ends it."""

    prompt: tuple[int, ...]
    max_tokens: int = 1
    temperature: float = 1.0
    """0 is greedy; log-probabilities are then those at temperature 1."""
    top_p: float = 1.0
    seed: int = 0
    among: tuple[int, ...] = ()
    """Not empty: sample nothing, tell the log-probabilities of these ids as the next token."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an engine answers."""

    ids: tuple[int, ...]
    """The sampled ids, the stop token included; empty where `among` was asked for, or the prompt did not fit."""
    logprobs: np.ndarray
    """(ids,) or (among,) float32."""
    finish: str
    """"stop", "length" or "context" (the prompt did not fit)."""


class Engine(Protocol):
    """Runs a model. One engine serves one caller at a time; `lock` is for those who share it."""

    max_context: int
    """Tokens of prompt and completion together."""
    lock: threading.RLock
    loaded: Any
    """Which weights it runs: whatever the one who last called `sync` left there."""

    def complete(self, asks: Sequence[Ask]) -> list[Answer]:
        """One answer per ask, in order."""
        ...

    def sync(self, policy: Any) -> None:
        """Take over the weights of an `HFPolicy`; nothing that was computed with the old ones is used again."""
        ...

    def sleep(self) -> None:
        """Give back the accelerator's memory, where the engine can. Harmless when asleep."""
        ...

    def wake(self) -> None:
        """Be ready again. The weights may be lost: `sync` follows. Harmless when awake."""
        ...

    def close(self) -> None:
        """Free everything."""
        ...


class EnginePolicy:
    """A `Policy` and `Scorer` on an `Engine`.

    Args:
        engine: runs the model.
        format: how messages become ids; the model's own.
        name: what reports call the policy.
    """

    def __init__(self, engine: Engine, format: ChatFormat, *, name: str = "engine") -> None:
        self.engine, self.format, self.name = engine, format, name
        self.version = 0
        self._recorded: dict[str, dict[str, tuple[int, ...]]] = {}  # session -> call -> completion ids
        self._numbers = count()
        self._trie = lru_cache(maxsize=4096)(lambda actions: Trie(actions, format.encode, format.stop))

    def generate(self, contexts: Sequence[Context], sampling: Sampling, seeds: Sequence[int]) -> list[Call]:
        """One call per context, in order; decoding and fields as for `HFPolicy.generate`.

        With `top_p` < 1 the nucleus is not recorded (its log-probabilities are): train at 1.
        """
        if sampling.decode not in ("free", "trie", "choice"):
            raise InvalidArgument(f"decode is 'free', 'trie' or 'choice', not {sampling.decode!r}")
        if sampling.max_tokens < 1 or sampling.temperature < 0 or not 0 < sampling.top_p <= 1:
            raise InvalidArgument(f"max_tokens >= 1, temperature >= 0 and 0 < top_p <= 1 are needed, not {sampling}")
        calls = [self._call(context, sampling) for context in contexts]
        tries: dict[int, Trie] = {}
        free: list[int] = []
        for index, call in enumerate(calls):
            admissible = call.context.admissible
            trie = self._trie(admissible) if admissible and sampling.decode != "free" else None
            room = self.engine.max_context - len(call.prompt_ids)
            if room < (trie.depth if trie else 1):
                call.finish = "context"
            elif trie is None:
                free.append(index)
            else:
                tries[index] = trie
        self._free([calls[i] for i in free], sampling, [seeds[i] for i in free])
        if tries:
            randoms = [np.random.Generator(np.random.PCG64(seeds[i])) for i in tries]
            work = self._walk if sampling.decode == "trie" else self._choose
            work([calls[i] for i in tries], list(tries.values()), randoms, sampling.temperature)
        for call in calls:
            if call.completion_ids and call.session:
                self._recorded.setdefault(call.session, {})[call.id] = call.completion_ids
        return calls

    def forget(self, sessions: Sequence[str]) -> None:
        """Drop the completion ids of these sessions."""
        for session in sessions:
            self._recorded.pop(session, None)

    def score(self, calls: Sequence[Call], contexts: Sequence[Context] | None = None) -> list[np.ndarray]:
        """Per call, the (units,) log-probabilities of its recorded units, under other contexts if given.

        One short request per unit (per inner node of the candidates' trie for "choice"), all of them at once: exact
        under every kind of decoding, and cheap where the engine keeps prefixes.
        """
        prompts = [call.prompt_ids for call in calls]
        if contexts is not None:
            known = {call.id: call.completion_ids for call in calls}
            prompts = [
                tuple(self.format.prompt(context.messages, {**self._recorded.get(context.session, {}), **known}))
                for context in contexts
            ]
        asks: list[Ask] = []
        tries = [self._candidates(call) for call in calls]
        for call, prompt, trie in zip(calls, prompts, tries, strict=True):
            if trie is not None:
                asks += _tree_asks(prompt, trie)
            else:
                for t, token in enumerate(call.completion_ids):
                    among = (token,) if call.allowed is None else call.allowed[t]
                    asks.append(Ask((*prompt, *call.completion_ids[:t]), 1, call.temperature or 1.0, among=among))
        answers = iter(self._ask(asks))
        scores = []
        for call, trie in zip(calls, tries, strict=True):
            if trie is not None:
                among = _candidate_logprobs(trie, answers, call.temperature or 1.0)
                scores.append(np.array([among[call.choice]], np.float32))
                continue
            found = [next(answers).logprobs.astype(np.float64) for _ in call.completion_ids]
            if call.allowed is not None:
                found = [
                    (row - np.logaddexp.reduce(row))[[allowed.index(token)]]
                    for row, allowed, token in zip(found, call.allowed, call.completion_ids, strict=True)
                ]
            scores.append(np.array([row[0] for row in found], np.float32))
        return scores

    # -- decoding -----------------------------------------------------------------------------------------------------

    def _call(self, context: Context, sampling: Sampling) -> Call:
        prompt = self.format.prompt(context.messages, self._recorded.get(context.session, {}))
        return Call(
            id=f"{context.session}#{next(self._numbers)}",
            context=context,
            text="",
            logprobs=np.zeros(0, np.float32),
            prompt_ids=tuple(prompt),
            temperature=sampling.temperature or 1.0,
            version=self.version,
        )

    def _free(self, calls: Sequence[Call], sampling: Sampling, seeds: Sequence[int]) -> None:
        asks = [
            Ask(
                call.prompt_ids,
                min(sampling.max_tokens, self.engine.max_context - len(call.prompt_ids)),
                sampling.temperature,
                sampling.top_p,
                seed,
            )
            for call, seed in zip(calls, seeds, strict=True)
        ]
        for call, answer in zip(calls, self._ask(asks), strict=True):
            self._finish(call, answer.ids, answer.logprobs, self.format.decode(answer.ids), answer.finish)

    def _walk(
        self,
        calls: Sequence[Call],
        tries: Sequence[Trie],
        randoms: Sequence[np.random.Generator],
        temperature: float,
    ) -> None:
        """Down the tries, one round of requests per decision; tokens that are the only allowed ones cost none."""
        walks = [_Walk(trie.root) for trie in tries]
        while True:
            open_ = [index for index, walk in enumerate(walks) if not walk.follow()]
            if not open_:
                break
            asks = [
                Ask(
                    (*calls[i].prompt_ids, *walks[i].ids),
                    temperature=temperature or 1.0,
                    among=walks[i].node.allowed,
                )
                for i in open_
            ]
            for index, answer in zip(open_, self._ask(asks), strict=True):
                logprobs = answer.logprobs.astype(np.float64)
                logprobs -= np.logaddexp.reduce(logprobs)
                column = _draw(logprobs, randoms[index], temperature)
                walks[index].take(walks[index].node.allowed[column], float(logprobs[column]))
        for call, walk in zip(calls, walks, strict=True):
            call.allowed = tuple(walk.allowed)
            self._finish(call, tuple(walk.ids), np.array(walk.logprobs, np.float32), walk.node.action or "", "stop")

    def _choose(
        self,
        calls: Sequence[Call],
        tries: Sequence[Trie],
        randoms: Sequence[np.random.Generator],
        temperature: float,
    ) -> None:
        asks = [ask for call, trie in zip(calls, tries, strict=True) for ask in _tree_asks(call.prompt_ids, trie)]
        answers = iter(self._ask(asks))
        for call, trie, random in zip(calls, tries, randoms, strict=True):
            among = _candidate_logprobs(trie, answers, temperature or 1.0)
            call.choices, call.choice = trie.candidates, _draw(among, random, temperature)
            ids = trie.candidates[call.choice]
            self._finish(call, ids, np.array([among[call.choice]], np.float32), trie.actions[call.choice], "choice")

    def _finish(self, call: Call, ids: tuple[int, ...], logprobs: np.ndarray, text: str, finish: str) -> None:
        call.completion_ids, call.logprobs, call.text, call.finish = ids, logprobs, text, finish
        length = len(ids) - (bool(ids) and ids[-1] == self.format.stop)
        call.spans = {"action": ((0, length),)} if ids else {}

    def _candidates(self, call: Call) -> Trie | None:
        """The trie of a "choice" call's candidates, numbered as they are."""
        if call.choices is None:
            return None
        names = tuple(str(index) for index in range(len(call.choices)))
        return Trie(names, lambda name: tuple(call.choices[int(name)])[:-1], self.format.stop)  # pyright: ignore[reportOptionalSubscript]

    def _ask(self, asks: Sequence[Ask]) -> list[Answer]:
        return self.engine.complete(asks) if asks else []


class _Walk:
    """One completion on its way down a trie."""

    def __init__(self, root: Node) -> None:
        self.node = root
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.allowed: list[tuple[int, ...]] = []

    def take(self, token: int, logprob: float) -> None:
        self.ids.append(token)
        self.logprobs.append(logprob)
        self.allowed.append(self.node.allowed)
        self.node = self.node.child(token)

    def follow(self) -> bool:
        """Take the tokens that leave no choice; true if that ends the action."""
        while len(self.node.allowed) == 1:
            self.take(self.node.allowed[0], 0.0)
        return not self.node.allowed


def _tree_asks(prompt: tuple[int, ...], trie: Trie) -> list[Ask]:
    """One ask per inner node: the log-probabilities of its edges, at temperature 1."""
    tree = trie.tree
    asks = []
    for node in range(len(tree.tokens) + 1):
        path = tree.tokens[tree.ancestors[node - 1]] if node else tree.tokens[:0]
        among = tuple(tree.edge_token[tree.edge_node == node].tolist())
        asks.append(Ask((*prompt, *path.tolist()), among=among))
    return asks


def _candidate_logprobs(trie: Trie, answers: Any, temperature: float) -> np.ndarray:
    """(candidates,) float64 from the answers to `_tree_asks`."""
    tree = trie.tree
    edges = np.zeros(len(tree.edge_node))
    for node in range(len(tree.tokens) + 1):
        edges[tree.edge_node == node] = next(answers).logprobs
    scores = tree.scores(edges) / temperature
    return scores - np.logaddexp.reduce(scores)


def _draw(logprobs: np.ndarray, random: np.random.Generator, temperature: float) -> int:
    """Inverse transform, as `HFPolicy` draws; the most likely at temperature 0."""
    if temperature == 0:
        return int(logprobs.argmax())
    edges = np.exp(logprobs).cumsum()
    return min(int((edges <= random.random() * edges[-1]).sum()), len(edges) - 1)
