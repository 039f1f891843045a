"""Two programs of a few machine instructions that containers need, whatever their image holds.

PID 1 of a container must be there in any image, must let nobody linger as a zombie, and the agent must not be able to
replace it. The same holds for what ends every process. So neither comes from the image: they are written here,
instruction by instruction, and mounted read-only.
"""

from __future__ import annotations

import struct

from .errors import SandboxUnavailable

BASE = 0x400000  # where the file is mapped
HEADERS = 64 + 56  # an ELF header and one program header
FOREVER = 10**9  # seconds
MACHINES = {"x86_64": 62, "aarch64": 183}  # the machines' numbers in ELF


def init_program(machine: str, seconds: int = FOREVER) -> bytes:
    """The first process: it ignores its children, so that the kernel reaps them, and ends after a while.

    Args:
        machine: As `platform.machine()` calls it.
        seconds: How long it sleeps.

    Raises:
        SandboxUnavailable: There is no code for this machine.
    """
    data = struct.pack("<4Q", 1, 0, 0, 0) + struct.pack("<2q", seconds, 0)  # sigaction of SIG_IGN; timespec
    if machine == "x86_64":
        # rt_sigaction(SIGCHLD, action, 0, 8); ppoll(0, 0, time, 0, 0); exit_group(0)
        sleep_and_end = bytes.fromhex("4531d2 4531c0 0f05  b8e7000000 31ff 0f05")
        sleep = bytes.fromhex("b80f010000 31ff 31f6") + b"\x48\x8d\x15" + struct.pack("<i", len(sleep_and_end) + 32)
        ignore = bytes.fromhex("b80d000000 bf11000000") + b"\x48\x8d\x35"  # lea rsi, [rip + the distance to the data]
        middle = bytes.fromhex("31d2 41ba08000000 0f05")
        distance = struct.pack("<i", len(middle) + len(sleep) + len(sleep_and_end))
        return _executable(machine, ignore + distance + middle + sleep + sleep_and_end + data)
    words = [_mov(0, 17), _adr(1, 17 * 4), _mov(2, 0), _mov(3, 8), _mov(8, 134), _SVC]  # rt_sigaction
    words += [_mov(0, 0), _mov(1, 0), _adr(2, 10 * 4 + 32), _mov(3, 0), _mov(4, 0), _mov(8, 73), _SVC]  # ppoll
    words += [_mov(0, 0), _mov(8, 94), _SVC, _NOP, _NOP]  # exit_group; the data must be aligned
    return _executable(machine, struct.pack(f"<{len(words)}I", *words) + data)


def kill_program(machine: str) -> bytes:
    """Ends every process of its PID namespace but PID 1 and itself, at once, and exits.

    Raises:
        SandboxUnavailable: There is no code for this machine.
    """
    if machine == "x86_64":  # kill(-1, SIGKILL); exit_group(0)
        return _executable(machine, bytes.fromhex("b83e000000 48c7c7ffffffff be09000000 0f05  b8e7000000 31ff 0f05"))
    words = [0x92800000, _mov(1, 9), _mov(8, 129), _SVC, _mov(0, 0), _mov(8, 94), _SVC]  # the first: mov x0, -1
    return _executable(machine, struct.pack(f"<{len(words)}I", *words))


_SVC, _NOP = 0xD4000001, 0xD503201F


def _mov(register: int, value: int) -> int:
    return 0xD2800000 | value << 5 | register


def _adr(register: int, distance: int) -> int:
    return 0x10000000 | (distance >> 2) << 5 | register


def _executable(machine: str, code: bytes) -> bytes:
    if machine not in MACHINES:
        raise SandboxUnavailable(f"sandboxes know {' and '.join(MACHINES)}, not {machine}")
    size = HEADERS + len(code)
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = struct.pack("<HHIQQQIHHHHHH", 2, MACHINES[machine], 1, BASE + HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    # Loaded as readable, writable and executable: ppoll writes the time that is left, to go on after a SIGCONT.
    segment = struct.pack("<IIQQQQQQ", 1, 7, 0, BASE, BASE, size, size, 0x1000)
    return identity + header + segment + code
