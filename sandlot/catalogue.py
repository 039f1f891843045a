"""What there is: one row per registered environment, found without importing any of their dependencies."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

from sandlot.envs.core.registry import REGISTRY, Registration


@dataclass(frozen=True)
class Row:
    """One environment, as lists and tables show it."""

    id: str
    family: str
    steps: int
    """The registered step limit."""
    extra: str
    """The optional-dependency group it needs, or ""."""
    installed: bool
    """Whether that group is installed."""
    summary: str
    """The first line of the class docstring."""


def rows() -> list[Row]:
    """All environments, by family (in order of registration), then by id."""
    families = list(dict.fromkeys(entry.family for entry in REGISTRY.values()))
    ordered = sorted(REGISTRY.values(), key=lambda entry: (families.index(entry.family), entry.id))
    return [
        Row(e.id, e.family, e.max_episode_steps, e.extra or "", not missing_packages(e.extra), summary(e))
        for e in ordered
    ]


def summary(entry: Registration) -> str:
    """The first line of the environment's docstring."""
    return docstring(entry).partition("\n")[0]


def docstring(entry: Registration) -> str:
    """The docstring of the environment's class, read from its source; "" where there is none."""
    module, name = entry.target.split(":")
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return ""
    for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return ast.get_docstring(node) or ""
    return ""


def missing_packages(extra: str | None) -> list[str]:
    """The distributions of an optional-dependency group that are not installed."""
    if not extra:
        return []
    wanted = []
    for requirement in importlib.metadata.requires("sandlot") or []:
        if re.search(rf"""extra\s*==\s*["']{re.escape(extra)}["']""", requirement):
            wanted.append(re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0])
    return [name for name in wanted if not _installed(name)]


def _installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
