"""The system-call policy as a classic BPF program for seccomp, assembled here for x86_64 and aarch64."""

from __future__ import annotations

import struct

from .. import seccomp as policy
from ..errors import SandboxUnavailable
from .numbers import AARCH64, X86_64

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCHITECTURE, FIRST = 0, 4, 16  # offsets in struct seccomp_data; arguments are 8 bytes, the low half first
ALLOW, ERRNO, KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
X32 = 0x40000000  # x86_64's second set of numbers
TABLES = {"x86_64": (0xC000003E, X86_64), "aarch64": (0xC00000B7, AARCH64)}

Instruction = tuple[int, int, int, int]


def program(machine: str, *, allow_ptrace: bool = False) -> list[Instruction]:
    """The policy's instructions `(code, jump if true, jump if false, k)`.

    Raises:
        SandboxUnavailable: there is no table for this machine.
    """
    if machine not in TABLES:
        raise SandboxUnavailable(f"the namespace backend knows {' and '.join(TABLES)}, not {machine}")
    architecture, numbers = TABLES[machine]
    code: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD, 0, 0, NUMBER),
    ]
    if machine == "x86_64":
        code += [(AT_LEAST, 0, 1, X32), (RETURN, 0, 0, ERRNO | policy.ENOSYS)]
    denied = (*policy.DENIED, *(() if allow_ptrace else policy.DEBUGGING))
    for names, error in ((policy.EMULATED, 0), (denied, policy.EPERM), (policy.ABSENT, policy.ENOSYS)):
        for name in names:
            if name in numbers:
                code += [(EQUAL, 0, 1, numbers[name]), (RETURN, 0, 0, ERRNO | error)]
    flags = 0
    for flag in policy.NAMESPACES:
        flags |= flag
    code += _argument(numbers["clone"], 0, [(ANY_BIT, flags)], policy.EPERM)
    code += _argument(numbers["ioctl"], 1, [(EQUAL, value) for value in policy.TERMINAL], policy.EPERM)
    code += _argument(numbers["socket"], 0, [(EQUAL, value) for value in policy.SOCKETS], policy.EAFNOSUPPORT)
    for name in policy.OWN_ONLY:
        code += _argument(numbers[name], 0, [(AT_LEAST, 1)], policy.EPERM)
    return [*code, (RETURN, 0, 0, ALLOW)]


def _argument(number: int, index: int, tests: list[tuple[int, int]], error: int) -> list[Instruction]:
    """Deny one call when its argument passes one of the tests; allow it otherwise."""
    checks: list[Instruction] = []
    for position, (code, value) in enumerate(tests):
        left = len(tests) - 1 - position
        checks.append((code, left, 0 if left else 1, value))
    body: list[Instruction] = [
        (LOAD, 0, 0, FIRST + 8 * index),
        *checks,
        (RETURN, 0, 0, ERRNO | error),
        (RETURN, 0, 0, ALLOW),
    ]
    return [(EQUAL, 0, len(body), number), *body]


def assemble(instructions: list[Instruction]) -> bytes:
    """The kernel's form: an array of `struct sock_filter`."""
    return b"".join(struct.pack("<HBBI", code, true, false, k) for code, true, false, k in instructions)
