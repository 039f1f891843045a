"""Porter's stemmer with its author's later extensions: what Lucene's English analyser stems with.

The algorithm is M. F. Porter's (An algorithm for suffix stripping, Program 14(3), 1980, 130-137), with the three
departures of his own programs (https://tartarus.org/martin/PorterStemmer/): words of one or two letters stay, "bli"
becomes "ble" and "logi" becomes "log". It is here, and not taken from NLTK, because a package import there brings
SciPy along where that is installed: 40 MB for every process that searches. A test compares the two word by word.
"""

from __future__ import annotations

_STEP2 = (
    *(("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("bli", "ble")),
    *(("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate")),
    *(("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al")),
    *(("iviti", "ive"), ("biliti", "ble"), ("logi", "log")),
)
_STEP3 = (
    *(("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", "")),
)
# Of two suffixes that fit, the longer one comes first; it decides alone, whether its condition holds or not.
_STEP4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate"),
    *("iti", "ous", "ive", "ize"),
)


def stem(word: str) -> str:
    """The stem of a word in lower case; signs other than a, e, i, o, u and y count as consonants."""
    if len(word) <= 2:
        return word
    word = _past(_plural(word))
    if word[-1] == "y" and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    word = _replace(_replace(word, _STEP2), _STEP3)
    return _tidy(_strip(word))


def _shape(word: str) -> str:
    """A letter for each of the word's: "v" for a vowel, "c" for a consonant. A y after a consonant is a vowel."""
    shape, vowel = "", True
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and not vowel)
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """How often consonants follow vowels: Porter's m."""
    return _shape(word).count("vc")


def _short(word: str) -> bool:
    """Whether it ends in consonant, vowel, consonant, the last no w, x or y: Porter's *o."""
    return _shape(word)[-3:] == "cvc" and word[-1] not in "wxy"


def _double(word: str) -> bool:
    """Whether it ends in the same consonant twice: Porter's *d."""
    return word[-2:-1] == word[-1:] and _shape(word)[-1:] == "c"


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word[-1] == "s" and word[-2] != "s" else word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    rest = next((word[: -len(ending)] for ending in ("ed", "ing") if word.endswith(ending)), "")
    if "v" not in _shape(rest):
        return word
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if _double(rest):
        return rest if rest[-1] in "lsz" else rest[:-1]
    return rest + "e" if _measure(rest) == 1 and _short(rest) else rest


def _replace(word: str, endings: tuple[tuple[str, str], ...]) -> str:
    for ending, other in endings:
        if word.endswith(ending):
            rest = word[: -len(ending)]
            return rest + other if _measure(rest) > 0 else word
    return word


def _strip(word: str) -> str:
    for ending in _STEP4:
        if word.endswith(ending):
            rest = word[: -len(ending)]
            fits = _measure(rest) > 1 and (ending != "ion" or rest[-1] in "st")
            return rest if fits else word
    return word


def _tidy(word: str) -> str:
    if word[-1] == "e":
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word
