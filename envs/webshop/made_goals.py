"""Goals of the generated shop, made on demand from seed, product and variant, and checked as they are made.

A goal asks for so many attributes, options and dollars that no other member of the product's family satisfies it: the
product itself is worth 1.0 with the right options, and whatever misses one wish is worth less.
"""

from __future__ import annotations

import random
from functools import lru_cache

from .generator import FAMILY, VERSION, family, kind_of
from .goals import NO_LIMIT, Goal, price_bound
from .phrasing import instruction
from .product import Product
from .reward import Verdict, judge

VARIANTS = 8
"""Goals per product."""
_LIMITED, _SECOND_OPTION = 0.85, 0.6  # shares of goals with a price bound, and with both options


@lru_cache(512)
def made_goal(seed: int, number: int, variant: int, language: str) -> Goal:
    """The goal with this variant for the product with this number."""
    rng = random.Random(f"{VERSION}:goal:{seed}:{number}:{variant}")
    members = family(seed, number // FAMILY)
    target = members[number % FAMILY]
    others = [member for member in members if member is not target]
    options = [(name, rng.choice(values)) for name, values in target.options]
    if rng.random() > _SECOND_OPTION:
        options = [rng.choice(options)]
    bound = price_bound(target.price, rng) if rng.random() < _LIMITED else NO_LIMIT
    attributes = _enough(rng, target, others, options, bound)
    goal = Goal(
        asin=target.asin,
        instruction=instruction(rng, kind_of(number), attributes, options, bound, language),
        title=target.title,
        category=target.category,
        query=target.query,
        product_category=target.product_category,
        attributes=tuple(attributes),
        options=tuple(options),
        price_upper=bound,
        nouns=target.nouns,
    )
    assert best(target, goal).reward == 1.0, f"the product of goal {seed}:{number}:{variant} does not satisfy it"
    spoilt = [other.asin for other in others if best(other, goal).reward >= 1.0]
    assert not spoilt, f"goal {seed}:{number}:{variant} is satisfied by {spoilt}, too"
    return goal


def best(product: Product, goal: Goal) -> Verdict:
    """What a product is worth when all wanted options that it has are chosen."""
    offered = dict(product.options)
    chosen = {name: value for name, value in goal.options if value in offered.get(name, ())}
    return judge(product, goal, chosen, nouns=product.nouns or (), goal_nouns=goal.nouns or (), quirks=False)


def _enough(
    rng: random.Random, target: Product, others: list[Product], options: list[tuple[str, str]], bound: float
) -> list[str]:
    """One to three attributes of the target, and more where a member of its family would satisfy the goal as well."""
    attributes = rng.sample(target.attributes, rng.choice((1, 2, 2, 3)))
    for other in rng.sample(others, len(others)):
        offered = dict(other.options)
        fits = other.price <= bound and all(value in offered[name] for name, value in options)
        if fits and set(attributes) <= set(other.attributes):
            attributes.append(rng.choice([name for name in target.attributes if name not in other.attributes]))
    return attributes
