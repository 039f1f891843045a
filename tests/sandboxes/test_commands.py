"""The contract of every backend: commands, limits, processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Backend

from sandlot.sandboxes import Limits, Sandbox, SandboxSpec, SyncSandbox
from sandlot.sandboxes.errors import InvalidArgument, SandboxFault, UserError
from sandlot.sandboxes.local import LocalSandbox
from sandlot.sandboxes.process import GRACE, Launch

FORKS = """
import os, time
n = 0
try:
    for n in range(200):
        if os.fork() == 0:
            time.sleep(30)
except OSError:
    pass
print(n)
"""
Needs = Callable[[str], None]


def test_result_of_a_command(box: SyncSandbox) -> None:
    result = box.exec("echo out; echo err >&2; exit 3")
    assert (result.exit_code, result.stdout, result.stderr) == (3, b"out\n", b"err\n")
    assert result.total_bytes == 8 and not result.timed_out and not result.truncated and not result.oom
    assert 0 < result.duration < 30
    merged = box.exec("echo out; echo err >&2; echo out", merge_stderr=True)
    assert (merged.stdout, merged.stderr) == (b"out\nerr\nout\n", b"")


def test_program_and_arguments_are_taken_literally(box: SyncSandbox) -> None:
    assert box.exec(["printf", "%s|", "a b", "$HOME", "*", ""]).stdout == b"a b|$HOME|*||"
    assert box.exec(["no-such-program"]).exit_code == 127
    assert b"no-such-program" in box.exec(["no-such-program"]).stderr
    assert box.exec(["true"], cwd="/no/such/folder").exit_code == 127
    assert box.exec(["/etc/passwd"]).exit_code in (126, 127)
    for wrong in ("a\0b", ["a\0b"], []):
        with pytest.raises(InvalidArgument):
            box.exec(wrong)


def test_standard_input(box: SyncSandbox) -> None:
    data = bytes(range(256)) * 8192  # 2 MiB, more than any pipe holds
    result = box.exec(["cat"], stdin=data, output_limit=1 << 22)
    assert result.stdout == data and not result.truncated
    assert box.exec(["cat"]).stdout == b""  # nothing to read is the end of it, never a wait
    assert box.exec(["true"], stdin=data).exit_code == 0  # a reader that goes away is no error


def test_folder_and_environment(sandbox_backends: Backend, box: SyncSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "1")
    assert box.exec("pwd", cwd="/usr").stdout == b"/usr\n"
    assert box.exec('echo "$A"', env={"A": "x y"}).stdout == b"x y\n"
    assert b"SECRET_OF_THE_HOST" not in box.exec("env").stdout
    if box.capabilities.secure:
        other = sandbox_backends(SandboxSpec(env={"A": "1", "B": "2"}, workdir="/work/deep"))
        assert other.exec('echo "$A$B"; pwd', env={"B": "3"}).stdout == b"13\n/work/deep\n"


def test_any_bytes_come_back(box: SyncSandbox) -> None:
    result = box.exec(r"printf 'a\0b\033[31m\377'")
    assert result.stdout == b"a\0b\033[31m\xff"
    assert result.text == "a\0b\033[31m\ufffd"
    assert box.exec("echo é \udcff \ud800").stdout == "é ".encode() + b"\xff " + "\ufffd\n".encode()


def test_commands_longer_than_an_argument_may_be(box: SyncSandbox) -> None:
    assert box.exec("echo " + "a" * 300_000 + "; exit 5", output_limit=10).total_bytes == 300_001
    assert box.exec("echo " + "a" * 300_000 + "; exit 5").exit_code == 5


def test_a_timeout_is_a_result(box: SyncSandbox) -> None:
    result = box.exec("echo before; sleep 600", timeout=2)  # a busy machine may need one to say the first word
    assert result.timed_out and result.stdout == b"before\n" and result.exit_code == 128 + 15
    assert result.duration < 60
    stubborn = box.exec("trap '' TERM; while :; do sleep 0.1; done", timeout=1)
    assert stubborn.timed_out and stubborn.exit_code == 128 + 9 and 1 + GRACE < stubborn.duration < 60


def test_it_returns_when_the_command_ends_and_daemons_go_on(box: SyncSandbox) -> None:
    begin = time.monotonic()
    assert box.exec("sleep 5678 & echo started").stdout == b"started\n"
    assert time.monotonic() - begin < 60
    count = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o 'sleep 567[8]' | wc -l"
    assert box.exec(count).text.strip() == "1"
    assert box.exec("sleep 60", timeout=0.2).timed_out
    assert box.exec(count).text.strip() == "1"  # another command's timeout is not its end
    box.kill_all()
    assert box.exec(count).text.strip() == "0"


def test_output_is_capped(box: SyncSandbox) -> None:
    result = box.exec("head -c 1000 /dev/zero; echo x >&2", output_limit=10)
    assert (len(result.stdout), result.total_bytes, result.truncated) == (10, 1002, True)
    flood = box.exec("yes", timeout=30)
    assert flood.truncated and not flood.timed_out and flood.exit_code > 128
    assert len(flood.stdout) == box.spec.limits.output and flood.total_bytes >= box.spec.limits.flood


def test_memory_is_limited(sandbox_backends: Backend) -> None:
    if not sandbox_backends.make().capabilities.secure:
        pytest.skip("not limited")
    box = sandbox_backends(SandboxSpec(limits=Limits(memory=100 << 20)))
    hog = "import time\nx = bytearray(300 << 20)\ntime.sleep(30)"
    result = box.exec(["python3", "-I", "-S", "-c", hog], timeout=60)
    assert result.oom and result.exit_code == 128 + 9 and not result.timed_out
    assert box.exec("echo alive").stdout == b"alive\n" and not box.exec("exit 1").oom


def test_processes_are_limited(sandbox_backends: Backend) -> None:
    if not sandbox_backends.make().capabilities.secure:
        pytest.skip("not limited")
    box = sandbox_backends(SandboxSpec(limits=Limits(pids=30)))
    result = box.exec(["python3", "-I", "-S", "-c", FORKS], timeout=60)
    assert 10 <= int(result.stdout) <= 30
    box.kill_all()
    assert box.exec("echo alive").stdout == b"alive\n"


def test_disk_is_limited(sandbox_backends: Backend) -> None:
    if sandbox_backends.name in ("local", "docker"):
        pytest.skip("no quota on this backend")
    box = sandbox_backends(SandboxSpec(limits=Limits(disk=4 << 20, inodes=200, shm=1 << 20, file_size=3 << 20)))
    assert b"No space left" in box.exec("cat /dev/zero > /big1 & cat /dev/zero > /tmp/big2; wait", timeout=60).stderr
    box.reset()
    assert box.exec("cat /dev/zero > /big", timeout=60).exit_code != 0
    assert int(box.exec("stat -c %s /big").stdout) <= 3 << 20
    assert b"No space left" in box.exec("for i in $(seq 300); do echo > /f$i || exit; done").stderr
    box.reset()
    assert b"No space left" in box.exec("cat /dev/zero > /dev/shm/x").stderr


def test_a_life_has_an_end(sandbox_backends: Backend) -> None:
    wall = 3.0 if sandbox_backends.name == "docker" else 1.0  # enough for a first command on a busy machine
    box = sandbox_backends(SandboxSpec(limits=Limits(wall=wall)))
    box.exec("sleep 9876 & true")
    begin = time.monotonic()
    assert box.exec("sleep 600", timeout=500).timed_out and time.monotonic() - begin < 60
    late = box.exec("true")
    assert late.timed_out and late.stdout == b""
    if box.capabilities.snapshot:
        box.reset()
        assert box.exec("true").exit_code == 0  # a new life


def test_users(sandbox_backends: Backend, box: SyncSandbox) -> None:
    if not box.capabilities.secure:
        pytest.skip("it is whoever runs it")
    assert box.exec("id -u").stdout == b"0\n"
    if not box.capabilities.multi_uid:
        with pytest.raises(UserError):
            box.exec("id", user="daemon")


def test_tools_that_insist_on_root(box: SyncSandbox) -> None:
    """Changes of owner succeed: with one user inside they have nothing to do."""
    if not box.capabilities.secure:
        pytest.skip("it would change this machine's files")
    script = """set -e; cd /tmp; mkdir a; echo x > a/f; chown -R 1000:1000 a; cp -a a b
    tar -cf a.tar --owner=123 a; mkdir c; tar -xf a.tar -C c; cat c/a/f; install -o 5 -g 5 a/f d; cat d"""
    result = box.exec(script)
    assert (result.exit_code, result.stdout) == (0, b"x\nx\n"), result.error_text


def test_freeze(box: SyncSandbox, needs: Needs) -> None:
    needs("freeze")
    box.exec("(while :; do echo . >> /tmp/ticks; sleep 0.01; done) > /dev/null 2>&1 &")

    def ticks() -> int:
        with contextlib.suppress(FileNotFoundError):
            return len(box.get("/tmp/ticks"))
        return 0

    def goes_on() -> bool:
        before = ticks()
        return any(ticks() > before or time.sleep(0.02) for _ in range(500))

    assert goes_on()
    box.freeze()
    if box.name == "namespace":  # the others read files by programs of the frozen container
        first = ticks()
        time.sleep(0.15)
        assert first == ticks()
    else:
        time.sleep(0.15)
    box.thaw()
    assert goes_on()


def test_close_is_the_end(sandbox_backends: Backend) -> None:
    box = sandbox_backends()
    shell = box.shell()
    box.close()
    box.close()
    for call in (lambda: box.exec("true"), lambda: box.get("/etc/passwd"), lambda: shell.run("true"), box.start):
        with pytest.raises(SandboxFault):
            call()


def test_async_use(sandbox_backends: Backend) -> None:
    async def use(sandbox: Sandbox) -> list[bytes]:
        async with sandbox:
            results = await asyncio.gather(*(sandbox.exec(f"echo {i}; sleep 0.2") for i in range(8)))
            slow = asyncio.create_task(sandbox.exec("sleep 77"))
            await asyncio.sleep(0.1)
            slow.cancel()
            with pytest.raises(asyncio.CancelledError):
                await slow
            shell = await sandbox.shell()
            await shell.run("cd /usr")
            assert (await shell.run("pwd")).stdout == b"/usr\n"
        return [result.stdout for result in results]

    assert asyncio.run(use(sandbox_backends.make())) == [f"{i}\n".encode() for i in range(8)]


def test_descriptors_are_given_back(box: SyncSandbox) -> None:
    def use() -> None:
        box.exec("echo x", stdin=b"y")
        box.exec("sleep 9", timeout=0.05)
        box.exec(["no-such-program"])
        with box.shell() as shell:
            shell.run("exit 3")
            shell.run("true")
        with pytest.raises(OSError):
            box.get("/no/such/file")

    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    def after_each(uses: int) -> list[int]:
        counts = list[int]()
        for _ in range(uses):
            use()
            counts.append(opened())
        return counts

    # A client keeps connections to its daemon, some more or less from use to use: so the most of several uses before,
    # and the least of several after, which any descriptor that stays would raise.
    before = max(after_each(4))
    assert min(after_each(4)) <= before


def test_limits_are_checked() -> None:
    for name in ("memory", "pids", "cpu", "wall", "timeout", "output"):
        with pytest.raises(InvalidArgument, match=name):
            replace(Limits(), **{name: 0})
    with pytest.raises(InvalidArgument, match="at least 256: a persistent shell"):
        Limits(open_files=255)


def test_a_number_that_may_be_anothers_gets_no_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without isolation, a process that was waited for leaves its number to the next one of this machine."""

    async def use() -> None:
        sandbox = LocalSandbox(unsafe=True)
        async with sandbox:
            process = await sandbox._spawn(Launch(argv=("true",), env=sandbox.environment()))
            assert await process.wait() == 0
            monkeypatch.setattr(os, "kill", lambda pid, signum: pytest.fail(f"signal {signum} to {pid}"))
            await process.kill(9)
            process.close()

    asyncio.run(use())
