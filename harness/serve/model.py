"""A model over HTTP in the OpenAI protocol, with the token ids and log-probabilities that training needs.

Meant for tests, for trainers that only speak this protocol, and for people without a GPU: one model, one process.
Requests that wait at the same time are answered in one batch, and a prompt that begins like an earlier one reuses its
keys and values. The routes are `/v1/models`, `/v1/completions` (text or token ids) and `/v1/chat/completions`; both
stream. What vLLM calls `return_token_ids` gives `prompt_token_ids` and `token_ids`; log-probabilities are those of the
distribution that was sampled from, temperature and `top_p` included (vLLM's `processed_logprobs`).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import queue
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ...envs.core.errors import InvalidArgument, MissingExtra
from ..policies.hf import HFPolicy
from ..policy import Sampling
from ..records import Context, Message
from .protocol import Answer, Ask, Refused, Wanted, collect, first_stop

try:
    from aiohttp import web
except ImportError:
    raise MissingExtra("aiohttp", "serve") from None

MAX_BODY = 8 << 20  # bytes of a request
SESSIONS = 64  # prompts whose keys and values are kept


class ModelServer:
    """Serves `policy`; a context manager that runs in threads of its own, or `run()` in the foreground.

    Args:
        policy: the model; only this server may use it meanwhile.
        name: what `/v1/models` and answers call it.
        host: where to listen; other machines reach it only if this says so.
        port: 0 takes a free one (`url` tells which).
    """

    def __init__(self, policy: HFPolicy, *, name: str = "sandlot", host: str = "127.0.0.1", port: int = 0) -> None:
        self.policy, self.name, self.host, self.port = policy, name, host, port
        self._asks: queue.SimpleQueue[Ask | None] = queue.SimpleQueue()
        self._sessions: OrderedDict[str, tuple[int, ...]] = OrderedDict()
        self._names, self._numbers = itertools.count(), itertools.count()
        self._ready = threading.Event()
        self._failed: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._threads: list[threading.Thread] = []

    @property
    def url(self) -> str:
        """The address up to and including "/v1"."""
        return f"http://{self.host}:{self.port}/v1"

    def __enter__(self) -> ModelServer:
        """Start; returns when requests are answered.

        Raises:
            InvalidArgument: the address cannot be had.
        """
        self._threads = [
            threading.Thread(target=self._work, name="sandlot-model", daemon=True),
            threading.Thread(target=lambda: asyncio.run(self._serve()), name="sandlot-http", daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        self._ready.wait()
        if self._failed is not None:
            self.__exit__()
            raise InvalidArgument(f"cannot listen on {self.host}:{self.port}: {self._failed}")
        return self

    def __exit__(self, *_: object) -> None:
        """Stop and wait for the threads."""
        if self._loop is not None and self._stop is not None:
            with suppress(RuntimeError):  # the loop has ended by itself
                self._loop.call_soon_threadsafe(self._stop.set)
        self._asks.put(None)
        for thread in self._threads:
            thread.join()

    def run(self) -> None:
        """Serve until interrupted."""
        with self:
            threading.Event().wait()

    # -- the model's thread -------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            asks = [self._asks.get()]
            with suppress(queue.Empty):
                while True:
                    asks.append(self._asks.get_nowait())
            batches: dict[Sampling, list[Ask]] = {}
            for ask in asks:
                if ask is None:
                    return
                batches.setdefault(ask.sampling, []).append(ask)
            for sampling, batch in batches.items():
                try:
                    self._answer(batch, sampling)
                except Exception as error:  # the server goes on
                    for ask in batch:
                        ask.emit(error)

    def _answer(self, batch: Sequence[Ask], sampling: Sampling) -> None:
        busy: set[str] = set()
        sessions = [self._session(ask.prompt, busy) for ask in batch]
        contexts = [
            Context((Message("ids", " ".join(map(str, ask.prompt))),), session=session)
            for ask, session in zip(batch, sessions)
        ]

        def on_token(number: int, token: int, logprob: float) -> bool:
            ask = batch[number]
            ask.ids.append(token)
            ask.emit((token, logprob))
            if ask.cancelled or token in ask.stop_ids:
                return True
            return bool(ask.stops) and first_stop(self.policy.format.decode(ask.ids), ask.stops) is not None

        calls = self.policy.generate(contexts, sampling, [ask.seed for ask in batch], on_token=on_token)
        for ask, session, call in zip(batch, sessions, calls):
            self._sessions[session] = ask.prompt + call.completion_ids
            ask.emit(call)
        while len(self._sessions) > SESSIONS:
            self.policy.forget([self._sessions.popitem(last=False)[0]])

    def _session(self, prompt: tuple[int, ...], busy: set[str]) -> str:
        """The session whose tokens begin most like the prompt, or a new one."""
        best, shared = "", 8  # fewer are not worth it
        for name, ids in self._sessions.items():
            if name not in busy:
                same = next((i for i, (a, b) in enumerate(zip(ids, prompt)) if a != b), min(len(ids), len(prompt)))
                # one that has much beyond the shared part belongs to another history: leave it to that one
                if same > shared and same * 2 >= len(ids):
                    best, shared = name, same
        name = best or f"served-{next(self._names)}"
        busy.add(name)
        self._sessions.setdefault(name, ())
        self._sessions.move_to_end(name)
        return name

    # -- HTTP ---------------------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._models)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/completions", self._plain)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, self.host, self.port)
            await site.start()
            self.port = runner.addresses[0][1]
            self._ready.set()
            await self._stop.wait()
        except OSError as error:
            self._failed = error
        finally:
            self._ready.set()
            await runner.cleanup()

    async def _models(self, _: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": self.name, "object": "model", "created": 0}]})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._complete(request, chat=True)

    async def _plain(self, request: web.Request) -> web.StreamResponse:
        return await self._complete(request, chat=False)

    async def _complete(self, request: web.Request, *, chat: bool) -> web.StreamResponse:
        try:
            body = await request.json()
            if not isinstance(body, dict):
                raise Refused("the body must be a JSON object")
            wanted = Wanted.read(body, chat, self.policy)
            if body.get("model") not in (None, self.name):
                return _error(404, f"there is no model {str(body['model'])[:80]!r}; this server has {self.name!r}")
        except (Refused, InvalidArgument) as error:
            return _error(400, str(error))
        except (ValueError, RecursionError):
            return _error(400, "the body is not JSON")
        answer = Answer(f"cmpl-{next(self._numbers)}", self.name, chat, wanted, self.policy)
        streams = [self._ask(wanted, choice) for choice in range(wanted.n)]
        if wanted.stream:
            return await self._stream(request, answer, streams)
        choices = []
        for index, (ask, events) in enumerate(streams):
            try:
                tokens, call = await collect(events)
            except asyncio.CancelledError:  # the client is gone
                for other, _ in streams:
                    other.cancelled = True
                raise
            except Exception as error:
                return _error(500, f"{type(error).__name__}: {error}")
            choices.append(answer.choice(index, tokens, call, ask))
        return web.json_response(answer.body(choices))

    def _ask(self, wanted: Wanted, choice: int) -> tuple[Ask, asyncio.Queue[Any]]:
        loop, events = asyncio.get_running_loop(), asyncio.Queue()

        def emit(event: Any) -> None:
            with suppress(RuntimeError):  # the server is going down
                loop.call_soon_threadsafe(events.put_nowait, event)

        ask = Ask(wanted.prompt, wanted.sampling, wanted.seed + choice, wanted.stops, wanted.stop_ids, emit)
        self._asks.put(ask)
        return ask, events

    async def _stream(
        self, request: web.Request, answer: Answer, streams: Sequence[tuple[Ask, asyncio.Queue[Any]]]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        await response.prepare(request)
        try:
            for index, (ask, events) in enumerate(streams):
                async for chunk in answer.chunks(index, ask, events):
                    await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            await response.write(b"data: [DONE]\n\n")
            await response.write_eof()
        except (ConnectionError, asyncio.CancelledError):
            for ask, _ in streams:
                ask.cancelled = True  # nobody listens: the completion ends at its next token
            raise
        return response


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "type": "invalid_request_error"}}, status=status)
