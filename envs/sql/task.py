"""What the three environments play: a database, a request and, privileged, the gold statements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .backends.database import Database


@dataclass(frozen=True)
class Answer:
    """Privileged: a right result, where a benchmark gives results instead of statements."""

    rows: tuple[tuple[Any, ...], ...] = field(repr=False)
    columns: tuple[int, ...] = ()
    """The columns that count; empty for all."""
    ignore_order: bool = False


@dataclass(frozen=True)
class ReadTask:
    """A question about a database."""

    database: Database
    question: str
    gold: str = field(repr=False)
    """Privileged: a statement that answers the question."""
    level: str = ""
    """As the source calls it: "easy", "simple" ..."""
    evidence: str = ""
    """Background that is shown with the question (BIRD)."""
    dialect: str = "sqlite"
    """sqlglot's name of the dialect that `gold` is written in; "" where it is the same in all engines."""
    answers: tuple[Answer, ...] = field(default=(), repr=False)
    """Right results, any of which will do; then they judge, by the benchmark's own rule, instead of `gold`."""


@dataclass(frozen=True)
class WriteTask:
    """A change to a database."""

    database: Database
    request: str
    gold: tuple[str, ...] = field(repr=False)
    """Privileged: statements that make the change."""
    level: str = ""
    dialect: str = "sqlite"


@dataclass(frozen=True)
class Ambiguity:
    """What a request leaves open, and the answer that the user has ready."""

    term: str
    """The words in the request that are unclear."""
    clarification: str
    """What the user says when asked about it."""
    sql_snippet: str = field(default="", repr=False)
    """Privileged: the part of the gold statement that it decides."""
    aliases: tuple[str, ...] = ()
    """Other words by which a question is recognised as one about this."""


@dataclass(frozen=True)
class Knowledge:
    """An entry of the knowledge base."""

    name: str
    definition: str
    hidden: bool = False
    """The agent cannot look it up: it has to ask."""
    description: str = ""


@dataclass(frozen=True)
class Phase:
    """One request with its gold statement."""

    text: str
    gold: str = field(repr=False)


@dataclass(frozen=True)
class InteractTask:
    """An ambiguous request, what the user knows about it, and a follow-up."""

    database: Database
    phases: tuple[Phase, ...]
    """The ambiguous request, then the follow-up (if there is one), in which nothing is left open."""
    ambiguities: tuple[Ambiguity, ...]
    knowledge: tuple[Knowledge, ...]
    meanings: tuple[tuple[str, str], ...] = ()
    """What columns mean: ("table.column", text)."""
    level: str = ""
    dialect: str = "sqlite"
