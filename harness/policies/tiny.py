"""A tiny language model from scratch: a whole-word tokenizer made from the environments' text, and a small Llama.

Both are ordinary Hugging Face objects: a saved directory loads with `AutoTokenizer` and `AutoModelForCausalLM`.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from ...envs.core.errors import InvalidArgument
from .chat import SPECIAL, SPECIAL_STOP

PAD, UNKNOWN = "<pad>", "<unk>"
# A piece takes the space in front of it along, so that the pieces of a text, put together, are the text.
PIECES = r" ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]|\s"


def build_word_tokenizer(texts: Iterable[str], min_count: int = 1) -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are whole words, single digits, single punctuation marks and white space.

    A word and the space before it are one token, and case is kept: decoding is exact where every word is known. ASCII
    digits, punctuation and white space are always known; a word that is not becomes `<unk>`.

    Args:
        texts: what the vocabulary is taken from (observations and actions).
        min_count: words seen less often are left out.
    """
    split = pre_tokenizers.Split(Regex(PIECES), behavior="isolated")
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(piece for piece, _ in split.pre_tokenize_str(text))
    special = [PAD, UNKNOWN, *SPECIAL.values(), SPECIAL_STOP]
    marks = [space + mark for space in ("", " ") for mark in string.digits + string.punctuation]
    always = [*" \n\t", *marks]
    words = sorted(
        (piece for piece, count in counts.items() if count >= min_count), key=lambda piece: (-counts[piece], piece)
    )
    tokens = dict.fromkeys([*special, *always, *words])
    backend = Tokenizer(models.WordLevel({token: index for index, token in enumerate(tokens)}, unk_token=UNKNOWN))
    backend.pre_tokenizer = split
    backend.decoder = decoders.Fuse()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=SPECIAL_STOP,
        additional_special_tokens=list(SPECIAL.values()),
        clean_up_tokenization_spaces=False,
    )


def tiny_llama(
    vocab_size: int,
    d_model: int = 128,
    layers: int = 3,
    heads: int = 4,
    *,
    rope_theta: float = 500.0,
    init_std: float = 0.05,
    tied: bool = True,
    max_context: int = 2048,
    seed: int = 0,
) -> LlamaForCausalLM:
    """A small randomly initialised Llama (0.6 M parameters by default) in float32.

    The low RoPE base and the wide initialisation are what lets such a model learn to copy names from its context
    within a few hundred thousand tokens.

    Args:
        vocab_size: number of tokens, `len(tokenizer)`.
        d_model: width of the residual stream; a multiple of `heads`.
        layers: number of blocks.
        heads: attention heads.
        rope_theta: base of the rotary position encoding.
        init_std: standard deviation of the initial weights.
        tied: input and output embeddings are one matrix.
        max_context: longest sequence in tokens.
        seed: of the initial weights; torch's global generator is left alone.
    """
    if d_model % heads or (d_model // heads) % 2:
        raise InvalidArgument(f"d_model={d_model} must be an even multiple of heads={heads}")
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=d_model,
        intermediate_size=3 * d_model,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=max_context,
        rope_parameters={"rope_type": "default", "rope_theta": rope_theta},
        initializer_range=init_std,
        tie_word_embeddings=tied,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).eval()


@torch.no_grad()
def relate(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, own: float = 0.1) -> None:
    """Start words that differ only in case or in the space before them from nearly one embedding, in place.

    To a whole-word tokenizer "bisque", " bisque" and " Bisque" have nothing in common. Where an environment shows names
    in one of these forms and reads them in another (`click[bisque]`), a model from scratch would have to learn every
    pair before it could copy any.

    Args:
        model: freshly initialised.
        tokenizer: from `build_word_tokenizer`.
        own: how much of its own embedding a word keeps, as a factor; the rest is that of the form seen most often.
    """
    weight = model.model.embed_tokens.weight
    first: dict[str, int] = {}
    for token, index in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]):
        word = token.strip(" ").lower()
        if word.isalpha() and first.setdefault(word, index) != index:
            weight[index] = weight[first[word]] + own * weight[index]
