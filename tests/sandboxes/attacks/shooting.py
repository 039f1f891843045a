"""The host's side: a sandbox of one backend, what is laid out for the attacks to find, and how one is run."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from attacks.cases import FOLDER, Attack
from attacks.guard import NAMESPACES, REFUSED
from attacks.staged import Host

from sandlot.sandboxes import SandboxSpec, SyncSandbox
from sandlot.sandboxes.choose import make_sandbox

GUARD, MARKER = "/opt/guard.py", "/opt/marker"
CONTENT = "the secret of the host"
VARIABLE = "SANDLOT_TEST_API_KEY"


def namespaces() -> dict[str, str]:
    return {kind: str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in NAMESPACES}


class Range:
    """One backend's sandbox and the host's side of the attacks on it."""

    def __init__(self, backend: str, spec: SandboxSpec, url: str, folder: Path, stack: ExitStack) -> None:
        self.backend, self.spec, self.url = backend, spec, url
        secret = folder / "secret.txt"
        secret.write_text(CONTENT)
        secret.chmod(0o644)
        downloads = folder / "downloads"
        downloads.mkdir()
        self.host = Host(secret, CONTENT, downloads, self.another)
        leaked = os.open(secret, os.O_RDONLY)
        os.set_inheritable(leaked, True)
        stack.callback(os.close, leaked)
        listener, abstract = socket.create_server(("127.0.0.1", 0)), f"sandlot-test-{os.getpid()}"
        stack.callback(listener.close)
        unix = socket.socket(socket.AF_UNIX)
        unix.bind(f"\0{abstract}")
        unix.listen()
        stack.callback(unix.close)
        argument = f"{os.getpid()}.5"
        sleeper = subprocess.Popen(["sleep", argument])
        stack.callback(sleeper.wait)
        stack.callback(sleeper.kill)
        self.token = os.urandom(8).hex()
        self.context: dict[str, Any] = {
            "marker": MARKER,
            "token": self.token,
            "namespaces": namespaces(),
            "secret": str(secret),
            "content": CONTENT,
            "variable": VARIABLE,
            "port": listener.getsockname()[1],
            "abstract": abstract,
            "pid": sleeper.pid,
            "argument": argument,
        }
        self.box = stack.enter_context(self.another())
        self.furnish()

    def another(self) -> SyncSandbox:
        arguments = {"url": self.url} if self.backend == "docker" else {}
        return SyncSandbox(make_sandbox(self.backend, self.spec, **arguments))

    def furnish(self) -> None:
        self.box.put((FOLDER / "guard.py").read_bytes(), GUARD)
        self.box.put(self.token.encode(), MARKER)

    def run(self, attack: Attack) -> str:
        """The attack's outcome. Everything of it runs behind the guard or by commands of the sandbox itself."""
        if attack.act is not None:
            assert self.guarded("outcome = 'inside'", "check") == "inside"
            outcome = attack.act(self.box, self.host)
        else:
            with ExitStack() as stack:
                if attack.stage == "entering":
                    stack.enter_context(self.entering())
                outcome = self.guarded(attack.script, attack.name)
        if attack.resets:
            self.box.reset()
        if attack.resets or attack.act is not None:
            self.furnish()
        return outcome

    def guarded(self, script: str, name: str) -> str:
        context = json.dumps({**self.context, "name": name})
        result = self.box.exec(["python3", "-I", "-S", GUARD, context], stdin=script.encode(), cwd="/")
        assert result.exit_code != REFUSED, result.error_text
        if result.exit_code == 137:
            return "SIGKILL"
        assert result.exit_code == 0, result.error_text[-2000:]
        return result.text.strip().splitlines()[-1]

    def entering(self) -> ExitStack:
        """Meanwhile other commands enter the same sandbox, one after the other."""
        stop = threading.Event()

        def enter() -> None:
            while not stop.is_set():
                self.box.exec(["true"])

        thread = threading.Thread(target=enter)
        thread.start()
        stack = ExitStack()
        stack.callback(thread.join)
        stack.callback(stop.set)
        return stack
