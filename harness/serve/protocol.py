"""The OpenAI protocol for `model.py`: requests checked, answers and streams put into the protocol's words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..policies.hf import HFPolicy
from ..policy import Sampling
from ..records import Call, Message

MAX_CHOICES = 64  # `n` of a request
DEFAULT_TOKENS = 16  # the protocol's own default for completions


class Refused(Exception):
    """A request that cannot be answered; the message goes to the client with status 400."""


@dataclass
class Ask:
    """One completion that is wanted."""

    prompt: tuple[int, ...]
    sampling: Sampling
    seed: int
    stops: tuple[str, ...]
    stop_ids: frozenset[int]
    emit: Callable[[tuple[int, float] | Call | Exception], None]
    """Called with each token as it is sampled, then with the call, or with what went wrong."""
    ids: list[int] = field(default_factory=list)
    cancelled: bool = False


@dataclass(frozen=True)
class Wanted:
    """What a request asks for, checked."""

    prompt: tuple[int, ...]
    sampling: Sampling
    n: int
    seed: int
    stops: tuple[str, ...]
    stop_ids: frozenset[int]
    stream: bool
    usage: bool
    logprobs: bool
    token_ids: bool

    @classmethod
    def read(cls, body: Mapping[str, Any], chat: bool, policy: HFPolicy) -> Wanted:
        """Raises `Refused` with what is wrong."""
        prompt = _chat_prompt(body, policy) if chat else _plain_prompt(body, policy)
        default = policy.max_context if chat else DEFAULT_TOKENS
        limit = _number(body, "max_completion_tokens", _number(body, "max_tokens", default, 1, 1 << 30), 1, 1 << 30)
        room = policy.max_context - len(prompt)
        if room < 1 or (room < limit and not chat and "max_tokens" in body):
            raise Refused(
                f"maximum context length is {policy.max_context} tokens; the prompt has {len(prompt)} and "
                f"{int(limit)} are wanted"
            )
        stops = body.get("stop") or ()
        stops = (stops,) if isinstance(stops, str) else tuple(stops)
        if not all(isinstance(stop, str) and stop for stop in stops) or len(stops) > 16:
            raise Refused("stop must be a text or up to 16 of them")
        stop_ids = body.get("stop_token_ids") or ()
        if not all(isinstance(token, int) for token in stop_ids):
            raise Refused("stop_token_ids must be integers")
        return cls(
            prompt=tuple(prompt),
            sampling=Sampling(
                temperature=_number(body, "temperature", 1.0, 0, 100),
                top_p=_number(body, "top_p", 1.0, 1e-6, 1),
                max_tokens=int(min(limit, room)),
                decode="free",
            ),
            n=int(_number(body, "n", 1, 1, MAX_CHOICES)),
            seed=int(_number(body, "seed", 0, -(1 << 62), 1 << 62)) % (1 << 62),
            stops=stops,
            stop_ids=frozenset(stop_ids),
            stream=bool(body.get("stream")),
            usage=bool((body.get("stream_options") or {}).get("include_usage")),
            logprobs=bool(body.get("logprobs")) or body.get("logprobs") == 0,
            token_ids=bool(body.get("return_token_ids")),
        )


class Answer:
    """Puts answers into the protocol's words."""

    def __init__(self, id: str, model: str, chat: bool, wanted: Wanted, policy: HFPolicy) -> None:
        self.chat, self.wanted, self.format = chat, wanted, policy.format
        self.tokens = 0
        kind = "chat.completion" if chat else "text_completion"
        self.head = {"id": id, "object": kind, "created": 0, "model": model}

    def choice(self, index: int, tokens: Sequence[tuple[int, float]], call: Call, ask: Ask) -> dict[str, Any]:
        """One entry of `choices`."""
        ids = [token for token, _ in tokens]
        self.tokens += len(ids)
        text, finish = self._text(ids), "length" if call.finish in ("length", "context") else "stop"
        cut = first_stop(text, ask.stops)
        text = text if cut is None else text[:cut]
        part: dict[str, Any] = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        return {"index": index, **part, "finish_reason": finish, **self._extras(tokens)}

    def body(self, choices: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The whole answer."""
        ids = {"prompt_token_ids": list(self.wanted.prompt)} if self.wanted.token_ids else {}
        return {**self.head, **ids, "choices": list(choices), "usage": self.usage()}

    def usage(self) -> dict[str, int]:
        """Tokens in and out."""
        given = len(self.wanted.prompt)
        return {"prompt_tokens": given, "completion_tokens": self.tokens, "total_tokens": given + self.tokens}

    async def chunks(self, index: int, ask: Ask, events: asyncio.Queue[Any]) -> AsyncIterator[dict[str, Any]]:
        """The events of one choice: text as soon as it cannot change any more, with its tokens."""
        head = {**self.head, "object": "chat.completion.chunk" if self.chat else "text_completion"}
        if index == 0 and self.wanted.token_ids:
            head["prompt_token_ids"] = list(self.wanted.prompt)
        ids: list[int] = []
        waiting: list[tuple[int, float]] = []
        sent = 0
        hold = max((len(stop) for stop in ask.stops), default=1) - 1  # a stop text may be under way
        while True:
            event = await events.get()
            if isinstance(event, Exception):
                yield {"error": {"message": f"{type(event).__name__}: {event}", "type": "server_error"}}
                return
            done = isinstance(event, Call)
            if not done:
                ids.append(event[0])
                waiting.append(event)
            text = self._text(ids)
            cut = first_stop(text, ask.stops)
            safe = (
                len(text) if done or cut is not None else max(len(text.rstrip("\N{REPLACEMENT CHARACTER}")) - hold, 0)
            )
            safe = safe if cut is None else cut
            if safe > sent or done:
                piece, sent = text[sent:safe], max(sent, safe)
                delta = {"delta": {"role": "assistant", "content": piece}} if self.chat else {"text": piece}
                reason = None
                if isinstance(event, Call):
                    reason = "length" if event.finish in ("length", "context") else "stop"
                yield {**head, "choices": [{"index": index, **delta, "finish_reason": reason, **self._extras(waiting)}]}
                waiting = []
            if done:
                break
        self.tokens += len(ids)
        if self.wanted.usage and index == self.wanted.n - 1:
            yield {**head, "choices": [], "usage": self.usage()}

    def _text(self, ids: Sequence[int]) -> str:
        return self.format.decode(ids)

    def _extras(self, tokens: Sequence[tuple[int, float]]) -> dict[str, Any]:
        extras: dict[str, Any] = {"token_ids": [token for token, _ in tokens]} if self.wanted.token_ids else {}
        if not self.wanted.logprobs:
            return {**extras, "logprobs": None}
        texts = [self.format.decode([token]) for token, _ in tokens]
        if self.chat:
            content = [
                {"token": text, "logprob": logprob, "bytes": list(text.encode()), "top_logprobs": []}
                for text, (_, logprob) in zip(texts, tokens)
            ]
            return {**extras, "logprobs": {"content": content}}
        return {**extras, "logprobs": {"tokens": texts, "token_logprobs": [logprob for _, logprob in tokens]}}


async def collect(events: asyncio.Queue[Any]) -> tuple[list[tuple[int, float]], Call]:
    """All tokens of one completion, and its call; raises what went wrong in the model's thread."""
    tokens: list[tuple[int, float]] = []
    while True:
        event = await events.get()
        if isinstance(event, Exception):
            raise event
        if isinstance(event, Call):
            return tokens, event
        tokens.append(event)


def _chat_prompt(body: Mapping[str, Any], policy: HFPolicy) -> list[int]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refused("messages must be a list that is not empty")
    made = []
    for message in messages:
        if not isinstance(message, dict) or message.get("role") not in policy.format.opening:
            raise Refused(f"a message needs a role of {', '.join(sorted(policy.format.opening))}")
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
        if not isinstance(content, str):
            raise Refused("a message needs a text as its content")
        made.append(Message(message["role"], content))
    return policy.format.prompt(made, {})


def _plain_prompt(body: Mapping[str, Any], policy: HFPolicy) -> Sequence[int]:
    prompt = body.get("prompt")
    if isinstance(prompt, str) and prompt:
        return policy.format.encode(prompt)
    if not isinstance(prompt, list) or not prompt or not all(isinstance(token, int) for token in prompt):
        raise Refused("prompt must be one text or one list of token ids, and not empty")
    if not all(0 <= token < policy.format.size for token in prompt):
        raise Refused(f"token ids must be below {policy.format.size}")
    return prompt


def _number(body: Mapping[str, Any], name: str, default: float, low: float, high: float) -> float:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise Refused(f"{name} must be a number from {low:g} to {high:g}, not {str(value)[:40]!r}")
    return value


def first_stop(text: str, stops: Sequence[str]) -> int | None:
    """Where the first stop text begins, or None."""
    found = [at for stop in stops if (at := text.find(stop)) >= 0]
    return min(found, default=None)
