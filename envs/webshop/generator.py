"""The generated shop: any number of products by seed, in families of hard distractors.

A family is a handful of products of one kind that share most attributes and option values, so that each is nearly what
a goal for another asks for. No member has all the attributes of another, so that a goal can always tell them apart.
A product depends on the seed and its number only; the first products of a large shop are those of a small one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache

from .product import Product
from .wares import VALUES, Kind, kinds

VERSION = "gen1"
FAMILY = 6
"""Products per family."""
_CORE, _OWN = 3, 2  # attributes that a family shares, and those that tell its members apart
_BRANDS = ("Al", "Bren", "Cor", "Dov", "El", "Fen", "Gal", "Hav", "Ir", "Jun", "Kel", "Lum", "Mar", "Nor", "Or", "Pel")
_ENDINGS = ("ado", "essa", "ivo", "ora", "umi", "ani", "eko", "ista", "onn", "yra", "edo", "axa", "ilo", "usk", "eth")
_PROMISES = (
    "Made for {use} and everything around it.",
    "The choice of people who think of {use} all day.",
    "Whether {use} or {other}: you can rely on it.",
    "Comes with a manual and a promise of two years.",
    "We ship it within a day, and take it back if you do not like it.",
)
_FEATURES = ("{}: tested by hand.", "{}, and no empty word.", "{}, as you would expect.", "{}: you will notice it.")


def products(count: int, seed: int = 0) -> Iterator[Product]:
    """The first `count` products of the shop with this seed."""
    for number in range(0, count, FAMILY):
        yield from family(seed, number // FAMILY)[: count - number]


def product(seed: int, number: int) -> Product:
    """One product of the shop with this seed."""
    return family(seed, number // FAMILY)[number % FAMILY]


def kind_of(number: int) -> Kind:
    """The kind of the product with this number: families go through all kinds in turn."""
    return kinds()[number // FAMILY % len(kinds())]


@lru_cache(256)
def family(seed: int, which: int) -> tuple[Product, ...]:
    """The products of a family."""
    rng = random.Random(f"{VERSION}:{seed}:{which}")
    kind = kind_of(which * FAMILY)
    pool = rng.sample(kind.attributes, len(kind.attributes))
    core, rest = pool[:_CORE], pool[_CORE:]
    pairs = [(first, second) for i, first in enumerate(rest) for second in rest[i + 1 :]]
    values = [rng.sample(VALUES[name], min(len(VALUES[name]), 5)) for _, name in kind.options]
    price = rng.uniform(*kind.prices)
    return tuple(
        _member(rng, kind, which * FAMILY + index, seed, [*core, *own], values, price)
        for index, own in enumerate(rng.sample(pairs, FAMILY))
    )


def asin(number: int, seed: int) -> str:
    """The product's identifier: "B0" and eight digits, which do not betray the order of the catalogue."""
    # Multiplying by a unit of the ring permutes it, so that no two products share an identifier.
    return f"B0{(number * 61_803_399 + 7_919 * seed + 104_729) % 10**8:08d}"


def _member(
    rng: random.Random,
    kind: Kind,
    number: int,
    seed: int,
    attributes: list[str],
    values: list[list[str]],
    price: float,
) -> Product:
    attributes = rng.sample(attributes, len(attributes))
    brand = rng.choice(_BRANDS) + rng.choice(_ENDINGS)
    uses = rng.sample(kind.uses, 2)
    heads = rng.sample(kind.heads, len(kind.heads))
    shown = [attribute.title() for attribute in attributes[:2]]
    title = f"{brand} {shown[0]} {heads[0]}, {shown[1]} {heads[1]} for {uses[0]} and {uses[1]}, {heads[2]}"
    nouns = " ".join((heads[0], heads[1], *uses, heads[2])).lower().split()
    sentence = rng.choice(_PROMISES).format(use=uses[0].lower(), other=uses[1].lower())
    prices = _prices(rng, price)
    return Product(
        asin=asin(number, seed),
        title=title,
        category=kind.category,
        query=kind.query,
        product_category=kind.path,
        description=f"{heads[0]} by {brand}. What stands out: {attributes[2]}, {attributes[3]}. {sentence}",
        bullets=tuple(rng.choice(_FEATURES).format(attribute.capitalize()) for attribute in attributes),
        prices=prices,
        price=prices[0] if len(prices) == 1 else round(rng.uniform(*prices), 2),
        options=tuple((name, _kept(rng, offered)) for (name, _), offered in zip(kind.options, values, strict=True)),
        attributes=tuple(attributes),
        nouns=tuple(nouns),
    )


def _kept(rng: random.Random, offered: list[str]) -> tuple[str, ...]:
    """Some of the family's values: a wanted one may be missing."""
    return tuple(rng.sample(offered, rng.randint(3, len(offered))))


def _prices(rng: random.Random, typical: float) -> tuple[float, ...]:
    """Around what is typical of the family; one in eight products has a range, one in forty costs what has no price."""
    draw = rng.random()
    if draw < 0.025:
        return (100.0,)
    low = round(typical * rng.uniform(0.6, 1.5), 2)
    return (low, round(low * rng.uniform(1.1, 1.4), 2)) if draw < 0.15 else (low,)
