"""OpenAIPolicy against a real HTTP server that answers from a script."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

pytest.importorskip("httpx", reason="needs httpx")

from sandlot.envs.core.errors import EnvironmentFault, InvalidArgument
from sandlot.envs.core.registry import make
from sandlot.harness.policies.openai import OpenAIPolicy
from sandlot.harness.policy import MAX_TEXT, Policy, PolicyFault, Sampling
from sandlot.harness.records import Call, Context, Message

Answer = tuple[int, Any]  # status, body: JSON-able, or bytes, or a function of the handler
KEY = "sk-very-secret-123"


class Server:
    """Answers POSTs with `script(request, number)` and keeps what it was asked."""

    def __init__(self, script: Callable[[dict[str, Any], int], Answer]) -> None:
        self.script, self.requests, self.headers, self.paths = script, [], [], []
        self.now, self.peak, self.lock = 0, 0, threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer.lock:
                    number = len(outer.requests)
                    outer.requests.append(request)
                    outer.headers.append(dict(self.headers))
                    outer.paths.append(self.path)
                    outer.now += 1
                    outer.peak = max(outer.peak, outer.now)
                try:
                    status, body = outer.script(request, number)
                finally:
                    with outer.lock:
                        outer.now -= 1
                if callable(body):
                    body(self)
                    return
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                if status == 429:
                    self.send_header("Retry-After", "0")
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[Server, OpenAIPolicy]]]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    opened: list[Any] = []

    def start(script: Callable[[dict[str, Any], int], Answer], **kwargs: Any) -> tuple[Server, OpenAIPolicy]:
        server = Server(script)
        policy = OpenAIPolicy("m", server.url, **{"backoff": 0.01, "timeout": 5.0, **kwargs})
        opened.extend((policy, server))
        return server, policy

    yield start
    for thing in opened:
        thing.close()


def context(*texts: str, session: str = "s") -> Context:
    """User and assistant messages in turn."""
    roles = ("user", "assistant")
    return Context(tuple(Message(roles[i % 2], text) for i, text in enumerate(texts)), session=session)


def chat(text: Any = "go north", *, ids: Any = None, logprobs: Any = None, finish: str = "stop") -> Answer:
    """An answer of the chat route; with `ids`, as vLLM gives them."""
    choice: dict[str, Any] = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    answer: dict[str, Any] = {"id": "x", "choices": [choice]}
    if logprobs is not None:
        choice["logprobs"] = {"content": [{"token": "t", "logprob": value} for value in logprobs]}
    if ids is not None:
        choice["token_ids"], answer["prompt_token_ids"] = ids, [1, 2, 3]
    return 200, answer


def ask(policy: Policy, *contexts: Context, **sampling: Any) -> list[Call]:
    contexts = contexts or (context("hello"),)
    return policy.generate(contexts, Sampling(**sampling), list(range(len(contexts))))


def test_records_ids_and_log_probabilities_that_the_server_gives(serve: Any) -> None:
    server, policy = serve(lambda request, n: chat(ids=[7, 8, 9], logprobs=[-0.5, -0.25, -1.0]))
    assert isinstance(policy, Policy)
    policy.version = 4
    (call,) = ask(policy, context("look", "go", "done"), temperature=0.7, top_p=0.9, max_tokens=12)
    assert (call.text, call.finish, call.version, call.temperature) == ("go north", "stop", 4, 0.7)
    assert (call.prompt_ids, call.completion_ids) == ((1, 2, 3), (7, 8, 9))
    assert call.logprobs.dtype == np.float32
    assert call.logprobs.tolist() == [-0.5, -0.25, -1.0]
    request = server.requests[0]
    assert server.paths == ["/v1/chat/completions"]
    assert [(m["role"], m["content"]) for m in request["messages"]] == [
        ("user", "look"),
        ("assistant", "go"),
        ("user", "done"),
    ]
    assert (request["temperature"], request["top_p"], request["max_tokens"], request["seed"]) == (0.7, 0.9, 12, 0)
    assert request["return_token_ids"] is True


@pytest.mark.parametrize(
    ("answer", "total"),
    [
        (chat(), 0.0),  # neither ids nor log-probabilities
        (chat(logprobs=[-0.5, -1.5]), -2.0),  # -0.5 - 1.5, one unit
        (chat(ids=[7, 8]), 0.0),  # ids without log-probabilities cannot be trained on
        (chat(ids=[7, 8], logprobs=[-1.0]), -1.0),  # not one each
        (chat(ids=[7], logprobs=[float("nan")]), 0.0),
        (chat(ids=[7], logprobs=[float("-inf")]), 0.0),
        (chat(ids=[7], logprobs=[None]), 0.0),
        ((200, {"choices": [{"message": {"content": "go north"}, "finish_reason": None, "logprobs": None}]}), 0.0),
    ],
)
def test_records_text_where_ids_are_missing(serve: Any, answer: Answer, total: float) -> None:
    _, policy = serve(lambda request, n: answer)
    (call,) = ask(policy)
    assert (call.text, call.completion_ids, call.prompt_ids) == ("go north", (), ())
    assert call.logprobs.tolist() == [total]


def test_a_server_that_refuses_our_extras_is_asked_without_them_from_then_on(serve: Any) -> None:
    def strict(request: dict[str, Any], n: int) -> Answer:
        if "return_token_ids" in request:
            return 400, {"error": {"message": "Unrecognized request argument supplied: return_token_ids"}}
        return chat(logprobs=[-1.0])

    server, policy = serve(strict)
    assert ask(policy)[0].logprobs.tolist() == [-1.0]
    ask(policy)
    assert [("return_token_ids" in r, "logprobs" in r) for r in server.requests] == [
        (True, True),
        (False, True),
        (False, True),
    ]


def test_completions_route_sends_paragraphs_or_ids(serve: Any) -> None:
    pytest.importorskip("transformers", reason="needs transformers for a tokenizer")
    from sandlot.harness.policies.chat import ChatFormat
    from sandlot.harness.policies.tiny import build_word_tokenizer

    def answer(request: dict[str, Any], n: int) -> Answer:
        choice: dict[str, Any] = {"text": " go", "finish_reason": "stop"}
        if isinstance(request["prompt"], list):
            choice |= {"token_ids": [40, stop], "logprobs": {"token_logprobs": [-0.5, -0.1]}}
            choice["prompt_token_ids"] = request["prompt"]
        return 200, {"choices": [choice]}

    form = ChatFormat.of(build_word_tokenizer(["look go north"]))
    stop = form.stop
    server, plain = serve(answer, route="completions")
    ask(plain, context("a", "b", "c"))
    assert server.paths == ["/v1/completions"]
    assert server.requests[0]["prompt"] == "a\n\nb\n\nc\n\n"

    server, exact = serve(answer, route="completions", chat_format=form)
    (first,) = ask(exact, context("look"))
    assert first.completion_ids == (40, stop)
    history = (*first.context.messages, Message("assistant", "another text", first.id), Message("user", "look"))
    (second,) = ask(exact, Context(history, session="s"))
    grown = first.prompt_ids + first.completion_ids
    assert second.prompt_ids[: len(grown)] == grown  # the sampled ids, not the text's
    assert server.requests[0]["stop_token_ids"] == [stop]
    exact.forget(["s"])
    (third,) = ask(exact, Context(history, session="s"))
    assert third.prompt_ids != second.prompt_ids


def test_answers_keep_their_order_and_the_bound_on_concurrency(serve: Any) -> None:
    def slow(request: dict[str, Any], n: int) -> Answer:
        text = request["messages"][0]["content"]
        time.sleep(0.15 if text == "0" else 0.02)
        return chat(text)

    server, policy = serve(slow, concurrency=3)
    calls = ask(policy, *[context(str(i)) for i in range(9)])
    assert [call.text for call in calls] == [str(i) for i in range(9)]
    assert len({call.id for call in calls}) == 9
    assert 2 <= server.peak <= 3
    assert sorted(request["seed"] for request in server.requests) == list(range(9))


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_tried_again(serve: Any, status: int) -> None:
    server, policy = serve(lambda request, n: (status, {"error": {"message": "busy"}}) if n < 2 else chat())
    assert ask(policy)[0].text == "go north"
    assert len(server.requests) == 3


def test_a_server_that_stays_broken_is_a_fault(serve: Any) -> None:
    server, policy = serve(lambda request, n: (503, b"<html>down</html>"), retries=2)
    with pytest.raises(PolicyFault, match="failed 3 times; last: HTTP 503: <html>down") as caught:
        ask(policy)
    assert isinstance(caught.value, EnvironmentFault)
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "body",
    [
        b"{not json",
        b"",
        b"[]",
        b"null",
        b'{"choices": []}',
        b'{"choices": [{"message": null}]}',
        b"\xff\xfe",
        b"[" * 99999,
    ],
)
def test_garbage_is_tried_again_and_then_a_fault(serve: Any, body: bytes) -> None:
    _, policy = serve(lambda request, n: (200, body) if n < 1 else chat(), retries=1)
    assert ask(policy)[0].text == "go north"
    _, policy = serve(lambda request, n: (200, body), retries=1)
    with pytest.raises(PolicyFault, match="an unreadable answer"):
        ask(policy)


def test_a_lost_connection_is_tried_again(serve: Any) -> None:
    def cut(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        handler.close_connection = True

    server, policy = serve(lambda request, n: (200, cut) if n < 1 else chat())
    assert ask(policy)[0].text == "go north"
    assert len(server.requests) == 2
    server.close()
    lost = OpenAIPolicy("m", server.url, retries=1, backoff=0.01)
    with pytest.raises(PolicyFault, match="ConnectError"):
        ask(lost)
    lost.close()


def test_slow_and_endless_answers_are_cut_off(serve: Any) -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        try:
            for _ in range(100):  # never silent for long, never done
                handler.wfile.write(b" ")
                time.sleep(0.05)
        except OSError:
            pass
        handler.close_connection = True

    _, policy = serve(lambda request, n: (200, drip), retries=0, timeout=0.4)
    started = time.monotonic()
    with pytest.raises(PolicyFault, match=r"within 0\.4 s"):
        ask(policy)
    assert time.monotonic() - started < 3

    def silent(request: dict[str, Any], n: int) -> Answer:
        time.sleep(1.0)
        return chat()

    _, policy = serve(silent, retries=0, timeout=0.2)
    with pytest.raises(PolicyFault, match="ReadTimeout"):
        ask(policy)


def test_strange_texts(serve: Any) -> None:
    texts = ["", None, "x" * 10_000_000, "a\x00\x1b[2J\x07b", "\ud800lone"]
    _, policy = serve(lambda request, n: chat(texts[int(request["messages"][0]["content"])]), concurrency=1)
    empty, none, huge, control, lone = ask(policy, *[context(str(i)) for i in range(5)])
    assert (empty.text, none.text) == ("", "")
    assert len(huge.text) == MAX_TEXT
    assert huge.finish == "length"
    assert control.text == "a\x00\x1b[2J\x07b"  # kept as it was sampled; environments clean what they are sent
    lone.text.encode()  # fits a file
    ask(policy, context("0", "\ud800", "x"))  # and such a text can be sent
    env = make("sandlot/Corridor-v0")
    env.reset(seed=0)
    for call in (empty, huge, control, lone):
        assert env.step(call.text)[4]["valid"] is False


def test_reasoning_is_part_of_the_text(serve: Any) -> None:
    message = {"content": "go", "reasoning_content": "hm"}
    _, policy = serve(lambda request, n: (200, {"choices": [{"message": message, "finish_reason": "length"}]}))
    (call,) = ask(policy)
    assert (call.text, call.finish) == ("<think>hm</think>go", "length")


def test_a_prompt_that_does_not_fit_ends_the_episode(serve: Any) -> None:
    error = {"message": "This model's maximum context length is 1024 tokens", "code": 400}
    server, policy = serve(lambda request, n: (400, {"error": error}))
    (call,) = ask(policy)
    assert (call.finish, call.text, len(call.logprobs)) == ("context", "", 0)
    assert len(server.requests) == 1


def test_a_refused_request_is_the_users_mistake_and_never_shows_the_key(serve: Any) -> None:
    def refuse(request: dict[str, Any], n: int) -> Answer:
        return 401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}

    server, policy = serve(refuse, key=KEY)
    with pytest.raises(InvalidArgument, match="HTTP 401: Incorrect API key provided") as caught:
        ask(policy)
    assert len(server.requests) == 1
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert KEY not in str(caught.value) and KEY not in repr(policy)
    _, policy = serve(lambda request, n: (404, {"message": "no model m"}))
    with pytest.raises(InvalidArgument, match="no model m"):
        ask(policy)


def test_the_key_comes_from_the_environment_where_none_is_given(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server, policy = serve(lambda request, n: chat())
    ask(policy)
    assert "Authorization" not in server.headers[0]
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server, policy = serve(lambda request, n: chat(), fields={"top_k": 20, "seed": None})
    ask(policy)
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert server.requests[0]["top_k"] == 20
    assert "seed" not in server.requests[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"route": "responses"},
        {"url": "localhost:8000"},
        {"concurrency": 0},
        {"timeout": 0},
        {"key": "a\nb"},
        {"retries": -1},
    ],
)
def test_wrong_arguments(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        OpenAIPolicy("m", **wrong)


def test_only_free_text(serve: Any) -> None:
    server, policy = serve(lambda request, n: chat())
    with pytest.raises(InvalidArgument, match="decode='free'"):
        ask(policy, decode="choice")
    assert not server.requests
