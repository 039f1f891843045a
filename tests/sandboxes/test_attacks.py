"""Every attack against every backend, with the outcome that is written beside it. See `attacks/`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from attacks.cases import BACKENDS, FOLDER, LIMITS, Attack, all_attacks
from attacks.guard import NAMESPACES, REFUSED
from attacks.shooting import VARIABLE, Range, namespaces
from attacks.table import BEGIN, END, OUTCOMES, PAGE, table

from sandlot.sandboxes import RootfsImage, SandboxSpec
from sandlot.sandboxes.errors import SandboxUnavailable

ATTACKS = all_attacks()


@pytest.fixture(scope="module", params=[pytest.param("docker", marks=pytest.mark.docker), "namespace", "oci"])
def shooting_range(
    request: pytest.FixtureRequest, base_rootfs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Range]:
    backend: str = request.param
    url = request.getfixturevalue("docker_url") if backend == "docker" else ""
    spec = SandboxSpec(image=RootfsImage(base_rootfs), limits=LIMITS)
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "key-of-the-host")
        try:
            yield Range(backend, spec, url, tmp_path_factory.mktemp(backend), stack)
        except SandboxUnavailable as error:
            pytest.skip(str(error))


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack(shooting_range: Range, attack: Attack) -> None:
    outcome = shooting_range.run(attack)
    assert outcome in attack.expect[shooting_range.backend]


def test_there_are_enough() -> None:
    assert len(ATTACKS) >= 50
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)
    assert all(set(attack.expect) == set(BACKENDS) for attack in ATTACKS)


def run_guard(*arguments: str) -> subprocess.CompletedProcess[str]:
    """On this host, with an attack that does nothing."""
    command = [sys.executable, "-I", "-S", str(FOLDER / "guard.py"), *arguments]
    return subprocess.run(command, input="outcome = 'RAN'", capture_output=True, text=True, check=False)


def test_nothing_runs_outside_a_sandbox(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    marker.write_text("token")
    context = {"marker": str(marker), "token": "token", "namespaces": namespaces()}
    found = [
        run_guard(),  # as a curious person would
        run_guard(json.dumps(context | {"marker": "/nowhere"})),
        run_guard(json.dumps(context | {"token": "other"})),
        run_guard(json.dumps(context)),  # the marker is right, but it is the host
        *(  # one namespace shared is one too many
            run_guard(json.dumps(context | {"namespaces": dict.fromkeys(NAMESPACES, "") | {kind: namespaces()[kind]}}))
            for kind in NAMESPACES
        ),
    ]
    assert [done.returncode for done in found] == [REFUSED] * len(found)
    assert not any("RAN" in done.stdout for done in found)
    allowed = run_guard(json.dumps(context | {"namespaces": dict.fromkeys(NAMESPACES, "")}))
    assert allowed.stdout == "RAN\n"  # so it was the guard that refused, not a broken script


def test_the_table_is_current() -> None:
    """docs/security.md shows the cases and what came out when they were last recorded (attacks/record.py)."""
    outcomes = json.loads(OUTCOMES.read_text(encoding="utf-8"))
    assert set(outcomes) == {attack.name for attack in ATTACKS}
    for attack in ATTACKS:
        assert set(outcomes[attack.name]) == set(BACKENDS)
        for backend, outcome in outcomes[attack.name].items():
            assert outcome in attack.expect[backend], f"{attack.name} on {backend}"
    text = PAGE.read_text(encoding="utf-8")
    assert text[text.index(BEGIN) + len(BEGIN) : text.index(END)] == table(ATTACKS, outcomes)
