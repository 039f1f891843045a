"""WebShop's search: Lucene's words, order and scores; the ranking against the plain formula; files, processes."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs.core import MissingData
from sandlot.envs.webshop import generator, index, index_build
from sandlot.envs.webshop.analyzer import STOP_WORDS, terms, words
from sandlot.envs.webshop.index import Index
from sandlot.envs.webshop.index_build import LENGTHS, build_index
from sandlot.envs.webshop.made_goals import made_goal
from sandlot.envs.webshop.porter import stem

DATA = Path(os.environ.get("SANDLOT_TEST_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data"))
WEBSHOP = DATA / "webshop"


@pytest.fixture(scope="module")
def golden() -> tuple[list[str], dict[str, list[tuple[str, float]]]]:
    """1,000 documents, and what Anserini 0.22.1 (Lucene 9.5) found in them: query -> its first ten, with scores."""
    if not (WEBSHOP / "golden_lucene_top10.json").exists():
        pytest.skip(f"no recorded searches in {WEBSHOP}")
    docs = json.loads((WEBSHOP / "lucene_corpus.json").read_text())["docs"]
    return docs, json.loads((WEBSHOP / "golden_lucene_top10.json").read_text())["run"]


class Plain:
    """The formula as it is written down, document by document: what the index must agree with to the bit."""

    def __init__(self, docs: list[str]) -> None:
        self.bags = [Counter(terms(doc)) for doc in docs]
        self.having = Counter(term for bag in self.bags for term in bag)
        self.filled = sum(bool(bag) for bag in self.bags)
        average = np.float32(max(1, sum(bag.total() for bag in self.bags)) / max(1, self.filled))
        lengths = [np.float32(LENGTHS[bisect_right(LENGTHS, bag.total()) - 1]) for bag in self.bags]
        share = np.float32(0.6), np.float32(0.4)
        self.norms = [np.float32(1) / (np.float32(0.9) * (share[0] + share[1] * n / average)) for n in lengths]

    def weight(self, term: str, count: int) -> np.float32:
        having = self.having[term]
        return np.float32(count) * np.float32(math.log(1 + (self.filled - having + 0.5) / (having + 0.5)))

    def search(self, query: str, k: int = 50) -> list[tuple[int, float]]:
        weights = {term: self.weight(term, count) for term, count in Counter(terms(query)).items()}
        found: list[tuple[int, float]] = []
        for number, (bag, norm) in enumerate(zip(self.bags, self.norms, strict=True)):
            score = 0.0
            for term, weight in weights.items():
                if term in bag:
                    score += float(weight - weight / (np.float32(1) + np.float32(bag[term]) * norm))
            if score:
                found.append((number, float(np.float32(score))))
        return sorted(found, key=lambda hit: (-hit[1], hit[0]))[:k]


def test_lucene_s_order_and_scores(golden: tuple[list[str], dict[str, list[tuple[str, float]]]]) -> None:
    docs, run = golden
    index = Index.build(docs)
    assert len(run) >= 100
    for query, expected in run.items():
        found = index.scored(query, 50)
        assert [f"D{number:06d}" for number, _ in found[:10]] == [name for name, _ in expected], query
        assert [score for _, score in found[:10]] == pytest.approx([score for _, score in expected], abs=5.1e-5), query
        assert [number for number, _ in found] == index.search(query)


def test_top_fifty_equal_the_plain_formula(golden: tuple[list[str], dict[str, list[tuple[str, float]]]]) -> None:
    """Anserini's lists end after ten; the formula, which gives these ten, says what the other forty are."""
    docs, run = golden
    index, formula = Index.build(docs), Plain(docs)
    for query in [*run, "shoes shoes red shoes", "for the of", "", "zzzz"]:
        assert index.scored(query) == formula.search(query), query


# Few words, so that documents tie, and many documents share the common ones: both roads of the ranking are taken.
WORDS = st.lists(st.sampled_from([*["red"] * 8, *["shoe"] * 4, "sofa", "blue", "lamp", "the", "naïve", "漢字"]))


@settings(max_examples=60, deadline=None)
@given(st.lists(WORDS.map(" ".join), min_size=1, max_size=40), WORDS.map(" ".join), st.integers(1, 6))
def test_any_corpus_and_query_equal_the_plain_formula(docs: list[str], query: str, k: int) -> None:
    assert Index.build(docs).scored(query, k) == Plain(docs).search(query, k)


@pytest.mark.parametrize("at_a_time", [index.SLICE, 70])  # 70: many slices, some shorter than the list
def test_pruning_and_slicing_change_nothing(at_a_time: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    vocabulary = [f"w{number}" for number in range(300)]
    # Zipf's law: the commonest word is in nearly every document, the rarest in hardly any.
    docs = [" ".join(vocabulary[min(299, rank)] for rank in rng.zipf(1.3, size=12) - 1) for _ in range(3000)]
    built = Index.build(docs)
    for _ in range(200):
        query = " ".join(vocabulary[number] for number in rng.integers(0, 300, size=rng.integers(1, 8)))
        monkeypatch.undo()
        everything = built.scored(query, len(docs))  # nothing can be left out of a list of all
        monkeypatch.setattr(index, "SLICE", at_a_time)
        assert built.scored(query, 50) == everything[:50]


def test_lengths_are_lucene_s() -> None:
    assert list(LENGTHS[:41]) == [*range(40), 40]
    # Then three bits of mantissa: steps of 2 from 40, of 4 from 56, of 8 from 88, ... (24 + [8..15] * 2^n).
    assert list(LENGTHS[40:58]) == [*range(40, 56, 2), *range(56, 88, 4), 88, 96]
    assert LENGTHS[255] == 24 + (15 << 27)


def test_equal_scores_are_ordered_by_name_where_there_are_names() -> None:
    docs = ["red sofa"] * 4
    assert Index.build(docs).search("sofa", 3) == [0, 1, 2]
    assert Index.build(docs, ["D", "B", "C", "A"]).search("sofa", 3) == [3, 1, 2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Unicode's annex 29, rule by rule (WB5-WB13b), and what Lucene adds.
        ("Women's o'neil can’t", ["women", "o'neil", "can’t"]),
        ("U.S.A. 1,000.5 a:b 3.5mm a.1", ["u.s.a", "1,000.5", "a:b", "3.5mm", "1"]),
        ("size_10 _ __x__ red/blue-green", ["size_10", "__x__", "red", "blue", "green"]),
        ("日本語テスト ひと カナ_カナ", ["日", "本", "語", "テスト", "ひ", "と", "カナ_カナ"]),
        ("한국어 abc한글 ภาษาไทย", ["한국어", "abc한글", "ภาษาไทย"]),
        ("caf\u0065\u0301 crème Ｆｕｌｌ １２", ["caf\u0065\u0301", "crème", "ｆｕｌｌ", "１２"]),
        ("👍🏽 👨‍👩‍👧 ❤️ ❤ 🇩🇪🇫🇷 ™ ©️ 1️⃣ #️⃣", ["👍🏽", "👨‍👩‍👧", "❤️", "❤", "🇩🇪", "🇫🇷", "©️", "1️⃣", "#️⃣"]),
        ("ΣΊΣΥΦΟΣ İZMİR", ["σίσυφοσ", "izmir"]),
        ("ב\"ג אב'", ['ב"ג', "אב'"]),
        # Porter with its author's extensions: possibly -> possibli -> possibl, apology -> apologi -> apolog.
        ("possibly apology running as is", ["possibl", "apolog", "run"]),
        ("x" * 600, ["x" * 255, "x" * 255, "x" * 90]),
        ("\ud800 \x00 ... ''' ", []),
    ],
)
def test_words_of_all_scripts(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        # Porter's own examples, taken to the end: -s, -ed and -ing, what they leave, then the long endings.
        *{"caresses": "caress", "ponies": "poni", "cats": "cat", "feed": "feed", "agreed": "agre"}.items(),
        *{"plastered": "plaster", "bled": "bled", "sing": "sing", "conflated": "conflat", "sized": "size"}.items(),
        *{
            "hopping": "hop",
            "falling": "fall",
            "filing": "file",
            "failing": "fail",
            "happy": "happi",
            "sky": "sky",
        }.items(),
        *{"relational": "relat", "vietnamization": "vietnam", "triplicate": "triplic", "hopeful": "hope"}.items(),
        *{"replacement": "replac", "adoption": "adopt", "controll": "control", "rate": "rate", "cease": "ceas"}.items(),
        *{"possibly": "possibl", "apology": "apolog", "is": "is", "": "", "naïves": "naïv", "yyyying": "yyyi"}.items(),
    ],
)
def test_stems_are_porter_s(word: str, expected: str) -> None:
    assert stem(word) == expected


ENDINGS = """
    s es ies sses ed eed ing ation ational tional ize izer y ly bli li alli entli eli ousli ator alism iveness
    fulness ousness aliti iviti biliti logi icate ative alize iciti ical ful ness al ance ence er ic able ible ant
    ement ment ent sion tion ou ism ate iti ous ive e l ll
""".split()  # noqa: SIM905 (a list of strings would fill a page)
MADE_UP = st.builds(
    lambda start, endings: start + "".join(endings),
    st.text(st.sampled_from("aeiouybcdlmnrstwxzé9'"), max_size=6),
    st.lists(st.sampled_from(ENDINGS), max_size=3),
)


def test_stems_equal_nltk_s_on_every_word_we_have() -> None:
    theirs = porter_of_nltk()
    found = {word for product in generator.products(300, 0) for word in words(product.index_text.lower())}
    found |= {word for number in range(300) for word in words(made_goal(0, number, 0, "human").instruction.lower())}
    for name in ("lucene_corpus", "golden_lucene_top10", "human_goals", "goal_query_map", "items_ins_v2_1000"):
        if (WEBSHOP / f"{name}.json").exists():
            found |= set(words((WEBSHOP / f"{name}.json").read_text().lower()))
    assert len(found) > 500
    assert {word: stem(word) for word in found} == {word: theirs(word) for word in found}


@settings(max_examples=400, deadline=None)
@given(MADE_UP)
def test_stems_of_made_up_words_equal_nltk_s(word: str) -> None:
    assert stem(word) == porter_of_nltk()(word)


@cache
def porter_of_nltk() -> Callable[[str], str]:
    porter = pytest.importorskip(
        "nltk.stem.porter", reason="NLTK's stemmer is what ours is compared with"
    ).PorterStemmer
    return partial(porter(porter.MARTIN_EXTENSIONS).stem, to_lowercase=False)


def test_searching_imports_nothing_large() -> None:
    code = (
        "import sys; from sandlot.envs.webshop.index import Index; Index.build(['running shoes']).search('shoe'); "
        "print([name for name in ('nltk', 'scipy', 'pandas', 'spacy') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_stop_words_are_lucene_s_thirty_three() -> None:
    assert len(STOP_WORDS) == 33
    assert terms(" ".join(STOP_WORDS)) == []


ODD = st.text(st.sampled_from("aZ9_'.,:;\"’ -\n\u0301\u200d漢ひカー한กא👍🏽🇩🇪❤\ufe0f#1İΣ"), max_size=12)


@settings(max_examples=300, deadline=None)
@given(ODD, ODD)
def test_no_word_spans_a_space(first: str, second: str) -> None:
    """What the builder relies on when it remembers the terms of what is between two spaces."""
    assert words(f"{first} {second}") == words(first) + words(second)


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(max_codepoint=127), max_size=30))
def test_the_quick_pattern_is_the_unicode_one(text: str) -> None:
    assert words(f"{text} é")[:-1] == words(text)


def test_a_saved_index_is_the_same_in_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_build, "BATCH", 7)  # many batches
    monkeypatch.setattr(index_build, "CHUNKS", 3)
    docs = [f"product {number} red {'sofa' if number % 3 else 'naïve lamp'}" for number in range(60)] + [""]
    memory, disk = Index.build(docs), build_index(iter(docs), tmp_path / "disk")
    memory.save(tmp_path / "saved")
    memory.save(tmp_path / "saved")
    assert {path.name for path in tmp_path.iterdir()} == {"disk", "saved"}
    assert not list((tmp_path / "disk").glob("batch-*"))
    code = (
        "import sys; from sandlot.envs.webshop.index import Index; "
        "print([Index.open(path).scored(query) for path in sys.argv[1:] for query in ('red lamp', 'sofa 7')])"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "disk"), str(tmp_path / "saved")]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    expected = [memory.scored(query) for query in ("red lamp", "sofa 7")]
    assert eval(out) == expected * 2 == [disk.scored(query) for query in ("red lamp", "sofa 7")] * 2
    assert memory.documents == Index.open(tmp_path / "disk").documents == 61


def test_an_index_that_is_missing_or_broken_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="no readable search index"):
        Index.open(tmp_path / "none")
    Index.build(["red sofa"]).save(tmp_path / "index")
    (tmp_path / "index" / "index.json").write_text('{"format": 0, "documents": 1, "filled": 1}')
    with pytest.raises(MissingData, match="format 0, not 1: remove it"):
        Index.open(tmp_path / "index")


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def texts() -> Any:
        yield "red sofa"
        raise ValueError("the catalogue is broken")

    with pytest.raises(ValueError, match="broken"):
        build_index(texts(), tmp_path / "index")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("docs", [[], [""], ["the of"], ["sofa"]])
def test_tiny_catalogues(docs: list[str], tmp_path: Path) -> None:
    expected = [0] if docs == ["sofa"] else []
    assert Index.build(docs).search("sofa") == build_index(docs, tmp_path / "index").search("sofa") == expected
