"""What the gates say of a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .reasons import Reason
from .signature import Signature


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    reason: Reason
    message: str
    """What exactly, in words that help to mend it."""


@dataclass(frozen=True)
class Verdict:
    """What the gates found."""

    program_id: str
    """"" where it was not even a program."""
    findings: tuple[Finding, ...] = ()
    """What is wrong, of the first stage at which anything was."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """Numbers that were taken on the way: success rates, steps of the solution, what the hint is worth."""
    signature: Signature | None = None
    """For comparison with later programs; None where it did not get that far."""

    @property
    def passed(self) -> bool:
        """Whether it may enter a pool."""
        return not self.findings and self.signature is not None

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The codes of the findings."""
        return tuple(finding.reason for finding in self.findings)

    def report(self) -> str:
        """The findings as text for whoever repairs the program; "" for a pass."""
        return "\n".join(f"[{finding.reason}] {finding.message} {finding.reason.meaning}" for finding in self.findings)
