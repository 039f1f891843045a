"""The environment contract: `TextEnv`, tasks, spaces, registration, wrappers and the conformance suite.

Names are loaded on first use, so that registering the environments costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import EnvironmentFault, InvalidArgument, MissingData, MissingExtra, UnknownTask, UserError
    from .registry import REGISTRY, Registration, find, make, register
    from .spaces import UnicodeText
    from .tasks import SPLITS, ListTasks, Task, TaskSet, check_split
    from .testing import ConformanceError, Report, check_text_env
    from .text_env import Outcome, Snapshot, StepInfo, TextEnv, text_key
    from .wrappers import ActionParser, AdmissibleChoice, HistoryWrapper

__all__ = [
    "REGISTRY",
    "SPLITS",
    "ActionParser",
    "AdmissibleChoice",
    "ConformanceError",
    "EnvironmentFault",
    "HistoryWrapper",
    "InvalidArgument",
    "ListTasks",
    "MissingData",
    "MissingExtra",
    "Outcome",
    "Registration",
    "Report",
    "Snapshot",
    "StepInfo",
    "Task",
    "TaskSet",
    "TextEnv",
    "UnicodeText",
    "UnknownTask",
    "UserError",
    "check_split",
    "check_text_env",
    "find",
    "make",
    "register",
    "text_key",
]

_MODULES = {
    "errors": {"EnvironmentFault", "InvalidArgument", "MissingData", "MissingExtra", "UnknownTask", "UserError"},
    "registry": {"REGISTRY", "Registration", "find", "make", "register"},
    "spaces": {"UnicodeText"},
    "tasks": {"SPLITS", "ListTasks", "Task", "TaskSet", "check_split"},
    "testing": {"ConformanceError", "Report", "check_text_env"},
    "text_env": {"Outcome", "Snapshot", "StepInfo", "TextEnv", "text_key"},
    "wrappers": {"ActionParser", "AdmissibleChoice", "HistoryWrapper"},
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
