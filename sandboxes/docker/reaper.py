"""Removes the containers that dead processes left on a daemon."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from .labels import EXPIRES, left_over
from .programs import LABEL

if TYPE_CHECKING:
    from docker import DockerClient

_DONE: set[str] = set()
_LOCK = threading.Lock()


def reap(client: DockerClient, *, volumes: bool = False) -> list[str]:
    """Remove what is left over; returns the names of what was removed.

    Args:
        client: The daemon's client.
        volumes: Remove our small volumes too, where nothing uses them.
    """
    from docker.errors import APIError

    removed: list[str] = []
    for row in client.api.containers(all=True, filters={"label": EXPIRES}):
        if left_over(row.get("Labels") or {}):
            with suppress(APIError):  # somebody else removes it right now
                client.api.remove_container(row["Id"], force=True, v=True)
                removed.append(f"container {row['Id'][:12]}")
    if volumes:
        for volume in client.volumes.list(filters={"label": LABEL}):
            with suppress(APIError):  # in use
                volume.remove()
                removed.append(f"volume {volume.name}")
    return removed


def reap_once(client: DockerClient, url: str) -> None:
    """Reap, the first time that this process uses a daemon."""
    with _LOCK:
        if url in _DONE:
            return
        _DONE.add(url)
    reap(client)
