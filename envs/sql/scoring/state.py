"""Whether a changed database is in the right state: every table and view, those that must not change included."""

from __future__ import annotations

from ..backends.base import DatabaseState, TableState
from ..backends.database import TableSchema
from .compare import Tolerance, Verdict, normal, same_rows

_FAMILIES = (
    ("INT", "integer"),
    ("CHAR", "text"),
    ("CLOB", "text"),
    ("TEXT", "text"),
    ("STRING", "text"),
    ("BLOB", "blob"),
    ("BYTEA", "blob"),
    ("REAL", "number"),
    ("FLOA", "number"),
    ("DOUB", "number"),
    ("DEC", "number"),
    ("NUM", "number"),
    ("BOOL", "boolean"),
    ("TIMESTAMP", "time"),
    ("DATETIME", "time"),
    ("DATE", "date"),
)


def compare_states(pred: DatabaseState, gold: DatabaseState, tolerance: Tolerance = Tolerance()) -> Verdict:  # noqa: B008
    """Compare two states.

    Names count without case, columns by name in any order. Of a schema count: columns with their family of types,
    primary key, unique lists and references; not NOT NULL and defaults, which requests hardly ever name.
    """
    if not pred.complete or not gold.complete:
        return Verdict(False, "the database has become too large")
    for name in sorted(gold.tables.keys() | pred.tables.keys()):
        if name not in pred.tables:
            return Verdict(False, f"{name} is missing")
        if name not in gold.tables:
            return Verdict(False, f"{name} should not be there")
        reason = _difference(pred.tables[name], gold.tables[name], tolerance)
        if reason:
            return Verdict(False, f"{name}: {reason}")
    return Verdict(True, "the databases are equal")


def agreeing_tables(pred: DatabaseState, gold: DatabaseState, initial: DatabaseState) -> float:
    """Share of the tables that must change which are right by now, 0.0 where another table has changed."""
    tolerance = Tolerance()
    done = total = 0
    for name in gold.tables.keys() | initial.tables.keys() | pred.tables.keys():
        wanted, given, first = (state.tables.get(name) for state in (gold, pred, initial))
        if _equal(wanted, first, tolerance):
            if not _equal(given, wanted, tolerance):
                return 0.0
        else:
            total += 1
            done += _equal(given, wanted, tolerance)
    return done / total if total else 1.0


def _equal(a: TableState | None, b: TableState | None, tolerance: Tolerance) -> bool:
    if a is None or b is None:
        return a is b
    return not _difference(a, b, tolerance)


def _difference(pred: TableState, gold: TableState, tolerance: Tolerance) -> str:
    mine, right = pred.schema, gold.schema
    places = {column.name.lower(): i for i, column in enumerate(mine.columns)}
    wanted = [column.name.lower() for column in right.columns]
    if mine.view != right.view:
        return "a view and a table are not the same"
    if sorted(places) != sorted(wanted):
        return "the columns differ"
    if not right.view:
        if any(
            family(mine.columns[places[name]].type) != family(column.type)
            for name, column in zip(wanted, right.columns)
        ):
            return "the type of a column differs"
        if _constraints(mine) != _constraints(right):
            return "the keys differ"
    if pred.rows is None or gold.rows is None:
        return "" if pred.rows is gold.rows else "it cannot be read"
    order = [places[name] for name in wanted]
    given = [normal(tuple(row[i] for i in order)) for row in pred.rows]
    expected = [normal(row) for row in gold.rows]
    if len(given) != len(expected):
        return "the number of rows differs"
    return "" if same_rows(given, expected, tolerance) else "the rows differ"


def family(declared: str) -> str:
    """The family of a declared type: "integer", "text", "number" ...; "" for types that say nothing."""
    upper = declared.upper()
    return next((name for word, name in _FAMILIES if word in upper), "")


def _constraints(schema: TableSchema) -> tuple[object, ...]:
    def lower(columns: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name.lower() for name in columns)

    return (
        lower(schema.primary_key),
        sorted(lower(columns) for columns in schema.unique),
        sorted((lower(key.columns), key.table.lower(), lower(key.references)) for key in schema.foreign_keys),
    )
