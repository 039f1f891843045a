"""Generated tasks as folders in either format, for other programs that play them."""

from __future__ import annotations

import json
import posixpath
import shlex
from pathlib import Path

from ..core.errors import InvalidArgument
from .draft import TEST_FILE, WORKDIR
from .task import File, TerminalTask

FORMATS = ("harbor", "terminal-bench")
BASE = "debian:bookworm-slim"
PACKAGES = "ca-certificates git make procps python3 python3-pytest sqlite3 unzip"
_DIFFICULTY = {1: "easy", 2: "medium", 3: "hard"}
_GIT = "dot-git"  # a folder named .git would not survive a checkout of the exported tasks


def export(task: TerminalTask, root: Path, form: str) -> Path:
    """Write a generated task below `root` and return its folder, which is named after the task.

    Raises:
        InvalidArgument: no such format, or the folder exists.
    """
    if form not in FORMATS:
        raise InvalidArgument(f"format must be one of {', '.join(FORMATS)}, not {form!r}")
    folder = root / task.name
    if folder.exists():
        raise InvalidArgument(f"{folder} exists: choose another place or remove it")
    for file in _harbor(task) if form == "harbor" else _terminal_bench(task):
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.data)
        path.chmod(file.mode)
    return folder


def _harbor(task: TerminalTask) -> list[File]:
    step = task.steps[0]
    family = task.metadata["family"]
    toml = [
        'schema_version = "1.4"',
        "",
        "[task]",
        f'name = "sandlot/{task.name}"',
        f'description = "A generated task of the family {family}."',
        "",
        "[metadata]",
        f'difficulty = "{_DIFFICULTY[task.metadata["level"]]}"',
        f'category = "{family}"',
        'sandlot_verifier = "clean"',
        "",
        "[agent]",
        f"timeout_sec = {step.timeout}",
        "",
        "[verifier]",
        f"timeout_sec = {step.verifier.timeout}",
        "",
        "[environment]",
        "cpus = 1",
        "memory_mb = 1024",
        'network_mode = "no-network"',
    ]
    return [
        _text("task.toml", "\n".join(toml)),
        _text("instruction.md", step.instruction),
        _text("solution/solve.sh", _script(task), 0o755),
        *(File(f"tests/{file.path}", file.data, file.mode) for file in step.verifier.files),
        *_environment(task, "environment/"),
    ]


def _terminal_bench(task: TerminalTask) -> list[File]:
    step = task.steps[0]
    test = next(file for file in step.verifier.files if file.path == TEST_FILE)
    yaml = {
        "instruction": step.instruction,
        "author_name": "sandlot",
        "author_email": "none",
        "difficulty": _DIFFICULTY[task.metadata["level"]],
        "category": task.metadata["family"],
        "tags": ["generated"],
        "parser_name": "pytest",
        "max_agent_timeout_sec": step.timeout,
        "max_test_timeout_sec": step.verifier.timeout,
    }
    compose = """services:
  client:
    build:
      dockerfile: Dockerfile
    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}
    container_name: ${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}
    command: ["sh", "-c", "sleep infinity"]
    environment:
      - TEST_DIR=${T_BENCH_TEST_DIR}
    volumes:
      - ${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}
      - ${T_BENCH_TASK_AGENT_LOGS_PATH}:${T_BENCH_CONTAINER_AGENT_LOGS_PATH}"""
    run_tests = '#!/bin/bash\npython3 -m pytest -p no:cacheprovider "$TEST_DIR"/test_outputs.py -rA'
    return [
        _text(
            "task.yaml", "\n".join(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in yaml.items())
        ),  # JSON is YAML
        _text("docker-compose.yaml", compose),
        _text("solution.sh", _script(task), 0o755),
        _text("run-tests.sh", run_tests, 0o755),
        File(f"tests/{TEST_FILE}", test.data),
        *_environment(task, ""),
    ]


def _environment(task: TerminalTask, at: str) -> list[File]:
    lines = [
        f"FROM {BASE}",
        f"RUN apt-get update && apt-get install -y --no-install-recommends {PACKAGES} && rm -rf /var/lib/apt/lists/*",
        f"WORKDIR {WORKDIR}",
        f"COPY files/ {WORKDIR}/",
    ]
    found, hidden = [], []
    for file in task.setting.files:
        path = posixpath.relpath(file.path, WORKDIR)
        if path.startswith(".git/"):
            path = f"{_GIT}/{path[5:]}"
            hidden = [f"RUN mv {_GIT} .git"]
        elif file.mode != 0o644:  # a version control system keeps no more than the execute bit
            lines.append(f"RUN chmod {file.mode:o} {shlex.quote(path)}")
        found.append(File(f"{at}files/{path}", file.data, file.mode))
    return [_text(f"{at}Dockerfile", "\n".join([*lines, *hidden])), *found]


def _script(task: TerminalTask) -> str:
    solution = task.steps[0].solution
    commands = solution.commands if solution else ()
    return "\n".join(["#!/bin/bash", f"cd {WORKDIR}", *commands])


def _text(path: str, text: str, mode: int = 0o644) -> File:
    return File(path, f"{text}\n".encode(), mode)
