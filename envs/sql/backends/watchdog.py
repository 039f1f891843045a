"""A thread that cancels statements which the server does not stop by itself."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

_SHARED: list[Watchdog] = []
LAST = 2.0  # seconds after a cancel that nobody heard, until the connection is closed


class Watchdog:
    """Watches connections that are busy; one thread, asleep while nothing is, ended after a minute of that."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._busy: dict[int, tuple[float, Any, bool]] = {}
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None

    @staticmethod
    def shared() -> Watchdog:
        """The one of this process."""
        if not _SHARED or _SHARED[0].owner != os.getpid():
            _SHARED[:] = [Watchdog()]
        return _SHARED[0]

    @contextlib.contextmanager
    def over(self, connection: Any, seconds: float) -> Iterator[None]:
        """Cancel what runs on `connection` after `seconds`, and close it if that does not help."""
        with self._change:
            self._busy[id(connection)] = (time.monotonic() + seconds, connection, False)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="sql-watchdog", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._change:
                self._busy.pop(id(connection), None)

    def _watch(self) -> None:
        idle = time.monotonic()
        while True:
            with self._change:
                now = time.monotonic()
                late = [(key, entry) for key, entry in self._busy.items() if entry[0] <= now]
                for key, (_, connection, cancelled) in late:
                    self._busy[key] = (now + LAST, connection, True)
                    if cancelled:
                        self._busy.pop(key)
                if self._busy:
                    idle = now
                elif now - idle > 60:
                    self._thread = None
                    return
            for _, (_, connection, cancelled) in late:
                with contextlib.suppress(Exception):
                    connection.close() if cancelled else connection.cancel_safe(timeout=LAST)
            # Looking a few times a second is cheaper than being woken by every statement.
            time.sleep(0.25)
