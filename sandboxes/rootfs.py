"""Root file systems for the backends without a daemon: found, built, owned by the right user, and cached."""

# whole trees are walked, where pathlib is several times slower
# ruff: noqa: PTH101, PTH115, PTH118

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from .errors import InvalidArgument, SandboxUnavailable
from .spec import DockerfileImage, DockerImage, HostImage, Image, RootfsImage

FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
EMPTY = ("dev", "proc", "sys", "tmp", "run", "root", "home", "var", "var/tmp", "opt", "srv", "mnt", "usr", "etc")
PASSWD = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
GROUP = "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n"
HOSTS = "127.0.0.1 localhost sandbox\n::1 localhost\n"
ETC = ("ld.so.cache", "localtime", "mime.types", "os-release", "debian_version")
SHOWN = ("alternatives", "ssl/certs", "ca-certificates", "ld.so.conf.d", "java", "perl", "python3")


@dataclass(frozen=True)
class Prepared:
    """An image that a sandbox can be laid over."""

    lower: Path
    """A folder owned by the sandbox's user, never written to."""
    mounts: tuple[tuple[str, str], ...]
    """What else of the host belongs to it: source, and place inside."""
    key: str
    """Names its content: snapshots fit where it is the same."""


def cache_folder() -> Path:
    """Where root file systems are kept, for this user."""
    import platformdirs

    return Path(platformdirs.user_cache_path("sandlot")) / "rootfs"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file beside `path`: one process builds, the others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(path.name + ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def prepare(image: Image, uid: int) -> Prepared:
    """The image as a folder that `uid` (its only user inside) owns.

    Raises:
        InvalidArgument: there is no such image.
        SandboxUnavailable: it needs a program that is not here.
    """
    if isinstance(image, HostImage):
        return _host(uid)
    if isinstance(image, RootfsImage):
        return owned(image.path, uid)
    if isinstance(image, DockerImage):
        return owned(docker_export(image.name), uid)
    assert isinstance(image, DockerfileImage)
    raise InvalidArgument(f"only the docker backend builds a Dockerfile ({image.folder}): name a root file system")


@lru_cache
def _host(uid: int) -> Prepared:
    """This machine's own programs under a fresh root."""
    if not Path("/usr/bin").is_dir():
        raise SandboxUnavailable("this machine has no /usr/bin to show")
    mounts = [("/usr", "/usr")]
    links = {}
    for name in FOLDERS:
        path = Path("/", name)
        if path.is_symlink():
            links[name] = os.readlink(path)
        elif path.is_dir():
            mounts.append((str(path), str(path)))
    files = {name: Path("/etc", name).read_bytes() for name in ETC if Path("/etc", name).is_file()}
    trees = [name for name in SHOWN if Path("/etc", name).is_dir()]
    listing = [
        (str(path), path.lstat().st_mtime_ns, path.lstat().st_size)
        for name in trees
        for path in sorted(Path("/etc", name).rglob("*"))
    ]
    identity = hashlib.blake2b(repr((links, mounts, sorted(files.items()), listing, PASSWD, GROUP, HOSTS)).encode())
    key = f"host-{identity.hexdigest()[:16]}"
    target = cache_folder() / f"{key}-{uid}"
    with locked(target):
        if not target.exists():
            part = target.with_name(target.name + ".part")
            shutil.rmtree(part, ignore_errors=True)
            for name in EMPTY:
                (part / name).mkdir(parents=True, exist_ok=True)
            for _, place in mounts:
                part.joinpath(place.strip("/")).mkdir(parents=True, exist_ok=True)
            for name, goal in links.items():
                (part / name).symlink_to(goal)
            for name, body in files.items():
                (part / "etc" / name).write_bytes(body)
            for name in trees:
                shutil.copytree(f"/etc/{name}", part / "etc" / name, symlinks=True, ignore=_unreadable)
            for name, text in (("passwd", PASSWD), ("group", GROUP), ("hosts", HOSTS), ("hostname", "sandbox\n")):
                (part / "etc" / name).write_text(text)
            (part / "etc" / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")
            for name in ("tmp", "var/tmp"):
                (part / name).chmod(0o1777)
            (part / "root").chmod(0o700)
            _own(part, uid)
            part.rename(target)
    return Prepared(target, tuple(mounts), key)


def _unreadable(folder: str, names: list[str]) -> list[str]:
    """What is not for everybody, as `ignore` of shutil.copytree."""
    hidden = []
    for name in names:
        info = os.lstat(os.path.join(folder, name))
        if not stat.S_ISLNK(info.st_mode) and not info.st_mode & 0o004:
            hidden.append(name)
    return hidden


def _own(folder: Path, uid: int) -> None:
    """Give a tree to `uid`; only root needs to."""
    if os.getuid() != 0:
        return
    os.lchown(folder, uid, uid)
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(root, name)
            info = os.lstat(path)
            os.lchown(path, uid, uid)
            if stat.S_ISREG(info.st_mode) and info.st_mode & 0o6000:
                os.chmod(path, stat.S_IMODE(info.st_mode))  # chown takes the set-id bits away


@lru_cache
def owned(source: Path, uid: int) -> Prepared:
    """A copy of a root file system that `uid` owns, made once; the folder itself if `uid` owns it already.

    Raises:
        InvalidArgument: it is no root file system.
    """
    source = source.resolve()
    if not (source / "bin").exists() or not (source / "etc").is_dir():
        raise InvalidArgument(f"{source} is not a root file system (no bin or etc in it)")
    identity, all_owned = hashlib.blake2b(), True
    for root, folders, files in os.walk(source):
        folders.sort()
        for name in sorted((*folders, *files)):
            path = os.path.join(root, name)
            info = os.lstat(path)
            all_owned = all_owned and info.st_uid == uid
            changed = info.st_mtime_ns if not stat.S_ISDIR(info.st_mode) else 0
            identity.update(repr((path[len(str(source)) :], info.st_mode, info.st_size, changed)).encode())
    key = identity.hexdigest()[:16]
    if all_owned:
        return Prepared(source, (), key)
    target = cache_folder() / f"{source.name}-{key}-{uid}"
    with locked(target):
        if not target.exists():
            part = target.with_name(target.name + ".part")
            _remove_tree(part)
            part.mkdir(parents=True)
            copy = subprocess.run(
                ["cp", "-a", "--reflink=auto", f"{source}/.", str(part)], capture_output=True, text=True
            )
            if copy.returncode and os.getuid() == 0:
                _remove_tree(part)
                raise InvalidArgument(f"{source} cannot be copied: {copy.stderr.strip()[-300:]}")
            _own(part, uid)
            if not (part / "etc" / "hosts").exists():
                (part / "etc" / "hosts").write_text(HOSTS)
                os.chown(part / "etc" / "hosts", uid, -1) if os.getuid() == 0 else None
            part.rename(target)
    return Prepared(target, (), key)


def _remove_tree(folder: Path) -> None:
    if folder.exists():
        subprocess.run(["chmod", "-R", "u+rwX", str(folder)], capture_output=True)
        shutil.rmtree(folder)


def docker_export(name: str) -> Path:
    """The file system of a Docker image, exported once.

    Raises:
        SandboxUnavailable: there is no Docker, or no such image.
    """
    docker = shutil.which("docker")
    if docker is None:
        raise SandboxUnavailable(f"the image {name} needs the docker program to be exported: install docker.io")
    found = subprocess.run([docker, "image", "inspect", "-f", "{{.Id}}", name], capture_output=True, text=True)
    if found.returncode:
        raise SandboxUnavailable(f"docker has no image {name}: docker pull {name} ({found.stderr.strip()[-200:]})")
    target = cache_folder() / f"docker-{found.stdout.strip().rpartition(':')[2][:16]}"
    with locked(target):
        if not target.exists():
            part = target.with_name(target.name + ".part")
            _remove_tree(part)
            part.mkdir(parents=True)
            made = subprocess.run([docker, "create", name, "true"], capture_output=True, text=True, check=True)
            container = made.stdout.strip()
            try:
                export = subprocess.Popen([docker, "export", container], stdout=subprocess.PIPE)
                subprocess.run(["tar", "-x", "-p", "-C", str(part), "--exclude=dev/*"], stdin=export.stdout, check=True)
                if export.wait():
                    raise SandboxUnavailable(f"docker export of {name} failed")
            finally:
                subprocess.run([docker, "rm", container], capture_output=True)
            part.rename(target)
    return target
