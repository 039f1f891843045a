"""How a generated goal is put into words: by the benchmark's own template, or in one of the many ways of people."""

from __future__ import annotations

import random
from collections.abc import Sequence

from .attributes import phrases
from .goals import NO_LIMIT, bound_text
from .wares import Kind

LANGUAGES = ("human", "template")
_OPENERS = (
    *("i am looking for {}", "i need {}", "i want {}", "find me {}", "show me {}", "get me {}", "im looking for {}"),
    *(
        "i would like to buy {}",
        "can you help me find {}",
        "please find {}",
        "im shopping for {}",
        "i am in need of {}",
    ),
    *("my old one broke, so i need {}", "for a friend i am looking for {}", "what i want is {}"),
)
_IN = ("in {1}", "in the {0} {1}", "with {0} {1}", "and the {0} should be {1}", "{0}: {1}", "i prefer the {0} {1}")
_PRICES = (
    *(", and price lower than {:.2f} dollars",) * 4,
    *(
        " under {:.0f} dollars",
        " for less than {:.0f} dollars",
        ". i can spend up to {:.0f} dollars",
        ", below ${:.0f}",
    ),
)


def instruction(
    rng: random.Random,
    kind: Kind,
    attributes: Sequence[str],
    options: Sequence[tuple[str, str]],
    bound: float,
    language: str,
) -> str:
    """The sentence for a goal.

    Args:
        rng: chooses the words.
        kind: what is wanted.
        attributes: of the product.
        options: (name, value).
        bound: of the price, in dollars; `NO_LIMIT` goes unsaid.
        language: one of `LANGUAGES`.
    """
    if language == "template":
        wanted = ", and ".join(f"{name}: {value}" for name, value in options)
        said = f" with {wanted}" if wanted else ""
        return f"Find me {', '.join(attributes)} {kind.query}{said}{bound_text(bound)}"
    before, after = [], []
    for attribute in attributes:
        if rng.random() < 0.6:
            before.append(attribute)
        else:
            after.append(rng.choice(phrases()[attribute]))
    thing = " ".join([", ".join(before), rng.choice(kind.called)]).strip()
    words = [rng.choice(_OPENERS).format(f"{_article(thing)} {thing}"), " and ".join(after)]
    words += [rng.choice(_IN).format(name, value) for name, value in options]
    price = "" if bound == NO_LIMIT else rng.choice(_PRICES).format(bound)
    return " ".join(word for word in words if word) + price


def _article(thing: str) -> str:
    return "an" if thing[0] in "aeio" or thing.startswith("ultra ") else "a"
