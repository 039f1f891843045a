"""Remove what dead sessions left on this machine. Whatever a live process may still use is not touched."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from .errors import MissingExtra, SandboxUnavailable
from .namespace.cgroups import reap

CGROUPS = Path("/sys/fs/cgroup")
DAY = 24 * 3600.0  # seconds


def reap_groups(top: Path = CGROUPS) -> list[str]:
    """Control groups of processes that are gone. The kernel refuses to remove one that is in use."""
    return [f"control group {group}" for group in reap(Path(folder) for folder, _, _ in os.walk(top))]


def reap_folders(top: Path | None = None, *, older: float = DAY) -> list[str]:
    """This user's temporary folders of sandboxes that nobody has touched for a day.

    Args:
        top: Where temporary folders are.
        older: Seconds.
    """
    removed: list[str] = []
    for folder in (Path(tempfile.gettempdir()) if top is None else top).glob("sandlot-local-*"):
        with suppress(OSError):
            state = folder.lstat()
            if state.st_uid == os.getuid() and time.time() - state.st_mtime > older and folder.is_dir():
                shutil.rmtree(folder)
                removed.append(f"folder {folder}")
    return removed


def reap_docker(url: str | None = None) -> list[str]:
    """Containers and volumes on the Docker daemon, where there is one.

    Raises:
        MissingExtra, SandboxUnavailable: There is none to ask.
    """
    from .docker.client import connect
    from .docker.reaper import reap as reap_daemon

    client = connect(url, timeout=60)
    try:
        return reap_daemon(client, volumes=True)
    finally:
        client.close()


def reap_all() -> tuple[list[str], str]:
    """All of it. Returns what was removed, and why Docker was not asked, or ""."""
    removed, why = [*reap_groups(), *reap_folders()], ""
    try:
        removed += reap_docker()
    except (MissingExtra, SandboxUnavailable) as error:
        why = str(error)
    return removed, why
