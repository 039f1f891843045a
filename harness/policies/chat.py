"""Chat formats: how messages become token ids, one message at a time, so that a growing history only appends.

Text never turns into control tokens: an observation that spells `<|im_end|>` is encoded as ordinary characters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from tokenizers import Tokenizer

from ...envs.core.errors import InvalidArgument
from ..records import Message

CACHED_LENGTH = 8192  # characters; longer texts are rare and not worth keeping
SPECIAL = {"system": "<system>", "user": "<user>", "assistant": "<assistant>"}
SPECIAL_STOP = "<end>"


class ChatFormat:
    """Ids before and after each role's text, and the token that ends a completion.

    A prompt is `opening[role] + text + closing` for every message, then `opening["assistant"]`. A recorded completion
    stands for its message verbatim; `closing` after it leaves out the stop token that was sampled.

    Args:
        tokenizer: a fast Hugging Face tokenizer.
        opening: ids before the text, for "system", "user" and "assistant".
        closing: ids after the text, beginning with the stop token.
        sampled: special tokens that a policy may sample although they are not the stop token.
    """

    def __init__(
        self,
        tokenizer: Any,
        opening: Mapping[str, tuple[int, ...]],
        closing: tuple[int, ...],
        *,
        sampled: frozenset[int] = frozenset(),
    ) -> None:
        self.tokenizer = tokenizer
        self.opening = dict(opening)
        self.closing = closing
        self.stop = closing[0]
        self.size = len(tokenizer)
        self._backend = _plain(tokenizer)
        self.control = _special_ids(tokenizer) - {self.stop} - sampled
        self._short = lru_cache(maxsize=1 << 14)(self._encode)

    @classmethod
    def of(cls, tokenizer: Any) -> ChatFormat:
        """The format that a tokenizer's control tokens tell: ChatML, or one special token per role.

        Raises:
            InvalidArgument: the tokenizer has neither set of tokens, or is not a fast one.
        """
        if getattr(tokenizer, "backend_tokenizer", None) is None:
            raise InvalidArgument(f"{type(tokenizer).__name__} is not a fast tokenizer; load it with use_fast=True")
        known = tokenizer.get_vocab()
        if "<|im_start|>" in known and "<|im_end|>" in known:
            return cls._chatml(tokenizer, known)
        if SPECIAL_STOP in known and all(token in known for token in SPECIAL.values()):
            opening = {role: (known[token],) for role, token in SPECIAL.items()}
            unknown = frozenset() if tokenizer.unk_token_id is None else frozenset({tokenizer.unk_token_id})
            return cls(tokenizer, opening, (known[SPECIAL_STOP],), sampled=unknown)
        raise InvalidArgument(
            "the tokenizer has no chat tokens that are known here (<|im_start|> and <|im_end|>, or "
            f"{', '.join((*SPECIAL.values(), SPECIAL_STOP))}): build a ChatFormat with its opening and closing ids"
        )

    @classmethod
    def _chatml(cls, tokenizer: Any, known: Mapping[str, int]) -> ChatFormat:
        plain = _plain(tokenizer)
        opening = {
            role: (known["<|im_start|>"], *plain.encode(f"{role}\n", add_special_tokens=False).ids) for role in SPECIAL
        }
        newline = plain.encode("\n", add_special_tokens=False).ids
        return cls(tokenizer, opening, (known["<|im_end|>"], *newline))

    def encode(self, text: str) -> tuple[int, ...]:
        """The ids of ordinary text; no control token is among them, whatever the text says."""
        return self._short(text) if len(text) <= CACHED_LENGTH else self._encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of sampled ids, without the stop token."""
        kept = ids[:-1] if ids and ids[-1] == self.stop else ids
        return self._backend.decode(list(kept), skip_special_tokens=False)

    def offsets(self, ids: Sequence[int]) -> list[int]:
        """(len(ids) + 1,) number of characters of `decode` before each token and after the last one."""
        return [len(self.decode(ids[:n])) for n in range(len(ids) + 1)]

    def prompt(self, messages: Sequence[Message], recorded: Mapping[str, tuple[int, ...]]) -> list[int]:
        """Prompt ids up to the point at which the assistant begins.

        Args:
            messages: the history; or one message of role "ids", whose text is the whole prompt as numbers.
            recorded: completion ids by call id; an assistant message whose call is not among them is encoded as text.
        """
        if len(messages) == 1 and messages[0].role == "ids":
            return [int(number) for number in messages[0].text.split()]
        ids: list[int] = []
        for message in messages:
            if message.role not in self.opening:
                raise InvalidArgument(f"a message's role is one of {sorted(self.opening)}, not {message.role!r}")
            ids += self.opening[message.role]
            completion = recorded.get(message.call) if message.call is not None else None
            ids += self.encode(message.text) if completion is None else completion
            ids += self.closing[1:] if completion and completion[-1] == self.stop else self.closing
        ids += self.opening["assistant"]
        return ids

    def _encode(self, text: str) -> tuple[int, ...]:
        if not text.isascii():  # lone surrogates have no UTF-8
            text = text.encode("utf-8", "replace").decode("utf-8")
        return tuple(self._backend.encode(text, add_special_tokens=False).ids)


def _plain(tokenizer: Any) -> Tokenizer:
    """A copy of the Rust tokenizer that does not recognise special tokens in text."""
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.encode_special_tokens = True
    backend.no_padding()
    backend.no_truncation()
    return backend


def _special_ids(tokenizer: Any) -> frozenset[int]:
    added = {index for index, token in tokenizer.added_tokens_decoder.items() if token.special}
    return frozenset(added | set(tokenizer.all_special_ids))
