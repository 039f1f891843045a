"""`sandlot/SQLInteract-v0`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ..core import InvalidArgument, Outcome, Task
from ..core.text_env import text_key
from .actions import ToolCall
from .backends.database import Database
from .env import SqlEnv, State, check_count
from .gold import translated
from .partial import overlap
from .show import columns_text
from .sources import load_task
from .task import InteractTask
from .user import RuleUser, Topic, User

TOOLS = {
    "ask": "ask(question) - ask the user what a part of the request means",
    "submit": "submit(statement) - your answer to the request",
    "schema": "schema() - all tables and columns",
    "meanings": "meanings() - what the columns mean",
    "meaning": "meaning(table.column) - what one column means",
    "knowledge_names": "knowledge_names() - the entries of the knowledge base",
    "knowledge": "knowledge(name) - one entry",
    "all_knowledge": "all_knowledge() - every entry",
    "execute": "execute(statement) - run one SELECT",
}
COSTS = {
    **{"ask": 2.0, "submit": 3.0, "schema": 1.0, "meanings": 1.0, "meaning": 0.5, "execute": 1.0},
    **{"knowledge_names": 0.5, "knowledge": 0.5, "all_knowledge": 1.0},
}
REWARDS = ((0.7, 0.5), (0.3, 0.2))
"""Of each phase: solved at once, solved after debugging (conversational protocol)."""
_BASE = 6.0
_PER_AMBIGUITY = 2.0
_PATIENCE = 2.0


@dataclass(frozen=True)
class Dialogue(State):
    """The state of an interactive episode."""

    coins: float = 0.0
    phase: int = 0
    """0 and 1: the request, the follow-up; 2: both are done."""
    tries: int = 0
    """Wrong submissions in this phase."""
    asked: int = 0
    answered: tuple[str, ...] = ()
    """Terms that the user has explained."""
    read: tuple[str, ...] = ()
    """Knowledge entries that the agent has read."""
    earned: float = 0.0


class SqlInteractEnv(SqlEnv):
    """Answer a request that leaves something open: ask the user, look things up, query, submit; then a follow-up.

    ## Description
    In the manner of BIRD-Interact (ICLR 2026). A request has vague words ("a high price") or terms that a knowledge
    base defines; some of its entries are hidden, so that only the user can tell. The user is simulated by rule from
    canned answers: it recognises what a question is about by its words, says what it has ready, and holds no gold
    statement that it could leak. Requests come from a seeded generator or from the benchmark's own files.

    ## Action Space
    One tool call as text or JSON. Agentic protocol (`protocol="a"`), with its price in coins: `ask(question)` 2,
    `submit(statement)` 3, `execute(statement)` 1, `schema()` 1, `meanings()` 1, `meaning(table.column)` 0.5,
    `knowledge_names()` 0.5, `knowledge(name)` 0.5, `all_knowledge()` 1. Conversational protocol (`protocol="c"`):
    `ask` and `submit`. The benchmark's names are understood.

    ## Observation Space
    Text. Results as in `sandlot/SQL-v0`; the user's words after `User:`; in the agentic protocol the coins that are
    left.

    ## Starting State
    The request and the tools. In the conversational protocol also the schema, the columns' meanings and the open part
    of the knowledge base.

    ## Rewards
    0.7 for the request, 0.3 for the follow-up, which is asked once the request is solved. In the conversational
    protocol a wrong submission may be corrected once; then 0.5 and 0.2. Without a follow-up 1.0, corrected 0.5.
    Results are compared as in `sandlot/SQL-v0`.

    ## Episode End
    Terminated when the follow-up is solved, by the submission that takes the last coin, or (conversational) by the
    second wrong one. Coins at the start: 6 + 2 for each thing left open + 2 x `patience`. A tool that costs more than
    there is left is refused; a submission is then free and the last. Conversational: as many questions as things left
    open + `patience`. Truncated by the step limit (40 registered).

    ## Information
    The contract's keys, and: `stage`: "explore", "clarify" after a question, "draft", "repair" or "submitted".
    `error_class`: what was wrong with the last statement. `verdict`: why the last submission was right or wrong.
    `phase`: 1 or 2, 3 when both are solved. `coins`: what is left (questions that may still be asked in the
    conversational protocol). `score`: rewards so far. `progress`: mean over the phases of what was cleared up and
    found.

    ## Privileged Information
    `oracle()`: asks about everything that is open, then submits the gold statements. `hint()`: what is open and the
    next action. `verify()`: things cleared up, tables, columns, result, the phases.

    ## State Key
    The task, phase, coins, what was asked, read and seen, and the last result or error.

    ## Arguments
    - `split`: `train`, `valid_seen`, `valid_unseen` or `test`.
    - `protocol` ("a"): "a" agentic, "c" conversational.
    - `patience` (3): questions beyond those that are needed, 0 to 20.
    - `source`: "generated" or "bird_interact" (needs `path`, the benchmark's folder).
    - `lint` (False): leave out a benchmark's tasks that the lint finds fault with.
    - `levels`, `domains`, `small`: generated tasks of these levels and domains, on databases with a third of the rows.
    - `backend`: "sqlite", "postgres" (with `dsn`) or "duckdb".
    - `copies` (4): altered copies of the database on which a submission is judged too, 0 to 16.
    - `user`: who answers, an object with `answer(question, topics)`; None is the rule-based user.
    - `rows` (50): the most rows of a result that are shown, 1 to 1,000.
    - `max_steps`, `render_mode`: see `TextEnv`.

    ## Source and Licence
    Written for this project; Apache-2.0. Protocol and prices after BIRD-Interact (MIT; data CC BY-SA 4.0), which is
    read from the user's copy.

    ## Version History
    - v0: first version.
    """

    kind = "interact"
    tools = TOOLS
    extra_info: ClassVar[tuple[str, ...]] = (*SqlEnv.extra_info, "phase", "coins")
    state: Dialogue  # pyright: ignore[reportIncompatibleVariableOverride] (only this class replaces it)

    def __init__(
        self,
        split: str = "train",
        protocol: str = "a",
        patience: int = 3,
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
        user: User | None = None,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        if protocol not in ("a", "c"):
            raise InvalidArgument(f"protocol must be 'a' (agentic) or 'c' (conversational), not {protocol!r}")
        self.protocol = protocol
        self.patience = check_count("patience", patience, 0, 20)
        self.user: User = user or RuleUser()
        self.copies = check_count("copies", copies, 0, 16)
        super().__init__(split, source, path, levels, domains, small, lint, backend, dsn, rows, max_steps, render_mode)
        self.tools = (
            {name: f"{text} [{COSTS[name]:g}]" for name, text in TOOLS.items()}
            if protocol == "a"
            else {name: TOOLS[name] for name in ("ask", "submit")}
        )

    @property
    def problem(self) -> InteractTask:
        """Privileged: the task with its gold statements."""
        return load_task(self.task)

    def _open(self, task: Task) -> Database:
        problem = self.problem
        openings = len(problem.ambiguities)
        coins = openings + self.patience
        if self.protocol == "a":
            coins = _BASE + _PER_AMBIGUITY * openings + _PATIENCE * self.patience
        self.state = Dialogue(coins=float(coins))  # pyright: ignore[reportIncompatibleVariableOverride]
        return problem.database

    def _first(self) -> str:
        head = f"User: {self._instruction()}\n\nThe database is {self.problem.database.name} ({self.session.dialect})."
        if self.protocol == "a":
            return f"{head} You have {self.state.coins:g} coins; each tool costs what stands in brackets."
        parts = [head, self._schema_text(), self._meanings_text(), self._knowledge_text()]
        parts.append(f"You may ask {self.state.coins:g} questions, then submit.")
        return "\n\n".join(filter(None, parts))

    def _instruction(self) -> str:
        phases = self.problem.phases
        return phases[min(self.state.phase, len(phases) - 1)].text

    def _gold_statements(self) -> tuple[str, ...]:
        phases = self.problem.phases
        gold = phases[min(self.state.phase, len(phases) - 1)].gold
        return (translated(gold, self.problem.dialect, self.session.dialect),)

    def _call(self, call: ToolCall) -> Outcome:
        before = self.state.coins
        if call.tool == "submit":
            return self._submit(call.argument or self.state.query)
        cost = COSTS[call.tool] if self.protocol == "a" else 1.0
        if before < cost:
            left = f"{before:g} coins are left" if self.protocol == "a" else "No questions are left"
            return Outcome(f"{left}: you must submit now.", valid=False)
        outcome = self._tool(call)
        if not outcome.valid:
            return outcome
        self._note(coins=before - cost)
        left = f"\n[{self.state.coins:g} coins left]" if self.protocol == "a" else ""
        return outcome._replace(observation=outcome.observation + left)

    def _tool(self, call: ToolCall) -> Outcome:
        if call.tool == "ask":
            return self._ask(call.argument)
        if call.tool == "execute":
            outcome, result = self._execute(call.argument)
            if result.ok:
                right = self._judge.reference(self.problem.database, self._gold_statements()[0]).result
                self._note(best=max(self.state.best, overlap(result, right)))
            return outcome
        text = self._looked_up(call)
        if text is None:
            return Outcome(f"There is no {call.argument[:80]!r} to be found with {call.tool}.", valid=False)
        self._note(stage="explore", error_class="", last=text_key(text))
        return Outcome(text)

    def _looked_up(self, call: ToolCall) -> str | None:
        open_entries = [entry for entry in self.problem.knowledge if not entry.hidden]
        wanted = call.argument.lower().strip().strip("\"'`")
        if call.tool == "schema":
            tables = {table.name.lower() for table in self._schema}
            columns = {f"{t.name}.{column.name}".lower() for t in self._schema for column in t.columns}
            self._see(tables, columns)
            self._note(listed=True, tables=tuple(sorted(tables)))
            return self._schema_text()
        if call.tool == "meanings":
            return self._meanings_text() or "Nothing is written about the columns."
        if call.tool == "meaning":
            found = {name.lower(): text for name, text in self.problem.meanings}.get(wanted)
            return found and f"{wanted}: {found}"
        if call.tool == "knowledge_names":
            return "\n".join(entry.name for entry in open_entries) or "The knowledge base is empty."
        if call.tool == "all_knowledge":
            self._note(read=tuple(sorted(entry.name for entry in open_entries)))
            return self._knowledge_text() or "The knowledge base is empty."
        entry = next((entry for entry in open_entries if entry.name.lower() == wanted), None)
        if entry is None:
            return None
        self._note(read=tuple(sorted({*self.state.read, entry.name})))
        return f"{entry.name}: {entry.definition}"

    def _ask(self, question: str) -> Outcome:
        if not question:
            return Outcome("Ask something: ask(question).", valid=False)
        topics = self._topics()
        text = self.user.answer(question, topics)
        told = {topic.term for topic in topics if topic.answer[:80] in text}
        self._note(
            asked=self.state.asked + 1,
            answered=tuple(sorted({*self.state.answered, *told})),
            stage="clarify",
            error_class="",
            last=text_key(text),
        )
        return Outcome(f"User: {text}")

    def _topics(self) -> list[Topic]:
        """What the user can explain now; the follow-up leaves nothing open."""
        openings = self.problem.ambiguities if self.state.phase == 0 else ()
        return [Topic(each.term, each.clarification, each.aliases) for each in openings]

    def _submit(self, sql: str) -> Outcome:
        if not sql:
            return Outcome("Nothing to submit: no statement was given and none has run yet.", valid=False)
        state, agentic = self.state, self.protocol == "a"
        last = state.coins <= COSTS["submit"] if agentic else state.tries > 0
        coins = max(0.0, state.coins - COSTS["submit"]) if agentic else state.coins
        verdict = self._judge.answer(self.problem.database, self._gold_statements()[0], sql)
        self._note(stage="submitted", error_class="", verdict=verdict.reason, coins=coins, query=sql)
        left = f"\n[{coins:g} coins left]" if agentic else ""
        if not verdict.match:
            self._note(tries=state.tries + 1, last=text_key(verdict.reason))
            more = "" if last else "\nYou may correct it." + left
            return Outcome(f"User: That is not what I wanted ({verdict.reason}).{more}", terminated=last)
        phases = self.problem.phases
        full, debugged = REWARDS[state.phase] if len(phases) > 1 else (1.0, 0.5)
        reward = debugged if state.tries and not agentic else full
        over = state.phase + 1 == len(phases)
        self._note(
            phase=state.phase + 1,
            earned=round(state.earned + reward, 6),
            solved=over,
            tries=0,
            query="",
            best=0.0,
            used_tables=(),
            used_columns=(),
            last="right",
        )
        if over:
            return Outcome("User: That is right, thank you.", reward, True)
        if last and agentic:
            return Outcome("User: That is right, thank you. No coins are left.", reward, True)
        self._aim()
        return Outcome(f"User: That is right, thank you. {self._instruction()}{left}", reward)

    def _success(self) -> bool:
        return self.state.solved

    def _score(self) -> float:
        return self.state.earned

    def _extra_info(self) -> dict[str, str | int | float | bool | None]:
        return {**super()._extra_info(), "phase": self.state.phase + 1, "coins": self.state.coins}

    def _found(self) -> dict[str, float]:
        found = super()._found()
        needed = len(self.problem.ambiguities)
        if self.state.phase > 0 or not needed:
            return found
        return {"cleared up": len(self.state.answered) / needed, **found}

    def _progress(self) -> float:
        if self.state.solved:
            return 1.0
        found = self._found()
        return (self.state.phase + sum(found.values()) / len(found)) / len(self.problem.phases)

    def verify(self) -> dict[str, float]:
        """Privileged: what was cleared up and found for the present phase, and the phases."""
        phases = {f"phase {i + 1}": float(self.state.phase > i) for i in range(len(self.problem.phases))}
        return {**super().verify(), **phases}

    def hint(self) -> str:
        """Privileged: what is open, and a good next action."""
        text = super().hint()
        still = [topic.term for topic in self._topics() if topic.term not in self.state.answered]
        return f"Still open: {', '.join(still)}. {text}" if text and still else text

    def oracle(self) -> Iterator[str]:
        """Privileged: ask about what is open while that can be paid, then submit the gold statements."""
        while not self._ended and self.state.phase < len(self.problem.phases):
            price, reserve = (COSTS["ask"], 2 * COSTS["submit"]) if self.protocol == "a" else (1.0, 0.0)
            still = [topic.term for topic in self._topics() if topic.term not in self.state.answered]
            if still and self.state.coins >= price + reserve:
                yield f"ask(What do you mean by {still[0]}?)"
                continue
            yield f"submit({self._gold_statements()[0]})"

    def _schema_text(self) -> str:
        return "\n\n".join(map(columns_text, self._schema))

    def _meanings_text(self) -> str:
        return "\n".join(f"{name}: {text}" for name, text in self.problem.meanings)

    def _knowledge_text(self) -> str:
        return "\n".join(f"{each.name}: {each.definition}" for each in self.problem.knowledge if not each.hidden)
