"""The system-call filter, run here instruction by instruction, for both machines."""

from __future__ import annotations

import struct

import pytest

from sandlot.sandboxes import seccomp as policy
from sandlot.sandboxes.errors import SandboxUnavailable
from sandlot.sandboxes.namespace import bpf
from sandlot.sandboxes.namespace.numbers import AARCH64, X86_64

ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
TABLES = {"x86_64": X86_64, "aarch64": AARCH64}
# numbers of calls that every program needs, from the kernel's headers: read, write, execve, exit_group, openat, futex
HARMLESS = {"x86_64": (0, 1, 59, 231, 257, 202), "aarch64": (63, 64, 221, 94, 56, 98)}
ALLOW, KILL = 0x7FFF0000, 0x80000000


def verdict(code: bytes, machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """What the kernel's interpreter of classic BPF returns for one call."""
    data = struct.pack("<iIQ", number, ARCHITECTURE[machine] if architecture is None else architecture, 0)
    data += struct.pack("<6Q", *arguments, *[0] * (6 - len(arguments)))
    instructions = list(struct.iter_unpack("<HBBI", code))
    at = accumulator = steps = 0
    while True:
        operation, true, false, k = instructions[at]
        at, steps = at + 1, steps + 1
        assert steps < 5000
        if operation == 0x20:  # load a word
            accumulator = struct.unpack_from("<I", data, k)[0]
        elif operation == 0x15:  # jump if equal
            at += true if accumulator == k else false
        elif operation == 0x35:  # jump if not less
            at += true if accumulator >= k else false
        elif operation == 0x45:  # jump if any bit is set
            at += true if accumulator & k else false
        elif operation == 0x06:  # return
            return k
        else:
            raise AssertionError(f"no such instruction: {operation:#x}")


def error(number: int) -> int:
    return 0x00050000 | number


@pytest.fixture(params=TABLES)
def machine(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def code(machine: str) -> bytes:
    return bpf.assemble(bpf.program(machine))


def test_every_named_call(machine: str, code: bytes) -> None:
    numbers = TABLES[machine]
    for names, want in (
        (policy.EMULATED, error(0)),
        (policy.DENIED, error(1)),
        (policy.DEBUGGING, error(1)),
        (policy.ABSENT, error(38)),
    ):
        for name in names:
            if name in numbers:
                assert verdict(code, machine, numbers[name]) == want, name


def test_the_tables_hold_what_the_machine_has() -> None:
    """A name that is misspelt would be left out in silence."""
    wanted = {*policy.EMULATED, *policy.DENIED, *policy.DEBUGGING, *policy.ABSENT, "clone", "ioctl", "socket"}
    old = {name for name in wanted if name.endswith("32")} | {"stime", "umount", "vm86", "vm86old"}
    assert wanted - set(X86_64) == old
    assert wanted - set(AARCH64) == old | {"chown", "lchown", "ioperm", "iopl", "modify_ldt", "uselib"}
    # the same numbers as every Linux machine since 5.1 uses for what is new
    assert all(X86_64[name] == AARCH64[name] for name in wanted & set(X86_64) & set(AARCH64) if X86_64[name] >= 424)
    for table in TABLES.values():
        assert len(set(table.values())) == len(table)


def test_harmless_calls(machine: str, code: bytes) -> None:
    for number in HARMLESS[machine]:
        assert verdict(code, machine, number) == ALLOW


def test_arguments_count(machine: str, code: bytes) -> None:
    numbers = TABLES[machine]
    fork = 0x01200011  # SIGCHLD, CLONE_CHILD_SETTID, CLONE_CHILD_CLEARTID
    thread = 0x003D0F00  # what pthread_create passes
    assert verdict(code, machine, numbers["clone"], fork) == ALLOW
    assert verdict(code, machine, numbers["clone"], thread) == ALLOW
    for flag in policy.NAMESPACES:
        assert verdict(code, machine, numbers["clone"], flag | 17) == error(1)
    assert verdict(code, machine, numbers["ioctl"], 0, 0x5401) == ALLOW  # TCGETS
    for request in (0x5412, 0x541C, 0x5412 | 7 << 32):  # the kernel looks at the low half only, and so must the filter
        assert verdict(code, machine, numbers["ioctl"], 0, request) == error(1)
    for family in (1, 2, 10, 16):  # unix, inet, inet6, netlink
        assert verdict(code, machine, numbers["socket"], family) == ALLOW
    for family in (38, 40):
        assert verdict(code, machine, numbers["socket"], family) == error(97)


def test_other_processes_limits(machine: str, code: bytes) -> None:
    number = TABLES[machine]["prlimit64"]
    assert verdict(code, machine, number, 0, 7) == ALLOW
    assert verdict(code, machine, number, 1, 7) == error(1)


def test_foreign_calls(machine: str, code: bytes) -> None:
    other = ARCHITECTURE["aarch64" if machine == "x86_64" else "x86_64"]
    for architecture in (other, 0x40000003):  # i386: `int 0x80` reaches its numbers on x86_64
        assert verdict(code, machine, 63, architecture=architecture) == KILL
    if machine == "x86_64":  # x32: the same calls under other numbers
        assert verdict(code, machine, 0x40000000 | X86_64["mount"]) == error(38)


def test_debuggers_on_request(machine: str) -> None:
    numbers = TABLES[machine]
    open_code = bpf.assemble(bpf.program(machine, allow_ptrace=True))
    assert verdict(open_code, machine, numbers["ptrace"]) == ALLOW
    assert verdict(open_code, machine, numbers["mount"]) == error(1)


def test_jumps_stay_inside(machine: str) -> None:
    program = bpf.program(machine)
    assert len(program) < 4096  # BPF_MAXINSNS
    for index, (_, true, false, _) in enumerate(program):
        assert index + 1 + max(true, false) < len(program) or program[index][0] == 0x06
        assert 0 <= true < 256 and 0 <= false < 256


def test_other_machines() -> None:
    with pytest.raises(SandboxUnavailable, match="riscv64"):
        bpf.program("riscv64")
