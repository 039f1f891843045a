"""The base image: a small Debian with what terminal tasks use, made once by debootstrap and kept in the cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from .errors import SandboxFault, SandboxUnavailable
from .rootfs import cache_folder, locked
from .spec import HostImage, Image, RootfsImage

SUITE = "bookworm"
MIRROR = "http://deb.debian.org/debian"
PACKAGES = ("bzip2", "file", "git", "make", "openssl", "procps", "python3", "python3-pytest")
PACKAGES += ("sqlite3", "unzip", "xz-utils", "zip")
FOLDERS = ("app", "tests", "logs")
RUBBISH = (
    "var/cache/apt/archives",
    "var/lib/apt/lists",
    "var/log",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
)


def base_folder() -> Path:
    """Where the base image lies once it is built; its name changes with what is in it."""
    stamp = hashlib.blake2b(" ".join((SUITE, *PACKAGES, *RUBBISH)).encode(), digest_size=6).hexdigest()
    return cache_folder() / f"debian-{SUITE}-{stamp}"


def why_not() -> str:
    """The reason why the base image cannot be built here, or ""."""
    if os.geteuid() != 0:
        return "debootstrap needs root"
    return "" if shutil.which("debootstrap") else "debootstrap is not installed: apt-get install debootstrap"


def build_base(*, mirror: str = MIRROR, timeout: float = 900.0) -> Path:
    """Build the base image unless it is there (some minutes and 250 MB); return its folder.

    Args:
        mirror: A Debian mirror.
        timeout: Seconds.

    Raises:
        SandboxUnavailable: It cannot be built here.
        SandboxFault: debootstrap failed; the message has its last words.
    """
    target = base_folder()
    if target.is_dir():
        return target
    if reason := why_not():
        raise SandboxUnavailable(f"no base image: {reason}")
    with locked(target):
        if target.is_dir():
            return target
        part = target.with_name(target.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(part), mirror]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise SandboxFault(f"debootstrap did not end within {timeout:.0f} s") from None
        if done.returncode:
            raise SandboxFault(f"debootstrap failed: {done.stdout.strip()[-500:]} {done.stderr.strip()[-300:]}")
        for name in RUBBISH:
            shutil.rmtree(part / name, ignore_errors=True)
            (part / name).mkdir(parents=True)
        for name in FOLDERS:
            (part / name).mkdir(exist_ok=True)
        part.rename(target)
    return target


def base_image(backend: str) -> Image:
    """The image for tasks that name none: the base image where it is built, else this machine's own programs.

    Raises:
        SandboxUnavailable: Docker has no use for the latter.
    """
    if base_folder().is_dir():
        return RootfsImage(base_folder())
    if backend == "docker":
        raise SandboxUnavailable("Docker needs an image, and the base image is not built: sandlot sandbox base")
    return HostImage()
