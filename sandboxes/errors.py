"""Errors by whose fault they are. They live on the lowest floor so that every floor can raise them.

An agent's mistake is neither: it is an observation or a command's exit code.
"""

from __future__ import annotations


class UserError(Exception):
    """A mistake of the person at the keyboard; the message is one line that names the fix."""

    def __str__(self) -> str:  # KeyError would print its argument's repr
        return str(self.args[0]) if self.args else self.__class__.__name__


class MissingExtra(UserError, ImportError):
    """An optional dependency is not installed; the message holds the install command."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: pip install 'sandlot[{extra}]'")


class InvalidArgument(UserError, ValueError):
    """A constructor or command-line argument outside what is accepted."""


class SandboxUnavailable(UserError):
    """No sandbox of the wanted kind can start on this machine; the message says why and what would help."""


class EnvironmentFault(Exception):
    """The infrastructure broke (a crashed sandbox, a lost server): the episode is void and is tried again."""


class SandboxFault(EnvironmentFault):
    """A sandbox died, lost its connection or could not do what it was asked, through no fault of the command in it."""
