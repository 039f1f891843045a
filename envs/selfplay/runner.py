"""Programs and reference solutions at work: each in a sandbox of its own, asked over a pipe, never trusted."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Self

from ...sandboxes.limits import MIB, Limits
from ...sandboxes.spec import SandboxSpec
from ...sandboxes.sync import SyncSandbox
from ...sandboxes.worker import Worker, WorkerError
from ..core.errors import EnvironmentFault, InvalidArgument
from ..core.text_env import printable
from .program import Program
from .reasons import ProgramFault, Reason, SolutionFault
from .source import imported_modules

OBSERVATION = 4_000
"""Characters of an observation."""
ACTIONS = 64
"""Listed actions at most."""
ACTION = 200
"""Characters of a listed action."""
BACKENDS = ("auto", "oci", "namespace", "docker")
_KINDS = {"timeout": Reason.TIMEOUT, "output": Reason.OUTPUT, "died": Reason.DIED, "protocol": Reason.PROTOCOL}
_NAMES = {"MemoryError": Reason.MEMORY, "ImportError": Reason.IMPORT, "ModuleNotFoundError": Reason.IMPORT}


@dataclass(frozen=True)
class RunSettings:
    """What a program may use."""

    memory: int = 128 * MIB
    """Bytes of address space; its sandbox may hold 64 MiB more."""
    timeout: float = 1.0
    """Seconds for one request: a reset, a step, or a step of a replay."""
    start: float = 5.0
    """Seconds for loading its source; ten times that for starting Python."""
    reply: int = 1 * MIB
    """Bytes of one answer."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise InvalidArgument(f"RunSettings.{name} must be positive, not {value!r}")


class Moment(NamedTuple):
    """What a program shows after a reset or an accepted action."""

    observation: str
    reward: float
    terminated: bool
    actions: tuple[str, ...] | None
    """What may be done now; None where the program does not list it, and at the end."""
    state: str | None
    """The whole state as text, where the program tells it."""


class Refusal(NamedTuple):
    """A program's answer to an action that it does not understand or allow."""

    message: str
    unchanged: bool | None
    """Whether its state is what it was; None where the program does not tell its state."""


class Cell:
    """One sandbox, in which one foreign class after another runs, each in a fresh process and fresh files.

    Args:
        backend: one of `BACKENDS`; "auto" is the first that works on this machine.
        settings: what the class may use.
    """

    def __init__(self, backend: str = "auto", settings: RunSettings | None = None) -> None:
        if backend not in BACKENDS:
            raise InvalidArgument(f"backend must be one of {', '.join(BACKENDS)}, not {backend!r}")
        self.settings = settings or RunSettings()
        self._backend = backend
        self._box: SyncSandbox | None = None
        self._worker: Worker | None = None

    @property
    def alive(self) -> bool:
        """Whether something runs that can be asked."""
        return self._worker is not None and self._worker.alive

    def load(self, source: str, kind: str) -> None:
        """End what runs, and start `class kind` of `source`.

        Raises:
            ProgramFault: the source fails to load.
            EnvironmentFault: the sandbox broke.
        """
        if self._box is None:
            self._box = _open(self._backend, self.settings)
        else:
            self._clean(self._box)
        settings = self.settings
        worker = Worker(self._box, guest_source(), timeout=settings.start, limit=settings.reply)
        self._worker = worker.start()
        try:
            self.ask("load", source, kind, imported_modules(source), settings.memory, timeout=settings.start)
        except ProgramFault as fault:
            self.end()
            resources = (Reason.TIMEOUT, Reason.MEMORY, Reason.OUTPUT, Reason.DIED, Reason.PROTOCOL, Reason.IMPORT)
            reason = fault.reason if fault.reason in resources else Reason.START
            raise ProgramFault(reason, str(fault)) from None

    def ask(self, verb: str, *arguments: Any, timeout: float | None = None) -> Any:
        """Send a request and return the answer.

        Raises:
            ProgramFault: what runs failed, or nothing runs any more.
            EnvironmentFault: the sandbox broke.
        """
        if self._worker is None:
            raise ProgramFault(Reason.DIED, f"{verb}: nothing runs")
        try:
            answer = self._worker.request([verb, *arguments], timeout=timeout or self.settings.timeout)
        except WorkerError as error:
            reason = _KINDS.get(error.kind, Reason.PROTOCOL)
            message = str(error)
            if error.kind == "exception":  # the answer cannot be said in JSON
                reason = Reason.REWARD if "Out of range float" in message else Reason.PROTOCOL
                message = f"what it answers is no plain value: {message}"
            elif error.kind == "died":
                message = f"{message} (killed for want of memory, or it ended itself)"
            raise ProgramFault(reason, printable(f"{verb}: {message}")) from None
        match answer:
            case ["ok", value]:
                return value
            case ["error", str(name), str(message)]:
                raise ProgramFault(_NAMES.get(name, Reason.EXCEPTION), printable(f"{verb}: {name}: {message}"[:1200]))
        raise ProgramFault(Reason.PROTOCOL, f"{verb}: what it answers is no answer")

    def end(self) -> None:
        """End what runs, with everything that it started; the sandbox stays."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    def close(self) -> None:
        """End the sandbox too; a later `load` opens another."""
        self.end()
        box, self._box = self._box, None
        if box is not None:
            box.close()

    def _clean(self, box: SyncSandbox) -> None:
        """Kill what the last one left and take its files away."""
        self.end()
        try:
            if box.capabilities.snapshot:
                box.reset()
                return
        except EnvironmentFault:  # the last program may have broken its sandbox, which is no fault of the next one
            pass
        with contextlib.suppress(EnvironmentFault):
            self.close()
        self._box = _open(self._backend, self.settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Guest:
    """Something of a program in a sandbox.

    Args:
        program: what to run.
        backend: one of `BACKENDS`.
        settings: what it may use.
        cell: the sandbox to run it in, left open by `close`; None opens one of its own.
    """

    def __init__(
        self, program: Program, backend: str = "auto", settings: RunSettings | None = None, *, cell: Cell | None = None
    ) -> None:
        self.program = program
        self._own = cell is None
        self._cell = cell if cell is not None else Cell(backend, settings)
        self._cell.end()

    def close(self) -> None:
        """End it, and its sandbox where that is its own."""
        if self._own:
            self._cell.close()
        else:
            self._cell.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Runner(Guest):
    """A program in its sandbox; arguments as for `Guest`."""

    def start(self) -> Self:
        """Start it, or start it again, in a fresh process. Raises what `Cell.load` does."""
        self._cell.load(self.program.source, "Game")
        return self

    def reset(self, seed: int) -> Moment:
        """Begin the episode of `seed`. Starts the program where it does not run.

        Raises:
            ProgramFault: the program failed.
            EnvironmentFault: the sandbox broke.
        """
        if not self._cell.alive:
            self.start()
        return check_moment(self._cell.ask("reset", seed))

    def step(self, action: str) -> Moment | Refusal:
        """Carry out an action of the running episode. Raises what `reset` does."""
        return _moment_or_refusal(self._cell.ask("step", action))

    def replay(self, seed: int, actions: Sequence[str]) -> list[Moment | Refusal]:
        """An episode from its start: the first moment, and one for each action up to the first refusal."""
        if not self._cell.alive:
            self.start()
        timeout = self._cell.settings.timeout * (1 + 0.2 * len(actions))
        found = self._cell.ask("replay", seed, list(actions), timeout=timeout)
        if not isinstance(found, list) or not 1 <= len(found) <= len(actions) + 1:
            raise ProgramFault(Reason.PROTOCOL, "replay: what it answers is no answer")
        return [_moment_or_refusal(item) for item in found]


class Solver(Guest):
    """A program's reference solution, in a sandbox that the program cannot reach; arguments as for `Guest`."""

    def start(self, seed: int) -> None:
        """Begin to solve the instance of `seed`.

        Raises:
            SolutionFault: the solution failed.
            EnvironmentFault: the sandbox broke.
        """
        self._ask("start", seed)

    def act(self, observation: str) -> str:
        """The action for an observation. Raises what `start` does."""
        action = self._ask("act", observation)
        if not isinstance(action, str) or not 1 <= len(action) <= 4_000:
            raise SolutionFault(Reason.PROTOCOL, f"act: an action is a non-empty text, not {_kind(action)}")
        return " ".join(printable(action).split())

    def hint(self, seed: int) -> str:
        """The hint for the instance of `seed`: the solution's, else the manifest's. Raises what `start` does."""
        hint = self._ask("hint", seed)
        if hint is None:
            return self.program.manifest.hint
        if not isinstance(hint, str) or not 1 <= len(hint.strip()) <= OBSERVATION:
            raise SolutionFault(Reason.PROTOCOL, f"hint: a hint is a non-empty text, not {_kind(hint)}")
        return printable(hint)

    def _ask(self, verb: str, *arguments: Any) -> Any:
        try:
            if not self._cell.alive:
                self._cell.load(self.program.manifest.solution, "Solution")
            return self._cell.ask(verb, *arguments)
        except ProgramFault as fault:
            raise SolutionFault(fault.reason, str(fault)) from None


@cache
def guest_source() -> str:
    """What runs on the other side of the pipe."""
    return Path(__file__).with_name("guest.py").read_text(encoding="utf-8")


def check_moment(found: Any) -> Moment:
    """What a program answered, as a moment. Raises `ProgramFault` where it is none."""
    if not isinstance(found, list) or len(found) != 5:
        raise ProgramFault(Reason.PROTOCOL, "what it answers is no answer")
    observation, reward, terminated, actions, state = found
    if not isinstance(observation, str) or not observation.strip() or len(observation) > OBSERVATION:
        size = f"{len(observation)} characters" if isinstance(observation, str) else _kind(observation)
        raise ProgramFault(Reason.OBSERVATION, f"an observation is 1 to {OBSERVATION} characters, not {size}")
    if printable(observation) != observation:
        raise ProgramFault(Reason.OBSERVATION, f"an observation holds control characters: {observation!r:.80}")
    if type(reward) not in (int, float) or not 0.0 <= reward <= 1.0:
        raise ProgramFault(Reason.REWARD, f"a reward is a number from 0 to 1, not {_kind(reward)}")
    if type(terminated) is not bool:
        raise ProgramFault(Reason.TERMINATED, f"terminated is True or False, not {_kind(terminated)}")
    if state is not None and type(state) is not str:
        raise ProgramFault(Reason.PROTOCOL, "what it answers is no answer")
    listed = None if actions is None or terminated else _check_list(actions)
    return Moment(observation, float(reward), terminated, listed, state)


def _check_list(actions: Any) -> tuple[str, ...]:
    if not isinstance(actions, list) or not 1 <= len(actions) <= ACTIONS:
        count = len(actions) if isinstance(actions, list) else "no list"
        raise ProgramFault(Reason.ACTIONS, f"actions() lists 1 to {ACTIONS} actions, not {count}")
    try:
        return _check_actions(tuple(actions))
    except TypeError:  # what has no hash is no text
        raise ProgramFault(Reason.ACTIONS, "an action is one line with single spaces, not a list or dict") from None


@lru_cache(maxsize=256)
def _check_actions(actions: tuple[Any, ...]) -> tuple[str, ...]:
    """Most steps list what an earlier one did: each list is looked through once."""
    for action in actions:
        plain = isinstance(action, str) and 1 <= len(action) <= ACTION and printable(action) == action
        if not plain or " ".join(action.split()) != action:
            raise ProgramFault(Reason.ACTIONS, f"an action is one line with single spaces, not {_kind(action)}")
    if len({action.casefold() for action in actions}) < len(actions):
        raise ProgramFault(Reason.ACTIONS, "actions() lists an action twice")
    return actions


def _kind(value: Any) -> str:
    """What was answered, in a few words; a nested answer is not looked into, it may be as deep as the stack."""
    return f"{value!r:.80}" if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"


def _moment_or_refusal(found: Any) -> Moment | Refusal:
    match found:
        case ["refused", str(message), None | True | False as unchanged]:
            return Refusal(printable(message).strip(), unchanged)
    return check_moment(found)


def _open(backend: str, settings: RunSettings) -> SyncSandbox:
    from ...sandboxes.choose import make_sandbox
    from ...sandboxes.spec import HostImage, Image

    image: Image = HostImage()
    if backend == "docker":
        from ...sandboxes.debian import base_image

        image = base_image(backend)
    limits = Limits(memory=settings.memory + 64 * MIB, pids=16, disk=MIB, inodes=256, shm=MIB, open_files=256)
    return SyncSandbox(make_sandbox(backend, SandboxSpec(image=image, limits=limits))).start()
