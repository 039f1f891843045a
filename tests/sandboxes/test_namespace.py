"""The namespace backend: what it leaves, what it costs, and that it works for an ordinary user as well."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import why_not

from sandlot import sandboxes
from sandlot.sandboxes import HostImage, Limits, RootfsImage, SandboxSpec, SyncSandbox
from sandlot.sandboxes.errors import InvalidArgument, SandboxFault
from sandlot.sandboxes.namespace import NamespaceSandbox
from sandlot.sandboxes.namespace.cgroups import Groups, reap
from sandlot.sandboxes.namespace.launcher import LAUNCHER


@pytest.fixture(autouse=True, scope="module")
def _works() -> None:
    if reason := why_not("namespace"):
        pytest.skip(reason)


@pytest.fixture
def box() -> Iterator[SyncSandbox]:
    with SyncSandbox(NamespaceSandbox()) as box:
        yield box


def zygote() -> int:
    assert LAUNCHER._zygote is not None
    return LAUNCHER._zygote.pid


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def left_over() -> dict[str, int]:
    """What could be left of sandboxes: processes, mounts, control groups, descriptors, temporary files."""
    gc.collect()
    groups = 0
    for controller, folder in Groups.create(Limits()).folders.items():
        groups += sum(1 for path in folder.parent.iterdir() if path.name.startswith(f"sandlot-{os.getpid()}-"))
        assert controller
        folder.rmdir()
    return {
        "processes": len(children(zygote())),
        "mounts": len(Path("/proc/self/mountinfo").read_text().splitlines()),
        "groups": groups,
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "temporary": sum(1 for path in Path("/tmp").iterdir() if "sandlot" in path.name),
    }


def groups_of(owner: int) -> list[Path]:
    """The control groups that a process made and that are still there."""
    groups = Groups.create(Limits())
    found = [path for folder in groups.folders.values() for path in folder.parent.glob(f"sandlot-{owner}-*")]
    assert groups.remove()
    return found


def cycle(count: int) -> dict[str, int]:
    before = left_over()
    for number in range(count):
        box = SyncSandbox(NamespaceSandbox()).start()
        if number % 10 == 0:
            box.exec("sleep 7531 & echo x > /f")
            box.shell().run("true")
        if number % 10 == 1:
            del box  # nobody closes it
        else:
            box.close()
    after = left_over()
    assert after == before
    return after


def test_nothing_is_left(box: SyncSandbox) -> None:
    del box
    cycle(60)


@pytest.mark.slow
def test_nothing_is_left_of_a_thousand(box: SyncSandbox) -> None:
    del box
    cycle(1000)


def test_many_at_once_are_small() -> None:
    boxes = [SyncSandbox(NamespaceSandbox()).start() for _ in range(32)]
    try:
        for pid in children(zygote()) if os.getuid() == 0 else []:  # an ordinary user may not look into them
            rollup = dict(line.split()[:2] for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
            assert int(rollup["Pss:"]) < 10 * 1024  # KiB
        assert len(children(zygote())) == 32  # one process each
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda pair: pair[1].exec(f"echo {pair[0]}").text, enumerate(boxes)))
        assert found == [f"{number}\n" for number in range(32)]
    finally:
        for box in boxes:
            box.close()


def test_start_and_reset_are_quick() -> None:
    """Far above a quiet machine's figures (4 ms and 0.8 ms), far below those of a container."""
    starts, resets = [], []
    for _ in range(8):
        begin = time.perf_counter()
        box = SyncSandbox(NamespaceSandbox()).start()
        starts.append(time.perf_counter() - begin)
        for _ in range(5):
            box.exec("sleep 60 & echo x > /f")
            begin = time.perf_counter()
            box.reset()
            resets.append(time.perf_counter() - begin)
        box.close()
    assert min(starts) < 0.06 and min(resets) < 0.015


LOOK = "ls -A /; ls -la --time-style=+ /etc /tmp /dev; cat /proc/mounts; ls /proc | grep -c '[0-9]'"


def test_a_new_life_is_the_first_again(box: SyncSandbox) -> None:
    first = box.exec(LOOK).stdout
    for _ in range(5):
        box.exec("mkdir /a; echo > /etc/b; echo > /dev/shm/c; sleep 99 & kill -STOP $!")
        box.reset()
    assert box.exec(LOOK).stdout == first


def test_the_first_process_cannot_be_touched(box: SyncSandbox) -> None:
    script = """
    for signal in HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM CHLD CONT STOP TSTP SYS RTMIN
    do kill -$signal 1; done
    cat /proc/1/environ /proc/1/mem /proc/1/maps; ls /proc/1/root /proc/1/fd /proc/1/cwd
    echo 1000 > /proc/1/oom_score_adj
    """
    result = box.exec(script)
    assert result.stdout == b"" and result.exit_code != 0
    assert box.exec("echo alive").stdout == b"alive\n"


def test_programs_get_nothing_of_the_agent(box: SyncSandbox) -> None:
    code = "import os; print(sorted(os.listdir('/proc/self/fd')), os.getsid(0) == os.getpid(), os.umask(0))"
    assert box.exec(["python3", "-I", "-S", "-c", code]).text == "['0', '1', '2', '3'] True 18\n"  # 3: the listing
    status = box.exec("grep -E '^(Sig|Cap|NoNew|Seccomp)' /proc/self/status").text
    values = dict(line.split(":\t") for line in status.splitlines())
    assert {int(values[name], 16) for name in values if name.startswith("Cap")} == {0}
    libc = 0b11 << 31  # glibc keeps signals 32 and 33 to itself: how this test's parent left them is not ours to change
    assert int(values["SigIgn"], 16) & ~libc == 0 and int(values["SigBlk"], 16) == 0
    assert values["NoNewPrivs"] == "1" and values["Seccomp"] == "2"


def test_stopping_all_leaves_no_trace(box: SyncSandbox) -> None:
    script = "sleep 88 & a=$!; kill -STOP $a; sleep 99 & echo $a $!; sleep 0.1"
    stopped, running = box.exec(script).text.split()
    states = ["cut", "-d ", "-f3", f"/proc/{stopped}/stat", f"/proc/{running}/stat"]
    assert box.exec(states).text == "T\nS\n"
    box.fingerprint()
    box.snapshot()
    assert box.exec(states).text == "T\nS\n"
    box.freeze()
    box.fingerprint()
    assert box.exec(states).text == "T\nT\n"  # what only looks does not undo a freeze
    box.thaw()
    assert box.exec(states).text == "T\nS\n"


def test_it_dies_with_its_process() -> None:
    code = """
import os, signal
from sandlot.sandboxes import SyncSandbox
from sandlot.sandboxes.namespace import NamespaceSandbox
from sandlot.sandboxes.namespace.launcher import LAUNCHER
box = SyncSandbox(NamespaceSandbox()).start()
box.exec("sleep 8642 &")
print(LAUNCHER._zygote.pid, os.getpid(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    pid, owner = map(int, done.stdout.split())
    assert done.returncode == -signal.SIGKILL
    assert _soon(lambda: not Path(f"/proc/{pid}").exists() and not _command("sleep 8642"))
    reap()  # its control groups had nobody to remove them; the next process does
    assert not groups_of(owner)


def _soon(true: Callable[[], bool]) -> bool:
    """Whether it comes true within half a minute: what was killed still has to get its turn to die."""
    return any(true() or time.sleep(0.05) for _ in range(600))


def _command(text: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "cmdline").read_bytes().replace(b"\0", b" ").strip() == text.encode():
                    found.append(int(entry.name))
    return found


@pytest.mark.parametrize("use", ["box = SyncSandbox(box); box.start(); box.shell()", "asyncio.run(box.start())"])
def test_the_end_of_the_interpreter_is_its_end(use: str) -> None:
    code = f"""
import asyncio, os
from sandlot.sandboxes import SyncSandbox
from sandlot.sandboxes.namespace import NamespaceSandbox
from sandlot.sandboxes.namespace.launcher import LAUNCHER
box = NamespaceSandbox()
{use}
print(LAUNCHER._zygote.pid, os.getpid())
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    pid, owner = map(int, done.stdout.split())
    assert _soon(lambda: not Path(f"/proc/{pid}").exists()) and not groups_of(owner)


def test_a_lost_agent_is_a_fault(box: SyncSandbox) -> None:
    shell = box.shell()
    assert isinstance(box.sandbox, NamespaceSandbox)
    signal.pidfd_send_signal(box.sandbox._agent_fd[0], signal.SIGKILL)
    calls = (lambda: box.exec("true"), lambda: shell.run("true"), box.reset, box.snapshot, lambda: box.get("/a"))
    for call in calls:
        with pytest.raises(SandboxFault):
            call()
    box.close()


def test_a_lost_agent_ends_what_runs(box: SyncSandbox) -> None:
    assert isinstance(box.sandbox, NamespaceSandbox)
    pidfd = box.sandbox._agent_fd[0]
    threading.Timer(0.3, lambda: signal.pidfd_send_signal(pidfd, signal.SIGKILL)).start()
    with pytest.raises(SandboxFault):
        box.exec("sleep 60")


def test_a_lost_zygote_is_replaced(box: SyncSandbox) -> None:
    os.kill(zygote(), signal.SIGKILL)
    with pytest.raises(SandboxFault):
        _soon(lambda: bool(box.exec("true").exit_code))  # it ends with the zygote
    with SyncSandbox(NamespaceSandbox()) as other:
        assert other.exec("echo ok").stdout == b"ok\n"


def test_after_a_fork(box: SyncSandbox) -> None:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = "nothing"
        with contextlib.suppress(BaseException):
            try:
                box.exec("true")
            except SandboxFault:
                with SyncSandbox(NamespaceSandbox()) as own:
                    said = own.exec("echo child").text.strip()
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    assert os.read(read, 100) == b"child"
    os.close(read)
    os.waitpid(pid, 0)
    assert box.exec("echo parent").stdout == b"parent\n"


def test_under_a_running_loop(box: SyncSandbox) -> None:
    """As in a notebook."""

    async def cell() -> bytes:
        return box.exec("echo cell").stdout

    assert asyncio.run(cell()) == b"cell\n"


def test_ctrl_c(box: SyncSandbox) -> None:
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        box.exec("sleep 3579")
    assert time.monotonic() - begin < 60
    assert box.exec("echo ok").stdout == b"ok\n" and _soon(lambda: not _command("sleep 3579"))


def test_what_it_refuses(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="loopback"):
        NamespaceSandbox(SandboxSpec(network="open"))
    with pytest.raises(InvalidArgument, match="one user"):
        NamespaceSandbox(SandboxSpec(user="daemon"))
    with pytest.raises(InvalidArgument, match="not a root file system"):
        SyncSandbox(NamespaceSandbox(SandboxSpec(image=RootfsImage(tmp_path)))).start()


def test_files_leave_memory_to_programs() -> None:
    """With all that may be written written, the sandbox lives and programs run."""
    with SyncSandbox(NamespaceSandbox(SandboxSpec(limits=Limits(memory=64 << 20)))) as box:
        box.exec("cat /dev/zero > /big; cat /dev/zero > /dev/shm/big; cat /dev/zero > /tmp/more", timeout=20)
        assert box.exec("echo alive; cat /proc/self/oom_score_adj").stdout == b"alive\n800\n"
        hog = "x = bytearray(200 << 20)"
        assert box.exec(["python3", "-I", "-S", "-c", hog]).exit_code != 0
        assert box.exec("rm /big; echo alive").stdout == b"alive\n"


@pytest.mark.parametrize("allowed", [False, True])
def test_debuggers(allowed: bool) -> None:
    code = "import ctypes; print(ctypes.CDLL(None).ptrace(0, 0, 0, 0))"  # PTRACE_TRACEME
    with SyncSandbox(NamespaceSandbox(SandboxSpec(allow_ptrace=allowed))) as box:
        assert box.exec(["python3", "-I", "-S", "-c", code]).text == ("0\n" if allowed else "-1\n")


def test_what_no_program_can_be_given(box: SyncSandbox) -> None:
    for env in ({"A\0": ""}, {"A": "\0"}, {"": "x"}, {"A=B": "x"}):
        with pytest.raises(InvalidArgument):
            box.exec("true", env=env)
    for cwd in ("relative", "/nul\0"):
        with pytest.raises(InvalidArgument):
            box.exec("true", cwd=cwd)


def test_only_its_own_network(box: SyncSandbox) -> None:
    code = """
import socket
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).close()
print("loopback", open("/proc/net/dev").read().count(":"))
"""
    assert box.exec(["python3", "-I", "-S", "-c", code]).text == "loopback 1\n"


def test_as_an_ordinary_user(request: pytest.FixtureRequest) -> None:
    """The same without root: no control groups, so the watch holds the memory."""
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if os.getuid() != 0 or python is None:
        pytest.skip("these tests run as an ordinary user already" if os.getuid() else "no Python that others may run")
    holder = tempfile.TemporaryDirectory(prefix="sandlot-user-")  # pytest's own folders are closed to others
    request.addfinalizer(holder.cleanup)
    top = Path(holder.name)
    top.chmod(0o755)
    source = Path(sandboxes.__file__).parent
    shutil.copytree(source, top / "sandlot" / "sandboxes", ignore=shutil.ignore_patterns("__pycache__"))
    (top / "sandlot" / "__init__.py").write_text("")
    shutil.copytree(Path(sysconfig.get_path("purelib")) / "platformdirs", top / "platformdirs")
    (top / "check.py").write_text(AS_USER)
    (top / "home").mkdir()
    os.chown(top / "home", 65534, 65534)
    done = subprocess.run(
        [python, "-B", str(top / "check.py")],
        user=65534,
        group=65534,
        extra_groups=[],
        env={"HOME": str(top / "home"), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(top)},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


AS_USER = """
import os
from sandlot.sandboxes import Limits, SandboxSpec, SyncSandbox
from sandlot.sandboxes.namespace import NamespaceSandbox

assert os.getuid() == 65534
with SyncSandbox(NamespaceSandbox(SandboxSpec(limits=Limits(memory=150 << 20, pids=40)))) as box:
    assert box.exec("id -u; cat /etc/shadow").stdout == b"0\\n"
    assert not box.capabilities.memory_cgroup
    assert box.exec("mkdir /a && echo x > /a/f && chown 5 /a/f && cp -a /a /b && cat /b/f").stdout == b"x\\n"
    assert box.exec("echo out > /dev/stdout; echo err > /dev/stderr").stderr == b"err\\n"
    hog = box.exec(["python3", "-I", "-S", "-c", "import time; x = bytearray(400 << 20); time.sleep(40)"])
    assert hog.oom and hog.exit_code == 137, hog
    box.exec("python3 -I -S -c 'import time; x = bytearray(400 << 20); time.sleep(90)' &")
    for _ in range(300):  # a daemon is watched as well
        if box.exec("sleep 0.1; pgrep -c python3").text == "0\\n":
            break
    else:
        raise AssertionError("the memory is not watched")
    forks = "import os, time\\nfor n in range(100):\\n  if os.fork() == 0: time.sleep(30)"
    assert "BlockingIOError" in box.exec(["python3", "-I", "-S", "-c", forks]).error_text
    box.kill_all()
    snapshot = box.snapshot()
    box.exec("rm -rf /a /etc/hosts")
    box.restore(snapshot)
    assert box.get("/a/f") == b"x\\n" and box.exec("test -f /etc/hosts").exit_code == 0
    shell = box.shell(pty=True)
    assert b"/dev/pts/" in shell.run("tty").stdout
print("ok")
"""


def test_a_root_file_system_of_another_owner(tmp_path: Path) -> None:
    """It is copied for the sandbox's user once; the original stays as it is."""
    root = tmp_path / "root"
    for name in ("bin", "etc", "usr", "lib", "lib64", "proc", "dev"):
        (root / name).mkdir(parents=True)
    for program in ("bash", "cat", "ls", "mkdir", "rm"):
        shutil.copy(f"/bin/{program}", root / "bin" / program)
        for line in subprocess.run(["ldd", f"/bin/{program}"], capture_output=True, text=True).stdout.splitlines():
            path = next((word for word in line.split() if word.startswith("/")), None)
            if path is not None:
                (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, root / path[1:])
    (root / "etc" / "secret").write_text("of root")
    (root / "etc" / "secret").chmod(0o600)
    box = SyncSandbox(NamespaceSandbox(SandboxSpec(image=RootfsImage(root)))).start()
    with box:
        assert box.exec("cat /etc/secret; echo new > /etc/secret; rm -rf /bin/ls").stdout == b"of root"
        assert box.shell().run("echo $BASH").stdout == b"/bin/bash\n"
        assert isinstance(box.sandbox, NamespaceSandbox) and box.sandbox._prepared is not None
        copy = box.sandbox._prepared.lower
    assert (root / "etc" / "secret").read_text() == "of root" and (root / "bin" / "ls").exists()
    if copy != root:
        shutil.rmtree(copy)
        copy.with_name(copy.name + ".lock").unlink()


def test_the_image_is_the_default() -> None:
    assert SandboxSpec().image == HostImage()
