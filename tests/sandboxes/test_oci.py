"""What is the OCI backend's own: the bundle, both runtimes, and a keeper that takes everything with it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandlot.sandboxes import Limits, SandboxSpec, SyncSandbox
from sandlot.sandboxes.choose import probe
from sandlot.sandboxes.errors import InvalidArgument, SandboxUnavailable
from sandlot.sandboxes.oci.bundle import bundle, process
from sandlot.sandboxes.oci.sandbox import OCISandbox
from sandlot.sandboxes.seccomp import DENIED, EMULATED, oci_profile


@pytest.fixture(scope="module", params=["crun", "runc"])
def box(request: pytest.FixtureRequest) -> Iterator[SyncSandbox]:
    if not shutil.which(request.param):
        pytest.skip(f"no {request.param} here")
    if not (found := probe("oci")).works:
        pytest.skip(f"{found.reason} {found.fix}")
    limits = Limits(open_files=277, file_size=1 << 20)
    with SyncSandbox(OCISandbox(SandboxSpec(limits=limits), runtime=request.param)) as box:
        yield box


def test_the_runtime_set_it_up(box: SyncSandbox) -> None:
    result = box.exec("grep -E '^(CapBnd|CapEff|NoNewPrivs|Seccomp):' /proc/self/status; ulimit -n; hostname; id -u")
    values = result.text.split()
    assert values == [
        *("CapEff:", "0000000000000000", "CapBnd:", "0000000000000000", "NoNewPrivs:", "1", "Seccomp:", "2"),
        *("277", "sandbox", "0"),
    ]
    assert box.exec("cat /proc/1/comm").stdout == b".init\n"
    assert box.exec("head -c 2000000 /dev/zero > /tmp/large").exit_code != 0  # more than one file may hold


def test_nobody_lingers(box: SyncSandbox) -> None:
    """PID 1 reaps what loses its parent."""
    assert box.exec("for i in 1 2 3; do (sleep 0.05 & exit); done; sleep 0.3; cat /proc/[0-9]*/stat").exit_code == 0
    states = box.exec("cat /proc/[0-9]*/stat").text.splitlines()
    assert not [line for line in states if line.rpartition(") ")[2].startswith("Z")]


def test_kill_all_keeps_files_and_reset_does_not(box: SyncSandbox) -> None:
    box.exec("echo kept > /tmp/file; sleep 50 >/dev/null 2>&1 &")
    box.kill_all()
    kept, *programs = box.exec("cat /tmp/file; cat /proc/[0-9]*/comm").text.split()
    assert kept == "kept" and ".init" in programs and "sleep" not in programs
    box.reset()
    assert box.exec("cat /tmp/file").exit_code == 1


def test_a_fork_keeps_the_runtime(box: SyncSandbox) -> None:
    box.exec("echo mine > /tmp/mine")
    with box.fork() as other:
        assert isinstance(box.sandbox, OCISandbox) and isinstance(other.sandbox, OCISandbox)
        assert other.sandbox.runtime == box.sandbox.runtime
        assert other.exec("cat /tmp/mine").stdout == b"mine\n"


def test_a_terminal_of_its_own(box: SyncSandbox) -> None:
    with box.shell(pty=True, rows=30, columns=90) as shell:
        shown = shell.run("tty; stty size; test -t 0 && echo yes").text
    assert "/dev/pts/0" in shown and "30 90" in shown and "yes" in shown


def test_all_goes_with_the_process_that_opened_it(tmp_path: Path) -> None:
    """Killed, so that it can clean nothing up itself."""
    if not (found := probe("oci")).works:
        pytest.skip(f"{found.reason} {found.fix}")
    program = (
        "import sys, time\n"
        "from sandlot.sandboxes import SyncSandbox\n"
        "from sandlot.sandboxes.oci.sandbox import OCISandbox\n"
        "box = SyncSandbox(OCISandbox()).start()\n"
        f"box.exec('exec -a {tmp_path.name} sleep 50 >/dev/null 2>&1 &')\n"
        "print('up', flush=True)\n"
        "time.sleep(50)\n"
    )

    def alive() -> bool:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if path.read_bytes().startswith(tmp_path.name.encode()):
                    return True
            except OSError:
                continue
        return False

    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as opener:
        assert opener.stdout is not None and opener.stdout.readline() == "up\n"
        deadline = time.monotonic() + 10  # a command in the background may not have got its name yet
        while not alive() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert alive()
        os.kill(opener.pid, signal.SIGKILL)
    end = time.monotonic() + 10
    while alive() and time.monotonic() < end:
        time.sleep(0.05)
    assert not alive()


ORDINARY = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from boxes import Limits, SandboxSpec
from boxes.oci.sandbox import OCISandbox

HOG = ["python3", "-I", "-S", "-c", "import time; x = bytearray(400 << 20); time.sleep(40)"]

async def main():
    async with OCISandbox(SandboxSpec(limits=Limits(memory=150 << 20)), runtime=sys.argv[2]) as box:
        hog = await box.exec(HOG)  # without a control group it is watched
        assert hog.oom and hog.exit_code == 137, hog
        print((await box.exec("id -u; cat /proc/self/uid_map; touch /made && cat /proc/self/status")).text)
        await box.reset()
        shell = await box.shell()
        print((await shell.run("ls /made || echo reset")).text)

asyncio.run(main())
"""


@pytest.mark.parametrize("runtime", ["crun", "runc"])
def test_as_an_ordinary_user(runtime: str) -> None:
    """Root tries it as somebody else, with a copy of the code that this user can read; others are ordinary already."""
    if os.geteuid() != 0:
        pytest.skip("the other tests run as an ordinary user already")
    if not all(map(shutil.which, (runtime, "setpriv"))) or not Path("/usr/bin/python3").exists():
        pytest.skip(f"needs {runtime}, setpriv and a Python that everybody can run")
    if subprocess.run(["/usr/bin/python3", "-c", "import tomllib"], capture_output=True, check=False).returncode:
        pytest.skip("needs Python 3.11 at /usr/bin/python3")
    import platformdirs

    import sandlot.sandboxes

    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(str(Path(sandlot.sandboxes.__file__).parent), f"{folder}/boxes")
        shutil.copytree(str(Path(platformdirs.__file__).parent), f"{folder}/platformdirs")
        Path(folder, "home").mkdir()
        os.chown(f"{folder}/home", 65534, 65534)
        Path(folder).chmod(0o755)
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3"]
        done = subprocess.run(
            [*command, "-c", ORDINARY, folder, runtime],
            env={"PATH": os.environ["PATH"], "HOME": f"{folder}/home"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    if "SandboxUnavailable" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stderr
    user, mapping, *status = done.stdout.splitlines()
    assert user == "0" and mapping.split() == ["0", "65534", "1"]
    assert "Seccomp:\t2" in status and "CapEff:\t0000000000000000" in status and "reset" in status


def test_a_runtime_that_is_not_there() -> None:
    with pytest.raises(SandboxUnavailable, match="no krun on PATH"), SyncSandbox(OCISandbox(runtime="krun")):
        pass
    with pytest.raises(InvalidArgument, match="network"):
        OCISandbox(SandboxSpec(network="open"))


def test_the_bundle_gives_nothing_away() -> None:
    limits = Limits(shm=1 << 20)
    made = bundle(limits, process(limits, nproc=5), ["/data"], allow_ptrace=False)
    assert not any(made["process"]["capabilities"].values()) and made["process"]["noNewPrivileges"]
    assert {"pid", "mount", "ipc", "uts"} <= {space["type"] for space in made["linux"]["namespaces"]}
    by_place = {mount["destination"]: mount["options"] for mount in made["mounts"]}
    assert "ro" in by_place["/data"] and "ro" in by_place["/dev/.init"]
    assert f"size={1 << 20}" in by_place["/dev/shm"]
    assert "/proc/sys" in made["linux"]["readonlyPaths"] and "/proc/kcore" in made["linux"]["maskedPaths"]


def test_the_profile_follows_the_policy() -> None:
    def error(name: str, **options: bool) -> set[int]:
        rules = oci_profile("x86_64", **options)["syscalls"]
        return {rule["errnoRet"] for rule in rules if name in rule["names"] and "args" not in rule}

    assert all(error(name) == {1} for name in DENIED)
    assert all(error(name) == {0} for name in EMULATED) and not error("chown", emulate=False)
    assert error("ptrace") == {1} and not error("ptrace", allow_ptrace=True)
    assert error("clone3") == {38} and not error("openat")
