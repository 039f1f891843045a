"""Where one shopper is: an immutable value. Together with an action it decides what comes next."""

from __future__ import annotations

from dataclasses import dataclass

from .goals import Goal
from .page import Kind


@dataclass(frozen=True, slots=True)
class Session:
    """One shopper's session. `goal` is privileged; a page never shows more of it than the instruction."""

    goal: Goal
    name: str
    """In URLs."""
    kind: Kind = Kind.START
    """The page that is open."""
    keywords: tuple[str, ...] = ()
    number: int = 1
    """The page of results, from 1."""
    asin: str = ""
    """The product that is open or was bought last."""
    sub_page: str = ""
    chosen: tuple[tuple[str, str], ...] = ()
    """(option, value), in the order in which the options were first chosen."""
    visited: frozenset[str] = frozenset()
    """Products opened since the last visit to the start page."""
    reward: float | None = None
    """Of the last purchase; None before one."""

    @property
    def query(self) -> str:
        """What was searched for last."""
        return " ".join(self.keywords)
