"""The families of generated tasks: one file each, with one function `draft(dice, level)`."""

from __future__ import annotations

from collections.abc import Callable

from ..dice import Dice
from ..draft import Draft
from . import (
    archive,
    build,
    config,
    convert,
    debug,
    git_history,
    logs,
    permissions,
    schedule,
    service,
    sqlite,
    text,
)

FAMILIES: dict[str, Callable[[Dice, int], Draft]] = {
    "text": text.draft,
    "logs": logs.draft,
    "git": git_history.draft,
    "build": build.draft,
    "convert": convert.draft,
    "permissions": permissions.draft,
    "service": service.draft,
    "archive": archive.draft,
    "sqlite": sqlite.draft,
    "schedule": schedule.draft,
    "debug": debug.draft,
    "config": config.draft,
}
LEVELS = (1, 2, 3)
