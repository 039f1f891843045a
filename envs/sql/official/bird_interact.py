"""BIRD-Interact (lite, full, mini-interact): ambiguous requests, knowledge bases, follow-ups.

`bird_interact_data.jsonl` or `mini_interact.jsonl`; per database, in `<db>/` or `DBs/<db>/`: `<db>_template.sqlite` or
`<db>.sqlite` (mini-interact) or `<db>.sql` (a script for PostgreSQL, with INSERT statements), `<db>_kb.jsonl` and
`<db>_column_meaning_base.json`. The gold statements come from the benchmark's authors by e-mail: items without them
are refused.

Requests that change the database (category "Management") are refused as well. They are judged by Python programs that
come with the gold statements, open connections of their own to PostgreSQL and ask whatever they like of it; and many
want what sessions here keep closed: functions in PL/pgSQL, triggers. A follow-up of that category is left out, and the
request before it is then worth 1.0.

The benchmark has no canned answers. They are made of what its user simulator is given: for knowledge that is hidden,
the definition; for the rest, the statement's part that the term stands for, which is what the user means by it; a part
that is the whole statement is never said.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from ...core.errors import MissingData
from ..actions import squeeze
from ..backends.database import Database
from ..task import Ambiguity, InteractTask, Knowledge, Phase
from .entry import Entry, field, read_json

FILES = ("bird_interact_data.jsonl", "mini_interact.jsonl")
FOLDERS = (".", "DBs", "databases")
CHANGES = "it changes the database (Management): judged by the benchmark's Python programs, which are not run here"
NO_WORDS = "I can't put that into other words."
NO_GOLD = "it has no sol_sql: ask the benchmark's authors for it"


def read(path: str) -> list[Entry]:
    """The requests of a BIRD-Interact folder. Raises `MissingData` where its files are not."""
    files = [Path(path, name) for name in FILES if Path(path, name).is_file()]
    if not files:
        raise MissingData(f"no BIRD-Interact tasks in {path}: expected {' or '.join(FILES)}")
    found = []
    for file in files:
        for item in read_json(file):
            name = field(item, "instance_id", file)
            refused = "" if item.get("sol_sql") else NO_GOLD
            if item.get("category", "Query") != "Query":
                refused = CHANGES
            build = partial(_task, item, file)
            found.append(Entry(f"sql/bird_interact/{file.stem}/{name}", "test", "interact", build, refused))
    return found


def _task(item: Any, file: Path) -> InteractTask:
    name = field(item, "selected_database", file)
    folder = _folder(file.parent, name)
    knowledge = {entry["id"]: entry for entry in _optional(folder / f"{name}_kb.jsonl", [])}
    database = _database(folder, name)
    dialect = database.dialect
    phases = [Phase(field(item, "amb_user_query", file), _gold(item, item, dialect))]
    open_terms = list((item.get("user_query_ambiguity") or {}).get("critical_ambiguity") or ())
    unknown = list(item.get("knowledge_ambiguity") or ())
    hidden = {each.get("deleted_knowledge") for each in unknown}
    ambiguities = []
    for each in open_terms + unknown:
        term, snippet = field(each, "term", file), field(each, "sql_snippet", file)
        known = knowledge.get(each.get("deleted_knowledge"))
        text = f"{known['knowledge']}: {known['definition']}" if known else _meant(term, snippet, phases[0].gold)
        ambiguities.append(Ambiguity(term, text, snippet, (str(known["knowledge"]),) if known else ()))
    follow_up = item.get("follow_up") or {}
    if follow_up.get("sol_sql") and follow_up.get("category", "Query") == "Query":
        phases.append(Phase(field(follow_up, "query", file), _gold(follow_up, item, dialect)))
    entries = tuple(
        Knowledge(str(e["knowledge"]), str(e["definition"]), number in hidden, str(e.get("description", "")))
        for number, e in knowledge.items()
    )
    meanings = _meanings(_optional(folder / f"{name}_column_meaning_base.json", {}))
    return InteractTask(
        database, tuple(phases), tuple(ambiguities), entries, meanings, str(item.get("difficulty_tier", "")), dialect
    )


def _meant(term: str, snippet: str, gold: str) -> str:
    """What the user says about a term, unless that would be the answer."""
    if squeeze(gold).lower() in squeeze(snippet).lower():
        return NO_WORDS
    return f"By {term} I mean: {snippet}"


def _gold(part: Any, item: Any, dialect: str) -> str:
    """The gold statement; without its ORDER BY where the benchmark says that order does not count."""
    solution = part["sol_sql"]
    statement = solution if isinstance(solution, str) else solution[-1]
    conditions = part.get("conditions") or item.get("conditions") or {}
    if conditions.get("order", True):
        return statement
    import sqlglot

    tree = sqlglot.parse_one(statement, read=dialect)
    if tree.args.get("order") is None or tree.args.get("limit") is not None:
        return statement
    tree.set("order", None)
    return tree.sql(dialect=dialect)


def _folder(root: Path, name: str) -> Path:
    for folder in FOLDERS:
        if (root / folder / name).is_dir():
            return root / folder / name
    raise MissingData(f"no folder of database {name!r}: expected {root / name} or {root / 'DBs' / name}")


def _database(folder: Path, name: str) -> Database:
    for file in (folder / f"{name}_template.sqlite", folder / f"{name}.sqlite"):
        if file.is_file():
            return Database.from_file(file, name)
    script = folder / f"{name}.sql"
    if script.is_file():
        return Database(name, script=script.read_text(encoding="utf-8"), dialect="postgres")
    raise MissingData(f"no database {name!r}: expected {folder / name}.sqlite, or {name}.sql for PostgreSQL")


def _optional(file: Path, default: Any) -> Any:
    return read_json(file) if file.is_file() else default


def _meanings(found: Any) -> tuple[tuple[str, str], ...]:
    """`{"db|table|column": text or {"column_meaning": text, …}}` as pairs."""
    pairs = []
    for key, value in found.items():
        text = value.get("column_meaning", value) if isinstance(value, dict) else value
        pairs.append((".".join(key.split("|")[-2:]), str(text)))
    return tuple(pairs)
