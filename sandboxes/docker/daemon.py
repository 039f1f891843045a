"""A Docker daemon of our own, for tests, benchmarks and machines where one may start one but none runs.

It needs root and `dockerd` (Debian's docker.io). It runs in a mount and a PID namespace of its own: when its first
process dies, the kernel ends every container and takes away every mount, so that nothing can be left. It touches no
firewall rule, no bridge and no setting of the kernel, and its containers have no network.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from ..errors import SandboxUnavailable

CGROUPS = Path("/sys/fs/cgroup")


class PrivateDaemon:
    """Starts `dockerd` below `folder` and stops it again; `url` is where to reach it.

    The folder must be on a real disk and its path short: a Unix socket's path ends after 107 bytes.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder).absolute()
        self.url = f"unix://{self.folder / 'docker.sock'}"
        self._pid_file = self.folder / "supervisor.pid"
        self._group = f"sandlot-daemon-{self.folder.name}"

    @staticmethod
    def why_not() -> str:
        """The reason why no daemon can be started here, or ""."""
        if os.geteuid() != 0:
            return "starting a Docker daemon needs root"
        missing = [name for name in ("dockerd", "containerd", "runc", "unshare") if not shutil.which(name)]
        return f"{', '.join(missing)} not found: apt-get install docker.io" if missing else ""

    def start(self, timeout: float = 30.0) -> None:
        """Start it and wait until it answers.

        Args:
            timeout: Seconds.

        Raises:
            SandboxUnavailable: It cannot be started here or did not answer in time; the message has its last words.
        """
        if reason := self.why_not():
            raise SandboxUnavailable(reason)
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / "log.txt"
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc"]
        command += ["docker-init", "--"] if shutil.which("docker-init") else []  # PID 1, which reaps
        command += ["dockerd"]
        command += ["--data-root", str(self.folder / "data"), "--exec-root", str(self.folder / "run")]
        command += ["--host", self.url, "--pidfile", str(self.folder / "dockerd.pid")]
        command += ["--iptables=false", "--ip6tables=false", "--ip-masq=false", "--ip-forward=false", "--bridge=none"]
        command += ["--cgroup-parent", f"/{self._group}"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self._pid_file.write_text(str(process.pid))
        end = time.monotonic() + timeout
        while not self.answers():
            if process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise SandboxUnavailable(f"dockerd did not start: {' '.join(log.read_text().split()[-60:])}")
            time.sleep(0.05)

    def answers(self) -> bool:
        """Whether a daemon listens there."""
        with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
            connection.settimeout(5)
            connection.connect(str(self.folder / "docker.sock"))
            connection.sendall(b"GET /_ping HTTP/1.1\r\nHost: docker\r\n\r\n")
            return connection.recv(16).startswith(b"HTTP/1.1 200")
        return False

    def stop(self) -> None:
        """Kill it with its containers and delete its files. Safe to call twice, and from another process."""
        if self._pid_file.exists():
            pid = int(self._pid_file.read_text())
            for child in _children(pid):
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)  # PID 1 of the namespace: the kernel ends the rest
            _wait_for_end(pid)
            self._pid_file.unlink(missing_ok=True)
        _remove_groups(self._group)
        shutil.rmtree(self.folder, ignore_errors=True)


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _wait_for_end(pid: int, timeout: float = 10.0) -> None:
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        with suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
        if not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.02)


def _remove_groups(name: str) -> None:
    """Its cgroups outlive a killed daemon, in every hierarchy."""
    for top in (CGROUPS / name, *CGROUPS.glob(f"*/{name}")):
        for folder, _, _ in os.walk(top, topdown=False):
            with suppress(OSError):
                Path(folder).rmdir()
