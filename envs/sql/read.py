"""`sandlot/SQL-v0`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..core import Outcome, Task
from . import candidates as listed
from .actions import ToolCall
from .answers import among
from .backends.database import Database
from .env import SqlEnv, check_count
from .gold import translated
from .partial import overlap
from .scoring.compare import Verdict
from .scoring.judge import ANSWER
from .sources import load_task
from .task import ReadTask

TOOLS = {
    "schema": "schema() - the tables",
    "columns": "columns(table) - a table's columns",
    "sample": "sample(table, n) - its first n rows",
    "execute": "execute(statement) - run one SELECT",
    "submit": "submit(statement) - your answer; submit() takes the last statement that ran. It ends the episode.",
}


class SqlReadEnv(SqlEnv):
    """Answer a question about a database that has to be explored: look at the schema, query, submit.

    ## Description
    Text-to-SQL with the database in the loop. Questions come from a seeded generator (15 domains, unlimited
    instances, four levels: joins, grouping, nesting, set operations, windows, dates, missing values) or from the
    files of Spider, BIRD, Spider2-lite or AgentBench. The answer is a statement; it is judged by what it returns on
    the database and on altered copies of it, so that a lucky constant or a condition that happens not to matter
    scores nothing.

    ## Action Space
    One tool call as text, `execute(SELECT name FROM books)`, or as JSON, `{"tool": "execute", "args": {"sql": "…"}}`:
    `schema()`, `columns(table)`, `sample(table, n)`, `execute(statement)`, `submit(statement)`. Names that benchmarks
    use (`execute_sql`, `get_schema`, `describe` …), bare statements and fenced code are understood. `submit()`
    submits the last statement that ran.

    ## Observation Space
    Text. A result says how many rows there are and how many were cut, then the names and types of the columns, then
    the rows in the order they came (`rows` at most, cells up to 100 characters). An error is the engine's, with its
    class. At most 16,384 characters.

    ## Starting State
    The question, its background (BIRD's evidence), the database's name and dialect, and the tools; nothing of the
    schema.

    ## Rewards
    1.0 for a submission that is right, else 0. A result is right if it has the gold statement's rows as a multiset
    (numbers within 1e-6), in its order where its outermost query has one, ties free, on the database and on `copies`
    fuzzed ones.

    ## Episode End
    Terminated by `submit`; truncated by the step limit (20 registered).

    ## Information
    The contract's keys, and: `stage`: "explore" after looking, "draft" after a statement that ran, "repair" after one
    that did not, "submitted". `error_class`: what was wrong with the last statement ("no_such_column", "denied" …),
    "" if nothing. `verdict`: after a submission, why it was right or wrong, without the gold answer. `progress`: mean
    of the gold statement's tables found, its columns found, and the best match of a result so far. `admissible` is
    None unless `candidates` is set. A statement that the engine refuses is a valid action: it costs a step and
    changes nothing but the state's last error.

    ## Privileged Information
    `oracle()`: what is left to look at, then the gold statement, run and submitted. `hint()`: the tables that matter
    and the next action. `verify()`: tables, columns, result, success.

    ## State Key
    The task, what the agent has seen of the schema, the last result or error, and the last statement that ran.

    ## Arguments
    - `split`: `train`, `valid_seen`, `valid_unseen` or `test`.
    - `source`: "generated", "spider", "bird", "spider2" or "dbbench"; all but the first need `path`, the benchmark's
      folder.
    - `lint` (False): leave out a benchmark's tasks whose gold statement fails, gives nothing or is decided by a tie.
    - `levels`, `domains`, `small`: generated tasks of these levels and domains, on databases with a third of the rows.
    - `backend`: "sqlite", "postgres" (with `dsn`, as libpq writes it) or "duckdb".
    - `copies` (4): altered copies of the database on which a submission is judged too, 0 to 16.
    - `candidates` (False): list actions in `info["admissible"]`: tool calls and statements over what the agent has
      seen.
    - `rows` (50): the most rows of a result that are shown, 1 to 1,000.
    - `max_steps`, `render_mode`: see `TextEnv`.

    ## Source and Licence
    Written for this project; Apache-2.0. Benchmarks are read from the user's copy: Spider (CC BY-SA 4.0), BIRD (CC
    BY-SA 4.0), Spider 2.0 (MIT), AgentBench (Apache-2.0).

    ## Version History
    - v0: first version.
    """

    kind = "read"
    tools = TOOLS

    def __init__(
        self,
        split: str = "train",
        source: str = "generated",
        path: str | Path | None = None,
        levels: Sequence[str] | None = None,
        domains: Sequence[str] | None = None,
        small: bool = False,
        lint: bool = False,
        backend: str = "sqlite",
        dsn: str | None = None,
        rows: int = 50,
        copies: int = 4,
        candidates: bool = False,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.copies = check_count("copies", copies, 0, 16)
        super().__init__(split, source, path, levels, domains, small, lint, backend, dsn, rows, max_steps, render_mode)
        self.candidates = candidates

    @property
    def problem(self) -> ReadTask:
        """Privileged: the task with its gold statement."""
        return load_task(self.task)

    def _open(self, task: Task) -> Database:
        return self.problem.database

    def _first(self) -> str:
        return f"{self._instruction()}\n\nThe database is {self.problem.database.name} ({self.session.dialect})."

    def _instruction(self) -> str:
        task = self.problem
        return f"{task.question}\n{task.evidence}" if task.evidence else task.question

    def _gold_statements(self) -> tuple[str, ...]:
        return (translated(self.problem.gold, self.problem.dialect, self.session.dialect),)

    def _call(self, call: ToolCall) -> Outcome:
        if call.tool == "submit":
            return self._submit(call.argument or self.state.query)
        if call.tool != "execute":
            return self._look(call)
        outcome, result = self._execute(call.argument)
        if result.ok:
            right = self._judge.reference(self.problem.database, self._gold_statements()[0]).result
            self._note(best=max(self.state.best, overlap(result, right)))
        return outcome

    def _submit(self, sql: str) -> Outcome:
        if not sql:
            return Outcome("Nothing to submit: no statement was given and none has run yet.", valid=False)
        verdict = self._verdict(sql)
        self._note(stage="submitted", error_class="", verdict=verdict.reason, query=sql, solved=verdict.match)
        text = "The answer is right." if verdict.match else f"The answer is wrong: {verdict.reason}."
        return Outcome(text, float(verdict.match), True)

    def _verdict(self, sql: str) -> Verdict:
        problem = self.problem
        if not problem.answers:
            return self._judge.answer(problem.database, self._gold_statements()[0], sql)
        self.gold_session.reset(problem.database)
        return among(self.gold_session.execute(sql, ANSWER), problem.answers)

    def _success(self) -> bool:
        return self.state.solved

    def _admissible(self) -> tuple[str, ...] | None:
        if not self.candidates:
            return None
        return () if self._ended else listed.actions(self.state, self._schema, self.problem.question)

    def oracle(self) -> Iterator[str]:
        """Privileged: look at what is not known of the gold statement's tables, run it, submit it."""
        if self._ended:
            return
        gold = self._gold_statements()[0]
        if not self.state.listed:
            yield "schema()"
        for table in self._gold.tables:
            if table not in self.state.tables:
                yield f"columns({table})"
        while self.candidates and not self._ended:  # part by part, as long as a listed action leads on
            step = listed.towards(gold, self._admissible() or ())
            if step is None:
                break
            yield step
            if step.startswith("submit"):
                return
        if self.state.query != gold:
            yield f"execute({gold})"
        yield f"submit({gold})"
