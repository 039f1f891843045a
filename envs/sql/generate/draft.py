"""`Draft`: a question in the making, whose conditions are not filled in yet."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from .filters import Filter, join_sql
from .scope import Scope

LEVELS = ("easy", "medium", "hard", "extra")


@dataclass(frozen=True)
class Draft:
    """A form of question over a scope: wordings and SQL, both with a place for conditions."""

    form: str
    points: int
    templates: tuple[str, ...]
    """Wordings; `{where}` stands for the conditions, with a space before them where there are any."""
    build: Callable[[str], str]
    """WHERE clause (or "") -> statement."""
    needs_filter: bool = False
    """Too easy, or without a point, where there is no condition."""
    takes_filters: bool = True
    controls: tuple[str, ...] = ()
    """Statements whose result must differ from the answer, or a part of the question has no effect."""


@dataclass(frozen=True)
class Question:
    """A finished question with its gold statement."""

    draft: Draft
    scope: Scope
    filters: tuple[Filter, ...]
    word: str
    """"AND" or "OR" between the conditions."""

    @property
    def sql(self) -> str:
        """The gold statement."""
        return self.draft.build(join_sql(list(self.filters), self.word))

    @property
    def controls(self) -> tuple[str, ...]:
        """Statements that must give something else: the gold one without each of its conditions, and the draft's."""
        rest = [[other for other in self.filters if other is not each] for each in self.filters]
        return (*(self.draft.build(join_sql(others, self.word)) for others in rest), *self.draft.controls)

    @property
    def points(self) -> int:
        """How hard it is, all parts together."""
        return self.draft.points + sum(each.points for each in self.filters) + len(self.scope.path) - 1

    @property
    def level(self) -> str:
        """One of `LEVELS`."""
        return LEVELS[max(0, min(3, (self.points - 1) // 2))]

    def text(self, paraphrase: int, replaced: dict[int, str] | None = None) -> str:
        """The question in words.

        Args:
            paraphrase: which wording; any number, taken modulo the wordings there are.
            replaced: other words for some of the conditions, by position.
        """
        said = []
        for i, each in enumerate(self.filters):
            phrase = each.phrases[(paraphrase + i) % len(each.phrases)]
            said.append((replaced or {}).get(i, phrase))
        where = f" {self.word.lower()} ".join(said)
        template = self.draft.templates[paraphrase % len(self.draft.templates)]
        return template.replace("{where}", f" {where}" if where else "")

    def texts(self, count: int) -> tuple[str, ...]:
        """Up to `count` different wordings."""
        return tuple(dict.fromkeys(self.text(i) for i in range(count)))


Form = Callable[[Scope, random.Random], Draft | None]
"""Draws a draft over a scope, or None where the scope does not have what the form needs."""
