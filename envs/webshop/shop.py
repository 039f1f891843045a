"""One opened shop per process and folder, shared by all its environments."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from . import generator
from .catalogue import Catalogue, cache_folder, made_once, open_index, write_catalogue
from .core import ORIGINAL, Rules, ShopCore
from .goals import Goal
from .nouns import CATALOGUE, Tagger
from .product import Product
from .reward import Verdict, judge


class Shop:
    """A catalogue with its search engine.

    Args:
        folder: what `made_shop` or `official_shop` returned.
    """

    def __init__(self, folder: Path) -> None:
        self.catalogue, self.index = Catalogue(folder), open_index(folder)
        self.core = lru_cache(8)(self._core)

    def judge(self, product: Product, goal: Goal, chosen: dict[str, str], quirks: bool, tagger: Tagger) -> Verdict:
        """Judge a purchase, see `reward.judge`."""
        nouns = tagger.nouns(product.title) if product.nouns is None else product.nouns
        goal_nouns = tagger.nouns(goal.title) if goal.nouns is None else goal.nouns
        return judge(product, goal, chosen, nouns=nouns, goal_nouns=goal_nouns, quirks=quirks)

    def _core(self, original: bool, quirks: bool, tagger: Tagger, per_page: int) -> ShopCore:
        """The shop as a function; `original` opens what the original's site allows."""
        return ShopCore(
            self.catalogue,
            self.index,
            lambda product, goal, chosen: self.judge(product, goal, chosen, quirks, tagger).reward,
            ORIGINAL if original else Rules(),
            per_page,
        )


@lru_cache(8)
def open_shop(folder: Path) -> Shop:
    """The shop in a folder, opened once."""
    return Shop(folder)


def made_shop(products: int, seed: int, cache: str | Path | None = None) -> Path:
    """The folder of the generated shop with so many products; made on first use and kept."""
    folder = cache_folder(cache) / f"{generator.VERSION}-{products}-{seed}"
    return made_once(folder, lambda part: write_catalogue(part, generator.products(products, seed)))


def no_tagger() -> Tagger:
    """For shops that know their nouns."""
    return _NO_TAGGER


_NO_TAGGER = Tagger(CATALOGUE, lambda title: ())
