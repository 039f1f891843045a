"""The table of families and kinds in docs/smarthome_tasks.md, made from the registry of kinds.

Rewrite it with `python -m sandlot.envs.smarthome.tasks.document docs/smarthome_tasks.md`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .make import KINDS

BEGIN, END = "<!-- kinds: made by tasks/document.py -->", "<!-- end of the kinds -->"


def kind_table() -> str:
    """The table in Markdown: a row for each kind, in the order of the tasks' numbers."""
    lines = ["| number | family | kind | what is asked for |", "| --- | --- | --- | --- |"]
    for number, (kind, (family, maker)) in enumerate(KINDS.items()):
        summary = (maker.__doc__ or "").partition("\n")[0]
        lines.append(f"| {number} | `{family}` | `{kind}` | {summary} |")
    return "\n".join(lines)


def rewrite(page: str) -> str:
    """The page with the table between its marks replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{kind_table()}\n\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(rewrite(path.read_text(encoding="utf-8")), encoding="utf-8")
