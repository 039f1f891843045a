"""Building an `Index`: one pass over the texts with bounded memory, then one over the postings to sort them by term."""

from __future__ import annotations

import shutil
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .analyzer import terms
from .index import K1, B, Index

BATCH = 4_000_000  # words whose postings are in memory at once
CHUNKS = 500_000  # pieces of text whose terms are remembered


def _quantised(byte: int) -> int:
    """The length of a document that Lucene writes as `byte`: exact below 40, then with three bits of mantissa."""
    mantissa, shift = (byte - 24) & 7, ((byte - 24) >> 3) - 1
    if byte < 24:
        return byte
    return 24 + (mantissa if shift < 0 else (mantissa | 8) << shift)


LENGTHS = np.array([_quantised(byte) for byte in range(256)])


class _Batch(NamedTuple):
    """The postings of consecutive documents, sorted by term (in order of first appearance) and document."""

    numbers: np.ndarray
    """The terms that occur."""
    counts: np.ndarray
    """In how many documents each."""
    docs: np.ndarray
    pairs: np.ndarray
    """Per posting: 256 * occurrences + the document's quantised length."""


def build(texts: Iterable[str], names: Sequence[str] | None) -> Index:
    """See `Index.build`."""
    return _Builder(None).build(texts, names)


def build_index(texts: Iterable[str], path: str | Path, names: Sequence[str] | None = None) -> Index:
    """Index `texts` into the folder `path`, whole or not at all, and open it.

    Memory holds the vocabulary, two numbers per document and one batch of postings, however many texts there are.

    Args:
        texts: the documents, in order.
        path: the folder to make. What is there already is replaced.
        names: as in `Index.build`; read after the last text, so that it may be a list that fills meanwhile.
    """
    path = Path(path)
    part = path.with_name(f"{path.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        _Builder(part).build(texts, names).describe(part)
        shutil.rmtree(path, ignore_errors=True)
        part.rename(path)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return Index.open(path)


class _Vocabulary(dict[str, tuple[int, ...]]):
    """Pieces of text -> the numbers of their terms; terms are numbered as they come."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: dict[str, int] = {}

    def __missing__(self, piece: str) -> tuple[int, ...]:
        found = tuple([self.numbers.setdefault(term, len(self.numbers)) for term in terms(piece)])
        if len(self) >= CHUNKS:
            self.clear()
        self[piece] = found
        return found


class _Builder:
    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.vocabulary = _Vocabulary()
        self.lengths = array("q")  # words per document
        self.batches: list[_Batch | Path] = []

    def build(self, texts: Iterable[str], names: Sequence[str] | None) -> Index:
        words, first = array("i"), 0
        for text in texts:
            before = len(words)
            # No word spans a space, so what is between spaces can be analysed once and remembered.
            words.extend(chain.from_iterable(map(self.vocabulary.__getitem__, text.split(" "))))
            self.lengths.append(len(words) - before)
            if len(words) >= BATCH:
                self._end_batch(words, first)
                words, first = array("i"), len(self.lengths)
        self._end_batch(words, first)
        return self._index(names)

    def _end_batch(self, words: array[int], first: int) -> None:
        lengths = np.array(self.lengths[first:], np.int64)
        if not len(lengths):
            return
        docs = np.repeat(np.arange(len(lengths)), lengths)
        keys, occurrences = np.unique(np.array(words, np.int64) * len(lengths) + docs, return_counts=True)
        numbers, counts = np.unique(keys // len(lengths), return_counts=True)
        norms = np.searchsorted(LENGTHS, lengths, side="right") - 1
        docs = keys % len(lengths)
        batch = _Batch(
            numbers.astype(np.int32), counts, (docs + first).astype(np.int32), occurrences * 256 + norms[docs]
        )
        if self.folder is None:
            self.batches.append(batch)
        else:
            path = self.folder / f"batch-{len(self.batches)}.npz"
            np.savez(path, **batch._asdict())
            self.batches.append(path)

    def _read(self) -> Iterator[_Batch]:
        for batch in self.batches:
            if isinstance(batch, Path):
                with np.load(batch) as stored:
                    yield _Batch(**stored)
            else:
                yield batch

    def _array(self, name: str, size: int, kind: Any) -> np.ndarray:
        if self.folder is None:
            return np.zeros(size, kind)
        if not size:  # an empty file cannot be mapped
            np.save(self.folder / f"{name}.npy", np.zeros(0, kind))
            return np.zeros(0, kind)
        return np.lib.format.open_memmap(self.folder / f"{name}.npy", "w+", kind, (size,))

    def _index(self, names: Sequence[str] | None) -> Index:
        lengths = np.array(self.lengths, np.int64)
        filled = int(np.count_nonzero(lengths))
        known = sorted(self.vocabulary.numbers, key=_encoded)
        place = np.zeros(len(known), np.int64)  # a term's number as it came -> its place in order
        place[[self.vocabulary.numbers[term] for term in known]] = np.arange(len(known))
        counts, pairs = np.zeros(len(place), np.int64), np.zeros(0, np.int64)
        for batch in self._read():
            counts[place[batch.numbers]] += batch.counts
            pairs = np.union1d(pairs, batch.pairs)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        average = np.float32(max(1, lengths.sum()) / max(1, filled))
        # The quotients that Lucene makes, in its order and precision.
        norms = np.float32(1) / (K1 * ((np.float32(1) - B) + B * LENGTHS.astype(np.float32) / average))
        table = np.float32(1) + (pairs // 256).astype(np.float32) * norms[pairs % 256]
        size = int(indptr[-1])
        docs, codes = self._array("docs", size, np.int32), self._array("codes", size, np.min_scalar_type(len(pairs)))
        tops, cursor = np.zeros(len(place), np.float32), indptr[:-1].copy()
        for batch in self._read():
            own = np.searchsorted(pairs, batch.pairs)
            starts, where = np.cumsum(batch.counts) - batch.counts, place[batch.numbers]
            to = np.repeat(cursor[where] - starts, batch.counts) + np.arange(len(batch.docs))
            docs[to], codes[to] = batch.docs, own
            cursor[where] += batch.counts
            if len(where):
                tops[where] = np.maximum(tops[where], np.maximum.reduceat(table[own], starts))
        letters = [_encoded(term) for term in known]
        arrays = {
            "starts": np.concatenate([[0], np.cumsum([len(term) for term in letters], dtype=np.int64)]),
            "letters": np.frombuffer(b"".join(letters), np.uint8),
            **{"indptr": indptr, "tops": tops, "docs": docs, "codes": codes, "table": table, "order": _ranks(names)},
        }
        if self.folder is not None:
            for batch in self.batches:
                Path(str(batch)).unlink()
            for mapped in (docs, codes):
                if isinstance(mapped, np.memmap):
                    mapped.flush()
            for name in set(arrays) - {"docs", "codes"}:
                np.save(self.folder / f"{name}.npy", arrays[name])
        return Index(arrays, len(lengths), filled)


def _encoded(term: str) -> bytes:
    return term.encode("utf-8", "surrogatepass")


def _ranks(names: Sequence[str] | None) -> np.ndarray:
    """Each document's rank by name; empty where that is the documents' own order."""
    if names is None or all(first <= second for first, second in pairwise(names)):
        return np.zeros(0, np.int32)
    ranks = np.zeros(len(names), np.int32)
    ranks[np.argsort(np.array(names), kind="stable")] = np.arange(len(names), dtype=np.int32)
    return ranks
