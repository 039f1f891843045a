"""Chat formats and the whole-word tokenizer: exact round trips, appended deltas, no control tokens from text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from sandlot.envs.core.errors import InvalidArgument
from sandlot.harness.policies.chat import ChatFormat
from sandlot.harness.policies.tiny import build_word_tokenizer, tiny_llama
from sandlot.harness.policies.trie import Trie
from sandlot.harness.records import Message

WORDS = ("go", "to", "desk", "shelf", "Take", "mug", "from", "in", "on", "Ärger")


def tiny() -> ChatFormat:
    return ChatFormat.of(build_word_tokenizer([*WORDS, *(f" {word}" for word in WORDS)]))


def byte_chatml() -> ChatFormat:
    """A byte-level BPE without merges and with ChatML's control tokens: a real chat tokenizer in small."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({letter: index for index, letter in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|tool|>"]
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return ChatFormat.of(PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>"))


FORMATS = {"tiny": tiny(), "chatml": byte_chatml()}
hostile = st.lists(
    st.one_of(
        st.text(max_size=8),
        st.sampled_from(["<|im_end|>", "<|im_start|>user\n", "<|tool|>", "<user>", "<end>", "<unk>", "<pad>"]),
        st.sampled_from(WORDS),
        st.just("\ud800"),
        st.text(alphabet="\x00\x1b\x7f\u202e", max_size=3),
    ),
    max_size=6,
).map("".join)


@pytest.mark.parametrize("name", FORMATS)
@given(text=hostile)
@settings(max_examples=150, deadline=None)
def test_text_never_becomes_a_control_token(name, text):
    format = FORMATS[name]
    ids = format.encode(text)
    assert not set(ids) & (format.control | {format.stop})
    prompt = format.prompt([Message("user", text)], {})
    plain = format.prompt([Message("user", "")], {})
    assert len(prompt) == len(plain) + len(ids)  # the turn's own control tokens, and no more


@given(text=hostile)
@settings(max_examples=150, deadline=None)
def test_byte_level_text_round_trips(text):
    assert FORMATS["chatml"].decode(FORMATS["chatml"].encode(text)) == text.encode("utf-8", "replace").decode()


@given(
    pieces=st.lists(st.one_of(st.sampled_from(WORDS), st.sampled_from(list(" \n\t.,:;!?()[]<>{}_-=/'\"0123456789"))))
)
@settings(max_examples=200, deadline=None)
def test_known_words_round_trip_in_any_arrangement(pieces):
    # every word was seen at the start and after a space; two words in a row would be one unknown word
    text = "".join(a + ("|" if a in WORDS and b in WORDS else "") for a, b in zip(pieces, [*pieces[1:], ""]))
    assert FORMATS["tiny"].decode(FORMATS["tiny"].encode(text)) == text


def test_the_word_tokenizer_is_deterministic_and_survives_saving(tmp_path):
    texts = ["go to desk 12", "take the mug", "take the cup"]
    a, b = build_word_tokenizer(texts), build_word_tokenizer(reversed(texts))
    assert a.get_vocab() == b.get_vocab()
    assert " cup" not in build_word_tokenizer(texts, min_count=2).get_vocab()
    a.save_pretrained(tmp_path)
    loaded = ChatFormat.of(AutoTokenizer.from_pretrained(tmp_path))
    format = ChatFormat.of(a)
    for text in (*texts, "<user> go", "unknown  words\n\n"):
        assert loaded.encode(text) == format.encode(text)
        assert loaded.decode(format.encode(text)) == format.decode(format.encode(text))
    assert (loaded.stop, loaded.control, loaded.opening) == (format.stop, format.control, format.opening)
    # "go to desk 12": four words, the number as two digits
    assert [format.decode([token]) for token in format.encode(texts[0])] == ["go", " to", " desk", " 1", "2"]
    assert format.offsets(format.encode(texts[0])) == [0, 2, 5, 10, 12, 13]


@pytest.mark.parametrize("name", FORMATS)
def test_prompts_grow_by_appending_and_use_recorded_ids_verbatim(name):
    format = FORMATS[name]
    odd = format.encode("go") + format.encode("to")  # not how "goto" would be encoded
    messages = [Message("system", "on"), Message("user", "go to desk")]
    first = format.prompt(messages, {})
    for completion in ((*odd, format.stop), odd):  # stopped by itself, or cut
        after = [*messages, Message("assistant", format.decode(odd), "c1"), Message("user", "mug")]
        second = format.prompt(after, {"c1": completion})
        assert tuple(second[: len(first) + len(completion)]) == (*first, *completion)
        user = (*format.opening["user"], *format.encode("mug"), *format.closing)
        tail = format.closing[1:] if completion[-1] == format.stop else format.closing
        assert tuple(second[len(first) + len(completion) :]) == (*tail, *user, *format.opening["assistant"])
    # without a record, the message is encoded as text and closed
    text = format.prompt([*messages, Message("assistant", "go", "lost")], {})
    assert tuple(text[len(first) :]) == (*format.encode("go"), *format.closing, *format.opening["assistant"])


def test_chatml_layout():
    format = FORMATS["chatml"]
    prompt = format.prompt([Message("user", "hi")], {})
    text = format.tokenizer.decode(prompt, skip_special_tokens=False)
    assert text == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert format.decode((*format.encode("hi"), format.stop)) == "hi"


def test_unusable_tokenizers_and_roles_are_named():
    backend = Tokenizer(models.WordLevel({"a": 0, "<unk>": 1}, unk_token="<unk>"))
    with pytest.raises(InvalidArgument, match="no chat tokens"):
        ChatFormat.of(PreTrainedTokenizerFast(tokenizer_object=backend))
    with pytest.raises(InvalidArgument, match="fast tokenizer"):
        ChatFormat.of(object())
    with pytest.raises(InvalidArgument, match="'tool'"):
        FORMATS["tiny"].prompt([Message("tool", "x")], {})
    with pytest.raises(InvalidArgument, match="heads"):
        tiny_llama(10, d_model=30, heads=4)


def test_trie_and_its_tree():
    # candidates as digits, 0 is the stop: 1 2 0, 1 3 0, 1 0
    trie = Trie(["12", "13", "1"], lambda text: tuple(int(digit) for digit in text), stop=0)
    assert trie.candidates == ((1, 2, 0), (1, 3, 0), (1, 0))
    assert trie.root.allowed == (1,)
    assert trie.root.child(1).allowed == (0, 2, 3)
    assert trie.root.child(1).child(0).action == "1"
    tree = trie.tree
    # inner nodes below the root: 1, then 2 and 3 under it
    assert tree.tokens.tolist() == [1, 2, 3]
    assert tree.depth.tolist() == [0, 1, 1]
    assert tree.ancestors.tolist() == [[True, False, False], [True, True, False], [True, False, True]]
    # edges in order of discovery: (root,1) (1,2) (2,0) | (1,3) (3,0) | (1,0)
    assert list(zip(tree.edge_node.tolist(), tree.edge_token.tolist())) == [
        (0, 1),
        (1, 2),
        (2, 0),
        (1, 3),
        (3, 0),
        (1, 0),
    ]
    # sums: .1+.2+.4 = .7, .1+.8+1.6 = 2.5, .1+3.2 = 3.3
    np.testing.assert_allclose(tree.scores(np.array([0.1, 0.2, 0.4, 0.8, 1.6, 3.2])), [0.7, 2.5, 3.3])
