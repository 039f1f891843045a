"""From what a verifier leaves behind to a verdict: pytest's summary, reward.json, reward.txt.

A result that is not there is never a pass and never a fail: it is an error, and the episode is void.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..core.errors import EnvironmentFault

_SUMMARY = re.compile(r"=+\s*short test summary info\s*=+")
_LINE = re.compile(r"^(PASSED|FAILED|ERROR|XPASS|XFAIL)\s+(\S+)")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
REWARD = "reward"


class VerifierFault(EnvironmentFault):
    """The verifier gave no verdict: the episode is void."""


class NoTestResults(VerifierFault):
    """The output holds no test result."""


class RewardMissing(VerifierFault):
    """The verifier wrote neither reward.json nor reward.txt."""


class RewardEmpty(VerifierFault):
    """The reward file is empty."""


class RewardUnreadable(VerifierFault):
    """The reward file holds something other than finite numbers."""


@dataclass(frozen=True)
class Verdict:
    """How an outcome was judged."""

    score: float
    """In [0, 1]."""
    rewards: Mapping[str, float]
    """As the verifier gave them; pytest's are {"reward": 0 or 1}."""
    criteria: Mapping[str, float]
    """Each thing that was looked at, in [0, 1]."""
    output: str = field(default="", compare=False, repr=False)
    """What the verifier printed; privileged."""
    timed_out: bool = False

    @property
    def success(self) -> bool:
        """Whether everything was met."""
        return self.score >= 1.0


def from_pytest(output: str) -> Verdict:
    """The verdict of pytest's short summary: solved when every test passed, as in Terminal-Bench 1.

    Raises:
        NoTestResults: there is no summary or it holds no results. The format itself would count that as solved.
    """
    parts = _SUMMARY.split(_ANSI.sub("", output), maxsplit=1)
    if len(parts) < 2:
        raise NoTestResults(f"no 'short test summary info' in the verifier's output, which ends {_tail(output)!r}")
    found: dict[str, float] = {}
    for line in parts[1].splitlines():
        match = _LINE.match(line.strip())
        if match:
            name = match[2].rsplit("/", 1)[-1]
            found[name] = min(found.get(name, 1.0), float(match[1] in ("PASSED", "XFAIL")))
    if not found:
        raise NoTestResults(f"the verifier's summary names no test; its output ends {_tail(output)!r}")
    score = float(all(found.values()))
    return Verdict(score, {REWARD: score}, found, output)


def from_rewards(json_file: bytes | None, text_file: bytes | None, output: str = "") -> Verdict:
    """The verdict of Harbor's reward files; `reward.json` wins over `reward.txt`.

    The score is the entry "reward", the only entry, or the mean of all, cut to [0, 1].

    Raises:
        RewardMissing, RewardEmpty, RewardUnreadable: see there.
    """
    if json_file is not None:
        rewards = _json_rewards(json_file)
    elif text_file is not None:
        rewards = {REWARD: _number(text_file.decode("utf-8", "replace"), "reward.txt")}
    else:
        raise RewardMissing(f"neither reward.json nor reward.txt was written; the output ends {_tail(output)!r}")
    score = rewards[REWARD] if REWARD in rewards else sum(rewards.values()) / len(rewards)
    criteria = {name: _clip(value) for name, value in rewards.items() if name != REWARD or len(rewards) == 1}
    return Verdict(_clip(score), rewards, criteria, output)


def combine(verdicts: Sequence[Verdict], steps: int, strategy: str) -> float:
    """The score of a task of several steps: the mean over all steps (0 where not reached), or the last one's."""
    if strategy == "final":
        return verdicts[-1].score if len(verdicts) == steps else 0.0
    return sum(verdict.score for verdict in verdicts) / steps


def _json_rewards(data: bytes) -> dict[str, float]:
    if not data.strip():
        raise RewardEmpty("reward.json is empty")
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RewardUnreadable(f"reward.json is not JSON: {str(error)[:200]}") from None
    if not isinstance(values, dict) or not values:
        raise RewardUnreadable(f"reward.json must be an object of numbers, not {str(values)[:100]}")
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise RewardUnreadable(f"reward.json: {name[:100]!r} must be a finite number, not {str(value)[:100]}")
    return {str(name): float(value) for name, value in values.items()}


def _number(text: str, file: str) -> float:
    if not text.strip():
        raise RewardEmpty(f"{file} is empty")
    try:
        value = float(text)
    except ValueError:
        raise RewardUnreadable(f"{file} must be a number, not {text.strip()[:100]!r}") from None
    if not math.isfinite(value):
        raise RewardUnreadable(f"{file} must be a finite number, not {text.strip()[:100]!r}")
    return value


def _clip(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _tail(output: str) -> str:
    return " ".join(output.split())[-160:]
