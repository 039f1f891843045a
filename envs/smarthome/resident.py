"""The resident an agent can ask: scripted answers to the questions a task leaves open, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping

SLOTS = ("which", "value", "time", "confirm", "other")
"""What a question can be about: which device or room, how much, when, whether it really should be done."""
NOTHING = "I have nothing to add to what I said."
_SIGNS = (
    ("confirm", r"\b(sure|really|confirm|allowed|permission|okay to|ok to|proceed|should i still)\b"),
    ("time", r"\b(when|what time|which time|how long|until when)\b"),
    ("value", r"\bhow (much|warm|bright|loud|high|low|far|dark)\b"),
    ("value", r"\bwhat (temperature|brightness|level|volume|percent\w*|position|value)\b"),
    ("which", r"\b(which|what (lamp|light|device|room|one)|where|whose|do you mean)\b"),
)


def slot_of(question: str) -> str:
    """What a question is about, from its words."""
    return next((slot for slot, signs in _SIGNS if re.search(signs, question, re.IGNORECASE)), "other")


def answer(answers: Mapping[str, str], slot: str) -> str:
    """What the resident says; a question that the task does not leave open is answered without telling anything."""
    return answers.get(slot, NOTHING)
