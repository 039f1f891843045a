"""A small language model over HTTP: the same tokens and log-probabilities as in this process, whatever the route."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

httpx = pytest.importorskip("httpx", reason="httpx is not installed (extra: openai)")
pytest.importorskip("aiohttp", reason="aiohttp is not installed (extra: serve)")
torch = pytest.importorskip("torch", reason="torch is not installed (extra: train)")

from sandlot.envs.core.errors import InvalidArgument  # noqa: E402
from sandlot.harness.context import FullHistory  # noqa: E402
from sandlot.harness.loop import EnvMaker, Limits, Rollout, play  # noqa: E402
from sandlot.harness.policies.hf import HFPolicy  # noqa: E402
from sandlot.harness.policies.openai import OpenAIPolicy  # noqa: E402
from sandlot.harness.policies.tiny import build_word_tokenizer, tiny_llama  # noqa: E402
from sandlot.harness.policy import Sampling  # noqa: E402
from sandlot.harness.records import Context, Message  # noqa: E402
from sandlot.harness.serve.model import ModelServer  # noqa: E402

WORDS = "go left right up down you are in the room a door key is here and there"
TALK = [{"role": "system", "content": "go"}, {"role": "user", "content": "you are in the room"}]


def policy() -> HFPolicy:
    tokenizer = build_word_tokenizer([WORDS, f" {WORDS}"])
    return HFPolicy(tiny_llama(len(tokenizer), 32, 2, 2, seed=0, max_context=256), tokenizer, name="tiny")


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    before = threading.active_count()
    with ModelServer(policy(), name="tiny") as running:
        yield running
    assert threading.active_count() == before


def ask(server: ModelServer, route: str = "chat/completions", **body: Any) -> dict[str, Any]:
    answer = httpx.post(f"{server.url}/{route}", json={"model": "tiny", **body}, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()


def events(server: ModelServer, route: str = "chat/completions", **body: Any) -> list[dict[str, Any]]:
    with httpx.stream("POST", f"{server.url}/{route}", json={"stream": True, **body}, timeout=30) as response:
        lines = [line for line in response.iter_lines() if line]
    assert response.headers["content-type"].startswith("text/event-stream")
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


EXACT = {"max_tokens": 12, "seed": 5, "logprobs": True, "return_token_ids": True}


def test_token_ids_and_logprobs_are_the_models_own(server: ModelServer) -> None:
    local = policy()
    messages = tuple(Message(m["role"], m["content"]) for m in TALK)
    call = local.generate([Context(messages)], Sampling(max_tokens=12), [5])[0]
    answer = ask(server, messages=TALK, **EXACT)
    choice = answer["choices"][0]
    assert answer["prompt_token_ids"] == list(call.prompt_ids)
    assert choice["token_ids"] == list(call.completion_ids)
    assert [t["logprob"] for t in choice["logprobs"]["content"]] == pytest.approx(call.logprobs.tolist(), abs=1e-5)
    assert choice["message"] == {"role": "assistant", "content": call.text}
    assert choice["finish_reason"] == call.finish
    assert answer["usage"]["total_tokens"] == len(call.prompt_ids) + len(call.completion_ids)
    scored = local.evaluate([call]).logprobs.detach().numpy()
    assert np.allclose(scored, call.logprobs, atol=1e-5)
    # the same prompt as ids, on the other route
    plain = ask(server, "completions", prompt=list(call.prompt_ids), **EXACT)
    assert plain["choices"][0]["token_ids"] == choice["token_ids"]
    assert plain["choices"][0]["logprobs"]["token_logprobs"] == pytest.approx(call.logprobs.tolist(), abs=1e-5)


@pytest.mark.parametrize("route", ["chat/completions", "completions"])
def test_a_stream_says_the_same_piece_by_piece(server: ModelServer, route: str) -> None:
    prompt: dict[str, Any] = {"messages": TALK} if route.startswith("chat") else {"prompt": WORDS}
    whole = ask(server, route, **prompt, **EXACT)
    chunks = events(server, route, **prompt, **EXACT, stream_options={"include_usage": True})
    assert chunks[-1]["usage"] == whole["usage"]
    parts = [chunk["choices"][0] for chunk in chunks[:-1]]
    assert len(parts) > 2
    assert [t for part in parts for t in part["token_ids"]] == whole["choices"][0]["token_ids"]
    if route == "completions":
        assert "".join(part["text"] for part in parts) == whole["choices"][0]["text"]
    else:
        text = whole["choices"][0]["message"]["content"]
        assert "".join(part["delta"]["content"] for part in parts) == text
        logprobs = [t["logprob"] for part in parts for t in part["logprobs"]["content"]]
        assert logprobs == pytest.approx([t["logprob"] for t in whole["choices"][0]["logprobs"]["content"]], abs=1e-5)
    assert [part["finish_reason"] for part in parts[:-1]] == [None] * (len(parts) - 1)
    assert parts[-1]["finish_reason"] == whole["choices"][0]["finish_reason"]


def test_stop_texts_end_the_completion_and_are_not_in_it(server: ModelServer) -> None:
    body = {"messages": TALK, "max_tokens": 40, "seed": 5}
    text = ask(server, **body)["choices"][0]["message"]["content"]
    words = text.split()
    stop = words[3]
    stopped = ask(server, **body, stop=[stop, "no such text"], return_token_ids=True)["choices"][0]
    assert stopped["message"]["content"] == text[: text.index(stop)]
    assert stopped["finish_reason"] == "stop"
    assert len(stopped["token_ids"]) < 40
    streamed = events(server, **body, stop=stop)
    assert "".join(c["choices"][0]["delta"]["content"] for c in streamed) == text[: text.index(stop)]


def test_several_choices_differ_and_requests_share_batches(server: ModelServer) -> None:
    answer = ask(server, messages=TALK, n=4, max_tokens=8, seed=1)
    texts = [choice["message"]["content"] for choice in answer["choices"]]
    assert len(set(texts)) > 1
    assert texts[2] == ask(server, messages=TALK, max_tokens=8, seed=3)["choices"][0]["message"]["content"]
    assert (
        len(
            {
                ask(server, messages=TALK, max_tokens=4, temperature=0, seed=s)["choices"][0]["message"]["content"]
                for s in range(3)
            }
        )
        == 1
    )
    with ThreadPoolExecutor(8) as pool:
        many = list(pool.map(lambda seed: ask(server, messages=TALK, max_tokens=8, seed=seed), range(1, 5)))
    assert [m["choices"][0]["message"]["content"] for m in many] == texts


@pytest.mark.parametrize(
    ("route", "body", "message"),
    [
        ("chat/completions", {"messages": []}, "messages must be"),
        ("chat/completions", {"messages": [{"role": "robot", "content": "x"}]}, "role of"),
        ("chat/completions", {"messages": TALK, "temperature": "hot"}, "temperature must be"),
        ("chat/completions", {"messages": TALK, "n": 1000}, "n must be"),
        ("chat/completions", {"messages": TALK, "stop": [1]}, "stop must be"),
        ("chat/completions", {"messages": [{"role": "user", "content": "go " * 300}]}, "maximum context length"),
        ("completions", {"prompt": []}, "prompt must be"),
        ("completions", {"prompt": [10**9]}, "token ids must be"),
        ("completions", {"prompt": ["a", "b"]}, "prompt must be"),
    ],
)
def test_bad_requests_are_told_what_is_wrong(server: ModelServer, route: str, body: Any, message: str) -> None:
    answer = httpx.post(f"{server.url}/{route}", json=body)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


def test_hostile_bodies_do_not_stop_the_server(server: ModelServer) -> None:
    for content in (b"", b"not json", b"[1]", b"\xff\xfe", b'{"messages": ' + b"[" * 5000):
        assert httpx.post(f"{server.url}/chat/completions", content=content).status_code == 400
    assert httpx.post(f"{server.url}/chat/completions", content=b"x" * (9 << 20)).status_code == 413
    assert httpx.post(f"{server.url}/completions", json={"model": "gpt", "prompt": "go"}).status_code == 404
    with httpx.stream("POST", f"{server.url}/chat/completions", json={"messages": TALK, "stream": True}) as response:
        next(response.iter_lines())  # and goes away in the middle
    assert ask(server, messages=TALK, max_tokens=2)["choices"]
    assert httpx.get(f"{server.url}/models").json()["data"][0]["id"] == "tiny"


def test_our_own_client_plays_and_records_tokens(server: ModelServer) -> None:
    local = policy()
    client = OpenAIPolicy("tiny", server.url, route="completions", chat_format=local.format, key="")
    rollout = Rollout(
        EnvMaker("sandlot/Corridor-v0", {"rooms": 3}), Sampling(max_tokens=4), FullHistory, limits=Limits(concurrency=4)
    )
    try:
        episodes = play(client, rollout.env.tasks().first(4), rollout)
    finally:
        client.close()
    calls = [call for episode in episodes for call in episode.calls]
    assert len(calls) > 8 and all(call.completion_ids for call in calls)
    scored = np.concatenate(local.score(calls))
    assert np.allclose(scored, np.concatenate([call.logprobs for call in calls]), atol=1e-4)


def test_a_taken_port_is_one_clear_error(server: ModelServer) -> None:
    with pytest.raises(InvalidArgument, match="cannot listen"), ModelServer(policy(), port=server.port):
        pass
