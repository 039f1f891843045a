"""`sandlot/SQLWrite-v0`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ..core import Outcome, Task
from .actions import ToolCall
from .backends.base import DatabaseState
from .backends.database import Database
from .env import SqlEnv
from .gold import translated
from .scoring.state import agreeing_tables
from .sources import load_task
from .task import WriteTask

TOOLS = {
    "schema": "schema() - the tables",
    "columns": "columns(table) - a table's columns",
    "sample": "sample(table, n) - its first n rows",
    "execute": "execute(statement) - run one statement; it may change the database",
    "restart": "restart() - undo every change that you have made",
    "done": "done() - the change is made. It ends the episode.",
}


class SqlWriteEnv(SqlEnv):
    """Change a database as asked: rows, tables, columns and views; whatever else changes counts as well.

    ## Description
    Requests for INSERT, UPDATE, DELETE and DDL, from a seeded generator or from AgentBench's dbbench. The episode is
    judged by the whole database: schema and rows of every table and view must be what the gold statements make of a
    fresh copy, so that a side effect is a failure, whatever the statement looked like.

    ## Action Space
    One tool call as text or JSON: `schema()`, `columns(table)`, `sample(table, n)`, `execute(statement)`,
    `restart()`, `done()`. Bare statements and fenced code are executed. Every statement is atomic and committed at
    once; transactions, other databases, triggers and files are refused.

    ## Observation Space
    Text. As in `sandlot/SQL-v0`; for a statement that changes rows, how many.

    ## Starting State
    The request, the database's name and dialect, and the tools; nothing of the schema. Each episode has its own
    database.

    ## Rewards
    1.0 for `done()` on the right database, else 0.

    ## Episode End
    Terminated by `done`; truncated by the step limit (20 registered).

    ## Information
    The contract's keys, and: `stage`: "explore", "draft", "repair" or "submitted". `error_class`: what was wrong with
    the last statement, "" if nothing. `verdict`: after `done`, why it was right or wrong. `progress`: mean of the
    gold statements' tables and columns found and the share of the tables that have to change which are right by now
    (0 once another table has changed).

    ## Privileged Information
    `oracle()`: what is left to look at, `restart()` if the database is neither untouched nor right, the gold
    statements, `done()`. `hint()`, `verify()`: as in `sandlot/SQL-v0`.

    ## State Key
    The task, the content of every table, what the agent has seen of the schema, and the last result or error.

    ## Arguments
    - `split`: `train`, `valid_seen`, `valid_unseen` or `test`.
    - `source`: "generated" or "dbbench" (needs `path`, the benchmark's folder or file).
    - `lint` (False): leave out a benchmark's tasks that the lint finds fault with.
    - `levels`, `domains`, `small`: generated tasks of these levels and domains, on databases with a third of the rows.
    - `backend`: "sqlite", "postgres" (with `dsn`) or "duckdb".
    - `rows` (50): the most rows of a result that are shown, 1 to 1,000.
    - `max_steps`, `render_mode`: see `TextEnv`.

    ## Source and Licence
    Written for this project; Apache-2.0. AgentBench (Apache-2.0) is read from the user's copy.

    ## Version History
    - v0: first version.
    """

    kind = "write"
    tools = TOOLS
    writes: ClassVar[bool] = True

    @property
    def problem(self) -> WriteTask:
        """Privileged: the task with its gold statements."""
        return load_task(self.task)

    def _open(self, task: Task) -> Database:
        return self.problem.database

    def _first(self) -> str:
        return f"{self._instruction()}\n\nThe database is {self.problem.database.name} ({self.session.dialect})."

    def _instruction(self) -> str:
        return self.problem.request

    def _gold_statements(self) -> tuple[str, ...]:
        return tuple(translated(each, self.problem.dialect, self.session.dialect) for each in self.problem.gold)

    def _call(self, call: ToolCall) -> Outcome:
        if call.tool == "execute":
            outcome, _ = self._execute(call.argument)
            start, goal = self._goal()
            self._note(best=agreeing_tables(self.session.table_state(), goal, start))
            return outcome
        if call.tool == "restart":
            self.session.restore(())
            self._schema = self.session.schema()
            self._note(stage="explore", error_class="", last="restart", query="", best=0.0)
            return Outcome("The database is as it was at the start.")
        if call.tool != "done":
            return self._look(call)
        verdict = self._judge.written(self.problem.database, self._gold_statements(), self.session.table_state())
        self._note(stage="submitted", error_class="", verdict=verdict.reason, solved=verdict.match)
        text = "The change is right." if verdict.match else f"The change is wrong: {verdict.reason}."
        return Outcome(text, float(verdict.match), True)

    def _goal(self) -> tuple[DatabaseState, DatabaseState]:
        """The database at the start and as it should be."""
        database = self.problem.database
        return self._judge.state(database, ()), self._judge.state(database, self._gold_statements())

    def _success(self) -> bool:
        return self.state.solved

    def oracle(self) -> Iterator[str]:
        """Privileged: look at what is not known, bring the database to its goal from wherever it is, say so."""
        if self._ended:
            return
        if not self.state.listed:
            yield "schema()"
        for table in self._gold.tables:
            if table not in self.state.tables and any(each.name.lower() == table for each in self._schema):
                yield f"columns({table})"
        database, now = self.problem.database, self.session.table_state()
        if not self._judge.written(database, self._gold_statements(), now).match:
            if now.key != self._judge.state(database, ()).key:
                yield "restart()"
            for statement in self._gold_statements():
                yield f"execute({statement})"
        yield "done()"
