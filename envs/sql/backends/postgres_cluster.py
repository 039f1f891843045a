"""A private PostgreSQL cluster in a temporary folder, which ends with the program that started it."""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
import shutil
import signal
import subprocess
import tempfile
import weakref
from pathlib import Path
from typing import Any

from ...core.errors import EnvironmentFault, MissingData

ADDRESS_SPACE = 512 << 10  # KiB, of each server process
OPTIONS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "autovacuum": "off",
    "jit": "off",
    "shared_buffers": "16MB",
    "work_mem": "8MB",
    "maintenance_work_mem": "16MB",
    "temp_file_limit": "64MB",
    "max_connections": "200",
    "max_parallel_workers_per_gather": "0",
    "max_locks_per_transaction": "64",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "128MB",
    "logging_collector": "off",
    "log_min_messages": "fatal",
}
# The shell ends the server and deletes its folder when its input closes: also when this program is killed.
_LIFE = """
ulimit -v {memory}; ulimit -c 0
exec 3<&0
({command}; : >{folder}/ended) </dev/null 3<&- &
read line <&3
kill -QUIT $(head -n 1 {folder}/data/postmaster.pid)
wait
rm -rf {folder}
"""


class Cluster:
    """Starts a cluster; whoever made it waits until it answers at `conninfo`.

    Raises:
        MissingData: PostgreSQL's programs are not on this machine.
        EnvironmentFault: the cluster cannot be made.
    """

    def __init__(self) -> None:
        programs, user = find_programs(), _user()
        folder = Path(tempfile.mkdtemp(prefix="sandlot-pg-"))
        try:
            if user is not None:
                os.chown(folder, user.pw_uid, user.pw_gid)
            settings = ["-U", "sandlot", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
            _run([programs / "initdb", "-D", folder / "data", *settings], user)
            options = " ".join(f"-c {name}={value!r}" for name, value in OPTIONS.items())
            command = f"{programs / 'postgres'} -D {folder / 'data'} -k {folder} {options} >{folder}/log 2>&1"
            process = subprocess.Popen(
                ["/bin/sh", "-c", _LIFE.format(memory=ADDRESS_SPACE, command=command, folder=folder)],
                stdin=subprocess.PIPE,
                bufsize=0,
                cwd="/",
                start_new_session=True,
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
                **_identity(user),
            )
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self.folder = folder
        self.conninfo = f"host={folder} user=sandlot dbname=postgres"
        self.stop = weakref.finalize(self, _end, process, folder)
        """End the server and delete its folder; calling it again does nothing."""

    @property
    def ended(self) -> bool:
        """Whether the server has gone by itself."""
        return (self.folder / "ended").exists()

    def log(self) -> str:
        """The end of the server's log."""
        path = self.folder / "log"
        return path.read_text(errors="replace")[-500:] if path.exists() else ""


def find_programs() -> Path:
    """The folder of `initdb` and `postgres`. Raises `MissingData` where there is none."""
    found = shutil.which("initdb")
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found is None and not versions:
        raise MissingData("PostgreSQL is not installed: apt-get install postgresql (or pass a server's conninfo)")
    return Path(found).resolve().parent if found else versions[-1].parent


def _user() -> pwd.struct_passwd | None:
    """Whom to run the server as: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise MissingData("PostgreSQL does not run as root, and there is no user postgres or nobody")


def _identity(user: pwd.struct_passwd | None) -> Any:
    """Arguments for `subprocess` that start a program as `user`."""
    return {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _run(command: list[Any], user: pwd.struct_passwd | None) -> None:
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
        **_identity(user),
    )
    if done.returncode:
        raise EnvironmentFault(f"{shlex.join(map(str, command))}: {done.stderr.strip()[-500:]}")


def _end(process: Any, folder: Path) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
    shutil.rmtree(folder, ignore_errors=True)
