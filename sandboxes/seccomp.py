"""Which system calls a sandbox may do: one policy by names, and its form for OCI runtimes and Docker.

Everything is allowed but what is listed: programs of any kind must run. What is listed is what gives power over the
kernel or widens the surface for its bugs, and what root in a box of one user cannot do but programs insist on.
"""

from __future__ import annotations

from typing import Any

EMULATED = (
    "chown", "fchown", "lchown", "fchownat", "chown32", "fchown32", "lchown32",
    "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid", "setgroups",
    "setuid32", "setgid32", "setreuid32", "setregid32", "setresuid32", "setresgid32", "setgroups32",
)  # fmt: skip
"""Do nothing and succeed: `tar`, `cp -a` and package managers run as root, and there is only one user."""

DEBUGGING = ("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd")
"""Denied unless debuggers are wanted."""

DENIED = (
    "acct", "add_key", "adjtimex", "bpf", "chroot", "clock_adjtime", "clock_settime", "delete_module", "fanotify_init",
    "finit_module", "fsconfig", "fsmount", "fsopen", "fspick", "init_module", "ioperm", "iopl", "kexec_file_load",
    "kexec_load", "keyctl", "lookup_dcookie", "mbind", "migrate_pages", "modify_ldt", "mount", "mount_setattr",
    "move_mount", "move_pages", "name_to_handle_at", "nfsservctl", "open_by_handle_at", "open_tree", "perf_event_open",
    "pivot_root", "quotactl", "quotactl_fd", "reboot", "request_key", "set_mempolicy", "setdomainname", "sethostname",
    "setns", "settimeofday", "stime", "swapoff", "swapon", "syslog", "umount", "umount2", "unshare", "uselib",
    "userfaultfd", "vhangup", "vm86", "vm86old",
)  # fmt: skip
"""Fail with EPERM."""

ABSENT = ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register")
"""Fail with ENOSYS: programs then use older calls, whose arguments a filter can see."""

NAMESPACES = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
"""Flags of `clone` that make a namespace: EPERM."""

TERMINAL = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX, which type into a terminal: EPERM from `ioctl`."""

SOCKETS = (38, 40)
"""AF_ALG and AF_VSOCK: EAFNOSUPPORT from `socket`."""

OWN_ONLY = ("prlimit64",)
"""Their first argument must be 0, the caller itself: EPERM otherwise. PID 1's limits are nobody else's business."""

EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97
_ARCHITECTURES = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}


def oci_profile(machine: str, *, allow_ptrace: bool = False, emulate: bool = True) -> dict[str, Any]:
    """The policy as `linux.seccomp` of an OCI runtime's config.json; Docker takes the same.

    Args:
        machine: The kernel's machine, as `platform.machine()` calls it; calls of any other are killed.
        allow_ptrace: Let debuggers work.
        emulate: Whether changes of owner and user succeed without doing anything.
    """
    denied = (*DENIED, *(() if allow_ptrace else DEBUGGING))
    rules: list[dict[str, Any]] = [
        *([_rule(EMULATED, 0)] if emulate else []),
        _rule(denied, EPERM),
        _rule(ABSENT, ENOSYS),
        *(_rule(("clone",), EPERM, 0, flag, "SCMP_CMP_MASKED_EQ", flag) for flag in NAMESPACES),
        *(_rule(("ioctl",), EPERM, 1, 0xFFFFFFFF, "SCMP_CMP_MASKED_EQ", number) for number in TERMINAL),
        *(_rule((name,), EPERM, 0, 0, "SCMP_CMP_NE") for name in OWN_ONLY),
        *(_rule(("socket",), EAFNOSUPPORT, 0, 0xFFFFFFFF, "SCMP_CMP_MASKED_EQ", family) for family in SOCKETS),
    ]
    profile: dict[str, Any] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules}
    if machine in _ARCHITECTURES:
        profile["architectures"] = [_ARCHITECTURES[machine]]
    return profile


def _rule(
    names: tuple[str, ...], error: int, index: int = 0, value: int = 0, op: str = "", value_two: int = 0
) -> dict[str, Any]:
    rule: dict[str, Any] = {"names": list(names), "action": "SCMP_ACT_ERRNO", "errnoRet": error}
    if op:
        rule["args"] = [{"index": index, "value": value, "valueTwo": value_two, "op": op}]
    return rule
