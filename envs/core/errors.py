"""Errors by whose fault they are: the user's or the infrastructure's. An agent's mistakes are observations instead."""

from __future__ import annotations


class UserError(Exception):
    """A mistake of the person at the keyboard; the message is one line that names the fix."""

    def __str__(self) -> str:  # KeyError would print its argument's repr
        return str(self.args[0]) if self.args else self.__class__.__name__


class UnknownTask(UserError, KeyError):
    """A task id, split or option that this task set does not have."""


class MissingData(UserError, FileNotFoundError):
    """Benchmark files that the user asked for are absent or broken."""


class MissingExtra(UserError, ImportError):
    """An optional dependency is not installed; the message holds the install command."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: pip install 'sandlot[{extra}]'")


class InvalidArgument(UserError, ValueError):
    """A constructor or command-line argument outside what is accepted."""


class EnvironmentFault(Exception):
    """The infrastructure broke (a crashed sandbox, a lost server): the episode is void and is tried again."""
