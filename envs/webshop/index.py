"""BM25 with Lucene's exact order, over memory-mapped postings that all processes share.

Scores are Lucene's to the bit (Robertson & Zaragoza 2009 with k1 0.9 and b 0.4, Anserini's defaults): single-precision
weights, document lengths quantised to a byte, sums in double precision that are rounded to single at the end.

A posting is a document and a *code*: the pair (occurrences, quantised length), of which a catalogue has a few thousand.
What a code contributes depends on the term's weight only, so a query computes it once per code, not per posting.
"""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..core.errors import MissingData
from .analyzer import terms

FORMAT = 1
K1, B = np.float32(0.9), np.float32(0.4)
ARRAYS = ("starts", "letters", "indptr", "tops", "docs", "codes", "table", "order")

_SLACK = 1 + 1e-6  # sums are rounded: a bound is passed only where it is passed clearly
_LEAST = 1e-30  # below every score
SLICE = 65_536  # postings added at a time
_LOOK_UP = 8  # looking a document up costs as much as adding so many


class _Part(NamedTuple):
    """One term of a query: the documents that have it, in order, and what it adds to their scores."""

    docs: np.ndarray
    codes: np.ndarray
    gains: np.ndarray
    """By code."""
    most: float
    """The greatest gain of any of these documents."""


class Index:
    """Documents by number, found by words.

    Args:
        arrays: named as in `ARRAYS`: where each term starts in the sorted vocabulary, its UTF-8 bytes, where its
            postings start, their greatest saturation, their documents and codes, each code's saturation (1 plus
            occurrences by length norm), and each document's rank among equal scores (empty: its number).
        documents: how many there are, those without a single term included.
        filled: how many have terms.
    """

    def __init__(self, arrays: dict[str, np.ndarray], documents: int, filled: int) -> None:
        self._arrays, self.documents, self._filled = arrays, documents, filled
        self._starts, self._letters, self._indptr, self._tops = (arrays[name] for name in ARRAYS[:4])
        self._docs, self._codes, self._table, self._order = (arrays[name] for name in ARRAYS[4:])

    @classmethod
    def build(cls, texts: Iterable[str], names: Sequence[str] | None = None) -> Index:
        """Index `texts` in memory; `build_index` does it on disk with bounded memory.

        Args:
            texts: the documents, in order.
            names: the documents' identifiers; equal scores are ordered by them, as Anserini does, else by number.
        """
        from .index_build import build

        return build(texts, names)

    @classmethod
    def open(cls, path: str | Path) -> Index:
        """The index that was saved at `path`, memory-mapped.

        Raises:
            MissingData: there is none, or it was written by another version.
        """
        path = Path(path)
        try:
            about = json.loads((path / "index.json").read_text())
            arrays = {name: np.load(path / f"{name}.npy", mmap_mode="r") for name in ARRAYS}
            form, documents, filled = about["format"], about["documents"], about["filled"]
        except (OSError, ValueError, KeyError) as error:
            raise MissingData(f"there is no readable search index at {path}: {error}") from None
        if form != FORMAT:
            raise MissingData(f"the search index {path} has format {form}, not {FORMAT}: remove it")
        return cls(arrays, documents, filled)

    def save(self, path: str | Path) -> None:
        """Write the index to the folder `path`, whole or not at all. What is there already is replaced."""
        path = Path(path)
        part = path.with_name(f"{path.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for name, array in self._arrays.items():
            np.save(part / f"{name}.npy", array)
        self.describe(part)
        shutil.rmtree(path, ignore_errors=True)
        part.rename(path)

    def describe(self, path: Path) -> None:
        """Write the file that makes `path` an index."""
        about = {"format": FORMAT, "documents": self.documents, "filled": self._filled}
        (path / "index.json").write_text(json.dumps(about))

    def search(self, query: str, k: int = 50) -> list[int]:
        """The numbers of the `k` best documents, best first; fewer where fewer share a term with the query."""
        return [doc for doc, _ in self.scored(query, k)]

    def scored(self, query: str, k: int = 50) -> list[tuple[int, float]]:
        """`search` with the scores."""
        parts = [
            self._part(number, count)
            for word, count in Counter(terms(query)).items()
            if (number := self._number(word)) is not None
        ]
        docs, scores = _candidates(parts, self.documents, k)
        scores = scores.astype(np.float32)
        if len(docs) > k:
            enough = scores >= np.partition(scores, len(docs) - k)[len(docs) - k]
            docs, scores = docs[enough], scores[enough]
        ranks = self._order[docs] if len(self._order) else docs
        best = np.lexsort((ranks, -scores))[:k]
        return list(zip(docs[best].tolist(), scores[best].tolist(), strict=True))

    def _number(self, word: str) -> int | None:
        """The term's place in the vocabulary, by bisection: no process needs a dictionary of all terms."""
        wanted, low, high = word.encode("utf-8", "surrogatepass"), 0, len(self._starts) - 1
        while low < high:
            middle = (low + high) // 2
            here = self._letters[int(self._starts[middle]) : int(self._starts[middle + 1])].tobytes()
            if here == wanted:
                return middle
            low, high = (middle + 1, high) if here < wanted else (low, middle)
        return None

    def _part(self, number: int, count: int) -> _Part:
        span = slice(int(self._indptr[number]), int(self._indptr[number + 1]))
        found = span.stop - span.start
        weight = np.float32(count) * np.float32(math.log(1 + (self._filled - found + 0.5) / (found + 0.5)))
        most = float(weight - weight / self._tops[number])
        return _Part(self._docs[span], self._codes[span], weight - weight / self._table, most)


def _candidates(parts: list[_Part], documents: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Documents, in order, among which the best `k` are (all that could share the last place too), and their scores.

    Rare terms come first and are added up for all their documents. As soon as the terms that are left could not lift a
    document without a rare term among the best (Turtle & Flood 1995), they only decide between those still in play.
    """
    parts = sorted(parts, key=lambda part: len(part.docs))
    rest = _SLACK * sum(part.most for part in parts)  # what the terms to come add at most
    scores, bar = np.zeros(documents), 0.0  # the best `k` have at least `bar`
    while parts and bar <= rest:
        part, *parts = parts
        bar = max(bar, _add(scores, part, k))
        rest -= part.most
    docs = np.flatnonzero(scores >= max(bar - rest, _LEAST))
    for part in parts:
        bar = max(bar, _last_of_best(scores[docs], k))
        docs = docs[scores[docs] >= bar - rest]
        if len(docs) * _LOOK_UP > len(part.docs):
            _add(scores, part, k)
        else:
            places = np.minimum(np.searchsorted(part.docs, docs), len(part.docs) - 1)
            hit = part.docs[places] == docs
            scores[docs[hit]] += part.gains[part.codes[places[hit]]]
        rest -= part.most
    return docs, scores[docs]


def _add(scores: np.ndarray, part: _Part, k: int) -> float:
    """Add what the term gives to `scores`; the `k`-th highest score of the documents that have it, as `_last_of_best`.

    In slices, because a frequent term's postings are read from a shared file while sums of them are a process's own.
    """
    best = [np.zeros(0)]
    for start in range(0, len(part.docs), SLICE):
        docs = part.docs[start : start + SLICE]
        gains = scores[docs] + part.gains[part.codes[start : start + SLICE]]
        scores[docs] = gains
        best.append(np.partition(gains, len(gains) - k)[len(gains) - k :] if len(gains) > k else gains)
    return _last_of_best(np.concatenate(best), k)


def _last_of_best(scores: np.ndarray, k: int) -> float:
    """The `k`-th highest score, 0 where there are fewer."""
    return float(np.partition(scores, len(scores) - k)[len(scores) - k]) if len(scores) >= k else 0.0
