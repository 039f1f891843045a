"""The error of goals that cannot be read: where, what was expected, and what stands there."""

from __future__ import annotations

from ...core.errors import InvalidArgument


class BlueprintError(InvalidArgument):
    """A goal that cannot be read.

    Args:
        position: "line 2, column 7" of a text, or "must[0].of.op" of JSON.
        expected: what could stand there.
        found: what stands there.
    """

    def __init__(self, position: str, expected: str, found: str) -> None:
        super().__init__(f"{position}: expected {expected}, found {found}")
        self.position, self.expected, self.found = position, expected, found
