"""Write the generated parts of the documentation: the README's table, `docs/envs/` and `docs/systems/index.md`.

They come from the registry and from docstrings, read without importing any optional dependency. `--check` writes
nothing and fails where something is out of date.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from sandlot.catalogue import docstring, rows
from sandlot.envs.core.registry import REGISTRY
from sandlot.trainers.methods import BASELINES
from sandlot.trainers.systems import systems

ROOT = Path(__file__).resolve().parent.parent
GENERATED = "<!-- written by `make docs` from {}: edit there -->\n"


def short(env_id: str) -> str:
    """An id without "sandlot/": the name of its page."""
    return env_id.rpartition("/")[2]


def environments(folder: str) -> str:
    """The registry as a Markdown table; `folder` is where the pages are."""
    lines = ["| environment | what it is | steps | extra |", "| --- | --- | --- | --- |"]
    for row in rows():
        extra = f"`{row.extra}`" if row.extra else ""
        lines.append(f"| [`{row.id}`]({folder}{short(row.id)}.md) | {row.summary} | {row.steps} | {extra} |")
    return "\n".join(lines)


def environment_index() -> str:
    """docs/envs/index.md."""
    return (
        GENERATED.format("the registry")
        + "\n# Environments\n\n"
        + "Every page is the docstring of the environment's class, always under the same headings. `sandlot list` "
        + "shows this\ntable with what is installed here.\n\n"
        + environments("")
        + "\n"
    )


def environment_page(env_id: str) -> str:
    """The page of one environment."""
    entry = REGISTRY[env_id]
    summary, _, text = docstring(entry).partition("\n")
    file = entry.target.partition(":")[0].removeprefix("sandlot.").replace(".", "/") + ".py"
    extra = f"`pip install 'sandlot[{entry.extra}]'`" if entry.extra else "none"
    header = [
        f"- Id: `{entry.id}`",
        f"- Step limit: {entry.max_episode_steps}",
        f"- Extra: {extra}",
        f"- Play it: `sandlot play {short(entry.id).rpartition('-v')[0]}`",
        f"- Code: [`{file}`](../../{file})",
    ]
    lines = "\n".join(header)
    return f"{GENERATED.format('the docstring')}\n# {short(entry.id)}\n\n{summary}\n\n{lines}\n\n{text.strip()}\n"


def system_index() -> str:
    """docs/systems/index.md."""
    baselines = ["| recipe | what it is |", "| --- | --- |"]
    baselines += [f"| `{name}` | {first_paragraph(make.__doc__)} |" for name, make in BASELINES.items()]
    published = ["| recipe | what it is | tests | page |", "| --- | --- | --- | --- |"]
    for name in systems():
        module = ast.parse((ROOT / "trainers" / "systems" / f"{name}.py").read_text(encoding="utf-8"))
        tested = (ROOT / "tests" / "trainers" / "systems" / f"test_{name}.py").exists()
        page = f"[{name}.md]({name}.md)" if (ROOT / "docs" / "systems" / f"{name}.md").exists() else "–"
        purpose = first_paragraph(ast.get_docstring(module))
        published.append(f"| `{name}` | {purpose} | {'yes' if tested else 'no'} | {page} |")
    return (
        GENERATED.format("docstrings")
        + "\n# Recipes\n\nWhat `sandlot train --recipe NAME` and `sandlot compare` know. How to add one: "
        + "[write your own recipe](../write_your_own_recipe.md).\n\n"
        + "## Baselines\n\nIn [`trainers/methods.py`](../../trainers/methods.py).\n\n"
        + "\n".join(baselines)
        + "\n\n## Published systems\n\nOne file each in [`trainers/systems/`](../../trainers/systems/).\n\n"
        + "\n".join(published)
        + "\n"
    )


def first_paragraph(text: str | None) -> str:
    """The first paragraph of a docstring on one line."""
    return " ".join((text or "").partition("\n\n")[0].split())


def replaced(text: str, name: str, content: str) -> str:
    """`text` with `content` between the marks `<!-- name… -->` and `<!-- /name -->`."""
    pattern = re.compile(rf"(<!-- {name}\b[^>]*-->\n).*?(<!-- /{name} -->)", re.DOTALL)
    assert pattern.search(text), f"no <!-- {name} --> marks"
    return pattern.sub(lambda found: f"{found[1]}{content}\n{found[2]}", text)


def pages(root: Path) -> dict[Path, str | None]:
    """What every generated file should hold; None: the file should not be there."""
    readme = root / "README.md"
    wanted: dict[Path, str | None] = dict.fromkeys((root / "docs" / "envs").glob("*.md"))
    wanted[readme] = replaced(readme.read_text(encoding="utf-8"), "environments", environments("docs/envs/"))
    wanted[root / "docs" / "envs" / "index.md"] = environment_index()
    for env_id in REGISTRY:
        wanted[root / "docs" / "envs" / f"{short(env_id)}.md"] = environment_page(env_id)
    wanted[root / "docs" / "systems" / "index.md"] = system_index()
    return wanted


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    stale = {
        path: text
        for path, text in pages(root).items()
        if text != (path.read_text(encoding="utf-8") if path.exists() else None)
    }
    if "--check" in arguments:
        for path in stale:
            print(f"{path.relative_to(root)} is out of date: run `make docs`", file=sys.stderr)
        return 1 if stale else 0
    for path, text in stale.items():
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
