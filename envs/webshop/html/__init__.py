"""A shop's pages as HTML. The visible texts are those of `page.nodes`, in the same order: one page, three notations.

What is only there for people (pictures, the shop's name on top, the cart) is drawn by the style sheet from attributes,
so that it is no text of the page.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.errors import MissingExtra
from ..page import SUB_PAGES, Page, url

if TYPE_CHECKING:
    import jinja2

FOLDER = Path(__file__).parent
ASSETS = ("shop.css", "shop.js", "icon.svg")


def render(page: Page, notice: str = "") -> str:
    """The page as an HTML document. Its links lead to `act` and `picture/` beside it and to `/static/` (`site.py`).

    Args:
        page: what to show.
        notice: for a person, why the last action was refused.
    """
    chosen = dict(page.chosen)
    return _templates()[page.kind].render(
        page=page, notice=notice, address=url(page), chosen=chosen, chosen_json=json.dumps(chosen)
    )


@cache
def _templates() -> dict[str, jinja2.Template]:
    try:
        import jinja2
    except ImportError:
        raise MissingExtra("jinja2", "webshop") from None
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals["sub_pages"] = SUB_PAGES
    names = ("start", "search_results", "item_page", "item_sub_page", "done")
    return {name: environment.get_template(f"{name}.html") for name in names}
