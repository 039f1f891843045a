"""The part of the Dockerfile language that tasks use, carried out inside a running sandbox of any backend.

One stage, without the network: `FROM` names an image of ours, `RUN` runs with the offline stand-ins on its PATH.
"""

from __future__ import annotations

import fnmatch
import json
import posixpath
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from ...sandboxes.sync import SyncSandbox
from .artifacts import place
from .fields import BadTask
from .shims import PATH_WITH_SHIMS
from .task import PATH, File

_IGNORED = {"CMD", "ENTRYPOINT", "EXPOSE", "HEALTHCHECK", "LABEL", "MAINTAINER", "ONBUILD", "STOPSIGNAL", "VOLUME"}
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_VARIABLE = re.compile(r"\\\$|\$(?:\{(\w+)(?:(:[-+])([^}]*))?\}|(\w+))")
_TIMEOUT = 600.0  # seconds for one RUN


@dataclass(frozen=True)
class Instruction:
    """One instruction, with its line number for messages."""

    line: int
    name: str
    value: str
    body: str = ""
    """The lines of a here-document, if it has one."""


@dataclass
class Recipe:
    """A Dockerfile, read."""

    path: Path
    base: str
    steps: list[Instruction]
    workdir: str = "/"
    """Where commands start in the finished image."""
    env: dict[str, str] = field(default_factory=dict)
    user: str | None = None
    needs: tuple[str, ...] = ()
    """What it uses and this interpreter does not have, in words."""


def read(path: Path) -> Recipe:
    """The Dockerfile at `path`.

    Raises:
        BadTask: it has no FROM, or a line that is no instruction.
    """
    steps = _instructions(path)
    if not any(step.name == "FROM" for step in steps):
        raise BadTask(f"{path}: no FROM")
    recipe = Recipe(path, "", [])
    needs, arguments = [], {}
    for step in steps:
        if step.name == "FROM":
            if recipe.base:
                needs.append("several build stages")
            words = [word for word in step.value.split() if not word.startswith("--")]
            recipe.base = _expand(words[0], arguments)
        elif step.name == "ARG":
            name, _, value = step.value.partition("=")
            arguments[name.strip()] = _expand(_unquote(value), arguments)
            if recipe.base:
                recipe.steps.append(step)
        elif step.name == "ENV":
            known = {"PATH": PATH, **arguments, **recipe.env}
            recipe.env |= {key: _expand(value, known) for key, value in _pairs(step)}
            recipe.steps.append(step)
        elif step.name == "WORKDIR":
            recipe.workdir = posixpath.join(recipe.workdir, _expand(_unquote(step.value), arguments | recipe.env))
            recipe.steps.append(step)
        elif step.name == "USER":
            recipe.user = None if step.value in ("root", "0") else step.value
        elif step.name in ("COPY", "ADD", "RUN", "SHELL"):
            if "--from=" in step.value.split(" <<")[0] and step.name == "COPY":
                needs.append("files of another image (COPY --from)")
            if step.name == "ADD" and "://" in step.value:
                needs.append("a download while building (ADD)")
            recipe.steps.append(step)
        elif step.name not in _IGNORED:
            raise BadTask(f"{path}: line {step.line}: no instruction {step.name!r}")
    recipe.needs = tuple(dict.fromkeys(needs))
    return recipe


def build(box: SyncSandbox, recipe: Recipe) -> None:
    """Carry out the steps inside `box`, which runs the base image.

    Raises:
        BadTask: a step failed; the message has its line and its last words.
    """
    env: dict[str, str] = {}  # of the steps: build arguments count too
    workdir, shell = "/", ["/bin/sh", "-c"]
    for step in recipe.steps:
        if step.name == "ARG":
            name, _, value = step.value.partition("=")
            env.setdefault(name.strip(), _expand(_unquote(value), env))
        elif step.name == "ENV":
            env |= {key: _expand(value, {"PATH": PATH, **env}) for key, value in _pairs(step)}
        elif step.name == "WORKDIR":
            workdir = posixpath.join(workdir, _expand(_unquote(step.value), env))
            _run(box, recipe, step, ["mkdir", "-p", workdir], "/", env)
        elif step.name == "SHELL":
            shell = list(map(str, json.loads(step.value)))
        elif step.name == "RUN":
            words = _json_words(step.value)
            _run(box, recipe, step, words or [*shell, _script(step)], workdir, env)
        else:
            place(box, _copied(recipe, step, workdir, env))


def _script(step: Instruction) -> str:
    text = re.sub(r"^(--\w+(=\S+)?\s+)+", "", step.value)
    if not step.body:
        return text
    match = _HEREDOC.fullmatch(text.strip())
    ends = step.body if step.body.endswith("\n") else f"{step.body}\n"
    return ends if match else f"{text}\n{ends}{_HEREDOC.search(text)[2]}\n"  # type: ignore[index]


def _run(
    box: SyncSandbox, recipe: Recipe, step: Instruction, command: list[str], cwd: str, env: dict[str, str]
) -> None:
    path = f"{PATH_WITH_SHIMS.split(':')[0]}:{env['PATH']}" if "PATH" in env else PATH_WITH_SHIMS
    done = box.exec(command, cwd=cwd, env={**env, "PATH": path}, timeout=_TIMEOUT, merge_stderr=True)
    if done.exit_code:
        words = " ".join(done.text.split())[-300:]
        raise BadTask(f"{recipe.path}: line {step.line}: {step.name} failed ({done.exit_code}): {words}")


def _copied(recipe: Recipe, step: Instruction, workdir: str, env: dict[str, str]) -> list[File]:
    words = _json_words(step.value) or shlex.split(step.value)
    mode = next((int(word[8:], 8) for word in words if word.startswith("--chmod=")), None)
    *sources, target = [_expand(word, env) for word in words if not word.startswith("--")]
    to = posixpath.join(workdir, target)
    if step.body:
        found = [File(to, step.body.encode(), 0o644)]
    else:
        found = []
        context = recipe.path.parent
        for source in sources:
            name = posixpath.normpath(source.lstrip("/"))
            matches = [context] if name == "." else sorted(context.glob(name))
            if not matches or not all(match.resolve().is_relative_to(context.resolve()) for match in matches):
                raise BadTask(f"{recipe.path}: line {step.line}: there is no {source!r} in the build context")
            into = target.endswith("/") or target in (".", "./") or len(sources) > 1 or len(matches) > 1
            for match in matches:
                found += _below(context, match, to, into)
    return [File(file.path, file.data, mode or file.mode) for file in found]


def _below(context: Path, source: Path, to: str, into: bool) -> list[File]:
    if source.is_file():
        return [_file(source, posixpath.join(to, source.name) if into else to)]
    ignored = _ignored(context)
    return [
        _file(path, posixpath.join(to, path.relative_to(source).as_posix()))
        for path in sorted(source.rglob("*"))
        if path.is_file()
        and not path.is_symlink()
        and not any(fnmatch.fnmatch(path.relative_to(context).as_posix(), pattern) for pattern in ignored)
    ]


def _ignored(context: Path) -> list[str]:
    path = context / ".dockerignore"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    names = [line.strip().strip("/") for line in lines if line.strip() and line[0] not in "#!"]
    return [pattern for name in names for pattern in (name, f"{name}/*", name.removeprefix("**/"))]


def _file(path: Path, to: str) -> File:
    return File(to, path.read_bytes(), 0o755 if path.stat().st_mode & 0o100 else 0o644)


def _instructions(path: Path) -> list[Instruction]:
    lines = path.read_text(encoding="utf-8").splitlines()
    found, at = [], 0
    while at < len(lines):
        begin, text = at, ""
        while at < len(lines):
            line = lines[at]
            at += 1
            if not line.strip() or line.lstrip().startswith("#"):
                if text:
                    continue
                break
            text += line.rstrip().removesuffix("\\") if line.rstrip().endswith("\\") else line
            if not line.rstrip().endswith("\\"):
                break
        if not text.strip():
            continue
        name, _, value = text.strip().partition(" ")
        body = ""
        heredoc = _HEREDOC.search(value) if name.upper() in ("RUN", "COPY", "ADD") else None
        if heredoc:
            while at < len(lines) and lines[at].strip() != heredoc[2]:
                body += lines[at] + "\n"
                at += 1
            at += 1
        if heredoc and name.upper() in ("COPY", "ADD"):
            value = _HEREDOC.sub("here", value)
        found.append(Instruction(begin + 1, name.upper(), value.strip(), body))
    return found


def _pairs(step: Instruction) -> list[tuple[str, str]]:
    if "=" not in step.value.split()[0]:  # the old form: ENV NAME the rest
        name, _, value = step.value.partition(" ")
        return [(name, value.strip())]
    return [(key, value) for key, _, value in (word.partition("=") for word in shlex.split(step.value))]


def _json_words(value: str) -> list[str] | None:
    if not value.startswith("["):
        return None
    try:
        words = json.loads(value)
    except ValueError:
        return None
    return list(map(str, words)) if isinstance(words, list) else None


def _unquote(text: str) -> str:
    return text.strip().strip("\"'")


def _expand(text: str, values: dict[str, str]) -> str:
    def replace(match: re.Match[str]) -> str:
        name = match[1] or match[4]
        if name is None:
            return "$"
        if match[2] == ":-":
            return values.get(name) or match[3]
        if match[2] == ":+":
            return match[3] if values.get(name) else ""
        return values.get(name, "")

    return _VARIABLE.sub(replace, text)
