"""The Harbor format (Terminal-Bench 2): `task.toml`, instruction.md, environment/, tests/, solution/, steps/.

Read as harbor 0.25 reads it, `schema_version` up to 1.4 (https://github.com/laude-institute/harbor, Apache-2.0).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from ..core.errors import MissingData
from . import compose
from .fields import Fields, read_toml
from .task import (
    TESTS,
    Artifact,
    Collect,
    Healthcheck,
    Setting,
    Solution,
    Step,
    TerminalTask,
    Verifier,
    folder_files,
)

MAIN = ("main",)
_NEWEST = (1, 4)


def load(folder: Path, variables: Mapping[str, str] | None = None) -> TerminalTask:
    """The task in `folder`.

    Args:
        folder: the task's folder.
        variables: values for `${NAME}` in the `env` tables.

    Raises:
        MissingData: a file that the format demands is absent.
        BadTask: a key has the wrong type or value; the message names file and key.
    """
    path = folder / "task.toml"
    if not path.is_file():
        raise MissingData(f"{folder}: no task.toml")
    fields = read_toml(path)
    _check_version(fields)
    given = variables or {}
    environment = fields.table("environment")
    needs = [*_needs(environment), *compose.needs(folder / "environment" / "docker-compose.yaml", MAIN)]
    needs += _verifier_needs(fields.table("verifier"))
    steps = [_step(folder, fields, step, given) for step in fields.tables("steps")]
    for step in fields.tables("steps"):
        needs += _verifier_needs(step.table("verifier"))
    agent = fields.table("agent")
    dockerfile = folder / "environment" / "Dockerfile"
    setting = Setting(
        dockerfile=dockerfile if dockerfile.is_file() else None,
        image=environment.text("docker_image", None),
        workdir=environment.text("workdir", None),
        env={
            **compose.environment(folder / "environment" / "docker-compose.yaml", MAIN),
            **environment.environment("env", given),
        },
        user=_user(agent),
        cpus=environment.number("cpus", None),
        memory_mb=environment.number("memory_mb", None) or environment.megabytes("memory"),
        storage_mb=environment.number("storage_mb", None) or environment.megabytes("storage"),
        healthcheck=_healthcheck(environment),
        needs=tuple(dict.fromkeys(needs)),
    )
    metadata = {**fields.table("metadata").values, "format": "harbor", "task": dict(fields.table("task").values)}
    return TerminalTask(
        folder.name,
        setting,
        tuple(steps) or (_step(folder, fields, None, given),),
        strategy=fields.choice("multi_step_reward_strategy", ("mean", "final"), "mean"),
        metadata=metadata,
    )


def _check_version(fields: Fields) -> None:
    key = "schema_version" if "schema_version" in fields.values else "version"
    text = str(fields.values.get(key, "1.0"))
    parts = text.split(".")
    if not all(part.isdecimal() for part in parts) or tuple(map(int, parts))[:2] > _NEWEST:
        raise fields.error(key, f"is {text!r}; versions up to {'.'.join(map(str, _NEWEST))} are supported")


def _step(folder: Path, fields: Fields, step: Fields | None, variables: Mapping[str, str]) -> Step:
    """The only step, or one of several, which takes from the task what it does not say itself."""
    own = step or Fields({}, folder / "task.toml")
    name = step.text("name") if step else ""
    if step and (not name or Path(name).name != name):
        raise step.error("name", f"must be the name of a folder in steps/, not {name!r}")
    place = folder / "steps" / name if step else folder
    instruction = place / "instruction.md"
    if not instruction.is_file():
        raise MissingData(f"{instruction}: there is no such file")
    agent, work = own.table("agent") if step else fields.table("agent"), place / "workdir"
    return Step(
        name,
        instruction=instruction.read_text(encoding="utf-8").strip(),
        verifier=_verifier(folder, place, fields, own, variables),
        solution=_solution(folder, place, fields, variables),
        timeout=agent.number("timeout_sec", fields.table("agent").number("timeout_sec", 600.0)),
        files=folder_files(work) if step else (),
        setup="bash ./setup.sh && rm -f ./setup.sh" if step and (work / "setup.sh").is_file() else None,
        healthcheck=_healthcheck(own) if step else None,
        min_reward=_min_reward(own),
    )


def _verifier(folder: Path, place: Path, fields: Fields, own: Fields, variables: Mapping[str, str]) -> Verifier:
    common, special = fields.table("verifier"), own.table("verifier")
    tests = folder_files(folder / "tests")
    if place != folder:  # a step's own files lie over the task's
        tests = tuple({file.path: file for file in (*tests, *folder_files(place / "tests"))}.values())
    if not any(file.path == "test.sh" for file in tests):
        raise MissingData(f"{place / 'tests' / 'test.sh'}: there is no such file")
    mode = special.choice("environment_mode", ("shared", "separate"), None)
    mode = mode or common.choice("environment_mode", ("shared", "separate"), "shared")
    if fields.table("metadata").values.get("sandlot_verifier") == "clean":
        mode = "separate"
    artifacts = [*_artifacts(fields), *_artifacts(own)]
    return Verifier(
        command=f"bash {TESTS}/test.sh",
        files=tests,
        timeout=special.number("timeout_sec", common.number("timeout_sec", 600.0)),
        env={**common.environment("env", variables), **special.environment("env", variables)},
        user=_user(special) or _user(common),
        mode="clean" if mode == "separate" else "shared",
        artifacts=tuple(dict.fromkeys(artifacts)),
        collect=tuple(_collect(item) for item in (*common.tables("collect"), *special.tables("collect"))),
    )


def _solution(folder: Path, place: Path, fields: Fields, variables: Mapping[str, str]) -> Solution | None:
    at = place if (place / "solution" / "solve.sh").is_file() else folder
    if not (at / "solution" / "solve.sh").is_file():
        return None
    env = fields.table("solution").environment("env", variables)
    exports = "".join(f"export {name}={shlex.quote(value)}; " for name, value in env.items())
    return Solution((f"({exports}bash /solution/solve.sh)",), folder_files(at / "solution", "/solution"))


def _artifacts(fields: Fields) -> list[Artifact]:
    found = []
    entries = fields.values.get("artifacts") or []
    if not isinstance(entries, list):
        raise fields.error("artifacts", f"must be a list, not {entries!r}")
    for number, entry in enumerate(entries):
        item = Fields({"source": entry} if isinstance(entry, str) else entry, "task.toml", f"artifacts[{number}]")
        source = item.text("source")
        if not source.startswith("/"):
            raise fields.error(f"artifacts[{number}].source", f"must be an absolute path, not {source!r}")
        # In this format a destination names the place in the job's folder, not in the verifier's sandbox.
        found.append(Artifact(source, source, item.texts("exclude")))
    return found


def _collect(item: Fields) -> Collect:
    return Collect(item.text("command"), item.number("timeout_sec", 60.0), _user(item))


def _healthcheck(fields: Fields) -> Healthcheck | None:
    if "healthcheck" not in fields.values:
        return None
    check = fields.table("healthcheck")
    return Healthcheck(
        command=check.text("command"),
        interval=check.number("interval_sec", 5.0),
        timeout=check.number("timeout_sec", 30.0),
        start_period=check.number("start_period_sec", 0.0),
        start_interval=check.number("start_interval_sec", 5.0),
        retries=int(check.number("retries", 3, least=1)),
    )


def _min_reward(own: Fields) -> dict[str, float]:
    value = own.values.get("min_reward")
    if value is None:
        return {}
    if isinstance(value, Mapping):
        table = own.table("min_reward")
        return {key: table.number(key, least=float("-inf")) for key in table.values}
    return {"reward": own.number("min_reward", least=float("-inf"))}


def _needs(environment: Fields) -> list[str]:
    found = []
    system = environment.text("os", "linux")
    if system != "linux":
        found.append(f"the operating system {system}")
    if environment.number("gpus", 0):
        found.append(f"{int(environment.number('gpus'))} GPU(s)")
    if environment.values.get("tpu"):
        found.append("a TPU")
    if environment.choice("network_mode", ("public", "no-network", "allowlist"), "public") == "allowlist":
        found.append(f"a network allow-list ({', '.join(environment.texts('allowed_hosts')) or 'no hosts'})")
    if environment.tables("mcp_servers"):
        found.append("MCP servers")
    return found


def _verifier_needs(verifier: Fields) -> list[str]:
    found = []
    own = verifier.table("environment")
    if own.values.get("docker_image"):
        found.append("a verifier image of its own")
    others = [item.text("service") for item in verifier.tables("collect") if item.text("service", "main") != "main"]
    if others:
        found.append(f"compose services ({', '.join(sorted(set(others)))})")
    return found


def _user(fields: Fields) -> str | None:
    value = fields.values.get("user")
    return None if value in (None, "root", 0, "0") else str(value)
