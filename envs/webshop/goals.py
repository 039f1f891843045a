"""What a shopper wants: one goal, and the price bound that goes with it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from .product import path_parts

NO_LIMIT = 1_000_000.0
"""The price bound of goals without one, in dollars."""
_BOUNDS = tuple(10.0 * step for step in range(1, 100))  # dollars
_CHOICES = 4


@dataclass(frozen=True)
class Goal:
    """One goal. Everything but `instruction` is privileged."""

    asin: str
    """The product that it was written for; others may fit as well."""
    instruction: str
    title: str
    category: str
    query: str
    product_category: str
    attributes: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    """(name, value); the name is "" where the goal does not say which option the value belongs to."""
    price_upper: float
    """In dollars; `NO_LIMIT` where there is none."""
    weight: float = 1.0
    """Its share when goals are drawn."""
    nouns: tuple[str, ...] | None = None
    """The nouns of `title` where the catalogue knows them, else None."""
    sections: frozenset[str] = field(init=False, repr=False)
    """The parts of `product_category`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sections", path_parts(self.product_category))


def price_bound(price: float, rng: random.Random) -> float:
    """A bound above `price`: the larger of two drawn from the next four multiples of ten; `NO_LIMIT` from 980 on."""
    above = [bound for bound in _BOUNDS if bound > price][:_CHOICES]
    return max(rng.sample(above, 2)) if len(above) >= 2 else NO_LIMIT


def bound_text(bound: float) -> str:
    """How official instructions say it."""
    return "" if bound == NO_LIMIT else f", and price lower than {bound:.2f} dollars"
