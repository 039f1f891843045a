"""The optional packages that the shop needs, imported when first used."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

from ..core.errors import MissingExtra

EXTRA = "webshop"


@cache
def rapidfuzz() -> Any:
    """The package `rapidfuzz`, with `fuzz` and `utils`. Raises `MissingExtra`."""
    try:
        import rapidfuzz.fuzz
        import rapidfuzz.utils
    except ImportError as error:
        raise MissingExtra("rapidfuzz", EXTRA) from error
    return rapidfuzz


@cache
def ijson() -> ModuleType:
    """The package `ijson`. Raises `MissingExtra`."""
    try:
        import ijson
    except ImportError as error:
        raise MissingExtra("ijson", EXTRA) from error
    return ijson
