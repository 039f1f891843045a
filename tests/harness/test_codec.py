"""Codecs: what is found, where it stands, and that hostile completions neither raise nor stall."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs.core.errors import InvalidArgument
from sandlot.harness.codec import CODECS, JSONCodec, PlainCodec, TagCodec, make_codec
from sandlot.harness.policies.chat import ChatFormat
from sandlot.harness.policies.tiny import build_word_tokenizer
from sandlot.harness.records import Call, Context


@pytest.mark.parametrize(
    ("codec", "text", "action", "valid"),
    [
        ("plain", "  go to desk 1 \nand then look", "go to desk 1", True),
        ("plain", "\n\n look\r\n", "look", True),
        ("plain", " \n\t ", "", False),
        ("plain", "", "", False),
        ("tags", "<think>go left?</think>\n<action> go right </action>", "go right", True),
        ("tags", "<action>look", "look", True),
        ("tags", "<action>a</action> no, <action>b</action>", "b", True),
        ("tags", "<action>a <action>b</action>", "b", True),
        ("tags", "<think>I must not <action>a</action></think> <action>b</action>", "b", True),
        ("tags", "<think>never closed <action>a</action>", "", False),
        ("tags", "look", "", False),
        ("tags", "</action>look<action>", "", False),
        ("tags", "<action></action>", "", False),
        ("json", '{"think": "hm", "action": "look"}', "look", True),
        ("json", 'Sure: ```{"action": " go\\nnow "}``` done', "go\nnow", True),
        ("json", '{"action": "a"} {"action": "b"}', "b", True),
        ("json", '{"action": {"name": "a"}}', "", False),
        ("json", '{ broken {"action": "a"}', "a", True),
        ("json", '{"action": "a', "", False),
        ("json", "look", "", False),
    ],
)
def test_what_is_found(codec, text, action, valid):
    parsed = make_codec(codec).parse(text)
    assert (parsed.action, parsed.valid) == (action, valid)
    assert ("action" in parsed.spans) == valid


def test_character_spans():
    text = "<think>hm</think><action> go to desk 1 </action>"
    spans = TagCodec().parse(text).spans
    assert [text[a:b] for a, b in spans["action"]] == ["go to desk 1"]
    assert [text[a:b] for a, b in spans["think"]] == ["hm"]
    parsed = JSONCodec().parse('so {"think": "hm", "n": 3, "action": "look"} there')
    assert parsed.spans == {"action": ((3, 44),)}
    assert parsed.args == {"think": "hm", "n": 3}
    assert PlainCodec().parse("\n look \n x").spans == {"action": ((2, 6),)}


def test_token_spans_of_a_call():
    text = "<think>go to desk</think><action>go to desk 1</action>"
    format = ChatFormat.of(build_word_tokenizer([text, "go to desk 1"]))
    ids = (*format.encode(text), format.stop)
    call = Call("c", Context(()), text, np.zeros(len(ids), np.float32), completion_ids=ids)
    codec = make_codec("tags", format.offsets)
    assert codec(call) == "go to desk 1"
    for name, expected in (("think", "go to desk"), ("action", "go to desk 1")):
        ((start, stop),) = call.spans[name]
        assert format.decode(ids[start:stop]) == expected
    # pieces: < think > go | to | desk </ ... : three tokens of tag, three of thought
    assert call.spans["think"] == ((3, 6),)


def test_calls_without_tokens_keep_their_spans():
    call = Call("c", Context(()), "look", np.zeros(1, np.float32), spans={"action": ((0, 1),)})
    assert make_codec("plain")(call) == "look"
    assert call.spans == {"action": ((0, 1),)}
    with pytest.raises(InvalidArgument, match="plain, tags, json"):
        make_codec("yaml")


@pytest.mark.parametrize("name", CODECS)
@given(
    text=st.lists(
        st.one_of(
            st.text(max_size=10),
            st.sampled_from(
                ["<action>", "</action>", "<think>", "</think>", "{", "}", '"action":', '"', "\x00", "\ud800"]
            ),
        ),
        max_size=12,
    ).map("".join)
)
@settings(max_examples=150, deadline=None)
def test_any_text_is_answered(name, text):
    parsed = make_codec(name).parse(text)
    assert parsed.valid == bool(parsed.action)
    for spans in parsed.spans.values():
        for start, stop in spans:
            assert 0 <= start <= stop <= len(text)
    if parsed.valid and name != "json":
        ((start, stop),) = parsed.spans["action"]
        assert text[start:stop] == parsed.action


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize(
    "unit",
    ["x", " ", "\n", "\x1b[2J", "{", '{"action":', "[", "<action>", "<action></action>", "<think>", '{"action":"a"}'],
)
def test_ten_megabytes_take_no_time(name, unit):
    text = unit * (10_000_000 // len(unit))
    began = time.process_time()
    make_codec(name).parse(text)
    assert time.process_time() - began < 10  # measured: under 1.5 s each
