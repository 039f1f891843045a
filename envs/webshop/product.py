"""What the shop sells: one product, its price and its options, in the benchmark's terms."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any

from .page import Card, Item

NO_PRICE = (100.0,)
"""What a product without a listed price costs."""
DUMMY_ATTRIBUTES = ("DUMMY_ATTR",)
"""The attributes of an official product that has none."""
_ASIN_LENGTH = 10


@dataclass(frozen=True)
class Product:
    """One product. Attributes, category, query and nouns are hidden: only rewards read them."""

    asin: str
    title: str
    category: str
    """The department, one word."""
    query: str
    """The search under which the benchmark's authors found it."""
    product_category: str
    """A path: "Home & Kitchen › Furniture › Sofas"."""
    description: str = ""
    bullets: tuple[str, ...] = ()
    """Features, as the shop lists them."""
    prices: tuple[float, ...] = NO_PRICE
    """Listed, in dollars: one price, or the two ends of a range."""
    price: float = NO_PRICE[0]
    """Paid, in dollars: the listed one, or a fixed one within the range."""
    options: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(name, values), lower case, in the shop's order."""
    attributes: tuple[str, ...] = ()
    nouns: tuple[str, ...] | None = None
    """The nouns of the title where the catalogue knows them, else None."""
    sections: frozenset[str] = field(init=False, repr=False)
    """The parts of `product_category`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sections", path_parts(self.product_category))

    @property
    def price_tag(self) -> str:
        """The price as the shop shows it: "$19.99" or "$10.0 to $25.5"."""
        return " to ".join(f"${price}" for price in self.prices[:2])

    @property
    def index_text(self) -> str:
        """What the search engine reads: title, description, the first feature and the options."""
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options)
        first = self.bullets[0] if self.bullets else ""
        return f"{self.title} {self.description} {first} {options}".lower()

    @cached_property
    def card(self) -> Card:
        """As a list of results shows it."""
        return Card(self.asin, self.title, self.price_tag)

    @cached_property
    def item(self) -> Item:
        """As its own page shows it."""
        return Item(self.asin, self.title, self.price_tag, self.options, self.description, self.bullets)

    @cached_property
    def option_of(self) -> dict[str, str]:
        """Value -> the option that it belongs to; of two options with the same value the last one has it."""
        return {value: name for name, values in self.options for value in values}

    @cached_property
    def searched(self) -> tuple[str, str, str]:
        """Title, features and description in lower case: where rewards look for attributes."""
        return self.title.lower(), " ".join(self.bullets).lower(), self.description.lower()


def path_parts(path: str) -> frozenset[str]:
    """The parts of a category path."""
    return frozenset(part.strip() for part in path.split("›"))


def parse_product(entry: Mapping[str, Any], attributes: tuple[str, ...], seed: int) -> Product | None:
    """The product in an entry of the official `items_shuffle*.json`; None where the benchmark leaves it out.

    Args:
        entry: the JSON object.
        attributes: of this product, from `items_ins_v2*.json`.
        seed: decides the price within a range, together with the ASIN (the original draws it anew in every process).
    """
    asin = str(entry["asin"])
    if asin == "nan" or len(asin) > _ASIN_LENGTH:
        return None
    prices = parse_prices(entry.get("pricing"))
    bullets = entry.get("small_description")
    return Product(
        asin=asin,
        title=str(entry["name"] or ""),
        category=str(entry["category"] or ""),
        query=str(entry["query"] or "").lower().strip(),
        product_category=str(entry["product_category"] or ""),
        description=str(entry.get("full_description") or ""),
        bullets=tuple(str(bullet or "") for bullet in (bullets if isinstance(bullets, list) else [bullets])),
        prices=prices,
        price=paid(asin, prices, seed),
        options=parse_options(entry.get("customization_options") or {}),
        attributes=attributes or DUMMY_ATTRIBUTES,
    )


def parse_prices(pricing: str | None) -> tuple[float, ...]:
    """The listed prices: of "$10.00$25.50", (10.0, 25.5). Without a readable one, `NO_PRICE`."""
    try:
        found = [float(Decimal(re.sub(r"[^\d.]", "", part))) for part in (pricing or "").split("$")[1:]]
    except InvalidOperation:
        return NO_PRICE
    return tuple(found[:2]) or NO_PRICE


def paid(asin: str, prices: tuple[float, ...], seed: int) -> float:
    """The price that is paid: fixed by seed and ASIN, so that it is the same in every process."""
    return prices[0] if len(prices) == 1 else random.Random(f"{seed}:{asin}").uniform(*prices)


def parse_options(customization: Mapping[str, Any]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(name, values) of the official `customization_options`, spelled as the shop spells them."""
    options = {}
    for name, contents in customization.items():
        if contents is not None:
            values = tuple(str(content["value"]).strip().replace("/", " | ").lower() for content in contents)
            options[name.lower()] = values
    return tuple(options.items())
