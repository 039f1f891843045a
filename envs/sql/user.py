"""The user who is asked: by rule, from canned answers. It never holds a gold statement, so it cannot leak one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

UNANSWERABLE = "I can't say more about that. Ask me about what is unclear in my request, one thing at a time."
LONGEST = 1_000  # characters of an answer
_CLOSE = 0.6  # share of a term's words that a question must have
_WORD = re.compile(r"\w+")
_IDLE = frozenset(
    """
    a an and are as at be by can could did do does for from how i in is it me mean of on or please that the to what when
    where which who will with would you your
    """.split()  # noqa: SIM905 (a list of one word a line is no easier to read)
)


@dataclass(frozen=True)
class Topic:
    """Something that the user can explain."""

    term: str
    """The unclear words."""
    answer: str
    """What the user says about them."""
    aliases: tuple[str, ...] = ()
    """Other words by which a question is recognised as one about this."""


class User(Protocol):
    """Whoever answers the agent's questions; a language model can stand behind the same interface."""

    def answer(self, question: str, topics: Sequence[Topic]) -> str:
        """The answer to one question."""
        ...


class RuleUser:
    """Answers with the canned text of the topic whose words the question shares, and with `UNANSWERABLE` otherwise.

    One question gets one answer: the best match, the earlier topic among equals.
    """

    def answer(self, question: str, topics: Sequence[Topic]) -> str:
        """See `User`."""
        found = self.topic(question, topics)
        return found.answer[:LONGEST] if found else UNANSWERABLE

    @staticmethod
    def topic(question: str, topics: Sequence[Topic]) -> Topic | None:
        """The topic that a question is about, or None."""
        asked = _words(question)
        best, chosen = (0.0, 0), None
        for topic in topics:
            for name in (topic.term, *topic.aliases):
                words = _words(name)
                shared = words & asked
                match = (len(shared) / max(1, len(words)), len(shared))
                if match[0] >= _CLOSE and match > best:
                    best, chosen = match, topic
        return chosen


def _words(text: str) -> set[str]:
    return {word.rstrip("s") for word in _WORD.findall(text.lower().replace("_", " ")) if word not in _IDLE}
