"""Inside a new sandbox: its mounts. The agent's own root holds the raw material, each layer is a mount namespace.

The agent (PID 1) lives on a small tmpfs in which only `lower` (the image), `proc`, `dev` and the read-only mounts are
bound: no path of the host is reachable from it. A layer is a mount namespace made from that one: a tmpfs of limited
size for what is written, an overlay of it over the image, and the root moved there. Whoever enters the namespace sees
nothing else; when its descriptor is closed and its processes are gone, the kernel frees all of it at once.

Runs in the zygote's children: the standard library and this folder only.
"""

# pathlib would be imported into every sandbox's first process
# ruff: noqa: PTH102, PTH103, PTH112, PTH120, PTH211

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import kernel

STAGE = "/tmp"  # any folder that every host has: things are mounted over it where only the sandbox sees them
NODES = ("null", "zero", "full", "random", "urandom", "tty")
OVERLAY_FLAGS = kernel.NOSUID | kernel.NODEV


def hold(sources: list[str]) -> list[int]:
    """Descriptors with which `enter_base` mounts the image and the read-only mounts.

    Real root makes them before it goes: an unprivileged user could not reach what lies in root's folders.
    """
    attributes = kernel.ATTR_RDONLY | kernel.ATTR_NOSUID | kernel.ATTR_NODEV
    held: list[int] = []
    try:
        for source in sources:
            held.append(kernel.hold(source, attributes))
    except OSError:
        release(held)
        raise
    return held


def release(held: list[int]) -> None:
    """Close them; what is mounted stays."""
    for descriptor in held:
        os.close(descriptor)


def _target(path: str, folder: bool) -> None:
    """Make an empty folder or file to mount on."""
    if folder:
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def enter_base(held: list[int]) -> None:
    """As root of the new namespaces: build the agent's root and make it the root.

    Args:
        held: from `hold`, the image first; they are closed.
    """
    kernel.mount("none", "/", "none", kernel.REC | kernel.PRIVATE)
    kernel.mount("tmpfs", STAGE, "tmpfs", kernel.NOSUID | kernel.NODEV, "mode=755,size=1m,nr_inodes=1k")
    for index, descriptor in enumerate(held):
        path = f"{STAGE}/lower" if index == 0 else f"{STAGE}/mounts/{index - 1}"
        _target(path, stat.S_ISDIR(os.fstat(descriptor).st_mode))
        kernel.mount_held(descriptor, path)
    release(held)
    os.mkdir(f"{STAGE}/layer")
    os.mkdir(f"{STAGE}/proc")
    flags = kernel.NOSUID | kernel.NODEV | kernel.NOEXEC
    try:
        kernel.mount("proc", f"{STAGE}/proc", "proc", flags, "hidepid=ptraceable")
    except OSError:  # before Linux 5.8
        kernel.mount("proc", f"{STAGE}/proc", "proc", flags, "hidepid=2")
    _devices(f"{STAGE}/dev")
    kernel.pivot(STAGE)


def _devices(dev: str) -> None:
    os.mkdir(dev)
    kernel.mount("tmpfs", dev, "tmpfs", kernel.NOSUID, "mode=755,size=64k,nr_inodes=64")
    for name in NODES:
        _target(f"{dev}/{name}", folder=False)
        # read-only keeps the host's node from being changed; a device can be written all the same
        kernel.bind(f"/dev/{name}", f"{dev}/{name}", kernel.ATTR_RDONLY | kernel.ATTR_NOSUID)
    os.mkdir(f"{dev}/pts")
    os.mkdir(f"{dev}/shm", 0o1777)
    os.mkdir(f"{dev}/mqueue")
    options = "newinstance,ptmxmode=0666,mode=620"
    kernel.mount("devpts", f"{dev}/pts", "devpts", kernel.NOSUID | kernel.NOEXEC, options)
    os.symlink("pts/ptmx", f"{dev}/ptmx")
    os.symlink("/proc/self/fd", f"{dev}/fd")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", f"{dev}/{name}")
    kernel.set_attributes(dev, kernel.ATTR_RDONLY, recursive=False)


@dataclass
class Layer:
    """One life of the file system."""

    namespace: int
    """Descriptor of its mount namespace."""
    folder: int
    """Descriptor of the tmpfs that holds `upper`."""

    def drop(self) -> None:
        """Let the kernel free it."""
        os.close(self.namespace)
        os.close(self.folder)


def new_layer(config: dict[str, Any], base: int, fill: Callable[[str], None] | None = None) -> Layer:
    """Make a fresh layer; the caller is in the mount namespace `base` before and after.

    `fill` is given the empty folder of what is written, before it is in use.
    """
    kernel.unshare(kernel.NEWNS)
    try:
        limits = f"mode=755,size={config['disk']},nr_inodes={config['inodes']}"
        kernel.mount("tmpfs", "/layer", "tmpfs", OVERLAY_FLAGS, limits)
        for name in ("upper", "work", "root"):
            os.mkdir(f"/layer/{name}")
        if fill is not None:
            fill("/layer/upper")
        folder = os.open("/layer", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        root = "/layer/root"
        options = "userxattr,lowerdir=/lower,upperdir=/layer/upper,workdir=/layer/work"
        kernel.mount("overlay", root, "overlay", OVERLAY_FLAGS, options)
        for index, target in enumerate(config["targets"]):
            source = f"/mounts/{index}"
            goal = root + target
            _target(goal, os.path.isdir(source))
            kernel.bind(source, goal, 0)
        for name in ("proc", "dev"):
            _target(f"{root}/{name}", folder=True)
            kernel.bind(f"/{name}", f"{root}/{name}", 0)
        shm = f"mode=1777,size={config['shm']},nr_inodes=10k"
        kernel.mount("tmpfs", f"{root}/dev/shm", "tmpfs", kernel.NOSUID | kernel.NODEV, shm)
        own = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        kernel.pivot(root)
        namespace = os.open("self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC, dir_fd=own)
        os.close(own)
    finally:
        kernel.setns(base, kernel.NEWNS)
    return Layer(namespace, folder)
