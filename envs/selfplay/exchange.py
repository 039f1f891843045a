"""Pools as folders: to read, to keep in version control, to hand on."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .pool import FORMAT, Pool, PoolError
from .program import Program, ProgramError
from .tasks import ROLES

INDEX = "pool.json"
LINES = ("plays", "memory")
_META = ("format", "version")


def export_pool(pool: Pool, folder: Path) -> Path:
    """Write a pool as a new folder: a TOML file for each program, and what is known of them as JSON.

    `programs/<role>/<id>.toml`, `pool.json` (roles, gates' measures, signatures, retirement), `plays.jsonl` and
    `memory.jsonl`. The folder appears at once and whole, or not at all.

    Raises:
        PoolError: the folder is there already.
    """
    if folder.exists():
        raise PoolError(f"{folder} is there already: export into a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".exporting-"))
    try:
        index: dict[str, Any] = {"format": FORMAT, "version": pool.version, "programs": []}
        for row in pool.table("programs"):
            program = Program.from_dict(json.loads(row.pop("body")))
            program.save(draft / "programs" / row["role"] / f"{program.id}.toml")
            row |= {name: json.loads(row[name]) for name in ("signature", "measures")}
            index["programs"].append(row)
        (draft / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
        for name in LINES:
            lines = (json.dumps(row) + "\n" for row in pool.table(name))
            (draft / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
        draft.chmod(0o755)
        os.rename(draft, folder)  # noqa: PTH104 (Path.rename would replace an empty folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return folder


def import_pool(folder: Path, path: Path) -> Pool:
    """A new pool at `path` with everything that `export_pool` wrote into `folder`; the gates are not asked again.

    Raises:
        PoolError: the folder is no exported pool, a program in it was changed, or `path` holds a pool already.
    """
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        if index["format"] > FORMAT:
            raise PoolError(f"{folder} is of format {index['format']}; this version of sandlot reads up to {FORMAT}")
        programs = [_program(folder, row) for row in index["programs"]]
        tables: dict[str, Iterable[Mapping[str, Any]]] = {
            "meta": [{name: index[name] for name in _META}],
            "programs": programs,
            **{name: _lines(folder / f"{name}.jsonl") for name in LINES},
        }
    except (OSError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, PoolError):
            raise
        raise PoolError(f"{folder} is no exported pool: {type(error).__name__}: {error}") from None
    pool = Pool(path)
    try:
        pool.fill(tables)
    except BaseException:
        pool.close()
        raise
    return pool


def _program(folder: Path, row: dict[str, Any]) -> dict[str, Any]:
    if row["role"] not in ROLES or not re.fullmatch("[0-9a-f]{12}", row["id"]):  # they become a path
        raise PoolError(f"{folder} names a program {row['role']!r:.40}/{row['id']!r:.40}, which is no role and id")
    program = Program.load(folder / "programs" / row["role"] / f"{row['id']}.toml")
    if program.id != row["id"]:
        raise ProgramError(f"program {row['id']} was changed after its export: it is {program.id} now")
    stored = {name: json.dumps(row[name]) for name in ("signature", "measures")}
    return {**row, **stored, "body": json.dumps(program.to_dict())}


def _lines(path: Path) -> list[Mapping[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
