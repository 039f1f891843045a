"""What statements of read sessions gave, remembered for all sessions of a process.

The episodes of a group ask the same database the same things again and again. Nothing in a read session depends on
chance, on the clock or on what was asked before (see `SqliteBackend`), so the answer is the same as well. What would
depend on them if that wall had a hole is not remembered all the same: see `repeatable`.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import OrderedDict
from collections.abc import Hashable

from .base import ErrorClass, Result

SIZE = 32 << 20
"""Bytes of results, roughly."""
LARGEST = SIZE // 16  # bytes of one
UNSURE = {ErrorClass.TIMEOUT, ErrorClass.TOO_BIG, ErrorClass.OTHER}
"""Errors that may be the machine's: a busy processor, a worker whose memory was full."""
_SHARED: list[Outcomes] = []
_QUERY = re.compile(r"\s*(?:select|with|values)\b", re.IGNORECASE)
_VARYING = re.compile(
    r"""\b(?: current_\w+ | now | pragma\w* | attach | detach | temp | temporary | sqlite_temp\w* )\b
    | \b(?: random\w* | date | time | datetime | julianday | unixepoch | strftime | timediff
        | changes | total_changes | last_insert_rowid ) ["'`\]]? \s* (?: \( | -- | /\* )
    | ; (?! \s* \Z)""",
    re.IGNORECASE | re.VERBOSE,
)


def repeatable(sql: str, result: Result) -> bool:
    """Whether a statement of a read session is sure to give this result again, told from its words.

    Only a single query qualifies that calls nothing which tells the time, rolls dice or knows what the connection did
    before, and that did not fail for a reason that may be the machine's.
    """
    return result.error_class not in UNSURE and bool(_QUERY.match(sql)) and not _VARYING.search(sql)


class Outcomes:
    """Results by what decides them; those used longest ago go first.

    Args:
        size: bytes to keep.
    """

    def __init__(self, size: int = SIZE) -> None:
        self.size = size
        self.owner = os.getpid()
        self.used = 0
        """Bytes kept."""
        self.hits = 0
        """How often a result was there."""
        self._entries: OrderedDict[Hashable, tuple[Result, int]] = OrderedDict()
        self._lock = threading.Lock()

    @staticmethod
    def shared() -> Outcomes:
        """The one of this process."""
        if not _SHARED or _SHARED[0].owner != os.getpid():  # a forked child could have copied a lock that is held
            _SHARED[:] = [Outcomes()]
        return _SHARED[0]

    def get(self, key: Hashable) -> Result | None:
        """The result, if it is there."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
            self.hits += 1
            return found[0]

    def keep(self, key: Hashable, sql: str, result: Result) -> None:
        """Remember a result, unless it is large."""
        size = _size(sql, result)
        if size > min(LARGEST, self.size):
            return
        with self._lock:
            old = self._entries.pop(key, None)
            self._entries[key] = (result, size)
            self.used += size - (old[1] if old else 0)
            while self.used > self.size:
                self.used -= self._entries.popitem(last=False)[1][1]

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self.used = 0


def _size(sql: str, result: Result) -> int:
    cells = sum(sys.getsizeof(cell) + 8 for row in result.rows for cell in row)
    return 1_000 + sys.getsizeof(sql) + 64 * len(result.rows) + cells + 100 * len(result.columns)
