"""Questions composed of a scope, a form and conditions."""

from __future__ import annotations

import random
from dataclasses import replace

from . import forms_advanced, forms_group, forms_plain
from .database import Generated
from .draft import LEVELS, Draft, Form, Question
from .filters import Filter, draw_filter
from .scope import Scope, draw_scope

_PLAIN: tuple[Form, ...] = (
    *(forms_plain.count, forms_plain.listing, forms_plain.different, forms_plain.count_different),
    forms_plain.aggregate,
)
_MIDDLE: tuple[Form, ...] = (
    *(forms_plain.top, forms_plain.ordered, forms_plain.share, forms_plain.recorded, forms_group.per_category),
    *(forms_group.having, forms_group.per_year, forms_advanced.rank),
)
_WHOLE: tuple[Form, ...] = (  # they take no conditions
    *(forms_group.per_parent, forms_group.parents_with, forms_advanced.set_operation),
    *(forms_advanced.above_own_group, forms_advanced.difference),
)
_LONG: tuple[Form, ...] = (forms_advanced.best_of_group, forms_advanced.running_total)
FORMS: dict[str, tuple[Form, ...]] = {
    "easy": _PLAIN,
    "medium": (*_PLAIN, *_MIDDLE, *_MIDDLE, forms_advanced.set_operation),
    "hard": (*_MIDDLE, *_WHOLE, *_LONG),
    "extra": (*_PLAIN, *_MIDDLE, *_LONG, *_LONG, forms_advanced.difference),
}
"""The forms that reach a level; conditions and joins make up the rest of it."""
_MOST_JOINS = {"easy": 0, "medium": 1, "hard": 2, "extra": 2}


def draw_question(source: Generated, rng: random.Random, level: str, form: Form | None = None) -> Question | None:
    """A question of this level, or None where the draw came out otherwise (draw again).

    Args:
        source: the database.
        rng: what the question depends on.
        level: one of `LEVELS`.
        form: one of `FORMS[level]`; None draws one. Who draws until a question comes out keeps the form for a while,
            or forms that fit seldom hardly ever occur.
    """
    form = form or rng.choice(FORMS[level])
    joins = rng.randint(0, _MOST_JOINS[level])
    scope = draw_scope(source, rng, joins)
    draft = form(scope, rng)
    if draft is None:
        return None
    filters = _filters(draft, level, scope, rng)
    if filters is None:
        return None
    word = "OR" if len(filters) == 2 and rng.random() < 0.3 else "AND"
    question = Question(draft, scope, tuple(filters), word)
    if scope.sql not in question.sql:  # the form looks elsewhere
        question = replace(question, scope=Scope(source, scope.path[:1]))
    elif len(scope.path) > 1 and f"t{len(scope.path)}." not in question.sql.replace(scope.sql, ""):
        return None  # a join for nothing
    return question if question.level == level else None


def draw_form(rng: random.Random, level: str, *, filtered: bool = False) -> Form:
    """A form for a level; with `filtered`, one that takes conditions."""
    return rng.choice([form for form in FORMS[level] if not (filtered and form in _WHOLE)])


def _filters(draft: Draft, level: str, scope: Scope, rng: random.Random) -> list[Filter] | None:
    if not draft.takes_filters:
        return []
    least = 1 if draft.needs_filter else 0
    most = 1 if level == "easy" else 2
    found: list[Filter] = []
    for _ in range(rng.randint(least, most)):
        condition = draw_filter(scope, rng, hard=LEVELS.index(level) >= 1 and rng.random() < 0.5)
        if condition is None or any(condition.field and condition.field == other.field for other in found):
            return None
        found.append(condition)
    return found
