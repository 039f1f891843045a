"""The system calls that Python does not wrap. Imported by the zygote as well: the standard library only."""

from __future__ import annotations

import ctypes
import os
import signal
import struct

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
RDONLY, NOSUID, NODEV, NOEXEC, BIND, REC, PRIVATE = 1, 2, 4, 8, 4096, 16384, 1 << 18
DETACH = 2
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV = 1, 2, 4
SET_PDEATHSIG, SET_DUMPABLE, SET_SECCOMP, CAPBSET_DROP = 1, 4, 22, 24
SET_CHILD_SUBREAPER, SET_NO_NEW_PRIVS = 36, 38

_NUMBERS = {"x86_64": (155, 126, 56), "aarch64": (41, 91, 220)}
_PIVOT_ROOT, _CAPSET, _CLONE = _NUMBERS.get(os.uname().machine, (-1, -1, -1))
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_libc = ctypes.CDLL(None, use_errno=True)
_locked = ctypes.PyDLL(None, use_errno=True)
"""The same, called without giving up the interpreter's lock."""


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    """The system call mount."""
    result = _libc.mount(
        os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), data.encode() or None
    )
    _check(result, f"mount {kind} {target}")


def bind(source: str, target: str, attributes: int = ATTR_NOSUID | ATTR_NODEV, *, recursive: bool = True) -> None:
    """A bind mount that gets `attributes` on itself and on all below it."""
    mount(source, target, "none", BIND | (REC if recursive else 0))
    if attributes:
        set_attributes(target, attributes)


def set_attributes(target: str, attributes: int, *, recursive: bool = True) -> None:
    """The system call mount_setattr."""
    _set_attributes(_AT_FDCWD, target, attributes, _AT_RECURSIVE if recursive else 0)


def _set_attributes(folder: int, target: str, attributes: int, flags: int, propagation: int = 0) -> None:
    buffer = struct.pack("QQQQ", attributes, 0, propagation, 0)
    result = _libc.syscall(
        ctypes.c_long(_MOUNT_SETATTR), folder, os.fsencode(target), flags, buffer, ctypes.c_size_t(len(buffer))
    )
    _check(result, f"mount_setattr {target}")


def hold(path: str, attributes: int) -> int:
    """A descriptor of a private copy of what is mounted at and below `path`, itself mounted nowhere.

    It can be mounted (once) in another mount namespace, by a process that could not reach `path`.
    """
    flags = 1 | os.O_CLOEXEC | _AT_RECURSIVE  # OPEN_TREE_CLONE
    tree = _check(_libc.syscall(ctypes.c_long(_OPEN_TREE), _AT_FDCWD, os.fsencode(path), flags), f"open_tree {path}")
    try:
        _set_attributes(tree, "", attributes, _AT_EMPTY_PATH | _AT_RECURSIVE, PRIVATE)
    except OSError:
        os.close(tree)
        raise
    return tree


def mount_held(tree: int, target: str) -> None:
    """Mount what `hold` returned."""
    flags = 4  # MOVE_MOUNT_F_EMPTY_PATH
    result = _libc.syscall(ctypes.c_long(_MOVE_MOUNT), tree, b"", _AT_FDCWD, os.fsencode(target), flags)
    _check(result, f"move_mount {target}")


def detach(target: str) -> None:
    """Unmount, lazily."""
    _check(_libc.umount2(os.fsencode(target), DETACH), f"umount {target}")


def pivot(folder: str) -> None:
    """Make a mount point the root, and leave nothing of the old one."""
    os.chdir(folder)
    _check(_libc.syscall(ctypes.c_long(_PIVOT_ROOT), b".", b"."), "pivot_root")
    detach(".")
    os.chdir("/")


def clone(flags: int) -> tuple[int, int]:
    """`os.fork` into new namespaces: the child's number and a descriptor that names it; 0 and -1 in the child.

    Only for a process with one thread. It is what `os.fork` does, around another system call.
    """
    watch = ctypes.c_int(-1)
    flags |= 0x1000 | signal.SIGCHLD  # CLONE_PIDFD
    _locked.PyOS_BeforeFork()
    pid = _locked.syscall(ctypes.c_long(_CLONE), ctypes.c_ulong(flags), None, ctypes.byref(watch), None, None)
    if pid == 0:
        _locked.PyOS_AfterFork_Child()
        return 0, -1
    number = ctypes.get_errno()
    _locked.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(number, os.strerror(number), "clone")
    return pid, watch.value


def unshare(flags: int) -> None:
    """The system call unshare."""
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(descriptor: int, kind: int) -> None:
    """The system call setns."""
    _check(_libc.setns(ctypes.c_int(descriptor), ctypes.c_int(kind)), "setns")


def prctl(option: int, value: int = 0) -> None:
    """The system call prctl."""
    _check(_libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), 0, 0, 0), f"prctl {option}")


def drop_capabilities() -> None:
    """Give up every capability, now and for whatever is executed."""
    for capability in range(64):
        if _libc.prctl(CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0):
            break
    header, data = struct.pack("II", 0x20080522, 0), bytes(24)
    _check(_libc.syscall(ctypes.c_long(_CAPSET), header, data), "capset")


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def install_filter(instructions: bytes) -> None:
    """Load a seccomp program; there is no way back."""
    program = _Program(len(instructions) // 8, instructions)
    result = _libc.prctl(ctypes.c_int(SET_SECCOMP), ctypes.c_ulong(2), ctypes.byref(program), 0, 0)
    _check(result, "seccomp")
