"""Errors by whose fault they are: the user's or the infrastructure's. An agent's mistakes are observations instead."""

from __future__ import annotations

from ...sandboxes.errors import EnvironmentFault, InvalidArgument, MissingExtra, UserError

__all__ = ["EnvironmentFault", "InvalidArgument", "MissingData", "MissingExtra", "UnknownTask", "UserError"]


class UnknownTask(UserError, KeyError):
    """A task id, split or option that this task set does not have."""


class MissingData(UserError, FileNotFoundError):
    """Benchmark files that the user asked for are absent or broken."""
