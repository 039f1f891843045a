"""`SqlEnv`: what the three SQL environments have in common."""

from __future__ import annotations

import dataclasses
import importlib.util
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from gymnasium.error import ResetNeeded

from ..core import InvalidArgument, MissingExtra, Outcome, Task, TextEnv
from ..core.text_env import printable, text_key
from .actions import ToolCall, parse
from .backends.base import Result, Snapshot, SqlBackend, SqlLimits
from .backends.database import Database, TableSchema
from .connect import connect
from .gold import Parts, parts_of
from .scoring.judge import Judge
from .show import SHOWN_ROWS, columns_text, result_text, tables_text
from .sources import SqlTasks

LIMITS = SqlLimits()
_SAMPLE = 3  # rows that sample() shows unless told
_MOST_SAMPLED = 20


@dataclass(frozen=True)
class State:
    """What has happened in an episode, the database aside. Immutable: a step replaces it."""

    listed: bool = False
    """The agent has seen the list of tables."""
    tables: tuple[str, ...] = ()
    """Tables whose columns the agent has seen, in lower case, sorted."""
    last: str = ""
    """Hash of the last result or error."""
    query: str = ""
    """The last statement that ran."""
    used_tables: tuple[str, ...] = ()
    """The gold statement's tables that the agent has seen or used."""
    used_columns: tuple[str, ...] = ()
    """The gold statement's columns that the agent has seen or used."""
    best: float = 0.0
    """The best partial match of a result so far."""
    stage: str = "explore"
    error_class: str = ""
    verdict: str = ""
    """Why the last submission was right or wrong."""
    solved: bool = False


class SqlEnv(TextEnv):
    """A database behind tool calls.

    A family member names its `kind` and `tools` and writes `_open`, `_call`, `_first` and the rest of the contract.

    Args:
        split: see `SqlTasks`, as for the next six.
        source: as above.
        path: as above.
        levels: as above.
        domains: as above.
        small: as above.
        lint: as above.
        backend: "sqlite", "postgres" or "duckdb".
        dsn: where PostgreSQL is, as libpq writes it.
        rows: the most rows of a result that are shown.
        max_steps: see `TextEnv`.
        render_mode: see `TextEnv`.

    Raises:
        InvalidArgument: an argument outside what is listed.
        MissingData: the benchmark's files are not in `path`.
        MissingExtra: the engine's driver is not installed.
    """

    kind: ClassVar[str]
    """Of tasks: "read", "write" or "interact"."""
    max_action: ClassVar[int] = 16_384
    extra_info: ClassVar[tuple[str, ...]] = ("stage", "error_class", "verdict")
    tools: Mapping[str, str] = MappingProxyType({})
    """Name of each tool -> how it is written, for the agent."""
    writes: ClassVar[bool] = False
    """Whether statements may change the database."""
    copies: int = 0
    """Altered copies of the database on which submissions are judged too."""
    state: State

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
        rows: int = SHOWN_ROWS,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        if importlib.util.find_spec("sqlglot") is None:
            raise MissingExtra("sqlglot", "sql")
        tasks = SqlTasks(self.kind, split, source, path, levels, domains, small, lint)
        super().__init__(tasks, max_steps=max_steps, render_mode=render_mode)
        self.backend = backend
        self.rows = check_count("rows", rows, 1, 1_000)
        self._session: SqlBackend | None = connect(backend, dsn)
        self._gold_session: SqlBackend | None = connect(backend, dsn)  # the agent never touches this one
        self.state = State()
        self._judge = Judge(self.gold_session, copies=self.copies)
        self._gold = Parts()
        self._schema: tuple[TableSchema, ...] = ()

    # -- what a family member writes --------------------------------------------------------------------------------

    @property
    @abstractmethod
    def problem(self) -> Any:
        """Privileged: the `ReadTask`, `WriteTask` or `InteractTask`."""

    @abstractmethod
    def _open(self, task: Task) -> Database:
        """Load the task and return its database; set `state`."""

    @abstractmethod
    def _first(self) -> str:
        """The first observation, what the tools are left out."""

    @abstractmethod
    def _call(self, call: ToolCall) -> Outcome:
        """Carry out a call of one of `tools`."""

    @abstractmethod
    def _gold_statements(self) -> tuple[str, ...]:
        """Privileged: the statements that solve what is asked now, in the dialect of `backend`."""

    # -- the contract ---------------------------------------------------------------------------------------------

    @property
    def session(self) -> SqlBackend:
        """The agent's database session."""
        if self._session is None:
            raise ResetNeeded("the environment is closed: make another")
        return self._session

    @property
    def gold_session(self) -> SqlBackend:
        """Privileged: the session on which gold statements run."""
        if self._gold_session is None:
            raise ResetNeeded("the environment is closed: make another")
        return self._gold_session

    def close(self) -> None:
        """End both sessions; the environment cannot be used afterwards."""
        for session in (self._session, self._gold_session):
            if session is not None:
                session.close()
        self._session = self._gold_session = None
        super().close()

    def canonical(self, action: str) -> str:
        """The call with its tool's own name, single spaces and no quotes around the argument."""
        call = parse(action[: self.max_action], tuple(self.tools))
        return str(call) if call else " ".join(action.split())

    def _reset(self, task: Task) -> str:
        self.state = State()
        database = self._open(task)
        self.session.reset(database, write=self.writes)
        self._schema = self.session.schema()
        self._check_gold()
        self._aim()
        tools = "\n".join(self.tools.values())
        return printable(f"{self._first()}\n\nTools, one call a turn:\n{tools}")

    def _check_gold(self) -> None:
        """A benchmark's gold statement may not run, or not on this engine: then nothing would ever be right.

        Raises:
            InvalidArgument: it does not.
        """
        problem = self.problem
        if not problem.dialect or getattr(problem, "answers", ()):
            return
        try:
            if self.writes:
                self._judge.state(problem.database, self._gold_statements())
            for gold in () if self.writes else self._gold_statements():
                result = self._judge.reference(problem.database, gold).result
                if not result.ok:
                    raise ValueError(result.error)
        except ValueError as error:
            advice = f"pass backend={problem.dialect!r}"
            if problem.dialect == self.session.dialect:
                advice = "lint=True leaves such tasks out"
            raise InvalidArgument(f"{self.task.id}: its gold statement does not run ({error}): {advice}") from None

    def _aim(self) -> None:
        """Note which tables and columns the gold statements of now speak of."""
        self._gold = parts_of(self._gold_statements(), self._schema, self.session.dialect)

    def _step(self, action: str) -> Outcome:
        call = parse(action, tuple(self.tools))
        if call is None:
            known = "\n".join(self.tools.values())
            return Outcome(f"That is no call of a tool. Tools, one call a turn:\n{known}", valid=False)
        outcome = self._call(call)
        return outcome._replace(observation=printable(outcome.observation))

    def _state(self) -> str:
        return repr((self.state, self._database_key()))

    def _database_key(self) -> str:
        return self.session.table_state().key if self.writes else ""

    def _save(self) -> tuple[State, Snapshot]:
        return self.state, self.session.snapshot()

    def _load(self, state: tuple[State, Snapshot]) -> None:
        self.state, snapshot = state
        self.session.restore(snapshot)
        self._schema = self.session.schema() if self.writes else self._schema
        self._aim()

    def _extra_info(self) -> dict[str, str | int | float | bool | None]:
        return {"stage": self.state.stage, "error_class": self.state.error_class, "verdict": self.state.verdict}

    def _progress(self) -> float:
        if self._success():
            return 1.0
        found = self._found()
        return sum(found.values()) / len(found)

    def verify(self) -> dict[str, float]:
        """Privileged: which of the gold statement's tables and columns were found, how much of its result, success."""
        return {**self._found(), "success": float(self._success())}

    def _found(self) -> dict[str, float]:
        state, gold = self.state, self._gold
        found = {}
        if gold.tables:
            found["tables"] = len(state.used_tables) / len(gold.tables)
        if gold.columns:
            found["columns"] = len(state.used_columns) / len(gold.columns)
        return {**found, "result": state.best}

    def hint(self) -> str:
        """Privileged: which tables matter, and a good next action."""
        action = next(iter(self.oracle()), "")
        return f"What matters is in: {', '.join(self._gold.tables)}. A good next action is: {action}" if action else ""

    # -- tools that all have --------------------------------------------------------------------------------------

    def _note(self, **changes: Any) -> None:
        self.state = dataclasses.replace(self.state, **changes)

    def _see(self, tables: set[str], columns: set[str]) -> None:
        state, gold = self.state, self._gold
        self._note(
            used_tables=tuple(sorted({*state.used_tables, *(tables & set(gold.tables))})),
            used_columns=tuple(sorted({*state.used_columns, *(columns & set(gold.columns))})),
        )

    def _look(self, call: ToolCall) -> Outcome:
        """`schema()`, `columns(table)` or `sample(table, n)`."""
        if call.tool == "schema":
            text = tables_text(self._schema)
            self._note(listed=True)
        else:
            name, count = _name_and_count(call.argument)
            table = next((each for each in self._schema if each.name.lower() == name.lower()), None)
            if table is None:
                known = ", ".join(each.name for each in self._schema)
                return Outcome(f"There is no table {name[:80]!r}. The tables are: {known}.", valid=False)
            if call.tool == "columns":
                text = columns_text(table)
            else:
                quoted = '"' + table.name.replace('"', '""') + '"'
                rows = min(max(1, count), _MOST_SAMPLED)
                text = result_text(self.session.execute(f"SELECT * FROM {quoted} LIMIT {rows}", LIMITS))
            seen = {f"{table.name}.{column.name}".lower() for column in table.columns}
            self._see({table.name.lower()}, seen)
            self._note(tables=tuple(sorted({*self.state.tables, table.name.lower()})))
        self._note(stage="explore", error_class="", last=text_key(text))
        return Outcome(text)

    def _execute(self, sql: str) -> tuple[Outcome, Result]:
        """Run a statement for the agent."""
        result = self.session.execute(sql, LIMITS)
        text = result_text(result, self.rows)
        if result.ok:
            used = parts_of((sql,), self._schema, self.session.dialect)
            self._see(set(used.tables), set(used.columns))
            if self.writes:
                self._schema = self.session.schema()
            self._note(query=sql)
        stage = "draft" if result.ok else "repair"
        self._note(stage=stage, error_class=str(result.error_class or ""), last=text_key(text))
        return Outcome(text), result


def check_count(name: str, value: int, low: int, high: int) -> int:
    """`value` itself. Raises `InvalidArgument` where it is not an integer in `low .. high`."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidArgument(f"{name} must be an integer from {low} to {high}, not {value!r}")
    return value


def _name_and_count(argument: str) -> tuple[str, int]:
    name, _, count = argument.rpartition(",")
    if not name or not count.strip().isdecimal() or len(count) > 9:
        name, count = argument, str(_SAMPLE)
    return name.strip().strip("\"'`[]"), int(count)
