"""`Judge`: scores answers as recommended, on sessions of its own that no agent's statement has touched."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..backends.base import DatabaseState, Snapshot, SqlBackend, SqlLimits
from ..backends.database import Database
from .compare import Verdict, compare
from .fuzz import copies
from .order import GENEROUS, Reference, reference
from .state import compare_states

KEPT = 4_096  # reference answers kept
ANSWER = replace(GENEROUS, timeout=2.0, operations=100_000_000)
"""For the agent's final statement."""


class Judge:
    """Judges read answers on the database and fuzzed copies of it, and write answers by the state they leave.

    Args:
        backend: a session for the judge alone.
        copies: number of fuzzed copies (SQLite images only; other databases have none).
        allow_empty: accept an empty answer where the reference is empty on the database and on every copy. Otherwise
            such a task cannot be solved, because too many statements would solve it.
        tolerance: keyword arguments for `compare`.
    """

    def __init__(self, backend: SqlBackend, *, copies: int = 4, allow_empty: bool = False, **tolerance: Any) -> None:
        self.backend = backend
        self.copies = copies
        self.allow_empty = allow_empty
        self._tolerance = tolerance
        self._known: OrderedDict[tuple[Any, ...], Any] = OrderedDict()

    def reference(self, database: Database, gold: str, snapshot: Snapshot = ()) -> Reference:
        """The reference answer on `database`, computed once."""
        key = (database.key, gold, snapshot)
        return self._once(key, lambda: self._reference(database, gold, snapshot))

    def answer(self, database: Database, gold: str, pred: str, limits: SqlLimits = ANSWER) -> Verdict:
        """Judge the query `pred`: its result must be right on the database and on every copy."""
        told = False
        for variant in copies(database, self.copies):
            right = self.reference(variant, gold)
            if not right.result.ok and variant is not database:
                continue  # the reference statement itself does not fit this copy
            self.backend.reset(variant)
            given = self.backend.execute(pred, limits)
            verdict = compare(given, right.result, ordered=right.keys, **self._tolerance)
            if not verdict.match:
                where = "" if variant is database else " on a copy of the database with other content"
                return Verdict(False, verdict.reason + where)
            told = told or bool(right.result.rows)
        if not told and not self.allow_empty:
            return Verdict(False, "the reference answer is empty: nothing can be told from it")
        return Verdict(True, "the results are equal")

    def state(self, database: Database, gold: Sequence[str], snapshot: Snapshot = ()) -> DatabaseState:
        """The state that the statements `gold` leave on `database` after `snapshot`, computed once."""
        return self._once((database.key, tuple(gold), snapshot, "state"), lambda: self._state(database, gold, snapshot))

    def written(self, database: Database, gold: Sequence[str], left: DatabaseState) -> Verdict:
        """Judge the state `left` by the agent against the one that the statements `gold` leave."""
        return compare_states(left, self.state(database, gold))

    def close(self) -> None:
        """End the judge's session."""
        self.backend.close()

    def _reference(self, database: Database, gold: str, snapshot: Snapshot) -> Reference:
        self.backend.reset(database, snapshot, write=bool(snapshot))
        return reference(self.backend, gold)

    def _state(self, database: Database, gold: Sequence[str], snapshot: Snapshot) -> DatabaseState:
        self.backend.reset(database, snapshot, write=True)
        for sql in gold:
            result = self.backend.execute(sql, GENEROUS)
            if not result.ok:
                raise ValueError(f"a reference statement fails: {result.error}")
        return self.backend.table_state()

    def _once(self, key: tuple[Any, ...], compute: Any) -> Any:
        if key not in self._known:
            self._known[key] = compute()
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]
