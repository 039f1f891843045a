"""docs/objectives.md names functions that compute and tests that are there."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed (extra: train)")

ROOT = Path(__file__).parents[2]
ROWS = re.findall(
    r"^\| [^|]+ \| ((?:`\w+\.\w+`(?:, )?)+) \| `(test_\w+\.py)::(\w+)` \|$",
    (ROOT / "docs" / "objectives.md").read_text(encoding="utf-8"),
    flags=re.MULTILINE,
)


def test_every_objective_is_listed() -> None:
    assert len(ROWS) == 25  # a row that the pattern does not know would go unchecked


@pytest.mark.parametrize(("computed", "file", "test"), ROWS)
def test_what_the_page_names_is_there(computed: str, file: str, test: str) -> None:
    for name in re.findall(r"`(\w+)\.(\w+)`", computed):
        thing = getattr(import_module(f"sandlot.trainers.{name[0]}"), name[1])
        assert thing.__doc__, name
    assert f"def {test}(" in (ROOT / "tests" / "trainers" / file).read_text(encoding="utf-8")
