"""Runs one attack, and only inside a sandbox: `python3 -I -S guard.py CONTEXT < attack.py`.

CONTEXT is JSON: where the sandbox's marker lies and what is in it, and the host's namespaces. The attack does not run
unless the marker is there and *every* namespace differs from the host's. An early run in a configuration that had no
UTS namespace of its own renamed the host.

It needs only the standard library of any Python 3: it is copied into the sandbox.
"""

import ctypes
import errno
import json
import os
import platform
import sys
from pathlib import Path

REFUSED = 99
NAMESPACES = ("pid", "mnt", "uts", "ipc", "net")
SYSCALLS = {  # name: (x86_64, aarch64)
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "capset": (126, 91),
    "chroot": (161, 51),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "fsopen": (430, 430),
    "init_module": (175, 105),
    "io_uring_setup": (425, 425),
    "ioperm": (173, -1),
    "kcmp": (312, 272),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "memfd_create": (319, 279),
    "modify_ldt": (154, -1),
    "mount": (165, 40),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
libc = ctypes.CDLL(None, use_errno=True)


def name_of(number):
    """ENOENT for 2."""
    return errno.errorcode.get(number, str(number))


def syscall(name, *arguments):
    """Do a system call by its name: "done" or the name of its error."""
    number = SYSCALLS[name][platform.machine() == "aarch64"]
    if number < 0:
        return "ENOSYS"
    words = [a if isinstance(a, (bytes, ctypes.Array, ctypes.Structure)) else ctypes.c_long(a) for a in arguments]
    return "done" if libc.syscall(ctypes.c_long(number), *words) >= 0 else name_of(ctypes.get_errno())


def attempt(function, *arguments, **options):
    """Call a Python function: "done" or the name of its OSError."""
    try:
        function(*arguments, **options)
    except OSError as error:
        return name_of(error.errno) if error.errno else type(error).__name__
    return "done"


def write(path, text):
    """Write into a file that exists: "done" or the name of the error."""

    def go():
        descriptor = os.open(path, os.O_WRONLY)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    return attempt(go)


def in_child(function):
    """Call it in a child: what it returned, or "SIG..." if it was killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, str(function()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        import signal

        return signal.Signals(os.WTERMSIG(status)).name
    return text


def why_not(context):
    """The reason not to run here, or ""."""
    try:
        if Path(context["marker"]).read_text() != context["token"]:
            return "the marker is another sandbox's"
    except OSError as error:
        return f"no marker: {error}"
    for kind in NAMESPACES:
        if str(Path(f"/proc/self/ns/{kind}").readlink()) == context["namespaces"][kind]:
            return f"the {kind} namespace is the host's"
    return ""


def main(arguments):
    """Check, then run the attack on the standard input."""
    if len(arguments) != 1:
        print("refused: no context", file=sys.stderr)
        return REFUSED
    context = json.loads(arguments[0])
    reason = why_not(context)
    if reason:
        print("refused:", reason, file=sys.stderr)
        return REFUSED
    source = sys.stdin.read()
    names = {
        "attempt": attempt,
        "context": context,
        "ctypes": ctypes,
        "in_child": in_child,
        "libc": libc,
        "name_of": name_of,
        "os": os,
        "syscall": syscall,
        "sys": sys,
        "write": write,
    }
    exec(compile(source, context.get("name", "attack"), "exec"), names)
    print(names["outcome"])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
