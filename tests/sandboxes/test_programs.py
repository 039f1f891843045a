"""The two programs that are written instruction by instruction, run as they are."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from sandlot.sandboxes.errors import SandboxUnavailable
from sandlot.sandboxes.programs import MACHINES, init_program, kill_program


def emulator(machine: str) -> list[str]:
    """What runs programs of a machine here."""
    if machine == platform.machine():
        return []
    path = shutil.which(f"qemu-{machine}-static") or shutil.which(f"qemu-{machine}")
    if path is None:
        pytest.skip(f"no qemu-{machine} here: apt-get install qemu-user-static")
    return [path]


def saved(program: bytes, folder: Path) -> str:
    path = folder / "program"
    path.write_bytes(program)
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("machine", MACHINES)
def test_init_sleeps_and_ends(machine: str, tmp_path: Path) -> None:
    begin = time.monotonic()
    done = subprocess.run([*emulator(machine), saved(init_program(machine, 1), tmp_path)], check=False)
    assert done.returncode == 0 and 0.9 < time.monotonic() - begin < 60


@pytest.mark.skipif(platform.machine() not in MACHINES, reason="no code for this machine")
def test_init_ignores_its_children_and_goes_on_after_a_stop(tmp_path: Path) -> None:
    """SIGCHLD is signal 17: bit 16 of the mask of ignored signals."""
    with subprocess.Popen([saved(init_program(platform.machine()), tmp_path)]) as process:
        try:

            def ignores() -> bool:
                status = Path(f"/proc/{process.pid}/status").read_text()
                ignored = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigIgn"))
                return bool(ignored & 1 << 16)

            assert any(ignores() or time.sleep(0.05) for _ in range(200))
            for number in (signal.SIGSTOP, signal.SIGCONT):
                os.kill(process.pid, number)
                time.sleep(0.05)
            assert ignores() and process.poll() is None
        finally:
            process.kill()


@pytest.mark.parametrize("machine", MACHINES)
def test_kill_ends_all_others(machine: str, tmp_path: Path) -> None:
    """In a PID namespace of its own: nothing else may be in reach."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("a PID namespace without a user namespace needs root and unshare")
    program = " ".join([*emulator(machine), saved(kill_program(machine), tmp_path)])
    script = f"sleep 50 & sleep 60 & [ $$ = 1 ] || exit 9; {program}; echo $?; wait; cat /proc/[0-9]*/comm"
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0", "sh"]  # the names were looked up before `cat` was there


def test_other_machines_are_refused() -> None:
    with pytest.raises(SandboxUnavailable, match="riscv64"):
        init_program("riscv64")
