"""Generated tasks: the same bytes everywhere, splits apart, and nothing of the answer where the agent looks."""

from __future__ import annotations

import ast
import subprocess
import sys
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs.core import SPLITS, InvalidArgument, UnknownTask
from sandlot.envs.terminal.dice import NAMES, WORDS, Dice
from sandlot.envs.terminal.families import FAMILIES, LEVELS, debug
from sandlot.envs.terminal.generator import generate, make_draft
from sandlot.envs.terminal.stored import gzip_stored, zlib_stored
from sandlot.envs.terminal.tasks import SEEDS, GeneratedTasks

ALL = [(family, level) for family in FAMILIES for level in LEVELS]


def digest(seeds: int = 2) -> str:
    parts = sha256()
    for family, level in ALL:
        for seed in range(seeds):
            parts.update(repr(generate(family, level, seed)).encode())
            for file in (
                *generate(family, level, seed).setting.files,
                *generate(family, level, seed).steps[0].verifier.files,
            ):
                parts.update(file.path.encode() + file.data)
    return parts.hexdigest()[:8]


def test_there_are_twelve_families() -> None:
    assert len(FAMILIES) >= 12


def test_bytes_do_not_depend_on_the_process() -> None:
    code = "import sys; sys.path[:0] = ['tests/envs']; import test_terminal_generator as t; print(t.digest())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "7"}
    )
    assert done.stdout.strip() == digest()


@pytest.mark.parametrize(("family", "level"), ALL)
def test_seeds_differ_and_are_well_formed(family: str, level: int) -> None:
    seen = set()
    for seed in range(12):
        task = generate(family, level, seed)
        step = task.steps[0]
        seen.add((step.instruction, *((file.path, file.data) for file in task.setting.files)))
        program = next(file for file in step.verifier.files if file.path == "test_outputs.py")
        tests = [node.name for node in ast.parse(program.text).body if isinstance(node, ast.FunctionDef)]
        assert sum(name.startswith("test_") for name in tests) >= 3, "several criteria make progress visible"
        assert task.hint and step.solution and step.solution.commands
        assert all(file.path.startswith("/app/") for file in task.setting.files)
        visible = "\n".join([step.instruction, *(file.text for file in task.setting.files)])
        assert not any(secret in visible for secret in task.secrets), "the answer is in sight"
        assert "/tests" not in step.instruction
    assert len(seen) == 12


def test_splits_use_words_of_their_own() -> None:
    assert not set(WORDS["seen"]) & set(WORDS["unseen"]) and not set(NAMES["seen"]) & set(NAMES["unseen"])
    for family, level in ALL:
        for split, pool in (("train", "unseen"), ("test", "seen")):
            files = make_draft(family, level, 0, split).files
            stems = {part.split(".")[0] for path in files for part in path.split("/") if ".git" not in path}
            assert not stems & set(WORDS[pool]), f"{family} {level} {split}"


def test_every_fault_of_the_debugging_family_shows() -> None:
    for name, (_, source, faults, arguments) in debug._FUNCTIONS.items():
        for good, bad in faults:
            assert good in source, f"{name}: {good!r} is not in the source"
            values = [
                (debug._value(source, f"{name}({given})"), debug._value(source.replace(good, bad), f"{name}({given})"))
                for given in arguments
            ]
            assert any(before != after for before, after in values), f"{name}: {bad!r} changes nothing"
            assert all(before not in ("NameError", "SyntaxError") for before, _ in values)


def test_ids() -> None:
    tasks = GeneratedTasks("train", family=["git", "text"], level=2)
    assert len(tasks) == 2 * SEEDS
    assert tasks.at(0).id == "terminal/gen1/train/text-2/0"
    assert tasks.at(SEEDS + 7).id == "terminal/gen1/train/git-2/7"
    assert tasks.get("terminal/gen1/test/debug-3/5").split == "test"  # of any split, family and level
    for wrong in (
        "terminal/gen1/train/text-4/0",
        "terminal/gen1/train/text-2/00",
        "terminal/gen1/dev/text-2/0",
        "terminal/gen1/train/cooking-2/0",
    ):
        with pytest.raises(UnknownTask, match="permissions-2/1234"):
            tasks.get(wrong)
    with pytest.raises(IndexError):
        tasks.at(len(tasks))


@pytest.mark.parametrize("wrong", [{"family": "cooking"}, {"level": 4}, {"family": []}, {"level": 0}])
def test_unknown_families_and_levels(wrong: dict) -> None:
    with pytest.raises(InvalidArgument):
        GeneratedTasks("train", **wrong)


@given(st.binary(max_size=200_000))
@settings(max_examples=20, deadline=None)
def test_stored_streams_unpack(data: bytes) -> None:
    import gzip
    import zlib

    assert zlib.decompress(zlib_stored(data)) == data
    assert gzip.decompress(gzip_stored(data)) == data


@given(st.text(max_size=20), st.integers(-5, 5), st.integers(0, 10))
def test_dice(key: str, low: int, more: int) -> None:
    numbers = [Dice(key).number(low, low + more) for _ in range(3)]
    assert len(set(numbers)) == 1 and low <= numbers[0] <= low + more
    assert sorted(Dice(key).shuffled(range(9))) == list(range(9))
    assert set(SPLITS) == {"train", "valid_seen", "valid_unseen", "test"}
