"""Requests that leave something open: vague words, and terms that a knowledge base defines or hides."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ..task import Ambiguity, Knowledge
from .database import Generated
from .draft import Form, Question
from .filters import Filter, draw_filter
from .questions import FORMS, draw_question
from .scope import Scope

_TITLES = ("Prime", "Core", "Signal", "Legacy", "Premium", "Dormant", "Flagship", "Critical", "Standard", "Special")


@dataclass(frozen=True)
class Request:
    """An ambiguous request with everything around it."""

    question: Question
    text: str
    ambiguities: tuple[Ambiguity, ...]
    knowledge: tuple[Knowledge, ...]
    follow_up: Question
    follow_up_text: str


def draw_request(source: Generated, rng: random.Random, level: str, form: Form | None = None) -> Request | None:
    """An ambiguous request of this level, or None where the draw came out otherwise (draw again)."""
    question = draw_question(source, rng, level, form)
    if question is None or not question.filters:
        return None
    titles = rng.sample(_TITLES, len(_TITLES))
    replaced: dict[int, str] = {}
    ambiguities: list[Ambiguity] = []
    knowledge: list[Knowledge] = []
    for i, condition in enumerate(question.filters):
        last_chance = not ambiguities and i + 1 == len(question.filters)
        kind = rng.choice(("mask", "mask", "hidden") if last_chance else ("mask", "mask", "hidden", "known"))
        masked = _mask(condition) if kind == "mask" else None
        if masked:
            replaced[i], ambiguity = masked
            ambiguities.append(ambiguity)
            continue
        entry = _define(question.scope, condition, titles.pop(), hidden=kind != "known")
        knowledge.append(entry)
        replaced[i] = f"that count as {entry.name}"
        if entry.hidden:
            ambiguities.append(Ambiguity(entry.name, entry.definition, condition.sql))
    follow_up = _follow_up(question, rng)
    if follow_up is None or not ambiguities:
        return None
    for _ in range(rng.randint(1, 3)):
        other = Scope(source, (rng.choice(source.schema.tables),))
        condition = draw_filter(other, rng, False)
        if condition:
            knowledge.append(_define(other, condition, titles.pop(), hidden=False))
    rng.shuffle(knowledge)
    wording = rng.randint(0, 5)
    return Request(
        question,
        question.text(wording, replaced),
        tuple(ambiguities),
        tuple(knowledge),
        follow_up,
        follow_up.text(wording),
    )


def _define(scope: Scope, condition: Filter, title: str, *, hidden: bool) -> Knowledge:
    name = f"{title} {scope.main.plural}"
    return Knowledge(name, f"{name} are {scope.main.plural} {condition.phrases[0]}.", hidden)


def _mask(condition: Filter) -> tuple[str, Ambiguity] | None:
    """A vague phrase for a condition."""
    if condition.field is None:
        return None
    said = condition.field.phrase
    if condition.kind in ("compares", "above average", "between"):
        size = "low" if " < " in condition.sql else "medium" if condition.kind == "between" else "high"
        term = f"{size} {said}"
        phrase = f"with a {term}"
    elif condition.kind in ("dated", "year"):
        term = f"{'early' if ' < ' in condition.sql and condition.kind == 'dated' else 'recent'} {said}"
        phrase = f"with {'an' if term.startswith('early') else 'a'} {term}"
    elif condition.kind in ("equals", "one of", "differs"):
        term = f"usual {said}"
        phrase = f"with the {term}"
    else:
        return None
    clarification = f"By the {term} I mean those {condition.phrases[0]}."
    return phrase, Ambiguity(term, clarification, condition.sql, (said, condition.field.column.name))


def _follow_up(question: Question, rng: random.Random) -> Question | None:
    """Another question about the same rows, with nothing left open."""
    for _ in range(8):
        draft = rng.choice(FORMS["medium"])(question.scope, rng)
        if draft and draft.takes_filters and draft.form != question.draft.form:
            return Question(draft, question.scope, question.filters, question.word)
    return None
