"""Attacks that need a hand outside: downloads, uploads, endless commands, tampering with what judges.

Each takes a started sandbox and the host's side and returns its outcome. They run only where `guard.py` agrees.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attacks.cases import BACKENDS, Attack

from sandlot.sandboxes import SyncSandbox

Act = Callable[[SyncSandbox, "Host"], str]
ATTACKS: list[Attack] = []


@dataclass
class Host:
    """The host's side of an attack."""

    secret: Path
    """A file that no sandbox may read."""
    content: str
    """What is in it."""
    folder: Path
    """An empty folder for downloads; what an attack leaves beside it has escaped."""
    another: Callable[[], SyncSandbox]
    """Starts a second sandbox of the same kind."""


def attack(name: str, theme: str, title: str, *expect: str, resets: bool = False, **differs: tuple[str, ...]) -> Any:
    """Register an attack."""

    def register(act: Act) -> Act:
        outcomes = {backend: differs.get(backend, expect) for backend in BACKENDS}
        ATTACKS.append(Attack(name, theme, title, outcomes, resets=resets, act=act))
        return act

    return register


def start(box: SyncSandbox, command: str) -> None:
    """Start something in the background, away from the session of the command that starts it."""
    result = box.exec(f"setsid sh -c {shell_quote(command)} >/dev/null 2>&1 </dev/null &")
    assert result.exit_code == 0, result
    time.sleep(0.1)


def shell_quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def stands_still(box: SyncSandbox, path: str) -> bool:
    """Whether nobody writes this file any more. A writer empties it for a moment: then look again."""

    def content() -> bytes:
        for _ in range(10):
            if found := box.exec(["cat", path]).stdout:
                return found
        return b""

    before = content()
    time.sleep(0.15)
    return content() == before


def moves(box: SyncSandbox, path: str) -> bool:
    """Whether somebody writes this file, who may have had no turn to begin yet."""
    return any(not stands_still(box, path) for _ in range(60))


def works(box: SyncSandbox) -> bool:
    return box.exec("echo here").stdout == b"here\n"


# -------------------------------------------------------------------- processes


@attack("daemon", "processes", "leave a daemon in a session of its own, then kill_all", "dead")
def daemon(box: SyncSandbox, host: Host) -> str:
    start(box, "while :; do date +%N > /tmp/alive; sleep 0.02; done")
    assert moves(box, "/tmp/alive")
    box.kill_all()
    return "dead" if stands_still(box, "/tmp/alive") else "alive"


@attack("fork-during-kill", "processes", "fork and exit in an endless chain while kill_all runs", "dead")
def fork_during_kill(box: SyncSandbox, host: Host) -> str:
    chain = "import os\nn = 0\nwhile True:\n if os.fork(): os._exit(0)\n os.setsid(); n += 1\n"
    chain += " with open('/tmp/chain', 'w') as file: file.write(str(n))\n"
    box.put(chain.encode(), "/tmp/chain.py")
    start(box, "python3 -I -S /tmp/chain.py")
    time.sleep(0.1)
    assert moves(box, "/tmp/chain")
    box.kill_all()
    return "dead" if stands_still(box, "/tmp/chain") else "alive"


@attack("shell-fork-bomb", "processes", "a fork bomb of the shell, then kill_all", "survives")
def shell_fork_bomb(box: SyncSandbox, host: Host) -> str:
    box.exec("b() { b | b & }; b; sleep 0.3", timeout=2)
    box.kill_all()
    return "survives" if works(box) else "unusable"


@attack("deaf", "processes", "ignore SIGTERM when the time is over", "ended")
def deaf(box: SyncSandbox, host: Host) -> str:
    begin = time.monotonic()
    result = box.exec("trap '' TERM INT HUP; while :; do sleep 1; done", timeout=0.3)
    return "ended" if result.timed_out and time.monotonic() - begin < 60 else "went on"


@attack(
    "held-output",
    "processes",
    "leave a daemon that holds the output open",
    "returned",
)
def held_output(box: SyncSandbox, host: Host) -> str:
    begin = time.monotonic()
    result = box.exec("sleep 600 & echo done")
    took = time.monotonic() - begin
    box.kill_all()
    return "returned" if result.stdout == b"done\n" and took < 60 else "waited"


@attack("endless-output", "processes", "write without end", "cut")
def endless_output(box: SyncSandbox, host: Host) -> str:
    result = box.exec("yes", timeout=10, output_limit=10_000)
    return "cut" if result.truncated and len(result.stdout) == 10_000 else "kept all"


@attack("kill-everything", "processes", "kill every process it can", "survives")
def kill_everything(box: SyncSandbox, host: Host) -> str:
    box.exec("kill -9 -1")
    return "survives" if works(box) else "unusable"


@attack("leave-the-shell", "processes", "exit, exec and close the descriptors of the persistent shell", "survives")
def leave_the_shell(box: SyncSandbox, host: Host) -> str:
    with box.shell() as shell:
        for command in ("exit 3", "exec true", "exec 200<&- 201>&-", "kill -9 $$", "set -e; false"):
            shell.run(command, timeout=2)
        result = shell.run("echo here", timeout=60)
    return "survives" if result.stdout == b"here\n" else f"{result}"


@attack("forged-report", "processes", "forge the report of a command of the persistent shell", "its own")
def forged_report(box: SyncSandbox, host: Host) -> str:
    forge = "for fd in 3 4 200 201; do { printf 'x 0 /\\0' >&$fd; } 2>/dev/null; done; "
    forge += "for fd in /proc/$PPID/fd/* /proc/$$/fd/*; do printf '- 0 /\\0' > $fd; done 2>/dev/null; false"
    with box.shell() as shell:
        result = shell.run(f"bash -c {shell_quote(forge)}", timeout=60)
        after = shell.run("echo here", timeout=60)
    return "its own" if result.exit_code == 1 and after.stdout.endswith(b"here\n") else f"{result.exit_code}"


@attack("raw-bytes", "processes", "break the reader with NUL, escape sequences and invalid UTF-8", "kept")
def raw_bytes(box: SyncSandbox, host: Host) -> str:
    result = box.exec("printf 'a\\0b\\033[31m\\377'")
    return "kept" if result.stdout == b"a\0b\033[31m\xff" and isinstance(result.text, str) else f"{result.stdout!r}"


@attack("huge-arguments", "processes", "huge arguments: one of 200 KB, 3 MB in all, and a line of 1 MB", "survives")
def huge_arguments(box: SyncSandbox, host: Host) -> str:
    box.exec(["true", "x" * 200_000])
    box.exec(["true", *["y" * 1000] * 3000])
    line = box.exec("true " + "z" * 1_000_000)
    return "survives" if line.exit_code == 0 and works(box) else "unusable"


@attack("huge-environment", "processes", "a huge environment", "survives")
def huge_environment(box: SyncSandbox, host: Host) -> str:
    box.exec("true", env={f"V{number}": "x" * 100_000 for number in range(30)})
    return "survives" if works(box) else "unusable"


@attack("starve-neighbour", "processes", "take so many processes that a neighbour has none", "separate", resets=True)
def starve_neighbour(box: SyncSandbox, host: Host) -> str:
    start(box, "for i in $(seq 60); do sleep 20 & done; wait")
    with host.another() as other:
        return "separate" if works(other) else "starved"


@attack("neighbour", "processes", "see or reach another sandbox's files, processes or sockets", "separate")
def neighbour(box: SyncSandbox, host: Host) -> str:
    with host.another() as other:
        other.put(b"private", "/tmp/private")
        start(other, "exec -a private-process sleep 20")
        seen = box.exec("cat /tmp/private; grep -l private-proces[s] /proc/[0-9]*/cmdline")
    return "separate" if not seen.stdout.strip() else f"{seen.stdout!r}"


# -------------------------------------------------------------------- files


def refused(function: Callable[[], Any]) -> str:
    begin = time.monotonic()
    try:
        got = function()
    except OSError:
        return "refused" if time.monotonic() - begin < 50 else "waited"
    return f"got {got!r:.60}"


@attack("symlink-download", "files", "offer a symbolic link to a file of the host for download", "refused")
def symlink_download(box: SyncSandbox, host: Host) -> str:
    box.exec(["ln", "-sf", str(host.secret), "/tmp/out"])
    return refused(lambda: box.get("/tmp/out"))


@attack("symlink-folder", "files", "offer a folder with links that lead out", "inside")
def symlink_folder(box: SyncSandbox, host: Host) -> str:
    box.exec(f"mkdir -p /tmp/d && cd /tmp/d && ln -s / root && ln -s {host.secret} s && ln -s ../../x up && echo 1 > f")
    target = host.folder / "links"
    box.get_dir("/tmp/d", target)
    leads_out = [path for path in target.rglob("*") if not path.resolve().is_relative_to(target.resolve())]
    return "inside" if not leads_out and (target / "f").read_text() == "1\n" else f"{leads_out}"


@attack(
    "hostile-tar",
    "files",
    "replace tar by one that emits `../` members and links",
    "inside",
    resets=True,
)
def hostile_tar(box: SyncSandbox, host: Host) -> str:
    script = (
        "#!/usr/bin/python3\nimport io, sys, tarfile\n"
        "with tarfile.open(fileobj=sys.stdout.buffer, mode='w|') as tar:\n"
        "    def add(name, **kind):\n"
        "        member = tarfile.TarInfo(name)\n"
        "        for key, value in kind.items(): setattr(member, key, value)\n"
        "        member.size = 0 if kind else 4\n"
        "        tar.addfile(member, io.BytesIO(b'evil'))\n"
        "    add('../evil'); add('/tmp/evil-of-a-sandbox')\n"
        "    add('link', type=tarfile.SYMTYPE, linkname='..'); add('link/evil')\n"
        "    add('hard', type=tarfile.LNKTYPE, linkname='/etc/passwd')\n"
        "    add('device', type=tarfile.BLKTYPE, devmajor=254)\n"
    )
    box.exec("cp /usr/bin/python3 /tmp/python3; mkdir -p /tmp/e")
    box.put(script.encode(), "/usr/bin/tar", mode=0o755)
    target = host.folder / "tar"
    with contextlib.suppress(OSError):
        box.get_dir("/tmp/e", target)
    outside = [path for path in (host.folder / "evil", Path("/tmp/evil-of-a-sandbox")) if path.exists()]
    hard = [path for path in target.rglob("*") if path.is_file() and "root:" in path.read_text(errors="replace")]
    devices = [path for path in target.rglob("*") if path.is_block_device()]
    return "inside" if not outside and not hard and not devices else f"{outside} {hard} {devices}"


@attack("pipe-download", "files", "offer a named pipe, so that the reader waits for ever", "refused")
def pipe_download(box: SyncSandbox, host: Host) -> str:
    box.exec("mkfifo /tmp/pipe")
    return refused(lambda: box.get("/tmp/pipe"))


@attack("endless-download", "files", "offer a device that never ends", "refused")
def endless_download(box: SyncSandbox, host: Host) -> str:
    return refused(lambda: box.get("/dev/zero", limit=1 << 20))


@attack("large-download", "files", "offer more than was asked for", "refused")
def large_download(box: SyncSandbox, host: Host) -> str:
    box.exec("head -c 3000000 /dev/zero > /tmp/large")
    return refused(lambda: box.get("/tmp/large", limit=1 << 20))


@attack("upload-through-link", "files", "redirect an upload through a link to a folder of the host", "inside")
def upload_through_link(box: SyncSandbox, host: Host) -> str:
    target = host.folder / "upload"
    target.mkdir()
    box.exec(["ln", "-sfn", str(target), "/tmp/link"])
    with contextlib.suppress(OSError):
        box.put(b"x", "/tmp/link/file")
    found = list(target.iterdir())
    shutil.rmtree(target)
    return "inside" if not found else "written on the host"


@attack("strange-names", "files", "confuse with names: newlines, leading dashes, invalid UTF-8", "inside")
def strange_names(box: SyncSandbox, host: Host) -> str:
    box.exec("mkdir -p /tmp/n && cd /tmp/n && touch -- '-rf' $'new\\nline' $'bad\\377' '$(touch x)' ' ' '*'")
    target = host.folder / "names"
    box.get_dir("/tmp/n", target)
    return "inside" if len(list(target.iterdir())) >= 5 else f"{list(target.iterdir())}"


# -------------------------------------------------------------------- what judges


@attack("replaced-programs", "verifier", "replace python3, add sitecustomize and ld.so.preload; then reset", "clean")
def replaced_programs(box: SyncSandbox, host: Host) -> str:
    box.exec(
        "printf '#!/bin/sh\\necho passed\\n' > /tmp/fake; chmod 755 /tmp/fake; rm -f /usr/bin/python3; "
        "cp /tmp/fake /usr/bin/python3; mkdir -p /usr/local/bin; cp /tmp/fake /usr/local/bin/pytest; "
        "echo /tmp/evil.so > /etc/ld.so.preload; echo 'print(1)' > /usr/lib/python3/dist-packages/sitecustomize.py"
    )
    box.reset()
    result = box.exec("python3 -c 'print(2)'; ls /usr/local/bin/pytest /etc/ld.so.preload 2>/dev/null")
    return "clean" if result.stdout == b"2\n" and not result.stderr else f"{result}"


@attack("reward-daemon", "verifier", "leave a daemon that overwrites the reward", "unchanged")
def reward_daemon(box: SyncSandbox, host: Host) -> str:
    start(box, "mkdir -p /logs/verifier; while :; do echo 1 > /logs/verifier/reward.txt; sleep 0.01; done")
    box.kill_all()
    box.put(b"0", "/logs/verifier/reward.txt")
    time.sleep(0.1)
    return "unchanged" if box.get("/logs/verifier/reward.txt") == b"0" else "overwritten"


@attack("exported-variables", "verifier", "change PATH, BASH_ENV and functions in the shell", "clean")
def exported_variables(box: SyncSandbox, host: Host) -> str:
    with box.shell() as shell:
        shell.run(
            "export PATH=/tmp/evil BASH_ENV=/tmp/evil.sh LD_PRELOAD=/tmp/evil.so; true() { echo evil; }; export -f true"
        )
        result = box.exec("echo $PATH$BASH_ENV$LD_PRELOAD; true")
    return "clean" if b"evil" not in result.stdout + result.stderr else f"{result.stdout!r}"


@attack(
    "restored-files",
    "verifier",
    "change, delete and add files; then restore the snapshot",
    "restored",
    resets=True,
)
def restored_files(box: SyncSandbox, host: Host) -> str:
    box.put(b"mine", "/app/answer")
    snapshot, before = box.snapshot(), box.fingerprint()
    box.exec(
        "echo evil > /app/answer; rm -f /usr/bin/env; rm -rf /usr/share/perl5; mkdir /usr/share/perl5; touch /evil"
    )
    changed = box.fingerprint()
    box.restore(snapshot)
    same = box.fingerprint() == before != changed
    found = box.exec("cat /app/answer; ls /usr/bin/env; ls /evil").stdout
    return "restored" if same and found == b"mine/usr/bin/env\n" else f"{found!r} {same}"


@attack(
    "leftovers",
    "verifier",
    "find the tests in what an earlier episode left",
    "nothing",
)
def leftovers(box: SyncSandbox, host: Host) -> str:
    box.put(b"expected = 42", "/tests/test_outputs.py")
    box.exec(
        "cd /tests; cp test_outputs.py /dev/shm/kept; cp test_outputs.py /var/tmp/kept; python3 -m py_compile *.py"
    )
    box.reset()
    found = box.exec("find / -xdev \\( -name 'test_outputs*' -o -name kept \\) 2>/dev/null; ls /dev/shm").stdout
    return "nothing" if not found.strip() else f"{found!r}"
