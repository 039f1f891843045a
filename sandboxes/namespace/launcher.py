"""The host's handle on the zygote of this process: started at the first sandbox, restarted if it is gone."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

from ..errors import SandboxFault
from . import channel
from .cgroups import reap

BOOT = """
import sys, types, socket, fcntl
package = types.ModuleType("sandlot_namespace")
package.__path__ = [sys.argv[1]]
sys.modules[package.__name__] = package
from sandlot_namespace import zygote
number = fcntl.fcntl(int(sys.argv[2]), fcntl.F_DUPFD_CLOEXEC, 16)
zygote.serve(socket.socket(fileno=number))
"""


class Launcher:
    """Starts sandboxes by asking the zygote; safe to use from any thread, and a forked child starts its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._zygote: subprocess.Popen[bytes] | None = None
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        if self._control is not None:
            self._control.close()
        self._control = self._zygote = None

    def launch(self, request: channel.Message) -> socket.socket:
        """Ask for a sandbox; return the host's end of its agent's socket.

        The agent waits there for its configuration, and its first messages will come there.

        Raises:
            SandboxFault: the zygote cannot be reached.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with self._lock:
                try:
                    channel.send(self._connected(), request, [theirs.fileno()])
                except OSError:
                    self._stop()
                    channel.send(self._connected(), request, [theirs.fileno()])
        except OSError as error:
            ours.close()
            raise SandboxFault(f"the process that starts sandboxes cannot be reached: {error}") from error
        finally:
            theirs.close()
        return ours

    def _connected(self) -> socket.socket:
        if self._control is None:
            reap()  # what processes that were killed have left
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._zygote = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", BOOT, str(Path(__file__).parent), str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                    cwd="/",
                    env={"LANG": "C.UTF-8"},
                )
            self._control = ours
        return self._control

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._zygote is not None:
            with contextlib.suppress(OSError):
                self._zygote.kill()
            self._zygote.wait()
            self._zygote = None

    def stop(self) -> None:
        """End the zygote, and with it every sandbox of this process."""
        with self._lock:
            self._stop()


LAUNCHER = Launcher()
