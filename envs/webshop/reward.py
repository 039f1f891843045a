"""What a purchase is worth, by the benchmark's formula.

    reward = r_type * (attributes met + options met + price within the bound) / (attributes + options + 1)

The formula and its constants are those of WebShop (Yao et al., NeurIPS 2022; https://github.com/princeton-nlp/WebShop,
MIT). Options can be compared in two ways. The original's (`quirks=True`) is loose: both values become the first colour
whose name occurs anywhere in them ("tailored" is "red"), and one value whose words are among the other's counts as
equal ("large" for "x-large"), under whatever option it was chosen. Ours wants the value itself, under the option that
is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from .extras import rapidfuzz
from .goals import Goal
from .product import Product

_COLOURS = """
    alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel camo
    caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry cream
    crystal dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey heather
    indigo ivory ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha
    multicolor mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal
    rust sand sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise
    violet walnut wheat white wine yellow
""".split()  # noqa: SIM905 (a list of strings would fill a page)
_THRESHOLD = 85  # per cent of similarity, rounded; above it two texts are the same
_LATIN1 = {code: None for code in range(128, 256)}  # what the original's matcher drops before it compares


@dataclass(frozen=True, slots=True)
class Verdict:
    """A purchase, judged. Privileged: it says how near the goal is."""

    reward: float
    r_type: float
    """1, 0.5, 0.1 or 0: how far the product is of the wanted kind."""
    r_att: float
    """The share of wanted attributes that the product has."""
    r_option: float | None
    """The share of wanted options that were chosen; None where none is wanted."""
    r_price: bool
    query_match: bool
    category_match: bool
    title_score: float


def judge(
    product: Product,
    goal: Goal,
    chosen: Mapping[str, str],
    *,
    nouns: Sequence[str],
    goal_nouns: Sequence[str],
    quirks: bool,
) -> Verdict:
    """Judge the purchase of `product` with the options `chosen` (name -> value).

    Args:
        product: what is bought, at `product.price`.
        goal: what was wanted; with at least one attribute and a positive price bound.
        chosen: the chosen options.
        nouns: those of the product's title.
        goal_nouns: those of the goal's title.
        quirks: compare options as the original does.

    Raises:
        TypeError, ZeroDivisionError: a goal without a price bound above 0, or without attributes (as in the original).
    """
    if goal.price_upper <= 0:
        raise TypeError(f"the goal's price bound is {goal.price_upper}: it must be above 0")
    query_match = product.query == goal.query
    category_match = len(product.sections & goal.sections) >= 2
    similarity = title_score(nouns, goal_nouns)
    r_type = type_factor(query_match, category_match, similarity)
    attributes, options = attributes_met(product, goal.attributes), options_met(goal, chosen, quirks)
    within = product.price <= goal.price_upper
    return Verdict(
        reward=total(attributes + options + within, len(goal.attributes) + len(goal.options), r_type),
        r_type=r_type,
        r_att=attributes / len(goal.attributes),
        r_option=options / len(goal.options) if goal.options else None,
        r_price=within,
        query_match=query_match,
        category_match=category_match,
        title_score=similarity,
    )


def total(met: int, wanted: int, r_type: float) -> float:
    """The reward for `met` wishes (attributes, options and the price) of `wanted` attributes and options."""
    return met / (wanted + 1) * r_type


def title_score(nouns: Sequence[str], goal_nouns: Sequence[str]) -> float:
    """The share of the goal's nouns that the product has; 0.2 where the goal has none.

    It divides a count of different nouns by a count of nouns, so that a title that repeats itself scores below 1
    against itself, as in the original.
    """
    return len(set(nouns) & set(goal_nouns)) / len(goal_nouns) if goal_nouns else 0.2


def type_factor(query_match: bool, category_match: bool, similarity: float) -> float:
    """1, 0.5, 0.1 or 0: how far a product is of the wanted kind."""
    if similarity == 0.0:
        return 0.0
    if similarity < 0.1:
        return 0.1
    return 1.0 if query_match or category_match or similarity > 0.2 else 0.5


def attributes_met(product: Product, wanted: Sequence[str]) -> int:
    """How many of the wanted attributes are among the product's, or in its title, features or description."""
    return sum(
        any(alike(has, attribute) for has in product.attributes) or any(attribute in text for text in product.searched)
        for attribute in wanted
    )


def options_met(goal: Goal, chosen: Mapping[str, str], quirks: bool) -> int:
    """How many of the goal's options are among the chosen ones."""
    if not quirks:
        return sum((chosen.get(name) == value) if name else (value in chosen.values()) for name, value in goal.options)
    bought = [colour_or_same(value) for value in chosen.values()]
    return sum(any(alike(value, wanted) for value in bought) for wanted in map(_original_option, goal.options))


def colour_or_same(value: str) -> str:
    """The first colour, in alphabetical order, whose name occurs in the value; else the value."""
    return next((colour for colour in _COLOURS if colour in value), value)


@lru_cache(100_000)
def alike(first: str, second: str) -> bool:
    """Whether the original's matcher takes two texts for the same: the words of one among the other's, or nearly so."""
    return round(rapidfuzz().fuzz.token_set_ratio(_words(first), _words(second))) > _THRESHOLD


def _original_option(option: tuple[str, str]) -> str:
    """The text that the original compares.

    Synthetic goals are (name, value) pairs there, of which only a whole member can become a colour, and whose
    representation is compared, the name included.
    """
    name, value = option
    if not name:
        return colour_or_same(value)
    return next((colour for colour in _COLOURS if colour in option), str(option))


@lru_cache(20_000)
def _words(text: str) -> str:
    return rapidfuzz().utils.default_process(text.translate(_LATIN1))
