"""Write the generated parts of the documentation: the table of environments in README.md, from the registry.

`--check` writes nothing and fails where something is out of date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sandlot.catalogue import rows

ROOT = Path(__file__).resolve().parent.parent


def environments() -> str:
    """The registry as a Markdown table."""
    lines = ["| environment | what it is | steps | extra |", "| --- | --- | --- | --- |"]
    for row in rows():
        extra = f"`{row.extra}`" if row.extra else ""
        lines.append(f"| `{row.id}` | {row.summary} | {row.steps} | {extra} |")
    return "\n".join(lines)


def replaced(text: str, name: str, content: str) -> str:
    """`text` with `content` between the marks `<!-- name… -->` and `<!-- /name -->`."""
    pattern = re.compile(rf"(<!-- {name}\b[^>]*-->\n).*?(<!-- /{name} -->)", re.DOTALL)
    assert pattern.search(text), f"no <!-- {name} --> marks"
    return pattern.sub(lambda found: f"{found[1]}{content}\n{found[2]}", text)


def main() -> int:
    readme = ROOT / "README.md"
    old = readme.read_text(encoding="utf-8")
    new = replaced(old, "environments", environments())
    if old == new:
        return 0
    if "--check" in sys.argv:
        print("README.md is out of date: run `make docs`", file=sys.stderr)
        return 1
    readme.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
