"""Sandboxes for ordinary code: every call is carried out by one event loop in a background thread of this process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import weakref
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from .base import TRANSFER, Sandbox, Snapshot
from .limits import Capabilities
from .shell import Shell
from .spec import ExecResult, SandboxSpec

T = TypeVar("T")


class _Loop:
    """The background loop of this process; a forked child gets its own when it first needs one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._loop = None

    def here(self) -> bool:
        """Whether this is the loop's own thread."""
        return self._thread is threading.current_thread()

    def get(self) -> asyncio.AbstractEventLoop:
        loop = self._loop
        if loop is None:
            with self._lock:
                if self._loop is None:
                    self._loop = asyncio.new_event_loop()
                    self._thread = threading.Thread(
                        target=self._loop.run_forever, name="sandlot-sandboxes", daemon=True
                    )
                    self._thread.start()
                loop = self._loop
        return loop


_LOOP = _Loop()
_CLOSING: set[asyncio.Task[None]] = set()


class _Call:
    """One call on its way: a lock instead of a concurrent future saves a third of the way."""

    __slots__ = ("coroutine", "done", "error", "task", "value")

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.coroutine = coroutine
        self.done = threading.Lock()
        self.done.acquire()
        self.error: BaseException | None = None
        self.value: Any = None
        self.task: asyncio.Task[Any] | None = None

    def begin(self) -> None:
        self.task = asyncio.ensure_future(self.coroutine)
        self.task.add_done_callback(self.finish)

    def finish(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            self.error = asyncio.CancelledError()
        elif (error := task.exception()) is not None:
            self.error = error
        else:
            self.value = task.result()
        self.done.release()

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Carry out `coroutine` on the background loop and wait for it, from any thread but that loop's own.

    Ctrl-C (or any exception raised into the waiting thread) cancels it and waits until it has cleaned up.
    """
    loop = _LOOP.get()
    call = _Call(coroutine)
    loop.call_soon_threadsafe(call.begin)
    try:
        call.done.acquire()
    except BaseException:
        loop.call_soon_threadsafe(call.cancel)
        with contextlib.suppress(BaseException):
            call.done.acquire(timeout=5.0)
        raise
    if call.error is not None:
        error, call.error = call.error, None
        try:
            raise error
        finally:
            del error  # it would hold this frame, and the frame it
    return call.value


class SyncShell:
    """`Shell` for ordinary code; see there."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    @property
    def cwd(self) -> str:
        """The shell's working folder after the last command."""
        return self._shell.cwd

    @property
    def restarts(self) -> int:
        """How often it ended and a new one took its place."""
        return self._shell.restarts

    def run(self, command: str, *, timeout: float | None = None, output_limit: int | None = None) -> ExecResult:
        """See `Shell.run`."""
        return run(self._shell.run(command, timeout=timeout, output_limit=output_limit))

    def send(self, data: bytes | str) -> None:
        """See `Shell.send`."""
        run(self._shell.send(data))

    def read(self, *, timeout: float = 1.0, quiet: float = 0.05, limit: int | None = None) -> bytes:
        """See `Shell.read`."""
        return run(self._shell.read(timeout=timeout, quiet=quiet, limit=limit))

    def interrupt(self) -> None:
        """See `Shell.interrupt`."""
        run(self._shell.interrupt())

    def resize(self, rows: int, columns: int) -> None:
        """See `Shell.resize`."""
        run(self._shell.resize(rows, columns))

    def close(self) -> None:
        """See `Shell.close`."""
        run(self._shell.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SyncSandbox:
    """`Sandbox` for ordinary code: `with SyncSandbox(NamespaceSandbox(spec)) as box: box.exec("true")`.

    Works under a running loop (Jupyter), from several threads, and after a fork (where a sandbox of the parent is no
    longer usable and a new one is).
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self._process = os.getpid()
        self._finalizer = weakref.finalize(self, _close, sandbox, self._process)

    @property
    def name(self) -> str:
        """The backend's name."""
        return self.sandbox.name

    @property
    def spec(self) -> SandboxSpec:
        """What it was started from."""
        return self.sandbox.spec

    @property
    def capabilities(self) -> Capabilities:
        """What its backend can do here."""
        return self.sandbox.capabilities

    def start(self) -> Self:
        """See `Sandbox.start`."""
        run(self.sandbox.start())
        return self

    def close(self) -> None:
        """See `Sandbox.close`."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self if self.sandbox._started else self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def exec(
        self,
        command: str | Sequence[str],
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: float | None = None,
        output_limit: int | None = None,
        merge_stderr: bool = False,
    ) -> ExecResult:
        """See `Sandbox.exec`."""
        return run(
            self.sandbox.exec(
                command,
                stdin=stdin,
                cwd=cwd,
                env=env,
                user=user,
                timeout=timeout,
                output_limit=output_limit,
                merge_stderr=merge_stderr,
            )
        )

    def shell(
        self,
        *,
        pty: bool = False,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        merge_stderr: bool = True,
        rows: int = 24,
        columns: int = 80,
    ) -> SyncShell:
        """See `Sandbox.shell`."""
        return SyncShell(
            run(
                self.sandbox.shell(
                    pty=pty, cwd=cwd, env=env, user=user, merge_stderr=merge_stderr, rows=rows, columns=columns
                )
            )
        )

    def kill_all(self) -> None:
        """See `Sandbox.kill_all`."""
        run(self.sandbox.kill_all())

    def put(self, data: bytes | Path, path: str, *, mode: int = 0o644) -> None:
        """See `Sandbox.put`."""
        run(self.sandbox.put(data, path, mode=mode))

    def get(self, path: str, *, limit: int = TRANSFER) -> bytes:
        """See `Sandbox.get`."""
        return run(self.sandbox.get(path, limit=limit))

    def put_dir(self, source: Path, path: str) -> None:
        """See `Sandbox.put_dir`."""
        run(self.sandbox.put_dir(source, path))

    def get_dir(self, path: str, target: Path, *, limit: int = TRANSFER) -> list[str]:
        """See `Sandbox.get_dir`."""
        return run(self.sandbox.get_dir(path, target, limit=limit))

    def reset(self) -> None:
        """See `Sandbox.reset`."""
        run(self.sandbox.reset())

    def snapshot(self) -> Snapshot:
        """See `Sandbox.snapshot`."""
        return run(self.sandbox.snapshot())

    def restore(self, snapshot: Snapshot) -> None:
        """See `Sandbox.restore`."""
        run(self.sandbox.restore(snapshot))

    def fork(self, snapshot: Snapshot | None = None) -> SyncSandbox:
        """See `Sandbox.fork`."""
        return SyncSandbox(run(self.sandbox.fork(snapshot)))

    def fingerprint(self, paths: Sequence[str] | None = None) -> str:
        """See `Sandbox.fingerprint`."""
        return run(self.sandbox.fingerprint(paths))

    def freeze(self) -> None:
        """See `Sandbox.freeze`."""
        run(self.sandbox.freeze())

    def thaw(self) -> None:
        """See `Sandbox.thaw`."""
        run(self.sandbox.thaw())


def _close(sandbox: Sandbox, process: int) -> None:
    if os.getpid() != process:
        return
    if _LOOP.here():  # collected as garbage on the loop's own thread, which cannot wait for itself
        _CLOSING.add(task := asyncio.ensure_future(sandbox.close()))
        task.add_done_callback(_CLOSING.discard)
    else:
        run(sandbox.close())
