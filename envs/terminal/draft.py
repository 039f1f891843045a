"""`Draft`: what a family of generated tasks writes down for one seed and level."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .task import VERIFIER_LOGS

WORKDIR = "/app"
TEST_FILE = "test_outputs.py"

_HEAD = '''"""Checks of the outcome. Run by pytest, or as a program that writes {logs}/reward.json."""
import json
import os
import pathlib
import re
import sqlite3
import stat
import subprocess

APP = pathlib.Path({workdir!r})
GOLD = json.loads({gold})


def read(name):
    return (APP / name).read_text(encoding="utf-8")


def run(*command, seconds=10):
    return subprocess.run(
        command, cwd=APP, capture_output=True, text=True, errors="replace", timeout=seconds, stdin=subprocess.DEVNULL
    )


'''
_FOOT = """

def main():
    results = {{}}
    for name, function in list(globals().items()):
        if name.startswith("test_"):
            try:
                function()
                results[name.removeprefix("test_")] = 1.0
            except BaseException as error:
                results[name.removeprefix("test_")] = 0.0
                print("FAILED", name, type(error).__name__, str(error)[:200])
    results["reward"] = min(results.values())
    folder = pathlib.Path({logs!r})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reward.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
"""


@dataclass(frozen=True)
class Draft:
    """One generated task. All paths are below /app, where the agent starts."""

    instruction: str
    files: Mapping[str, str | bytes]
    """What lies in /app at the start."""
    solution: tuple[str, ...]
    """Commands that solve the task when run in /app in this order."""
    checks: str
    """Python source: one function `test_NAME` per criterion, plain asserts. It may use `read(name)`, `run(*command)`,
    `APP` and `GOLD`. Together the criteria must be false when nothing was done."""
    gold: Mapping[str, Any] = field(default_factory=dict)
    """What the checks compare with; JSON values."""
    hint: str = ""
    modes: Mapping[str, int] = field(default_factory=dict)
    """Permission bits of files that are not 0o644."""
    secrets: tuple[str, ...] = ()
    """Texts that show the answer and that no file of the agent may hold."""
    menu: tuple[str, ...] = ()
    """Command templates for `commands="menu"`; "{file}" stands for a file that the agent has seen."""

    def test_program(self) -> str:
        """The source of the test file."""
        gold = json.dumps(json.dumps(self.gold, sort_keys=True))
        head = _HEAD.format(logs=VERIFIER_LOGS, workdir=WORKDIR, gold=gold)
        return head + self.checks.strip("\n") + "\n" + _FOOT.format(logs=VERIFIER_LOGS)
