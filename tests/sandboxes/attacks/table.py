"""The table of docs/security.md, from the cases and the outcomes that were recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attacks.cases import BACKENDS, FOLDER, TITLES, Attack

ROOT = FOLDER.parents[2]
PAGE = ROOT / "docs" / "security.md"
OUTCOMES = FOLDER / "outcomes.json"
BEGIN, END = "<!-- attacks: begin -->\n", "<!-- attacks: end -->"


def table(attacks: Sequence[Attack], outcomes: Mapping[str, Mapping[str, str]]) -> str:
    """Markdown: a heading and a table for each theme. What a backend does not hold is bold."""
    lines: list[str] = []
    for theme, title in TITLES.items():
        lines += ["", f"### {title}", "", f"| attempt | {' | '.join(BACKENDS)} |", "| --- | --- | --- | --- |"]
        for attack in attacks:
            if attack.theme == theme:
                cells = [_cell(attack, backend, outcomes[attack.name][backend]) for backend in BACKENDS]
                lines.append(f"| {attack.title.replace('|', chr(92) + '|')} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n\n"


def _cell(attack: Attack, backend: str, outcome: str) -> str:
    return f"**not held: {outcome}**" if backend in attack.not_held else outcome
