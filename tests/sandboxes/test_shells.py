"""The contract of every backend: persistent shells, with and without a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from conftest import Backend
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandlot.sandboxes import SyncSandbox, SyncShell
from sandlot.sandboxes.errors import InvalidArgument, SandboxFault

Needs = Callable[[str], None]


@pytest.fixture
def shell(box: SyncSandbox) -> SyncShell:
    return box.shell()


def test_state_is_kept(shell: SyncShell) -> None:
    assert shell.run("cd /usr; x=5; f() { echo f; }; export Y=6").exit_code == 0
    assert shell.run('echo $x $Y $(f); pwd; sh -c "echo $Y"').stdout == b"5 6 f\n/usr\n6\n"
    assert shell.cwd == "/usr"
    assert shell.run("(exit 42)").exit_code == 42
    assert shell.run("echo $?").stdout == b"42\n"
    assert shell.run("echo out; echo err >&2; echo out").stdout == b"out\nerr\nout\n"
    assert shell.restarts == 0


def test_background_jobs_live_on(shell: SyncShell) -> None:
    begin = time.monotonic()
    assert shell.run("sleep 4321 & echo $! > /tmp/pid").exit_code == 0
    assert shell.run("while :; do sleep 0.05; done", timeout=0.3).timed_out
    assert shell.run("kill -0 $(cat /tmp/pid) && echo alive").stdout == b"alive\n"
    assert time.monotonic() - begin < 120
    late = shell.run("(sleep 0.3; echo late) &").stdout
    for _ in range(100):
        if late:  # as on a terminal: with the next command
            break
        time.sleep(0.1)
        late = shell.run("true").stdout
    assert late == b"late\n"


@pytest.mark.parametrize(
    ("command", "code", "output"),
    [
        ("echo 'unbalanced", 2, None),
        ("if true; then", 2, None),
        ("echo )", 2, None),
        ("cat <<EOF\na\nEOF\necho b", 0, b"a\nb\n"),
        ("cat <<EOF\na", 0, None),  # a here-document without its end
        ("cat", 0, b""),
        ("read x; echo $?", 0, b"1\n"),
        ("python3 -I -S -c 'print(input())' 2>/dev/null", 1, b""),
        ("-e", 127, None),
        ("# only a comment", 0, b""),
        ("", 0, b""),
        ("true \\", 0, b""),
        ("false &&", 2, None),
        ("echo a; exec 3>&- 4>&- 200>&- 201>&-; echo b", 0, b"a\nb\n"),
        ("echo 0 >&201 || echo closed", 0, None),
        ("printf '\\000%s 0 x /\\000' - ; false", 1, b"\0- 0 x /\0"),
        ("set -u; echo ${nothing:-x}; set +u", 0, b"x\n"),
        ("shopt -s expand_aliases; alias echo=false; unalias echo", 0, b""),
        ("readonly REPLY2=1; IFS=,; echo a,b; IFS=$' \\t\\n'", 0, b"a,b\n"),
        ("trap 'echo trapped' ERR; false; trap - ERR", 0, b"trapped\n"),
        ("printf() { :; }; printf x; unset -f printf", 0, b""),
    ],
)
def test_hard_commands(shell: SyncShell, command: str, code: int, output: bytes | None) -> None:
    result = shell.run(command, timeout=10)
    assert not result.timed_out and result.exit_code == code, result
    if output is not None:
        assert result.stdout == output
    assert shell.run("echo next").stdout == b"next\n" and shell.restarts == 0


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("exit 7", 7),
        ("set -e; false", 1),
        ("exec sh -c 'exit 9'", 9),
        ("kill -9 $$", 137),
        ("trap 'exit 4' EXIT; exit 3", 4),
    ],
)
def test_a_shell_that_ends_is_replaced(shell: SyncShell, command: str, code: int) -> None:
    shell.run("cd /usr; x=1")
    result = shell.run(command, timeout=10)
    assert result.exit_code == code and result.shell_exited and not result.timed_out
    after = shell.run("echo $x; pwd")
    assert after.stdout == b"\n/usr\n" and not after.shell_exited and shell.restarts == 1


def test_a_deleted_folder(shell: SyncShell) -> None:
    shell.run("mkdir /tmp/gone; cd /tmp/gone; rmdir /tmp/gone")
    shell.run("exit")
    assert shell.run("echo ok", timeout=20).stdout == b"ok\n"


def test_tracing_shows_the_commands_only(shell: SyncShell) -> None:
    assert shell.run("set -x").stdout == b""
    traced = shell.run("echo a").stdout
    assert traced.endswith(b"echo a\na\n") and traced.count(b"\n") == 2
    shell.run("set +x; set -v")
    assert shell.run("echo b").stdout == b"echo b\nb\n"
    shell.run("set +v")
    assert shell.run("echo c").stdout == b"c\n"


def test_timeouts(shell: SyncShell) -> None:
    shell.run("x=1")
    result = shell.run("echo begin; sleep 60; echo after", timeout=1)
    assert result.timed_out and result.stdout.startswith(b"begin\n") and not result.shell_exited
    assert shell.run("echo $x").stdout == b"1\n"  # the shell itself lives
    busy = shell.run("while :; do :; done", timeout=0.2)
    assert busy.timed_out and busy.shell_exited and busy.duration < 60
    assert shell.run("echo $x.").stdout == b".\n"


def test_a_command_that_starts_processes_without_end_is_ended(shell: SyncShell) -> None:
    job = shell.run("sleep 4321 & echo $!").text.strip()
    assert shell.run("while :; do /bin/true; /bin/true & done", timeout=0.5).timed_out
    assert shell.run(f"kill -0 {job} && echo alive", timeout=60).stdout.endswith(b"alive\n")


def test_floods_and_caps(shell: SyncShell) -> None:
    result = shell.run("yes", output_limit=4, timeout=30)
    assert result.truncated and not result.timed_out and result.stdout == b"y\ny\n"
    assert shell.run("echo next").stdout == b"next\n"
    result = shell.run("head -c 100000 /dev/zero; echo end", output_limit=5)
    assert (result.stdout, result.total_bytes, result.truncated) == (bytes(5), 100_004, True)


def test_a_daemon_that_never_stops_writing(shell: SyncShell) -> None:
    shell.run("yes & echo $! > /tmp/pid")
    time.sleep(0.3)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.15  # it waits, and costs this process nothing
    result = shell.run("echo next; kill $(cat /tmp/pid); wait", timeout=10, output_limit=1000)
    assert result.truncated and result.stdout.startswith(b"y\ny\n") and not result.timed_out
    shell.run("true")
    assert shell.run("echo after").stdout == b"after\n"


def test_a_very_long_line(shell: SyncShell) -> None:
    assert shell.run("x=" + "a" * 3_000_000 + "; echo ${#x}", timeout=60).stdout == b"3000000\n"
    assert shell.run("echo " + "é" * 100_000, output_limit=1 << 20).text == "é" * 100_000 + "\n"


def test_output_of_the_shell_is_no_report(shell: SyncShell) -> None:
    """Whatever a command writes wherever it can, its exit code is its own."""
    for forged in (
        "for d in /proc/$$/fd/*; do [ -p $d ] && printf '%s 0 hB /\\0' - > $d; done 2>/dev/null; false",
        "for n in 3 4 5 6 7 8 9 10 11 12 200 201; do printf '0 0 hB /\\0' >&$n; done 2>/dev/null; false",
        "echo $REPLY $BASH_COMMAND; false",
    ):
        result = shell.run(forged, timeout=5)
        assert result.exit_code != 0
        assert shell.run("false", timeout=5).exit_code != 0


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(exclude_characters="\0"), max_size=60))
def test_any_text_is_one_argument(shared: SyncSandbox, text: str) -> None:
    """Quoting is exact: what goes in as one word comes out as its bytes."""
    from shlex import quote

    shell = _kept(shared)
    want = text.encode("utf-8", "surrogateescape") if text.isprintable() else None
    result = shell.run(f"printf %s {quote(text)}", timeout=10)
    assert result.exit_code == 0
    if want is not None:
        assert result.stdout == want


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text("'\"`$(){}[]|&;<>\\\n #!*?~=-+xé", max_size=25))
def test_no_text_breaks_the_frame(shared: SyncSandbox, text: str) -> None:
    """Whatever is run, the next command gets its own output and code."""
    shell = _kept(shared)
    shell.run(text, timeout=0.7)
    result = shell.run("echo sentinel", timeout=10)
    assert result.exit_code == 0 and result.stdout.endswith(b"sentinel\n")


_SHELLS: dict[int, SyncShell] = {}


def _kept(box: SyncSandbox) -> SyncShell:
    if id(box) not in _SHELLS:
        _SHELLS[id(box)] = box.shell(cwd="/var")
    return _SHELLS[id(box)]


def test_end_of_every_process(shell: SyncShell, box: SyncSandbox) -> None:
    shell.run("cd /usr")
    box.kill_all()
    assert shell.run("pwd").stdout == b"/usr\n" and shell.restarts == 1
    if box.capabilities.snapshot:
        box.reset()
        assert shell.run("pwd").stdout == b"/\n" and shell.restarts == 2


def test_closed_shells_and_wrong_calls(shell: SyncShell) -> None:
    with pytest.raises(InvalidArgument):
        shell.run("a\0b")
    with pytest.raises(InvalidArgument, match="pty"):
        shell.send("x")
    shell.close()
    shell.close()
    with pytest.raises(SandboxFault):
        shell.run("true")


def test_one_shell_is_quick(box: SyncSandbox, shell: SyncShell) -> None:
    """0.2 ms on a quiet machine. A busy one makes a new process slower as well, so it is compared with that."""
    for _ in range(20):
        shell.run("true")
    seconds = []
    for _ in range(300):
        begin = time.perf_counter()
        shell.run("cd /")
        seconds.append(time.perf_counter() - begin)
    processes = []
    for _ in range(10):
        begin = time.perf_counter()
        box.exec(["true"])
        processes.append(time.perf_counter() - begin)
    assert sorted(seconds)[30] < min(processes) / 2


def test_a_terminal(box: SyncSandbox, needs: Needs) -> None:
    needs("pty")
    shell = box.shell(pty=True, rows=30, columns=100)

    def shows(command: str, text: bytes) -> bool:
        shown = shell.run(command).stdout
        return text in shown or text in _until(shell, text)  # a busy machine hands on the screen's bytes later

    assert shows("tty", b"/dev/pts/")
    assert shows("stty size", b"30 100")
    shell.resize(50, 120)
    assert shows("stty size", b"50 120")
    assert shell.run("(exit 5)").exit_code == 5
    shell.send("cat\r")
    _until(shell, b"cat\r\n")
    shell.send("hello\r")
    assert _until(shell, b"hello\r\nhello\r\n").count(b"hello") == 2  # the echo, and cat's own
    shell.interrupt()
    assert b"^C" in _until(shell, b"^C")
    shell.send("yes | head -c 500000; echo end-of-flood\r")  # more than is kept at once
    assert b"end-of-flood" in _until(shell, b"end-of-flood\r\n# ")
    shell.send("python3 -I -S -q\r")
    assert b">>> " in _until(shell, b">>> ")
    shell.send("print(6*7)\r")
    assert b"42" in _until(shell, b"42\r\n>>> ")
    shell.send("\x04")
    _until(shell, b"# ")
    assert shell.run("sleep 60", timeout=0.3).timed_out
    assert shows("echo ok", b"ok\r\n")
    assert shell.run("exit 3").shell_exited
    assert shows("echo back", b"back\r\n")
    shell.close()


def _until(shell: SyncShell, text: bytes) -> bytes:
    seen = b""
    for _ in range(50):
        seen += shell.read(timeout=0.3)
        if text in seen:
            break
    return seen


def test_no_terminal_where_there_is_none(sandbox_backends: Backend, box: SyncSandbox) -> None:
    if not box.capabilities.pty:
        with pytest.raises(InvalidArgument, match=sandbox_backends.name):
            box.shell(pty=True)
