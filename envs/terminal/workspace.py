"""A task set up in a sandbox, with the agent's shell: what the environment steps, saves and brings back."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ...sandboxes.base import Snapshot
from ...sandboxes.errors import SandboxFault
from ...sandboxes.limits import MIB, Limits
from ...sandboxes.spec import ExecResult, Image, SandboxSpec
from ...sandboxes.sync import SyncSandbox, SyncShell
from ..core.errors import EnvironmentFault, InvalidArgument, UserError
from ..core.text_env import text_key
from . import dockerfile, shell_state
from .artifacts import TIME, place
from .shell_state import ShellState
from .shims import shim_files
from .task import PATH, Healthcheck, Setting, Step, TerminalTask

# What makes a command's output the same each time: no dates in listings, fixed dates in commits, no bytecode files
# (they hold times), no pagers and editors that wait for a person.
STEADY = {
    **{"LC_ALL": "C.UTF-8", "TZ": "UTC", "TIME_STYLE": "+", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
    **{"GIT_AUTHOR_DATE": f"{TIME + 9_000_000} +0000", "GIT_COMMITTER_DATE": f"{TIME + 9_000_000} +0000"},
    **{"PAGER": "cat", "GIT_PAGER": "cat", "EDITOR": "true", "VISUAL": "true", "GIT_TERMINAL_PROMPT": "0"},
    "GIT_OPTIONAL_LOCKS": "0",  # else `git status` writes times into the index
    "SOURCE_DATE_EPOCH": str(TIME),
}
_PREPARED = 4  # prepared images of different tasks that one workspace keeps
_SETTLE = 0.25  # seconds that new background processes get to become the programs they were started for
_PATIENCE = 2.0  # seconds in which commands that are played again have to come to the same background processes


class CannotPlay(UserError):
    """The task asks for something that the sandbox does not give; the message says what."""


@dataclass(frozen=True)
class Images:
    """Which image stands for which name."""

    base: Image
    """For tasks that name none, and for every name that `named` does not have."""
    named: Mapping[str, Image] = field(default_factory=dict)
    """By the name after FROM, with or without its tag; or by a task's name: its Dockerfile is then not carried out."""

    def find(self, name: str | None) -> Image:
        """The image for a name."""
        if not name:
            return self.base
        bare = name.split("@")[0].rsplit(":", 1)[0] if ":" in name.rsplit("/", 1)[-1] or "@" in name else name
        return self.named.get(name) or self.named.get(bare) or self.named.get("*") or self.base


@dataclass(frozen=True)
class Saved:
    """A workspace at one moment; equal where the states are equal."""

    key: str
    code: int
    """Exit code of the last command."""
    shell: ShellState
    layer: Snapshot | None = field(compare=False, repr=False)
    """None where background processes run: they are not part of it, and the commands must be played again."""
    mark: tuple[str, int] = field(compare=False)
    """Names the moment, so that going back to where one is costs nothing."""


class Workspace:
    """One sandbox, reused from task to task.

    Args:
        open_box: starts a sandbox for a specification.
        images: see `Images`.
        limits: what a task may use that does not say it itself.
        steady: extra environment of the agent's shell.
    """

    def __init__(
        self,
        open_box: Callable[[SandboxSpec], SyncSandbox],
        images: Images,
        limits: Limits,
        steady: Mapping[str, str] = STEADY,
    ) -> None:
        self._open, self._images, self._limits, self._steady = open_box, images, limits, steady
        self._box: SyncSandbox | None = None
        self._shell: SyncShell | None = None
        self._prepared: dict[tuple[SandboxSpec, str], Snapshot] = {}
        self._begun, self._commands = "", 0
        self._known: tuple[ShellState, str] | None = None
        self._pending = b""
        self._idle: tuple[str, ...] | None = None
        """The programs of a box in which no command ran: some backends have one of their own."""
        self._settled: tuple[str, ...] = ()
        """The programs that ran when the state was looked at last."""
        self._user: str | None = None
        self.code = 0
        self.workdir = "/"

    @property
    def box(self) -> SyncSandbox:
        """The sandbox. Raises `SandboxFault` before the first `begin` and after `close`."""
        if self._box is None:
            raise SandboxFault("no task was begun")
        return self._box

    @property
    def capable(self) -> bool:
        """Whether the backend has snapshots and fingerprints."""
        return self.box.capabilities.snapshot

    # -- setting up -----------------------------------------------------------------------------------------------

    def begin(self, task: TerminalTask, step: Step | None = None, *, shell: bool = True, files: bool = True) -> None:
        """A fresh sandbox with the task's image and files, the given step's set-up done, and a shell for the agent.

        Args:
            task: the task.
            step: whose set-up is done; None does none.
            shell: whether to start a shell.
            files: whether to place the task's files.

        Raises:
            CannotPlay: the task needs what this backend does not give.
            BadTask: its Dockerfile or set-up failed.
        """
        recipe = dockerfile.read(task.setting.dockerfile) if task.setting.dockerfile else None
        built = task.name in self._images.named
        needs = (*task.setting.needs, *(recipe.needs if recipe and not built else ()))
        spec = self._spec(task, recipe)
        self._fresh(spec)
        user = task.setting.user or (recipe.user if recipe else None)
        if user and not self.box.capabilities.multi_uid:
            needs = (*needs, f"the user {user}")
        if needs:
            raise CannotPlay(f"{task.name} needs {', '.join(needs)}: the {self.box.name} backend does not give that")
        self._prepare(task, spec, None if built else recipe, files)
        if task.setting.healthcheck:
            self._wait_healthy(task.name, task.setting.healthcheck)
        self._user = user
        if step is not None:
            self.enter(task, step)
        if shell:
            self._new_shell()

    def enter(self, task: TerminalTask, step: Step) -> None:
        """The set-up of a step, in the sandbox as it is."""
        if step.files:
            place(self.box, step.files, self.workdir)
        if step.setup:
            done = self.box.exec(step.setup, cwd=self.workdir, timeout=600, merge_stderr=True)
            if done.exit_code:
                raise UserError(f"{task.name}: the set-up of step {step.name!r} failed: {done.text[-300:]}")
        if step.healthcheck:
            self._wait_healthy(task.name, step.healthcheck)
        if step.files or step.setup:
            self._known = None
            self._commands += 1

    def _spec(self, task: TerminalTask, recipe: dockerfile.Recipe | None) -> SandboxSpec:
        setting = task.setting
        self.workdir = setting.workdir or (recipe.workdir if recipe and recipe.workdir != "/" else "/app")
        env = {"PATH": PATH, **(recipe.env if recipe else {}), **setting.env}
        named = self._images.named
        image = named.get(task.name) or self._images.find(recipe.base if recipe else setting.image)
        return SandboxSpec(image=image, limits=self._limited(setting), env=env)

    def _limited(self, setting: Setting) -> Limits:
        limits = self._limits
        if setting.memory_mb:
            limits = replace(limits, memory=int(setting.memory_mb * MIB))
        if setting.storage_mb:
            limits = replace(limits, disk=int(setting.storage_mb * MIB))
        return replace(limits, cpu=float(setting.cpus)) if setting.cpus else limits

    def _fresh(self, spec: SandboxSpec) -> None:
        if self._box is not None and self._box.spec == spec:
            try:
                self._box.reset()
            except (SandboxFault, InvalidArgument):  # broken, or a backend that cannot
                self.close()
        elif self._box is not None:
            self.close()
        if self._box is None:
            self._box = self._open(spec)
        self._shell, self._known, self._pending, self.code = None, None, b"", 0
        self._settled = ()
        self._begun, self._commands = text_key(repr(time.monotonic_ns()), str(id(self))), 0

    def _prepare(self, task: TerminalTask, spec: SandboxSpec, recipe: dockerfile.Recipe | None, files: bool) -> None:
        if recipe is None:
            if files:
                place(self.box, task.setting.files, folders=[self.workdir])
            return
        key = (spec, str(recipe.path))
        if key in self._prepared:
            self.box.restore(self._prepared[key])
            return
        place(self.box, shim_files())
        dockerfile.build(self.box, recipe)
        self.box.exec(["rm", "-rf", "/opt/sandlot"], cwd="/")
        place(self.box, task.setting.files, folders=[self.workdir])
        if self.capable:
            while len(self._prepared) >= _PREPARED:
                del self._prepared[next(iter(self._prepared))]
            self._prepared[key] = self.box.snapshot()

    def _wait_healthy(self, name: str, check: Healthcheck) -> None:
        begin, failures = time.monotonic(), 0
        while True:
            if self.box.exec(check.command, cwd=self.workdir, timeout=check.timeout).exit_code == 0:
                return
            early = time.monotonic() - begin < check.start_period
            failures += not early
            if failures >= check.retries:
                raise EnvironmentFault(f"{name} did not become healthy: {check.command}")
            time.sleep(check.start_interval if early else check.interval)

    # -- the agent's commands -------------------------------------------------------------------------------------

    def run(self, command: str, timeout: float, limit: int) -> ExecResult:
        """One command in the agent's shell; what the background wrote since the last one comes first."""
        if self._shell is None:
            self._new_shell()
        assert self._shell is not None
        self._known = None
        self._commands += 1
        result = self._shell.run(command, timeout=timeout, output_limit=limit)
        self.code = 0 if result.shell_exited else result.exit_code
        before, self._pending = self._pending, b""
        return replace(result, stdout=before + result.stdout) if before else result

    def _new_shell(self) -> None:
        # Started elsewhere, because the folder may be gone when a shell that ended is replaced.
        self._shell = self.box.shell(cwd="/", env=self._steady, user=self._user)
        self._shell.run(f"cd {shlex.quote(self.workdir)} 2>/dev/null; unset OLDPWD")
        self._known = None

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[ShellState, str]:
        """The shell's state, and the key of everything."""
        if self._known is None:
            if self._shell is None:
                self._new_shell()
            shell = self._capture()
            until = time.monotonic() + _SETTLE
            # What was started in the background may not have come to its program yet.
            while shell.busy and shell.processes != self._settled and time.monotonic() < until:
                time.sleep(0.005)
                shell = self._capture()
            self._settled = shell.processes
            if self._idle is None and self._commands == 0:
                self._idle = shell.processes
            layer = self.box.fingerprint() if self.capable else str(self._commands)
            self._known = shell, text_key(layer, shell.key, str(self.code))
        return self._known

    def _capture(self) -> ShellState:
        assert self._shell is not None
        shell, _, before = shell_state.capture(self._shell, self.code)
        if shell is None:  # an agent rewrote its shell: it gets a new one
            self._shell.close()
            self._new_shell()
            shell, _, before = shell_state.capture(self._shell, self.code)
            if shell is None:
                raise SandboxFault("the shell of the sandbox does not answer")
        self._pending += before
        return shell

    def comes_to(self, key: str) -> bool:
        """Whether the key is `key`, now or when what runs in the background has come as far as it had."""
        until = time.monotonic() + _PATIENCE
        while self.state()[1] != key:
            if self.state()[0].processes == self._idle or time.monotonic() > until:
                return False
            time.sleep(0.02)
            self._known = None
        return True

    def save(self) -> Saved:
        """The moment, to come back to."""
        shell, key = self.state()
        quiet = shell.processes == self._idle and self.capable
        layer = self.box.snapshot() if quiet else None
        return Saved(key, self.code, shell, layer, (self._begun, self._commands))

    def load(self, saved: Saved) -> bool:
        """Go back to `saved`, of the same task. False where its commands must be played again on a fresh start."""
        if saved.mark == (self._begun, self._commands) and self._box is not None:
            return True
        if saved.layer is None:
            return False
        self.box.restore(saved.layer)
        self._new_shell()
        assert self._shell is not None
        shell_state.restore(self._shell, saved.shell, saved.code)
        self.code, self._known, self._pending = saved.code, None, b""
        self._commands += 1
        return True

    def close(self) -> None:
        """End the sandbox."""
        box, shell, self._box, self._shell = self._box, self._shell, None, None
        self._known, self._idle = None, None
        self._prepared.clear()
        if shell is not None:
            shell.close()
        if box is not None:
            box.close()
