"""A program: one environment as a text that a person can read, with its manifest and its reference solution.

On disk it is one TOML file, or a folder of `env.py`, `solution.py` and `manifest.toml`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from ..core.errors import UserError
from ..core.text_env import text_key

HORIZON = 50
"""The most accepted actions that an episode may need; the step limit that `sandlot/SelfPlay-v0` is registered with."""
LONGEST = {"title": 80, "rules": 4_000, "actions": 1_000, "hint": 2_000, "solution": 40_000, "source": 40_000}
"""Characters of each text."""
_FOLDER = ("env.py", "solution.py", "manifest.toml")
_MECHANIC = re.compile(r"[a-z][a-z0-9_]{0,39}")


class ProgramError(UserError, ValueError):
    """What was given is no program; the message says what is missing or wrong."""


@dataclass(frozen=True)
class Manifest:
    """What belongs to a program and is not part of its source."""

    title: str
    """A few words."""
    rules: str
    """What the agent is told: becomes the instruction."""
    actions: str
    """The action grammar, one form per line; see `grammar.py`."""
    horizon: int
    """After this many accepted actions an episode is over, whatever was played; 1 to `HORIZON`."""
    hint: str
    """What would help; shown only to a policy that plays with the hint."""
    solution: str
    """Source that defines `class Solution`; it never enters the program's sandbox."""
    mechanics: tuple[str, ...] = ()
    """Tags of what the program is made of, such as "inventory"."""


@dataclass(frozen=True)
class Lineage:
    """Where a program comes from."""

    designer: str = ""
    """Who wrote it."""
    parents: tuple[str, ...] = ()
    """Ids of the programs that it was made from."""
    operation: str = ""
    """How it was made from them, such as "mutate"."""
    generation: int = 0
    """Which round of design."""


@dataclass(frozen=True)
class Program:
    """One generated environment."""

    source: str
    """Python that defines `class Game` with `reset(seed)` and `step(action)`."""
    manifest: Manifest
    """Its texts and its reference solution."""
    lineage: Lineage = field(default_factory=Lineage)
    """Where it comes from; no part of its identity."""

    @property
    def id(self) -> str:
        """12 hexadecimal digits: the hash of everything but the lineage."""
        known = self.__dict__.get("_id")
        if known is None:
            known = text_key(self.source, json.dumps(dataclasses.asdict(self.manifest), sort_keys=True))[:12]
            object.__setattr__(self, "_id", known)
        return known

    def task_id(self, seed: int) -> str:
        """The id of the task that starts this program with `seed`."""
        return f"selfplay/{self.id}/{seed}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and TOML."""
        data = {"title": self.manifest.title, "horizon": self.manifest.horizon}
        data |= {"mechanics": list(self.manifest.mechanics), "rules": self.manifest.rules}
        data |= {"actions": self.manifest.actions, "hint": self.manifest.hint}
        data |= {"source": self.source, "solution": self.manifest.solution}
        lineage = {**dataclasses.asdict(self.lineage), "parents": list(self.lineage.parents)}
        return {**data, "lineage": lineage}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Program:
        """What `to_dict` gave.

        Raises:
            ProgramError: something is missing or of the wrong type.
        """
        return cls(_text(data, "source"), _manifest(data), _lineage(data.get("lineage", {})))

    def save(self, path: Path) -> Path:
        """Write it: one file where the path ends in `.toml`, else a folder. Returns the path."""
        data = self.to_dict()
        if path.suffix == ".toml":
            write_whole(path, _toml(data))
            return path
        path.mkdir(parents=True, exist_ok=True)
        write_whole(path / "env.py", data.pop("source"))
        write_whole(path / "solution.py", data.pop("solution"))
        write_whole(path / "manifest.toml", _toml(data))
        return path

    @classmethod
    def load(cls, path: Path) -> Program:
        """Read what `save` wrote.

        Raises:
            ProgramError: there is nothing there, or no program.
        """
        try:
            if path.is_dir():
                env, solution, manifest = ((path / name).read_text(encoding="utf-8") for name in _FOLDER)
                return cls.from_dict({**tomllib.loads(manifest), "source": env, "solution": solution})
            return cls.from_dict(tomllib.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError as error:
            raise ProgramError(
                f"no program at {path}: {Path(error.filename).name} is missing; a program is a .toml file or a folder "
                f"of {', '.join(_FOLDER)}"
            ) from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ProgramError(f"{path}: {error}") from None
        except ProgramError as error:
            raise ProgramError(f"{path}: {error}") from None

    def problems(self) -> list[str]:
        """What is wrong with the manifest, in words; empty where nothing is."""
        manifest = self.manifest
        texts = {**{name: getattr(manifest, name) for name in LONGEST if name != "source"}, "source": self.source}
        found = [f"{name} is empty" for name, text in texts.items() if not text.strip()]
        found += [
            f"{name} has {len(text)} characters, at most {LONGEST[name]} are allowed"
            for name, text in texts.items()
            if len(text) > LONGEST[name]
        ]
        if not 1 <= manifest.horizon <= HORIZON:
            found.append(f"horizon is {manifest.horizon}, it must be from 1 to {HORIZON}")
        wrong = [tag for tag in manifest.mechanics if not _MECHANIC.fullmatch(tag)]
        if wrong or len(manifest.mechanics) > 20:
            found.append(f"mechanics are at most 20 tags of small letters, not {wrong[:1] or len(manifest.mechanics)}")
        return found


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a crash leaves the old one or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    if not isinstance(value, str):
        raise ProgramError(f"{name} must be a text, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ProgramError(f"{name} holds what is no character (a lone surrogate)") from None
    if "\0" in value:
        raise ProgramError(f"{name} holds a zero byte")
    return value


def _texts(data: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = data.get(name, [])
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise ProgramError(f"{name} must be a list of texts")
    return tuple(value)


def _number(data: Mapping[str, Any], name: str) -> int:
    value = data.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ProgramError(f"{name} must be an integer, not {value!r:.40}")
    return value


def _manifest(data: Mapping[str, Any]) -> Manifest:
    title, rules, actions, hint, solution = (
        _text(data, name) for name in ("title", "rules", "actions", "hint", "solution")
    )
    return Manifest(title, rules, actions, _number(data, "horizon"), hint, solution, _texts(data, "mechanics"))


def _lineage(data: Any) -> Lineage:
    if not isinstance(data, Mapping):
        raise ProgramError("lineage must be a table")
    whole = {"designer": "", "operation": "", "generation": 0, **data}
    return Lineage(
        _text(whole, "designer"), _texts(whole, "parents"), _text(whole, "operation"), _number(whole, "generation")
    )


def _toml(data: Mapping[str, Any]) -> str:
    """TOML in which programs read as they were written: literal strings of several lines, where a text allows it."""
    lines = []
    for name, value in data.items():
        plain = isinstance(value, str) and "\n" in value and "'''" not in value and not value.endswith("'")
        if plain and all(character >= " " or character in "\n\t" for character in value) and "\x7f" not in value:
            lines.append(f"{name} = '''\n{value}'''\n")
        else:
            lines.append(tomli_w.dumps({name: value}))
    return "".join(lines)
