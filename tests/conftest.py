"""What tests of several folders share: one real Docker daemon for the whole run."""

from __future__ import annotations

import fcntl
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandlot.sandboxes import debian
from sandlot.sandboxes.docker.daemon import PrivateDaemon
from sandlot.sandboxes.errors import SandboxFault, SandboxUnavailable

RUN = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell; tests of Ctrl-C need it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[RUN] = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"{os.getpid()}")[:12]


def _daemon(run: str) -> PrivateDaemon:
    return PrivateDaemon(Path(tempfile.gettempdir()) / f"sandlot-dockerd-{run}")


@contextmanager
def _locked(run: str) -> Iterator[None]:
    path = Path(tempfile.gettempdir()) / f"sandlot-dockerd-{run}.lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _stop_those_of_killed_runs() -> None:
    """A run that was killed could not stop its daemon; nobody holds its lock any more."""
    for path in Path(tempfile.gettempdir()).glob("sandlot-dockerd-*.users"):
        with path.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            name = path.stem.removeprefix("sandlot-dockerd-")
            _daemon(name).stop()
            path.unlink(missing_ok=True)
            path.with_suffix(".lock").unlink(missing_ok=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """The process that started last and ends last (under xdist: the controller) stops the daemon."""
    if hasattr(session.config, "workerinput"):
        return
    manager = getattr(session.config.pluginmanager.get_plugin("dsession"), "nodemanager", None)
    name = session.config.stash[RUN] if manager is None else str(manager.testrunuid)[:12]
    lock = Path(tempfile.gettempdir()) / f"sandlot-dockerd-{name}.lock"
    if lock.exists():
        _daemon(name).stop()
        lock.unlink(missing_ok=True)
        lock.with_suffix(".users").unlink(missing_ok=True)


@pytest.fixture(scope="session")
def docker_url(pytestconfig: pytest.Config) -> Iterator[str]:
    """The address of a Docker daemon: the user's own, else one that is started here, once for all workers.

    `DOCKER_HOST` names it meanwhile.
    """
    pytest.importorskip("docker", reason="the docker package is not installed: pip install 'sandlot[docker]'")
    from sandlot.sandboxes.docker.client import connect, daemon_url

    try:
        connect(timeout=10).close()
        yield daemon_url(None)
        return
    except SandboxUnavailable:
        pass
    if reason := PrivateDaemon.why_not():
        pytest.skip(f"no Docker daemon runs, and none can be started: {reason}")
    run = pytestconfig.stash[RUN]
    _stop_those_of_killed_runs()
    users = (Path(tempfile.gettempdir()) / f"sandlot-dockerd-{run}.users").open("w")
    fcntl.flock(users, fcntl.LOCK_SH)  # until this process ends
    with _locked(run):
        daemon = _daemon(run)
        if not daemon.answers():
            try:
                daemon.start(timeout=30)
            except SandboxUnavailable as error:
                pytest.skip(f"no Docker daemon: {error}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", daemon.url)
        yield daemon.url
    users.close()


@pytest.fixture(scope="session")
def base_rootfs() -> Path:
    """The base image's root file system: from the cache, else built by debootstrap, which takes a minute or three."""
    try:
        return debian.build_base(timeout=280)
    except (SandboxUnavailable, SandboxFault) as error:
        pytest.skip(f"no base image, and none can be built: {error}")
