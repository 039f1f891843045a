"""The clean process from which every sandbox is forked: no threads, no secrets, everything imported already.

It starts once per process as `python -I -S` on this folder alone, with an empty environment, and ends with its parent.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket

from . import agent, box, channel, kernel, oci_agent

ISOLATION = kernel.NEWUSER | kernel.NEWNS | kernel.NEWPID | kernel.NEWNET | kernel.NEWIPC | kernel.NEWUTS
"""All kinds but the one of control groups: that is made inside, once the sandbox is in its own."""


def serve(control: socket.socket) -> None:
    """Fork a sandbox for every request, until the host is gone. A request carries the agent's end of its socket."""
    while (
        os.open("/dev/null", os.O_RDWR) < 5
    ):  # a sandbox's programs get descriptors 0 to 4: nothing else may lie there
        pass
    os.umask(0o022)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in signal.valid_signals():  # nohup and the like would be inherited by every program
        if signal.getsignal(number) == signal.SIG_IGN and number not in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    kernel.prctl(kernel.SET_CHILD_SUBREAPER, 1)
    if os.getuid() == 0:
        os.setgroups([])
    own = os.pidfd_open(os.getpid())
    gc.collect()
    gc.freeze()  # forked children then leave these pages alone
    while (received := channel.receive(control)) is not None:
        request, (descriptor,) = received
        with socket.socket(fileno=descriptor) as sock:
            _launch(sock, request, [control.fileno(), own])


def _launch(sock: socket.socket, request: channel.Message, mine: list[int]) -> None:
    """Make one sandbox's first process: PID 1 of its namespaces from its first moment on."""
    step, uid, gid = "binding the image", os.getuid(), os.getgid()
    held: list[int] = []
    try:
        if uid == 0:
            uid = gid = request["uid"]
            with contextlib.suppress(PermissionError):  # a container's root may not; the child may, in its own mounts
                held = box.hold(request["sources"])
        step = "making namespaces"
        ready, go = os.pipe2(os.O_CLOEXEC)
        try:
            pid, watch = kernel.clone(ISOLATION)
            if pid == 0:
                _begin(sock, request, held, ready, [go, *mine])
            try:
                step = "mapping the user"
                for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
                    _write(f"/proc/{pid}/{name}", text)
                os.write(go, b"!")
                channel.send(sock, {"pid": pid}, [watch])
            finally:
                os.close(watch)
        finally:
            os.close(ready)
            os.close(go)  # without the mark in it, the child ends
    except OSError as error:
        _complain(sock, step, error)
    finally:
        box.release(held)


def _begin(sock: socket.socket, request: channel.Message, held: list[int], ready: int, foreign: list[int]) -> None:
    """In the first process; never returns. Root of the new namespaces only, but still the host's root by number."""
    go, control, zygote = foreign
    step = "starting"
    try:
        os.close(control)
        os.close(go)
        if not os.read(ready, 1):
            return
        os.close(ready)
        received = channel.receive(sock)
        if received is None:
            return
        config = received[0]
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        step = "entering the control groups"
        for name in config["groups"]:
            _write(name, "0")
        kernel.unshare(kernel.NEWCGROUP)
        step = "mounting"
        held = held or box.hold(request["sources"])  # as the user who asked: this may be root by number only
        step = "giving up root"
        os.setresgid(0, 0, 0)  # as mapped: from here on it is the unprivileged user
        os.setresuid(0, 0, 0)
        kernel.prctl(kernel.SET_DUMPABLE, 1)  # or nothing below /proc/self can be written
        _die_with_zygote(zygote)
        step = "mounting"
        main = oci_agent.main if "runtime" in config else agent.main
        main(sock, config, held)
    except Exception as error:  # the host must hear of it, whatever it is
        _complain(sock, step, error)
    finally:
        os._exit(0)


def _die_with_zygote(zygote: int) -> None:
    kernel.prctl(kernel.SET_PDEATHSIG, signal.SIGKILL)
    poll = select.poll()
    poll.register(zygote, select.POLLIN)
    if poll.poll(0):  # it was too late for the signal
        os._exit(0)
    os.close(zygote)


def _write(path: str, text: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def _complain(sock: socket.socket, step: str, error: Exception) -> None:
    number = error.errno if isinstance(error, OSError) else 0
    text = str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
    with contextlib.suppress(OSError):
        channel.send(sock, {"failed": step, "errno": number, "error": text})
