"""The device table of docs/smarthome_engine.md, made from the service tables so that it cannot differ from them.

Rewrite it with `python -m sandlot.envs.smarthome.sim.document docs/smarthome_engine.md`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .catalogue import DOMAINS
from .domain import Service
from .fields import Boolean, Choice, Duration, Field, Number

BEGIN, END = "<!-- device table: made by sim/document.py -->", "<!-- end of the device table -->"


def device_table() -> str:
    """The table in Markdown: a row for each domain."""
    lines = ["| domain | states | services | feature flags | over time |", "| --- | --- | --- | --- | --- |"]
    for name, domain in DOMAINS.items():
        services = "; ".join(_service(key, service) for key, service in domain.services.items())
        features = ", ".join(f"{key} {bit}" for key, bit in domain.features.items())
        lines.append(f"| `{name}` | {domain.states} | {services} | {features} | {domain.timing} |")
    return "\n".join(lines)


def _service(name: str, service: Service) -> str:
    fields = ", ".join(
        f"{field}{'*' if field in service.required else ''}{_range(kind)}" for field, kind in service.fields.items()
    )
    return f"`{name}`" + (f" ({fields})" if fields else "")


def _range(kind: Field) -> str:
    if isinstance(kind, Number) and kind.low is not None and kind.high is not None:
        return f" {kind.low:g}–{kind.high:g}"
    if isinstance(kind, Choice):
        return " " + "/".join(kind.options)
    if isinstance(kind, Boolean):
        return " on/off"
    return " time span" if isinstance(kind, Duration) else ""


def rewrite(page: str) -> str:
    """The page with the table between its marks replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{device_table()}\n\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(rewrite(path.read_text(encoding="utf-8")), encoding="utf-8")
