"""The Terminal-Bench 1 format: `task.yaml`, Dockerfile, run-tests.sh, tests/, solution.sh or solution.yaml.

Read as terminal-bench 0.2.18 reads it (https://github.com/laude-institute/terminal-bench, Apache-2.0), with one
difference: an output in which no test result is found is an error, where the original counts it as solved.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from ..core.errors import MissingData
from . import compose
from .fields import BadTask, Fields, load_yaml, read_yaml
from .task import TESTS, File, Setting, Solution, Step, TerminalTask, Verifier, folder_files

MAIN = ("client",)
RUN_TESTS = "run-tests.sh"
# What a folder without its own run-tests.sh is judged by: the format's template, without its installation steps.
_DEFAULT_TESTS = b'#!/bin/bash\npython3 -m pytest "$TEST_DIR"/test_outputs.py -rA\n'
_LEVELS = ("easy", "medium", "hard", "unknown")
_KEPT = ("author_name", "author_email", "category", "tags", "difficulty", "estimated_duration_sec")


def load(folder: Path) -> TerminalTask:
    """The task in `folder`.

    Raises:
        MissingData: no `task.yaml`, or no tests.
        BadTask: a key has the wrong type, or a parser is named that is not supported.
        MissingExtra: PyYAML is not installed.
    """
    path = folder / "task.yaml"
    if not path.is_file():
        raise MissingData(f"{folder}: no task.yaml")
    fields = read_yaml(path)
    fields.choice("difficulty", _LEVELS, "unknown")
    parser = fields.text("parser_name", "pytest")
    if parser != "pytest":
        raise fields.error("parser_name", f"is {parser!r}; only 'pytest' is supported")
    tests = folder_files(folder / "tests")
    if not tests:
        raise MissingData(f"{folder}: no files in tests/")
    script = folder / RUN_TESTS
    data = script.read_bytes() if script.is_file() else _DEFAULT_TESTS
    dockerfile = folder / "Dockerfile"
    yaml = folder / "docker-compose.yaml"
    needs = list(compose.needs(yaml, MAIN))
    build = _build(yaml)
    if build.get("dockerfile", "Dockerfile") != "Dockerfile" or build.get("context", ".") not in (".", "./"):
        needs.append("a Dockerfile or build context of another name")
    verifier = Verifier(
        command=f"bash {TESTS}/{RUN_TESTS}",
        files=(*tests, File(RUN_TESTS, data, 0o755)),
        result="pytest",
        timeout=fields.number("max_test_timeout_sec", 60.0),
        env={"TEST_DIR": TESTS},
    )
    if fields.flag("run_tests_in_same_shell"):
        needs.append("tests in the agent's own shell (run_tests_in_same_shell)")
    step = Step(
        "",
        instruction=fields.text("instruction").strip(),
        verifier=verifier,
        solution=_solution(folder),
        timeout=fields.number("max_agent_timeout_sec", 360.0),
    )
    setting = Setting(
        dockerfile=dockerfile if dockerfile.is_file() else None,
        env={**compose.environment(yaml, MAIN), "TEST_DIR": TESTS},
        needs=tuple(needs),
    )
    metadata = {key: fields.values[key] for key in _KEPT if key in fields.values}
    metadata["format"] = "terminal-bench"
    metadata["defaults"] = tuple(name for name in ("Dockerfile", RUN_TESTS) if not (folder / name).is_file())
    return TerminalTask(folder.name, setting, (step,), metadata=metadata)


def _build(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    services = read_yaml(path).table("services")
    build = services.table("client").values.get("build") if "client" in services.values else None
    return {"context": build} if isinstance(build, str) else build if isinstance(build, dict) else {}


def _solution(folder: Path) -> Solution | None:
    script, listed = folder / "solution.sh", folder / "solution.yaml"
    if script.is_file():
        return Solution(("bash /oracle/solution.sh",), (File("/oracle/solution.sh", script.read_bytes(), 0o755),))
    if not listed.is_file():
        return None
    entries = load_yaml(listed)
    if not isinstance(entries, list):
        raise BadTask(f"{listed}: must be a list of commands")
    commands = []
    for number, entry in enumerate(entries):
        fields = Fields({"command": entry} if isinstance(entry, str) else entry, listed, f"[{number}]")
        command = fields.text("command")
        if not fields.flag("append_enter", True):
            raise fields.error("append_enter", "is false: keystrokes without Enter cannot be sent as a command")
        # The format types into a terminal and waits; a command that blocks is one whose end is waited for.
        blocks = fields.flag("block", True) or fields.number("min_timeout_sec", 0.0) == 0.0
        commands.append(
            command if blocks else f"{command} & sleep {shlex.quote(str(fields.values['min_timeout_sec']))}"
        )
    return Solution(tuple(commands))
