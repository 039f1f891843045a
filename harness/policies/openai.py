"""OpenAIPolicy: any server that speaks the OpenAI protocol (vLLM, SGLang, llama.cpp, the hosted ones) as a policy.

Servers that give token ids and log-probabilities (vLLM's `return_token_ids`) are recorded token by token and can be
trained on. Others are recorded as text: `completion_ids` is empty and the whole completion is one unit, whose
log-probability is the sum of those that the server gave, or 0 where it gave none.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from ...envs.core.errors import InvalidArgument, MissingExtra
from ..policy import MAX_TEXT, PolicyFault, Sampling
from ..records import Call, Context

if TYPE_CHECKING:
    from .chat import ChatFormat

MAX_BYTES = 64 << 20  # of one answer; more is a broken server
MAX_WAIT = 60.0  # seconds between two tries
_BUSY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_TOO_LONG = re.compile(r"context[ _]length|maximum context|context window|prompt is too long|too many tokens", re.I)
# What to ask for beyond the protocol's core. A server that refuses a set is asked for the next one from then on.
_EXTRAS: Mapping[str, tuple[dict[str, Any], ...]] = {
    "chat": ({"logprobs": True, "return_token_ids": True}, {"logprobs": True}, {}),
    "completions": ({"logprobs": 1, "return_token_ids": True}, {"logprobs": 1}, {}),
}


class _Again(Exception):
    """A failure that another try may mend; the argument says what, `wait` how long the server wants us to."""

    wait: float | None = None


@dataclass(frozen=True)
class Completion:
    """What one answer holds, whatever the route."""

    text: str
    finish: str
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    """Empty unless the server gave ids with a finite log-probability each."""
    logprobs: np.ndarray
    """(tokens,) float32 with ids, (1,) without."""
    first: Mapping[int, float] = field(default_factory=dict)
    """Log-probabilities of ids as the first token, where the request asked for them by id."""


class OpenAIPolicy:
    """Answers calls through an OpenAI-compatible HTTP server.

    Completions are always free text: the protocol has no exact sampling among listed actions. Log-probabilities are the
    server's: those of vLLM are taken before temperature and `top_p` unless it runs with
    `--logprobs-mode processed_logprobs`, so train at temperature 1 or with that flag.

    On the chat route the server makes the prompt, and past completions are sent as text. On the completions route with
    a `chat_format`, prompts are token ids in which past completions stand verbatim.

    Args:
        model: the model's name at the server.
        url: the server's address up to and including "/v1".
        key: the API key; None takes `$OPENAI_API_KEY`, without which none is sent. It is never shown.
        route: "chat" or "completions".
        chat_format: for "completions": how messages become ids. None sends the messages as plain paragraphs.
        concurrency: requests under way at once.
        timeout: seconds that one answer may take in all.
        retries: further tries after a busy server (429, 5xx), a lost connection, a timeout or an unreadable answer.
        backoff: seconds before the first of them; doubled for each next one, unless the server says how long to wait.
        fields: more fields for every request, for example `{"top_k": 20}`; None as a value removes one of ours.

    Raises:
        MissingExtra: httpx is not installed.
        InvalidArgument: an argument outside what is accepted.
    """

    def __init__(
        self,
        model: str,
        url: str = "https://api.openai.com/v1",
        *,
        key: str | None = None,
        route: str = "chat",
        chat_format: ChatFormat | None = None,
        concurrency: int = 16,
        timeout: float = 120.0,
        retries: int = 4,
        backoff: float = 0.5,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        try:
            import httpx
        except ImportError:
            raise MissingExtra("httpx", "openai") from None
        if route not in _EXTRAS:
            raise InvalidArgument(f"route must be 'chat' or 'completions', not {route!r}")
        if chat_format is not None and route != "completions":
            raise InvalidArgument(
                "chat_format needs route='completions': on the chat route the server makes the prompt"
            )
        if not url.startswith(("http://", "https://")):
            raise InvalidArgument(f"url must start with http:// or https://, not {url!r}")
        if concurrency < 1 or retries < 0 or timeout <= 0 or backoff < 0:
            raise InvalidArgument("concurrency must be >= 1, retries and backoff >= 0, timeout > 0")
        self.version = 0
        self.model, self.route, self.chat_format = model, route, chat_format
        self.timeout, self.retries, self.backoff = timeout, retries, backoff
        self.fields = dict(fields or {})
        self._path = "/chat/completions" if route == "chat" else "/completions"
        self._extras = 0  # index into _EXTRAS[route]
        self._key = key if key is not None else os.environ.get("OPENAI_API_KEY", "")
        if not (self._key.isascii() and self._key.isprintable()):
            raise InvalidArgument("the API key has characters that no key has (a line break?)")
        self._errors = httpx.HTTPError
        try:
            self._client = httpx.Client(
                base_url=url.rstrip("/"),
                headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
                timeout=timeout,
                limits=httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency),
            )
        except httpx.InvalidURL as error:
            raise InvalidArgument(f"url {url!r} is none: {error}") from None
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="openai-policy")
        self._recorded: dict[str, dict[str, tuple[int, ...]]] = {}  # session -> call -> completion ids
        self._ids = count()

    def generate(self, contexts: Sequence[Context], sampling: Sampling, seeds: Sequence[int]) -> list[Call]:
        """One call per context, in order; one that does not fit the model gets an empty call with `finish="context"`.

        Raises:
            PolicyFault: the server failed on every try.
            InvalidArgument: the server refuses the request itself (key, model name, fields), or `decode` is not "free".
        """
        if sampling.decode != "free":
            raise InvalidArgument(f"a served model only samples freely: use decode='free', not {sampling.decode!r}")
        jobs = [
            self._pool.submit(self._complete, context, sampling, seed)
            for context, seed in zip(contexts, seeds, strict=True)
        ]
        try:
            completions = [job.result() for job in jobs]
        except BaseException:  # Ctrl-C included: what has not started need not
            for job in jobs:
                job.cancel()
            raise
        return [self._call(context, sampling, completion) for context, completion in zip(contexts, completions)]

    def forget(self, sessions: Sequence[str]) -> None:
        """Drop the completion ids of these sessions."""
        for session in sessions:
            self._recorded.pop(session, None)

    def close(self) -> None:
        """Close connections and threads."""
        self._pool.shutdown(cancel_futures=True)
        self._client.close()

    def __repr__(self) -> str:
        return f"OpenAIPolicy({self.model!r}, {str(self._client.base_url)!r}, route={self.route!r})"

    def _call(self, context: Context, sampling: Sampling, completion: Completion) -> Call:
        call = Call(
            id=f"{context.session}#{next(self._ids)}",
            context=context,
            text=completion.text,
            logprobs=completion.logprobs,
            prompt_ids=completion.prompt_ids,
            completion_ids=completion.completion_ids,
            temperature=sampling.temperature,
            version=self.version,
            finish=completion.finish,
        )
        if self.chat_format is not None and call.completion_ids:
            self._recorded.setdefault(context.session, {})[call.id] = call.completion_ids
        return call

    # -- one request --------------------------------------------------------------------------------------------------

    def _complete(self, context: Context, sampling: Sampling, seed: int) -> Completion:
        return self.ask(self._request(context, sampling, seed), seed)

    def ask(self, request: Mapping[str, Any], seed: int = 0) -> Completion:
        """Post a request to the route, with the extras that the server takes and with further tries.

        Args:
            request: its body.
            seed: of the waits between tries.

        Raises:
            PolicyFault: the server failed on every try.
            InvalidArgument: it refuses the request.
        """
        rng = random.Random(seed)
        for attempt in range(self.retries + 1):
            try:
                return self._try(request)
            except _Again as failure:
                if attempt == self.retries:
                    raise PolicyFault(f"{self!r} failed {attempt + 1} times; last: {failure}") from None
                wait = self.backoff * 2**attempt * (1 + rng.random()) if failure.wait is None else failure.wait
                time.sleep(min(wait, MAX_WAIT))
        raise AssertionError("unreachable")

    def _try(self, request: Mapping[str, Any]) -> Completion:
        while True:
            level = self._extras
            status, body, wait = self._post({**_EXTRAS[self.route][level], **request})
            if status == 200:
                return self._read(body)
            reason = self._reason(status, body)
            if status in (400, 413, 422) and _TOO_LONG.search(reason):
                return Completion("", "context", (), (), np.zeros(0, np.float32))
            if status in (400, 422) and level + 1 < len(_EXTRAS[self.route]):
                self._extras = max(self._extras, level + 1)
                continue
            if status in _BUSY:
                again = _Again(reason)
                again.wait = wait
                raise again
            raise InvalidArgument(f"{self!r}: the server refuses the request: {reason}")

    def _request(self, context: Context, sampling: Sampling, seed: int) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self.model,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "seed": seed % (1 << 31),
        }
        if self.route == "chat":
            request["messages"] = [{"role": message.role, "content": message.text} for message in context.messages]
        elif self.chat_format is None:
            request["prompt"] = "\n\n".join(message.text for message in context.messages) + "\n\n"
        else:
            request["prompt"] = self.chat_format.prompt(context.messages, self._recorded.get(context.session, {}))
            request["stop_token_ids"] = [self.chat_format.stop]
        return request | self.fields

    def _post(self, request: Mapping[str, Any]) -> tuple[int, bytes, float | None]:
        """Status, body and Retry-After. A deadline of our own: the client's timeouts count from the last byte."""
        deadline = time.monotonic() + self.timeout
        body = bytearray()
        data = json.dumps(
            {name: value for name, value in request.items() if value is not None}
        )  # escapes lone surrogates, which UTF-8 cannot hold
        try:
            with self._client.stream(
                "POST", self._path, content=data, headers={"Content-Type": "application/json"}
            ) as response:
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > MAX_BYTES:
                        raise _Again(f"an answer of over {MAX_BYTES >> 20} MiB")
                    if time.monotonic() > deadline:
                        raise _Again(f"no end of the answer within {self.timeout:g} s")
                wait = response.headers.get("Retry-After", "")
                return response.status_code, bytes(body), float(wait) if re.fullmatch(r"\d{1,6}", wait) else None
        except self._errors as error:
            raise _Again(self._hide(f"{type(error).__name__}: {error}")) from None

    def _reason(self, status: int, body: bytes) -> str:
        text = body[:2000].decode("utf-8", "replace")
        try:
            found = json.loads(body)
            text = str(found.get("error", found).get("message", text))
        except (ValueError, AttributeError):
            pass
        return self._hide(f"HTTP {status}: {' '.join(text.split())[:300]}")

    def _hide(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text

    # -- one answer ---------------------------------------------------------------------------------------------------

    def _read(self, body: bytes) -> Completion:
        try:
            answer = json.loads(body)
            choice = answer["choices"][0]
            text = _text(choice["message"]) if self.route == "chat" else str(choice["text"] or "")
            prompt_ids = tuple(map(int, answer.get("prompt_token_ids") or choice.get("prompt_token_ids") or ()))
            ids = tuple(map(int, choice.get("token_ids") or ()))
            logprobs = _logprobs(choice.get("logprobs"))
            finish = "length" if choice.get("finish_reason") == "length" else "stop"
            first = _first(choice.get("logprobs"))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise _Again(f"an unreadable answer ({type(error).__name__})") from None
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # lone surrogates fit no file
        if len(text) > MAX_TEXT:
            text, finish = text[:MAX_TEXT], "length"
        finite = logprobs is not None and all(map(math.isfinite, logprobs))
        if ids and prompt_ids and finite and len(ids) == len(logprobs or ()):
            return Completion(text, finish, prompt_ids, ids, np.array(logprobs, np.float32), first)
        total = math.fsum(logprobs or ()) if finite else 0.0
        return Completion(text, finish, (), (), np.array([total], np.float32))


def _text(message: Mapping[str, Any]) -> str:
    """The completion, with the reasoning that some servers split off put back in front."""
    text = str(message.get("content") or "")
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    return f"<think>{reasoning}</think>{text}" if isinstance(reasoning, str) else text


def _logprobs(found: Any) -> list[float] | None:
    """Log-probabilities of the sampled tokens in either route's form; None where they are absent or partly so."""
    if not found:
        return None
    values = [token["logprob"] for token in found["content"]] if "content" in found else found["token_logprobs"]
    return None if any(value is None for value in values) else [float(value) for value in values]


def _first(found: Any) -> dict[int, float]:
    """Of a completions answer, what could have come first instead, by id (vLLM's `return_tokens_as_token_ids`)."""
    tops = ((found or {}).get("top_logprobs") or [None])[0] or {}
    return {int(name[9:]): float(value) for name, value in tops.items() if re.fullmatch(r"token_id:\d{1,9}", name)}
