"""Pictures of products, drawn from their titles with the shapes of `html/pictures.svg`: the same whenever they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from xml.sax.saxutils import escape

# Hue in degrees, saturation and lightness in per cent.
_COLOURS = {
    **{"black": (220, 8, 20), "white": (40, 20, 90), "grey": (215, 8, 55), "gray": (215, 8, 55), "navy": (224, 60, 28)},
    **{"sky": (202, 75, 62), "blue": (215, 70, 50), "green": (140, 40, 38), "forest": (145, 50, 28)},
    **{"ruby": (348, 75, 38), "red": (4, 70, 48), "pink": (340, 55, 74), "beige": (38, 42, 76)},
    **{"charcoal": (215, 12, 30), "purple": (275, 48, 48), "orange": (24, 82, 50), "mustard": (44, 75, 48)},
    **{"teal": (178, 58, 34), "khaki": (52, 28, 55), "ivory": (48, 55, 86), "chocolate": (22, 48, 26)},
    **{"maroon": (345, 60, 26), "olive": (68, 38, 34), "silver": (210, 10, 74), "gold": (44, 72, 52)},
    **{"bronze": (28, 48, 42), "copper": (18, 58, 50), "nickel": (60, 4, 62), "pewter": (200, 8, 48)},
    **{"graphite": (220, 10, 28), "brown": (25, 45, 32), "yellow": (50, 88, 55), "espresso": (20, 40, 18)},
}


def draw(asin: str, title: str, chosen: Mapping[str, str]) -> str:
    """The picture of a product as an SVG document.

    Args:
        asin: decides the colours where no colour is chosen.
        title: decides what is drawn.
        chosen: the chosen options; the first value that names a colour is the product's.
    """
    tint, seed = blake2b(asin.encode("utf-8", "replace"), digest_size=2).digest()
    named = (_COLOURS.get(word) for value in chosen.values() for word in re.findall(r"[a-z]+", value.lower()))
    hue, saturation, lightness = next((colour for colour in named if colour), (tint * 360 // 256, 45, 52))
    dark, light = max(8, lightness - 22), min(96, lightness + 26)
    paint = {"A": lightness, "B": dark, "C": light}
    shape = re.sub('"([ABC])"', lambda found: f'"hsl({hue},{saturation}%,{paint[found[1]]}%)"', _shape(title))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-14 -14 128 128"><title>{escape(title[:200])}</title>'
        f'<rect x="-14" y="-14" width="128" height="128" fill="hsl({seed * 360 // 256},30%,95%)"/>{shape}</svg>'
    )


def _shape(title: str) -> str:
    words = set(re.findall(r"[a-z]+", title[:500].lower()))
    return max(_shapes(), key=lambda shape: len(shape[0] & words))[1]


@cache
def _shapes() -> tuple[tuple[frozenset[str], str], ...]:
    """(words that ask for it, drawing), the one that is for everything first."""
    sheet = (Path(__file__).parent / "html" / "pictures.svg").read_text(encoding="utf-8")
    found = re.findall(r'<symbol id="\w+" class="([a-z ]+)">(.+)</symbol>', sheet)
    return tuple((frozenset(words.split()), drawing) for words, drawing in found)
