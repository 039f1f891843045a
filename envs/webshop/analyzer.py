"""Text to search terms, exactly as Lucene's English analyser does it: what Anserini, and with it WebShop, searches by.

Words by the rules of Unicode's annex 29 (https://unicode.org/reports/tr29/) with Lucene's additions (an ideograph or a
hiragana sign is a word of its own, Thai and its neighbours stay in one piece, an emoji sequence is a word, at most 255
characters), without a possessive `'s`, in lower case, without stop words, stemmed by Porter's algorithm with its
author's later extensions.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

from ..core.errors import MissingExtra
from .porter import stem

LONGEST = 255
"""Longer words are cut into pieces of this length."""
_STOP_WORDS = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was
will with
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())

# Letters, digits and underscores; an apostrophe, full stop or colon between letters; a punctuation mark between digits.
_ASCII = re.compile(r"(?:\w|(?<=[A-Za-z])['.:](?=[A-Za-z])|(?<=[0-9])['.,;](?=[0-9]))+", re.ASCII)

# The same for all of Unicode. Every sign may be followed by combining marks and invisible format characters.
_MARKS = r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]*"
_LETTER = rf"[\p{{WB=ALetter}}\p{{WB=Hebrew_Letter}}]{_MARKS}"
_DIGIT = rf"\p{{WB=Numeric}}{_MARKS}"
_KANA = rf"\p{{WB=Katakana}}{_MARKS}"
_JOIN = rf"\p{{WB=ExtendNumLet}}{_MARKS}"
_HEBREW = rf"\p{{WB=Hebrew_Letter}}{_MARKS}"
_IN_WORD = rf"[:\p{{WB=MidLetter}}\p{{WB=MidNumLet}}']{_MARKS}"
_IN_NUMBER = rf"[\p{{WB=MidNum}}\p{{WB=MidNumLet}}']{_MARKS}"
_RUN = (
    rf"(?:{_LETTER}|{_DIGIT}|(?<={_LETTER}){_IN_WORD}(?={_LETTER})|(?<={_DIGIT}){_IN_NUMBER}(?={_DIGIT})"
    rf"|(?<={_HEBREW})'{_MARKS}|(?<={_HEBREW})\"{_MARKS}(?={_HEBREW}))+"
)
_PART = rf"(?:{_RUN}|(?:{_KANA})+)"
_WORD = rf"(?:{_JOIN})*{_PART}(?:(?:{_JOIN})+{_PART})*(?:{_JOIN})*"
_PICTURE = r"[[\p{Extended_Pictographic}\p{Emoji}]--[#*0-9©®™\u3030\u303D\p{Emoji_Modifier}\p{WB=Regional_Indicator}]]"
_NO_SELECTOR = r"[[\p{WB=Extend}\p{WB=Format}]--[\uFE0E\uFE0F]]*"
_EMOJI = rf"(?:[{_PICTURE}©®™\u3030\u303D]{_NO_SELECTOR}\uFE0F|{_PICTURE}{_NO_SELECTOR})"
_EMOJI_WORD = rf"{_EMOJI}(?:\u200D{_EMOJI})*[\U000E0020-\U000E007F]*"
_FLAG = rf"(?:\p{{WB=Regional_Indicator}}{_MARKS}){{2}}|[#*]\uFE0F?\u20E3"
_ALONE = rf"(?:[\p{{Script=Han}}\p{{Script=Hiragana}}]{_MARKS}|(?:\p{{LB=SA}}{_MARKS})+)"


@cache
def _unicode() -> Any:
    try:
        import regex
    except ImportError:
        raise MissingExtra("regex", "webshop") from None
    return regex.compile(rf"{_WORD}|{_EMOJI_WORD}|{_FLAG}|{_ALONE}", regex.VERSION1)


def words(text: str) -> list[str]:
    """The words of a text as they stand, before anything is done to them."""
    found = _ASCII.findall(text) if text.isascii() else _unicode().findall(text)
    cut = [word[i : i + LONGEST] for word in found for i in range(0, len(word), LONGEST)]
    return [word for word in cut if word.strip("_")]


@lru_cache(maxsize=1 << 15)
def term(word: str) -> str | None:
    """The term that a word is searched by, or None for a stop word."""
    if word[-1] in "sS" and word[-2:-1] in ("'", "’", "＇") and len(word) >= 2:
        word = word[:-2]
    # Sign by sign: Python's own lower case looks at neighbours (a final sigma), Lucene's does not.
    folded = word.lower() if word.isascii() else "".join([sign.lower()[:1] for sign in word])
    if folded in STOP_WORDS:
        return None
    return stem(folded)


def terms(text: str) -> list[str]:
    """The terms of a text in order, repetitions included."""
    return [found for word in words(text) if (found := term(word)) is not None]
