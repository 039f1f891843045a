"""Word lists and the labels made of them."""

from __future__ import annotations

import random
from collections.abc import Callable

FIRST = (
    *("Amara", "Bela", "Carlos", "Dara", "Elif", "Femi", "Greta", "Hugo", "Ines", "Jonas", "Kaya", "Lars", "Mina"),
    *("Nadia", "Oskar", "Priya", "Quentin", "Rosa", "Samir", "Tomas", "Uma", "Viktor", "Wanda", "Yara", "Zeno"),
)
LAST = (
    *("Adeyemi", "Berg", "Castillo", "Dumont", "Eriksen", "Farah", "Garcia", "Hassan", "Ivanov", "Jansen", "Kimura"),
    *("Lindqvist", "Moreau", "Novak", "Okafor", "Pereira", "Quist", "Rossi", "Sato", "Tanaka", "Urban", "Vance"),
    *("Weber", "Yilmaz", "Zhou"),
)
CITIES = ("Ashford", "Brookhaven", "Clearwater", "Dunmore", "Eastvale", "Fairholm", "Glenrock")
ADJECTIVES = (
    *("Silent", "Broken", "Golden", "Distant", "Hollow", "Bright", "Crooked", "Frozen", "Burning", "Patient"),
    *("Hidden", "Restless", "Pale", "Second", "Wandering"),
)
NOUNS = (
    *("River", "Harbour", "Orchard", "Lantern", "Mountain", "Letter", "Garden", "Mirror", "Station", "Island"),
    *("Window", "Winter", "Compass", "Bridge", "Forest"),
)
MATERIALS = ("Oak", "Steel", "Linen", "Copper", "Glass", "Bamboo", "Wool", "Cork", "Slate")
THINGS = ("Lamp", "Chair", "Kettle", "Shelf", "Rake", "Basket", "Clock", "Tray", "Stool", "Bucket")
FOODS = ("Leek", "Trout", "Lentil", "Beetroot", "Lemon", "Chestnut", "Fennel", "Plum", "Barley", "Mushroom")
PLATES = ("Soup", "Tart", "Salad", "Stew", "Risotto", "Pudding", "Pie", "Skewer")
CROPS = (
    "Wheat",
    "Rye",
    "Maize",
    "Flax",
    "Oats",
    "Lentils",
    "Potatoes",
    "Clover",
    "Rapeseed",
    "Beans",
    "Millet",
    "Hops",
)
SUBJECTS = ("Algebra", "Botany", "Chemistry", "Drama", "Economics", "Geology", "History", "Law", "Logic", "Optics")
WARDS = ("Surgery", "Cardiology", "Paediatrics", "Neurology", "Oncology", "Radiology", "Emergency", "Maternity")


def _person(rng: random.Random) -> str:
    return f"{rng.choice(FIRST)} {rng.choice(LAST)}"


def _two(first: tuple[str, ...], second: tuple[str, ...]) -> Callable[[random.Random], str]:
    return lambda rng: f"{rng.choice(first)} {rng.choice(second)}"


MAKERS: dict[str, Callable[[random.Random], str]] = {
    "person": _person,
    "city": lambda rng: rng.choice(CITIES),
    "title": lambda rng: f"The {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}",
    "product": _two(MATERIALS, THINGS),
    "place": _two(tuple(name[:-1] if name.endswith("e") else name for name in CITIES), ("Point", "Cross", "Field")),
    "ward": lambda rng: rng.choice(WARDS),
    "machine": lambda rng: f"{rng.choice(NOUNS)} {rng.choice('ABCDEFG')}{rng.randint(1, 9)}0",
    "subject": lambda rng: rng.choice(SUBJECTS),
    "course": lambda rng: f"{rng.choice(SUBJECTS)} {rng.randint(1, 9)}",
    "company": _two(ADJECTIVES, ("Works", "Partners", "House", "Brothers")),
    "band": lambda rng: f"{rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}s",
    "dish": _two(FOODS, PLATES),
    "club": lambda rng: f"{rng.choice(CITIES)} {rng.choice(('United', 'Rovers', 'Athletic', 'Wanderers'))}",
    "crop": lambda rng: rng.choice(CROPS),
    "plate": lambda rng: f"{rng.choice('ABCDEFGH')}{rng.choice('KLMNPR')}-{rng.randint(100, 999)}",
}


def label(rng: random.Random, maker: str, taken: set[str]) -> str:
    """A label that is not in `taken`; small lists go on with numbers."""
    for _ in range(40):
        found = MAKERS[maker](rng)
        if found not in taken:
            return found
    base, number = MAKERS[maker](rng), 2
    while f"{base} {number}" in taken:
        number += 1
    return f"{base} {number}"
