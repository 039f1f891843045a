"""Process and service control: a small daemon with a start script that does not come up."""

from __future__ import annotations

from ..dice import Dice
from ..draft import Draft

_DAEMON = '''"""Answers each connection to its socket with the greeting of service.conf, until it is told to stop."""
import configparser
import os
import pathlib
import signal
import socket
import sys

base = pathlib.Path(__file__).parent
conf = configparser.ConfigParser()
conf.read(base / "service.conf")
run = base / conf["service"]["run"]
pid = run / "service.pid"
if pid.exists():
    sys.exit(f"already running with pid {pid.read_text().strip()}")
greeting = conf["service"]["greeting"]
server = socket.socket(socket.AF_UNIX)
server.bind(str(run / "service.sock"))
server.listen()
pid.write_text(str(os.getpid()))


def stop(*_):
    pid.unlink(missing_ok=True)
    (run / "service.sock").unlink(missing_ok=True)
    sys.exit(0)


signal.signal(signal.SIGTERM, stop)
while True:
    connection, _ = server.accept()
    connection.sendall(greeting.encode() + b"\\n")
    connection.close()
'''
_CONTROL = """#!/bin/sh
# usage: ./ctl start|stop|status
cd "$(dirname "$0")" || exit 1
PIDFILE={pidfile}
case "$1" in
start)
    setsid python3 daemon.py >/dev/null 2>service.log </dev/null &
    for _ in $(seq 40); do
        [ -S run/service.sock ] && [ -f "$PIDFILE" ] && exit 0
        kill -0 $! 2>/dev/null || break
        sleep 0.05
    done
    echo "did not start; see service.log" >&2
    exit 1
    ;;
stop)
    [ -f "$PIDFILE" ] || exit 0
    kill -{signal} "$(cat "$PIDFILE")"
    for _ in $(seq 20); do
        [ -f "$PIDFILE" ] || exit 0
        sleep 0.05
    done
    exit 1
    ;;
status)
    [ -f "$PIDFILE" ] && kill -0 "$(cat "$PIDFILE")" 2>/dev/null && echo running && exit 0
    echo stopped
    exit 3
    ;;
esac
"""
_CHECKS = """
import time


def ask():
    import socket
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(str(APP / "run" / "service.sock"))
        return client.recv(1000).decode().strip()


def kill():
    # and wait: what dies late still holds its files, or takes away those of the next one
    subprocess.run(["pkill", "-9", "-f", "daemon.py"], stdin=subprocess.DEVNULL)
    for _ in range(100):
        if subprocess.run(["pgrep", "-f", "daemon.py"], stdin=subprocess.DEVNULL, capture_output=True).returncode:
            return
        time.sleep(0.05)


def clean():
    kill()
    for name in ("service.pid", "service.sock"):
        (APP / "run" / name).unlink(missing_ok=True)


def started():
    clean()
    return run("./ctl", "start")


def test_starts_cleanly():
    assert started().returncode == 0 and run("./ctl", "status").stdout.strip() == "running"


def test_answers():
    assert started().returncode == 0 and ask() == GOLD["greeting"]


def test_stops():
    assert started().returncode == 0
    assert run("./ctl", "stop").returncode == 0 and run("./ctl", "status").returncode == 3
    assert not (APP / "run" / "service.sock").exists()


def test_starts_after_a_crash():
    if not GOLD["crash"]:
        return
    started()
    kill()
    assert run("./ctl", "start").returncode == 0 and ask() == GOLD["greeting"]
"""


def draft(dice: Dice, level: int) -> Draft:
    """As many faults as the level; the last level also asks for a start after a crash."""
    greeting = f"{dice.word()} {dice.word()} {dice.number(100, 999)}"
    faults = dice.sample(("run", "mode", "pidfile", "section"), min(level, 2))
    if level == 3:
        faults = [*faults, "signal"]
    section = "daemon" if "section" in faults else "service"
    files = {
        "daemon.py": _DAEMON,
        "ctl": _CONTROL.format(
            pidfile="run/daemon.pid" if "pidfile" in faults else "run/service.pid",
            signal="HUP" if "signal" in faults else "TERM",
        ),
        "service.conf": f"[{section}]\nrun = {'var' if 'run' in faults else 'run'}\ngreeting = {greeting}\n",
        "run/README": "Runtime files of the service.\n",
    }
    fixes = {
        "run": "sed -i 's/^run = .*/run = run/' service.conf",
        "section": "sed -i 's/^.daemon.$/[service]/' service.conf",
        "mode": "chmod +x ctl",
        "pidfile": "sed -i 's/daemon.pid/service.pid/' ctl",
        "signal": "sed -i 's/kill -HUP/kill -TERM/' ctl",
    }
    solution = [fixes[fault] for fault in faults]
    crash = ""
    if level == 3:
        solution.append(
            'sed -i \'s|^start)$|start)\\n    [ -f "$PIDFILE" ] \\&\\& ! kill -0 "$(cat "$PIDFILE")" 2>/dev/null '
            '\\&\\& rm -f "$PIDFILE" run/service.sock|\' ctl'
        )
        crash = " `./ctl start` must also work after the daemon was killed with SIGKILL and left its files in run/."
    return Draft(
        instruction=(
            "The service in /app does not work. `./ctl start` must start daemon.py, whose socket run/service.sock then "
            f"answers each connection with the greeting of service.conf; `./ctl status` must print 'running' (exit "
            f"code "
            "0) or 'stopped' (exit code 3); `./ctl stop` must end it and leave neither run/service.sock nor "
            f"run/service.pid behind.{crash} Repair what is wrong; keep the greeting."
        ),
        files=files,
        modes={"ctl": 0o644 if "mode" in faults else 0o755},
        solution=tuple(solution),
        checks=_CHECKS,
        gold={"greeting": greeting, "crash": level == 3},
        hint="Try ./ctl start, read service.log, and compare the paths in ctl, service.conf and daemon.py.",
    )
