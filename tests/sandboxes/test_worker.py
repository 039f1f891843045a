"""Foreign Python that answers requests: what it says, how it fails, and that it cannot stop its host."""

from __future__ import annotations

import time

import pytest
from conftest import Backend

from sandlot.sandboxes import Limits, SandboxSpec, SyncSandbox
from sandlot.sandboxes.errors import InvalidArgument
from sandlot.sandboxes.worker import Worker, WorkerError

GAME = """
import os, sys, time
print("noise on standard output")
state = []
def handle(request):
    if request == "forge":
        for number in range(3, 20):
            try: os.write(number, b"9+7\\n")
            except OSError: pass
    if request == "environment": return dict(os.environ)
    if request == "print": print("x" * 1000000); sys.stderr.write("y" * 1000000)
    if request == "read": return sys.stdin.read()
    if request == "raise": raise KeyError("k")
    if request == "exit": sys.exit(3)
    if request == "_exit": os._exit(0)
    if request == "loop":
        while True: pass
    if request == "long": return "x" * 2_000_000
    if request == "object": return object()
    if request == "nan": return float("nan")
    if request == "deep":
        x = []
        for _ in range(100_000): x = [x]
        return x
    if request == "memory": x = bytearray(900 << 20); time.sleep(60)
    state.append(request)
    return [len(state), request]
"""


@pytest.fixture
def worker(box: SyncSandbox) -> Worker:
    return Worker(box, GAME, timeout=50.0).start()


def test_requests_and_replies(worker: Worker) -> None:
    for number, message in enumerate(({"a": [1, 2.5, None, "é\n\0\ud800"]}, "x" * 500_000, [], 0), start=1):
        assert worker.request(message) == [number, message]
    assert worker.request("read") == ""
    worker.request("print")
    assert worker.request("next") == [6, "next"]
    with pytest.raises(InvalidArgument):
        worker.request(object())
    by_itself = {"LC_CTYPE", "HOSTNAME", "PWD", "OLDPWD", "SHLVL", "_"}  # what Python and shells add
    assert set(worker.request("environment")) - by_itself <= {"PATH", "HOME", "TERM", "LANG"}


@pytest.mark.parametrize("message", ["raise", "exit", "object", "nan", "deep"])
def test_an_exception_is_told_and_it_goes_on(worker: Worker, message: str) -> None:
    with pytest.raises(WorkerError) as caught:
        worker.request(message)
    assert caught.value.kind == "exception"
    assert worker.request("next")[1] == "next"


@pytest.mark.parametrize(
    ("message", "kind"), [("_exit", "died"), ("loop", "timeout"), ("long", "output"), ("forge", "protocol")]
)
def test_what_ends_it(worker: Worker, message: str, kind: str) -> None:
    worker.request(1)
    with pytest.raises(WorkerError) as caught:
        worker.request(message, timeout=1.0 if kind == "timeout" else 60.0)
    assert caught.value.kind == kind and not worker.alive
    with pytest.raises(WorkerError):
        worker.request(2)
    assert worker.start().request(3) == [1, 3]


def test_memory(sandbox_backends: Backend) -> None:
    if not sandbox_backends.make().capabilities.secure:
        pytest.skip("not limited")
    box = sandbox_backends(SandboxSpec(limits=Limits(memory=200 << 20)))
    with pytest.raises(WorkerError) as caught:
        Worker(box, GAME, timeout=50.0).start().request("memory")
    assert caught.value.kind == "died"


@pytest.mark.parametrize("code", ["syntax error", "x = 1", "raise ValueError('at once')", "import os; os._exit(1)"])
def test_code_that_does_not_start(box: SyncSandbox, code: str) -> None:
    worker = Worker(box, code)
    with pytest.raises(WorkerError):
        worker.start()
    assert not worker.alive


def test_no_interpreter(box: SyncSandbox) -> None:
    with pytest.raises(WorkerError, match="no-such-python"):
        Worker(box, GAME, python="no-such-python").start()


def test_it_is_quick(box: SyncSandbox) -> None:
    """Some 25,000 requests a second on a quiet machine; here the best of a few rounds, with much room."""
    with Worker(box, "def handle(request): return request") as worker:
        seconds = []
        for _ in range(5):
            begin = time.perf_counter()
            for number in range(400):
                worker.request(number)
            seconds.append((time.perf_counter() - begin) / 400)
    assert min(seconds) < 0.002
    worker.close()
