"""The auditor finds what was planted, and nothing else; the command line shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sandlot.cli import app
from sandlot.envs.terminal.audit import LABELS, Audit, audit
from sandlot.envs.terminal.backends import workspaces
from sandlot.envs.terminal.folders import load_task
from sandlot.envs.terminal.generator import generate
from sandlot.envs.terminal.task import File, TerminalTask
from sandlot.envs.terminal.workspace import Workspace
from sandlot.sandboxes.errors import SandboxUnavailable


@pytest.fixture(scope="module")
def spaces() -> Iterator[tuple[Workspace, Workspace]]:
    agent, other = workspaces("namespace")
    try:
        agent.begin(generate("text", 1, 0))
    except SandboxUnavailable as error:
        pytest.skip(f"no sandbox here: {error}")
    yield agent, other
    agent.close()
    other.close()


def write(folder: Path, test: str, solution: str = "echo 42 > /app/answer.txt\n", toml: str = "") -> TerminalTask:
    for name, text in {
        "task.toml": f'{toml}[metadata]\nsandlot_verifier = "clean"\n',
        "instruction.md": "Write the answer to /app/answer.txt.",
        "tests/test.sh": test,
        "solution/solve.sh": solution,
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return load_task(folder)


GOOD = 'if [ "$(cat /app/answer.txt)" = 42 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n'


def reasons(found: Audit) -> str:
    return "; ".join(f"{finding.label}: {finding.reason}" for finding in found.findings)


def test_a_good_task_is_good(spaces: tuple[Workspace, Workspace], tmp_path: Path) -> None:
    found = audit(write(tmp_path / "t", GOOD), *spaces)
    assert (found.labels, found.oracle, found.nothing, found.nonsense) == ((), 1.0, 0.0, 0.0), reasons(found)


@pytest.mark.parametrize(
    ("label", "test", "said"),
    [
        ("weak", "echo 1 > /logs/verifier/reward.txt\n", "doing nothing scores 1"),
        (
            "weak",
            "if [ -d /app/out ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n",
            "nonsense scores 1",
        ),
        ("impossible", GOOD.replace("= 42", "= 43"), "the author's solution scores 0"),
        ("impossible", "echo 0.5 > /logs/verifier/reward.txt; [ -f /app/answer.txt ]\n", "solution scores 0.5"),
        ("flaky", f"[ $((0x$(od -An -N1 -tx1 /dev/urandom | tr -d ' ') % 2)) = 0 ] || exit; {GOOD}", "no verdict"),
    ],
)
def test_planted_defects_are_found(
    spaces: tuple[Workspace, Workspace], tmp_path: Path, label: str, test: str, said: str
) -> None:
    solution = "mkdir -p /app/out; echo 42 > /app/answer.txt\n"
    found = audit(write(tmp_path / "t", test, solution), *spaces, repeats=12 if label == "flaky" else 2)
    assert label in found.labels and said in reasons(found), reasons(found)


def test_a_verifier_that_changes_its_mind_is_flaky(spaces: tuple[Workspace, Workspace], tmp_path: Path) -> None:
    # 16 judgements of one random bit: all the same once in 32768 times
    coin = "echo $((0x$(od -An -N1 -tx1 /dev/urandom | tr -d ' ') % 2)) > /logs/verifier/reward.txt\n"
    found = audit(write(tmp_path / "t", coin), *spaces, repeats=16)
    assert "flaky" in found.labels and "judged differently" in reasons(found)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (File("/app/notes.txt", b"the numbers add up to 987654321\n"), "app/notes.txt holds the answer"),
        (File("/app/x/test.sh", GOOD.encode()), "is a copy of test.sh"),
        (File("/app/.oracle/data.bin", b"\0"), "is named like an answer"),
        (File("/tests/test.sh", b"exit\n"), "/tests exists before the agent starts"),
    ],
)
def test_leaks_are_found(spaces: tuple[Workspace, Workspace], tmp_path: Path, file: File, said: str) -> None:
    task = write(tmp_path / "t", GOOD)
    task = replace(task, secrets=("987654321",), setting=replace(task.setting, files=(file,)))
    found = audit(task, *spaces, repeats=1)
    assert found.labels == ("leaking",) and said in reasons(found), reasons(found)


def test_a_solution_in_sight_leaks(spaces: tuple[Workspace, Workspace], tmp_path: Path) -> None:
    solution = "".join(f"echo line number {n} > /app/file{n}.txt\n" for n in range(4)) + "echo 42 > /app/answer.txt\n"
    task = write(tmp_path / "t", GOOD, solution)
    shown = File("/app/history.txt", f"as typed:\n{solution}".encode())
    found = audit(replace(task, setting=replace(task.setting, files=(shown,))), *spaces, repeats=1)
    assert "holds the lines of the solution" in reasons(found)


def test_the_instruction_must_not_tell(spaces: tuple[Workspace, Workspace], tmp_path: Path) -> None:
    task = write(tmp_path / "t", GOOD)
    step = replace(task.steps[0], instruction="Write 42424242 to /app/answer.txt.")
    found = audit(replace(task, steps=(step,), secrets=("42424242",)), *spaces, repeats=1)
    assert found.labels == ("leaking",)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_generated_tasks_pass_the_audit(spaces: tuple[Workspace, Workspace], level: int) -> None:
    from sandlot.envs.terminal.families import FAMILIES

    for family in FAMILIES:
        found = audit(generate(family, level, 11, "test"), *spaces, repeats=1)
        assert (found.labels, found.oracle, found.nothing) == ((), 1.0, 0.0), f"{found.task}: {reasons(found)}"


def test_command_line(tmp_path: Path) -> None:
    run = CliRunner().invoke
    out = tmp_path / "out"
    done = run(app, ["tasks", "export", str(out), "--family", "text", "--level", "1", "--seeds", "3:5"])
    assert done.exit_code == 0 and "2 tasks in" in done.output
    assert sorted(path.name for path in out.iterdir()) == ["text-1-train-3", "text-1-train-4"]
    write(tmp_path / "bad", "echo 1 > /logs/verifier/reward.txt\n")
    done = run(app, ["tasks", "audit", str(tmp_path / "bad"), "--repeats", "1", "--backend", "namespace"])
    assert (
        done.exit_code == 1
        and "weak: doing nothing scores 1" in done.output
        and "1 with something wrong" in done.output
    )
    done = run(app, ["tasks", "audit", "--family", "text", "--level", "1", "--repeats", "1", "--backend", "namespace"])
    assert done.exit_code == 0 and "good text-1-train-0: oracle 1, nothing 0" in done.output
    wrong = run(app, ["tasks", "export", str(tmp_path / "x"), "--seeds", "a:b"])
    assert wrong.exit_code == 2 and "--seeds must be" in wrong.output
    assert run(app, ["tasks", "audit", "--family", "cooking"]).exit_code == 2
    assert LABELS == ("weak", "leaking", "impossible", "flaky")
