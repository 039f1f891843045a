"""The generated tasks: an id is a recipe, from which any process makes the same database and the same request."""

from __future__ import annotations

import bisect
import random
import re
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, TypeVar

from ...core.errors import InvalidArgument, UnknownTask
from ...core.tasks import SPLITS, Task, TaskSet, check_split
from ...core.text_env import text_key
from ..backends.database import Database
from ..task import InteractTask, Phase, ReadTask, WriteTask
from .ambiguous import draw_request
from .database import Generated, draw_database
from .draft import LEVELS, Form
from .lint import lint, lint_change
from .questions import draw_form, draw_question
from .schema import domain_names
from .writes import draw_change

VERSION = "1"
KINDS = ("read", "write", "interact")
INSTANCES = 10_000  # databases per domain that a set numbers; ids may go on beyond that
_PER_INSTANCE = 20  # requests per database that a set numbers
_SMALL = 0.35
_PARAPHRASES = 6
_DRAWS = 1_500  # tries at a level; a small database may have nothing of the hardest, then an easier one is taken
_PATIENCE = 60  # draws with one form of question before another is tried
_ID = re.compile(
    r"sql/(?P<kind>read|write|interact)(?P<version>\d+)(?P<small>s?)/(?P<split>\w+)/(?P<domain>[a-z]+)/"
    r"(?P<instance>\d{1,9})/(?P<level>[a-z]+)-(?P<number>\d{1,6})"
)
T = TypeVar("T")


@dataclass(frozen=True)
class Recipe:
    """Everything that a generated task depends on, besides the version of the generator."""

    kind: str
    split: str
    domain: str
    instance: int
    level: str
    number: int
    small: bool = False

    @property
    def id(self) -> str:
        """The task's id."""
        kind = f"{self.kind}{VERSION}{'s' if self.small else ''}"
        return f"sql/{kind}/{self.split}/{self.domain}/{self.instance}/{self.level}-{self.number}"


class GeneratedTasks(TaskSet):
    """The generated tasks of a split. Splits share no database; `valid_unseen` and `test` share no domain either.

    Args:
        kind: "read", "write" or "interact".
        split: `train`, `valid_seen`, `valid_unseen` or `test`.
        levels: some of "easy", "medium", "hard", "extra"; None is all.
        domains: names of the split's domains; None is all.
        small: databases with about a third of the rows.

    Raises:
        InvalidArgument: an argument outside what is listed here.
    """

    def __init__(
        self,
        kind: str,
        split: str = "train",
        levels: Sequence[str] | None = None,
        domains: Sequence[str] | None = None,
        small: bool = False,
    ) -> None:
        self.kind, self.split, self._small = kind, check_split(split), small
        self._levels = _some("levels", levels, LEVELS)
        self._domains = _some("domains", domains, domain_names(split))
        self._ends = list(accumulate(INSTANCES * _PER_INSTANCE for _ in self._domains))

    def __len__(self) -> int:
        return self._ends[-1]

    def at(self, index: int) -> Task:
        """The task with this number: domains in order, within a domain its instances, within those their requests."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        which = bisect.bisect_right(self._ends, index)
        instance, number = divmod(index - (self._ends[which - 1] if which else 0), _PER_INSTANCE)
        domain = self._domains[which]
        # By a hash, so that tasks taken at regular distances have all levels.
        level = self._levels[int(text_key(domain, str(instance), str(number)), 16) % len(self._levels)]
        return _task(Recipe(self.kind, self.split, domain, instance, level, number, self._small))

    def get(self, task_id: str) -> Task:
        """The generated task with this id, of any split and whatever this set's filters."""
        return find(self.kind, task_id)


def find(kind: str, task_id: str) -> Task:
    """The generated task with this id. Raises `UnknownTask`."""
    match = _ID.fullmatch(task_id)
    form = Recipe(kind, "train", "library", 0, "easy", 0).id
    if match is None or match["kind"] != kind or match["version"] != VERSION:
        raise UnknownTask(f"no task {task_id[:200]!r}; ids look like {form!r}")
    if match["split"] not in SPLITS or match["level"] not in LEVELS:
        raise UnknownTask(f"no task {task_id!r}; splits are {', '.join(SPLITS)}, levels {', '.join(LEVELS)}")
    if match["domain"] not in domain_names(match["split"]):
        raise UnknownTask(f"no task {task_id!r}: domain {match['domain']!r} is not in split {match['split']!r}")
    recipe = Recipe(
        kind,
        match["split"],
        match["domain"],
        int(match["instance"]),
        match["level"],
        int(match["number"]),
        bool(match["small"]),
    )
    if recipe.id != task_id:
        raise UnknownTask(f"no task {task_id!r}; write numbers without leading zeros, as in {recipe.id!r}")
    return _task(recipe)


@lru_cache(512)
def load_read(recipe: Recipe) -> ReadTask:
    """The task of a recipe; the most recent ones are kept, as groups ask for the same again and again."""

    def draw(
        source: Generated, level: str, rng: random.Random, form: Form, connection: sqlite3.Connection
    ) -> ReadTask | None:
        question = draw_question(source, rng, level, form)
        if question is None or lint(question.sql, connection, question.controls):
            return None
        text = question.text(rng.randrange(_PARAPHRASES))
        return ReadTask(database, text, question.sql, level, dialect="")

    source, database = instance(recipe)
    return _draw(recipe, source, database, draw)


@lru_cache(512)
def load_write(recipe: Recipe) -> WriteTask:
    """The task of a recipe."""

    def draw(
        source: Generated, level: str, rng: random.Random, form: Form, connection: sqlite3.Connection
    ) -> WriteTask | None:
        change = draw_change(source, rng, level)
        if change is None or lint_change(change.statements, connection, change.controls):
            return None
        return WriteTask(database, rng.choice(change.texts), change.statements, level, dialect="")

    source, database = instance(recipe)
    return _draw(recipe, source, database, draw)


@lru_cache(512)
def load_interact(recipe: Recipe) -> InteractTask:
    """The task of a recipe."""

    def draw(
        source: Generated, level: str, rng: random.Random, form: Form, connection: sqlite3.Connection
    ) -> InteractTask | None:
        request = draw_request(source, rng, level, form)
        if request is None:
            return None
        for question in (request.question, request.follow_up):
            if lint(question.sql, connection, question.controls):
                return None
        phases = (Phase(request.text, request.question.sql), Phase(request.follow_up_text, request.follow_up.sql))
        return InteractTask(
            database, phases, request.ambiguities, request.knowledge, _meanings(source), level, dialect=""
        )

    source, database = instance(recipe)
    return _draw(recipe, source, database, draw)


LOADERS: dict[str, Callable[[Recipe], Any]] = {"read": load_read, "write": load_write, "interact": load_interact}


def paraphrases(recipe: Recipe) -> tuple[str, ...]:
    """Every wording of a read task's question, the task's own among them."""
    task = load_read(recipe)
    source, _ = instance(recipe)
    for attempt in range(_DRAWS):
        rng = random.Random(f"{recipe.id}/{attempt}")
        question = draw_question(source, rng, task.level, _form(recipe, task.level, attempt))
        if question and question.sql == task.gold:
            return question.texts(_PARAPHRASES)
    return (task.question,)


def instance(recipe: Recipe) -> tuple[Generated, Database]:
    """The database of a recipe, as the generator and as the engines see it."""
    return _instance(recipe.domain, recipe.split, recipe.instance, recipe.small)


@lru_cache(128)
def _instance(domain: str, split: str, number: int, small: bool) -> tuple[Generated, Database]:
    source = draw_database(domain, split, str(number), _SMALL if small else 1.0)
    return source, Database.from_script(f"{domain}_{number}", source.script())


def _draw(
    recipe: Recipe,
    source: Generated,
    database: Database,
    draw: Callable[[Generated, str, random.Random, Form, sqlite3.Connection], T | None],
) -> T:
    connection = database.open()
    try:
        for level in reversed(LEVELS[: LEVELS.index(recipe.level) + 1]):
            for attempt in range(_DRAWS):
                form = _form(recipe, level, attempt)
                found = draw(source, level, random.Random(f"{recipe.id}/{attempt}"), form, connection)
                if found is not None:
                    return found
    finally:
        connection.close()
    raise UnknownTask(f"the generator finds no {recipe.level} {recipe.kind} task {recipe.id!r}: take another number")


def _form(recipe: Recipe, level: str, attempt: int) -> Form:
    """The form of question that is tried; another one every `_PATIENCE` draws."""
    rng = random.Random(f"{recipe.id}/form/{attempt // _PATIENCE}")
    return draw_form(rng, level, filtered=recipe.kind == "interact")


def _meanings(source: Generated) -> tuple[tuple[str, str], ...]:
    found = []
    for table in source.schema.tables:
        for column in table.columns:
            if column.kind == "id":
                text = f"the number of the {table.noun}"
            elif column.kind == "ref":
                text = f"the id of the {source.schema.table(column.target).noun} that the {table.noun} belongs to"
            else:
                missing = "; may be missing" if column.nulls else ""
                text = f"the {table.noun}'s {column.phrase.removeprefix(f'{table.noun} ')}{missing}"
            found.append((f"{table.name}.{column.name}", text))
    return tuple(found)


def _some(name: str, given: Sequence[str] | None, known: tuple[str, ...]) -> tuple[str, ...]:
    chosen = known if given is None else (given,) if isinstance(given, str) else tuple(given)
    unknown = [each for each in chosen if each not in known]
    if unknown or not chosen:
        raise InvalidArgument(f"{name} must be some of {', '.join(known)}, not {given!r}")
    return tuple(each for each in known if each in chosen)


def _task(recipe: Recipe) -> Task:
    return Task(recipe.id, recipe.split, {"recipe": recipe})
