"""The optional package `sqlglot`, which reads statements of all dialects into syntax trees."""

from __future__ import annotations

from typing import Any

from ...core.errors import MissingExtra


def grammar() -> Any:
    """The module `sqlglot`. Raises `MissingExtra` where it is not installed."""
    try:
        import sqlglot
        import sqlglot.errors
    except ImportError:
        raise MissingExtra("sqlglot", "sql") from None
    return sqlglot
