"""Hostile programs: each is contained, and reported with its reason, whether or not a gate read it before."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from selfplay_programs import SOUND, Attack, attacks, game

from sandlot.envs.selfplay.env import SelfPlayEnv
from sandlot.envs.selfplay.gates import Gates
from sandlot.envs.selfplay.reasons import ProgramFault
from sandlot.envs.selfplay.runner import Cell, Moment, Runner, RunSettings
from sandlot.envs.selfplay.source import check_source
from sandlot.sandboxes import SyncSandbox
from sandlot.sandboxes.choose import make_sandbox, probe

ATTACKS = attacks()
SETTINGS = RunSettings(timeout=0.4, start=1.5)
VALUES = ("observation", "reward", "terminated", "actions", "import")  # a wrong answer, and nothing worse
SANDBOX = {
    *("fork-bomb", "thread-bomb", "daemon", "memory", "memory-at-once", "memory-small-pieces", "disk", "inodes"),
    *("host-file", "host-write", "other-program", "network", "hint-in-files", "memory-of-init"),
    *("kill-parent", "kill-all", "stop-itself", "signals", "close-descriptors", "loop-step"),
}
"""Attacks on what a backend gives. All others meet the same interpreter and the same host whatever the backend."""


def aimed() -> list[Any]:
    """Which attack is run on which backend; the default run leaves out what only repeats itself."""
    found = []
    for backend in ("namespace", "oci", "docker"):
        for attack in ATTACKS:
            marks = [pytest.mark.docker, pytest.mark.slow] if backend == "docker" else []
            if backend == "oci" and attack.name not in SANDBOX:
                marks = [pytest.mark.slow]
            if backend == "namespace" or not set(attack.run) & set(VALUES):  # wrong values are found on this side
                found.append(pytest.param(backend, attack, id=f"{backend}-{attack.name}", marks=marks))
    return found


@dataclass
class Range:
    """Where the attacks are aimed at."""

    backend: str
    cell: Cell
    secret: Path
    listener: socket.socket


@pytest.fixture(scope="module")
def range_(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Range]:
    backend = request.param
    if backend == "docker":
        request.getfixturevalue("docker_url")
        request.getfixturevalue("base_rootfs")
    elif not (found := probe(backend)).works:
        pytest.skip(f"the {backend} backend does not start here: {found.reason}")
    secret = tmp_path_factory.mktemp("host") / "secret"
    secret.write_text("CANARY")
    secret.chmod(0o644)
    for folder in secret.parents:
        if folder.stat().st_uid == os.getuid() and folder != Path("/") and folder != Path("/tmp"):
            folder.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as listener, Cell(backend, SETTINGS) as cell:
        listener.setblocking(False)
        yield Range(backend, cell, secret, listener)


def test_there_is_an_attack_of_every_kind_on_the_sandbox() -> None:
    assert {attack.name for attack in ATTACKS} >= SANDBOX


@pytest.mark.parametrize(("range_", "attack"), aimed(), indirect=["range_"], scope="module")
def test_it_is_contained(attack: Attack, range_: Range) -> None:
    program = attack.program(range_.secret, range_.listener.getsockname()[1])
    found, seen = "plays", ""
    with Runner(program, cell=range_.cell) as runner:
        try:
            seen = runner.reset(1).observation
            for _ in range(3):
                moment = runner.step("go")
                assert isinstance(moment, Moment)
                seen += moment.observation
        except ProgramFault as fault:
            found, seen = fault.reason, seen + str(fault)
    assert found in attack.run, seen
    assert "CANARY" not in seen and "connected" not in seen, seen
    assert range_.secret.read_text() == "CANARY"
    with pytest.raises(BlockingIOError):
        range_.listener.accept()
    if found not in VALUES:
        with Runner(SOUND, cell=range_.cell) as runner:  # the same sandbox serves the next program
            assert runner.reset(7).observation.startswith("The sheet shows ")


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_reading_its_source_says(attack: Attack) -> None:
    found = {str(reason) for reason, _ in check_source(attack.program(Path("/secret"), 1).source, "Game")}
    assert found == set(attack.gate)


def test_the_gates_accept_none_and_say_why(tmp_path: Path) -> None:
    with Gates(settings=None, backend="auto") as gates:
        for attack in ATTACKS:
            if attack.gate:
                verdict = gates.check(attack.program(tmp_path / "secret", 1))
                assert not verdict.passed and set(map(str, verdict.reasons)) == set(attack.gate)
                assert all(finding.message for finding in verdict.findings)


def test_a_program_that_fails_at_play_costs_the_agent_an_action_and_no_more() -> None:
    source = """
        if action == "go north":
            1 / 0
        if action == "go south":
            while True:
                pass
        self.count = self.count + 1
        return f"step {self.count}", 0.0, False
    """
    program = game(reset="self.count = 0\n", step=source, actions="go <north|south|west>")
    env = SelfPlayEnv(program=program, settings=SETTINGS)
    try:
        _, start = env.reset(seed=0)
        assert env.step("go west")[0] == "step 1"
        before = env.step("go west")[4]
        observation, reward, terminated, _, info = env.step("go north")
        assert (reward, terminated, info["valid"], info["trouble"]) == (0.0, False, False, "exception")
        assert info["state_key"] == before["state_key"] and observation
        assert env.step("go south")[4]["trouble"] == "timeout"
        observation, reward, terminated, _, info = env.step("go west")
        assert (observation, info["trouble"]) == ("step 3", "")
        snapshot = env.snapshot()
        observation, reward, terminated, _, info = env.step("go north")  # the third failure
        assert (reward, terminated, info["success"]) == (0.0, True, False)
        env.restore(snapshot)
        assert env.step("go west")[0] == "step 4"
        assert start["program"] == program.id
    finally:
        env.close()


def test_nothing_of_it_is_left(tmp_path: Path) -> None:
    psutil = pytest.importorskip("psutil")
    with SyncSandbox(make_sandbox("namespace")):  # the process that starts sandboxes stays
        pass
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    for attack in ATTACKS:
        if attack.name in ("fork-bomb", "daemon", "thread-bomb", "signals", "stop-itself"):
            with Cell("namespace", SETTINGS) as cell, Runner(attack.program(tmp_path, 1), cell=cell) as runner:
                runner.reset(1)
                with contextlib.suppress(ProgramFault):
                    runner.step("go")
    left = {child.pid for child in psutil.Process().children(recursive=True)} - before
    assert not left
