"""Words in several forms, for a language model from scratch."""

from __future__ import annotations

import torch

from sandlot.harness.policies.tiny import build_word_tokenizer, relate, tiny_llama

TEXT = "[button] bisque [button_] click[bisque] Bisque bisque, 2 pack"


def test_forms_of_a_word_start_from_one_embedding() -> None:
    tokenizer = build_word_tokenizer([TEXT])
    ids = tokenizer.get_vocab()
    before = tiny_llama(len(tokenizer), d_model=32, layers=1, heads=2).model.embed_tokens.weight.detach().clone()
    model = tiny_llama(len(tokenizer), d_model=32, layers=1, heads=2)
    relate(model, tokenizer, own=0.1)
    weight = model.model.embed_tokens.weight
    assert model.lm_head.weight is weight  # tied: words are said as they are read
    # " bisque" occurs twice, the other forms once: they start from it, each with a tenth of what it had.
    for form in ("bisque", " Bisque"):
        assert torch.equal(weight[ids[form]], before[ids[" bisque"]] + 0.1 * before[ids[form]])
    related = {ids["bisque"], ids[" Bisque"]}
    others = [index for index in range(len(tokenizer)) if index not in related]
    assert torch.equal(weight[others], before[others])  # digits, marks and words of one form stay as they were
