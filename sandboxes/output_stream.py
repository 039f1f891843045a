"""One output of a persistent shell: read for its whole life, kept in part, cut where a command ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable

from .process import CHUNK, available


class OutputStream:
    """Reads one output for the shell's whole life and keeps a bounded head.

    Between commands it stops at the bound, so that a daemon that writes without end waits, and costs nothing.
    """

    def __init__(self, descriptor: int, limit: int, flood: int, flooded: Callable[[], None]) -> None:
        self._descriptor, self._limit, self._flood, self._flooded = descriptor, limit, flood, flooded
        self._kept = bytearray()
        self.total = 0
        self.ended = False
        self._idle = self._paused = False
        self._mark = self._tail = b""
        self._marked = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._read)

    def expect(self, mark: bytes) -> None:
        """These bytes will stand behind the output of the command that begins; they are no part of it."""
        self._mark, self._tail = mark, b""
        self._marked.clear()

    async def caught_up(self, seconds: float) -> bool:
        """Wait for the mark and tell whether it came; a command that closed the way that it takes waits in vain."""
        if not self.ended:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._marked.wait(), seconds)
        return self._marked.is_set()

    def _look_for_mark(self, data: bytes) -> None:
        """Called when `data` was counted and kept: cut the mark out once it is whole."""
        window = self._tail + data
        at = window.find(self._mark)
        if at < 0:
            self._tail = window[-(len(self._mark) - 1) :]
            return
        begin = self.total - len(window) + at
        del self._kept[begin : begin + len(self._mark)]
        self.total -= len(self._mark)
        self._mark = b""
        self._marked.set()

    def begin(self, limit: int) -> None:
        """A command starts: keep this much. What the background wrote meanwhile stays, as on a terminal."""
        self._limit = limit
        self.total = len(self._kept)
        self._idle = False
        self._resume()

    def _resume(self) -> None:
        if self._paused and not self.ended:
            self._paused = False
            self._loop.add_reader(self._descriptor, self._read)

    def _read(self) -> int:
        try:
            data = os.read(self._descriptor, CHUNK)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if not data:
            self.stop()
            return 0
        self.total += len(data)
        room = self._limit - len(self._kept)
        if room > 0:
            self._kept += data[:room]
        if self._mark:
            self._look_for_mark(data)
        if self._idle and len(self._kept) >= self._limit:
            self._paused = True
            self._loop.remove_reader(self._descriptor)
        elif self.total > max(self._flood, self._limit):
            self._flooded()
        return len(data)

    def take(self, limit: int) -> tuple[bytes, int]:
        """Everything up to now: the kept head and how much there was."""
        left = 0
        if not self.ended:
            with contextlib.suppress(OSError):
                left = available(self._descriptor)
        while left > 0 and (got := self._read()):
            left -= got
        taken = bytes(self._kept[:limit]), self.total
        self._kept.clear()
        self.total = 0
        self._idle = True
        self._resume()  # a terminal is read between commands as well
        return taken

    def stop(self) -> None:
        """No longer read."""
        if not self.ended:
            self.ended = True
            self._marked.set()
            if not self._paused:
                self._loop.remove_reader(self._descriptor)
