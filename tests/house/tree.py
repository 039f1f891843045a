"""The project's own source files, as the tests of the house see them."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLOORS = ("sandboxes", "envs", "harness", "trainers")  # from the ground up


def sources(folder: str) -> list[Path]:
    """The Python files below a folder of the repository."""
    return sorted(path for path in (ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts)


def module_name(path: Path) -> str:
    """The import name of a file of `sandlot/` or of a floor."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[0] != "sandlot":
        parts.insert(0, "sandlot")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def code_lines(path: Path) -> int:
    """Lines that hold code: neither blank, nor comment, nor docstring."""
    text = path.read_text(encoding="utf-8")
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        for child in ast.iter_child_nodes(node):
            if (
                isinstance(child, ast.Expr)
                and isinstance(child.value, ast.Constant)
                and isinstance(child.value.value, str)
            ):
                documented.update(range(child.lineno, (child.end_lineno or child.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(bool(line.strip()) and not line.strip().startswith("#") and n not in documented for n, line in lines)
