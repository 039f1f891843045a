"""The public conformance suite: `check_text_env` says whether an environment keeps the contract, check by check."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from .conformance import CHECKS, Skip, Subject
from .errors import InvalidArgument
from .registry import find
from .text_env import TextEnv


class ConformanceError(AssertionError):
    """At least one check failed; the message holds the report."""


@dataclass
class Report:
    """What `check_text_env` found."""

    env_id: str
    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Check -> what went wrong."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Check -> why it does not apply."""
    tracebacks: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return not self.failed

    def __str__(self) -> str:
        lines = [f"{self.env_id}: {len(self.passed)} passed, {len(self.failed)} failed, {len(self.skipped)} skipped"]
        lines += [f"  FAILED {name}: {message}" for name, message in self.failed.items()]
        lines += [f"  skipped {name}: {reason}" for name, reason in self.skipped.items()]
        return "\n".join(lines)


def check_text_env(
    env: str | Callable[..., TextEnv],
    *,
    episodes: int = 20,
    max_episode_steps: int = 50,
    only: Collection[str] | None = None,
    skip: Collection[str] = (),
    raise_on_failure: bool = True,
    **kwargs: Any,
) -> Report:
    """Run every check of `sandlot.envs.core.conformance.CHECKS` on an environment.

    Args:
        env: a registered id ("sandlot/Corridor-v0"), or a class or function that returns the environment. One that can
            be imported by name is also tried in another process.
        episodes: how many episodes to judge the oracle, random and echo policies by; fewer is faster.
        max_episode_steps: the step limit, for a class or function.
        only: names of the checks to run; None runs all.
        skip: names of checks to leave out.
        raise_on_failure: raise at the end if a check failed; otherwise look at the report's `ok`.
        kwargs: constructor arguments.

    Returns:
        The report, by check.

    Raises:
        ConformanceError: a check failed. All others have been run too.
        InvalidArgument: there is no such environment or check.
    """
    spec = _spec(env, max_episode_steps, kwargs)
    names = {check.__name__ for check in CHECKS}
    unknown = sorted({*(only or ()), *skip} - names)
    if unknown:
        raise InvalidArgument(f"no check {unknown[0]!r}; choose from {', '.join(sorted(names))}")
    subject, report = Subject(spec, episodes), Report(spec.id)
    for check in CHECKS:
        name = check.__name__
        if name in skip or (only is not None and name not in only):
            continue
        started = time.perf_counter()
        try:
            check(subject)
        except Skip as reason:
            report.skipped[name] = str(reason)
        except Exception as error:
            message = str(error).strip() or "no message"
            report.failed[name] = message if isinstance(error, AssertionError) else f"{type(error).__name__}: {message}"
            report.tracebacks[name] = traceback.format_exc()
        else:
            report.passed.append(name)
        report.seconds[name] = time.perf_counter() - started
    if raise_on_failure and not report.ok:
        raise ConformanceError(f"{report}\n\n{next(iter(report.tracebacks.values()))}")
    return report


def _spec(env: str | Callable[..., TextEnv], max_episode_steps: int, kwargs: dict[str, Any]) -> EnvSpec:
    if isinstance(env, str):
        try:
            spec = gymnasium.spec(env)
        except gymnasium.error.Error:
            spec = gymnasium.spec(find(env).id)
        return EnvSpec(
            id=spec.id,
            entry_point=spec.entry_point,
            max_episode_steps=spec.max_episode_steps,
            kwargs={**spec.kwargs, **kwargs},
            additional_wrappers=spec.additional_wrappers,
        )
    return EnvSpec(
        id=f"{env.__name__}-v0", entry_point=_by_name(env), max_episode_steps=max_episode_steps, kwargs=dict(kwargs)
    )


def _by_name(env: Callable[..., TextEnv]) -> Any:
    """The form `module:name` where that leads back to `env`, so that the spec becomes JSON; else `env` itself."""
    module, name = getattr(env, "__module__", ""), getattr(env, "__qualname__", "")
    found = getattr(sys.modules.get(module), name, None)
    return f"{module}:{name}" if found is env and module != "__main__" else env
