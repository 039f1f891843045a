"""Reach a Docker daemon: the SDK's client, and raw connections for what the SDK does not stream."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from ..errors import InvalidArgument, MissingExtra, SandboxFault, SandboxUnavailable

if TYPE_CHECKING:
    from docker import DockerClient

T = TypeVar("T")
SOCKET = "unix:///var/run/docker.sock"


def daemon_url(url: str | None) -> str:
    """The daemon's address: as given, else `DOCKER_HOST`, else the usual socket.

    Raises:
        InvalidArgument: It is neither a Unix socket nor plain TCP.
    """
    url = url or os.environ.get("DOCKER_HOST") or SOCKET
    if urlsplit(url).scheme not in ("unix", "tcp"):
        raise InvalidArgument(f"a Docker daemon is reached at unix:///… or tcp://host:port, not {url!r}")
    return url


def connect(url: str | None = None, *, timeout: int = 120) -> DockerClient:
    """A client whose daemon has answered; the caller closes it.

    Raises:
        MissingExtra: The `docker` package is not installed.
        SandboxUnavailable: There is no daemon, or this user may not use it.
    """
    try:
        import docker
        from docker.errors import DockerException
    except ImportError:
        raise MissingExtra("docker", "docker") from None
    address = daemon_url(url)
    try:
        return docker.DockerClient(base_url=address, version="auto", timeout=timeout)
    except DockerException as error:
        text = str(error)
        if "Permission denied" in text:
            raise SandboxUnavailable(f"{address} may not be used by this user: join the group docker") from None
        raise SandboxUnavailable(f"no Docker daemon answers at {address}: start one, or set DOCKER_HOST") from None


async def hijack(url: str, method: str, path: str, body: Any = None) -> tuple[socket.socket, bytes]:
    """Send one request and keep the connection: a non-blocking socket after the answer's header, and what came already.

    The SDK's own way reads the header through a buffer and loses the bytes that came with it.

    Raises:
        SandboxFault: The daemon refused or went away.
    """
    loop = asyncio.get_running_loop()
    parts = urlsplit(url)
    unix = parts.scheme == "unix"
    connection = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
    connection.setblocking(False)
    content = b"" if body is None else json.dumps(body).encode()
    header = f"{method} {path} HTTP/1.1\r\nHost: docker\r\nContent-Type: application/json\r\n"
    if method == "POST":
        header += "Connection: Upgrade\r\nUpgrade: tcp\r\n"
    header += f"Content-Length: {len(content)}\r\n\r\n"
    try:
        await loop.sock_connect(connection, parts.path if unix else (parts.hostname, parts.port or 2375))
        await loop.sock_sendall(connection, header.encode() + content)
        got = b""
        while b"\r\n\r\n" not in got:
            data = await loop.sock_recv(connection, 1 << 16)
            if not data:
                raise SandboxFault(f"the Docker daemon closed the connection: {got[-300:].decode(errors='replace')}")
            got += data
    except OSError as error:
        connection.close()
        raise SandboxFault(f"the Docker daemon at {url} went away: {error}") from error
    except BaseException:
        connection.close()
        raise
    head, rest = got.split(b"\r\n\r\n", 1)
    status = int(head.split(None, 2)[1])
    if status not in (101, 200):
        connection.close()
        raise SandboxFault(f"the Docker daemon answered {status}: {rest[:500].decode(errors='replace')}")
    return connection, rest


async def in_thread(function: Callable[[], T]) -> T:
    """The result of `function`, from a thread; from this one when the interpreter ends and there are no others."""
    try:
        work = asyncio.get_running_loop().run_in_executor(None, function)
    except RuntimeError:
        return function()
    return await work


async def call(function: Callable[[], Any], *, what: str) -> Any:
    """Run a call of the SDK in a thread.

    Raises:
        SandboxFault: The daemon failed; `what` says at what.
    """
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        return await in_thread(function)
    except (DockerException, RequestException) as error:
        raise SandboxFault(f"the Docker daemon could not {what}: {error}") from error
