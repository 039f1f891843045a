"""The state of an agent's shell as text: a script that brings it back, and the hash that names it."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field

from ...sandboxes.spec import ExecResult
from ...sandboxes.sync import SyncShell
from ..core.text_env import text_key

_TIMEOUT = 5.0  # seconds; only an agent that rewrote its shell's builtins needs more than a few milliseconds
# Variables that bash keeps by itself, that change from shell to shell, or that the loop around commands uses.
_OWN = re.compile(
    r"_|BASH|BASH_.*|BASHOPTS|BASHPID|COMP_WORDBREAKS|DIRSTACK|EPOCHREALTIME|EPOCHSECONDS|EUID|FUNCNAME|GROUPS|HISTCMD|"
    r"HOSTNAME|HOSTTYPE|LINENO|MACHTYPE|OPTERR|OSTYPE|PIPESTATUS|PPID|RANDOM|REPLY|SECONDS|SHELLOPTS|SHLVL|SRANDOM|UID|"
    r"__sandlot_.*"
)
_DECLARED = re.compile(r"^declare -[-\w]+ (\w+)", re.MULTILINE)
_CAPTURE = """
builtin printf '%s' TOKEN
builtin printf '%q' "$PWD"
builtin printf '%s' TOKEN
builtin :
builtin declare -p
builtin printf '%s' TOKEN
builtin declare -f
builtin alias -p
builtin trap -p
builtin umask -p
builtin shopt -p
builtin set +o
builtin printf '%s' TOKEN
for __sandlot_p in /proc/[0-9]*; do
    [[ $__sandlot_p == /proc/1 || $__sandlot_p == /proc/$$ ]] && continue
    IFS= read -r __sandlot_s 2>/dev/null <"$__sandlot_p/stat" &&
        IFS= read -r -d '' __sandlot_c 2>/dev/null <"$__sandlot_p/cmdline" &&
        builtin printf '%.1s%s\\n' "${__sandlot_s##*) }" "$__sandlot_c"
done
builtin unset __sandlot_p __sandlot_c __sandlot_s
builtin printf '%s' TOKEN
"""


@dataclass(frozen=True)
class ShellState:
    """What a shell knows, apart from open descriptors and its `$!` and `$_`."""

    folder: str
    """The working folder, as a shell word."""
    script: str
    """Commands that set variables, functions, aliases, traps and options as they are."""
    processes: tuple[str, ...]
    """The programs that run besides the shell, sorted; their numbers do not count."""
    busy: bool = field(default=False, compare=False)
    """Whether one of them was not waiting for anything: perhaps it is about to become another program."""

    @property
    def key(self) -> str:
        """A hash of all of it."""
        return text_key(self.folder, self.script, *self.processes)


def capture(shell: SyncShell, code: int) -> tuple[ShellState | None, ExecResult, bytes]:
    """The state of `shell`, whose last command ended with `code`; its `$?` stays that.

    Returns:
        The state, or None where the shell does not answer sensibly (an agent can rewrite its builtins); the result of
        asking; and what the background wrote before.
    """
    token = secrets.token_hex(16)
    script = _CAPTURE.replace("TOKEN", token) + (f"(exit {code})" if code else ":")
    result = shell.run(script, timeout=_TIMEOUT, output_limit=1 << 20)
    parts = result.stdout.split(token.encode())
    if len(parts) != 6 or result.shell_exited:
        return None, result, b""
    before, folder, variables, rest, processes, _ = (part.decode("utf-8", "surrogateescape") for part in parts)
    found = [line for line in processes.split("\n") if line]
    names, busy = sorted(line[1:] for line in found), any(line[0] in "RD" for line in found)
    state = ShellState(folder, _kept(variables) + rest, tuple(names), busy)
    return state, result, before.encode("utf-8", "surrogateescape")


def _kept(declared: str) -> str:
    """The declarations without those of the shell's own variables."""
    starts = [*_DECLARED.finditer(declared)]
    ends = [*(match.start() for match in starts[1:]), len(declared)]
    return "".join(declared[match.start() : end] for match, end in zip(starts, ends) if not _OWN.fullmatch(match[1]))


def restore(shell: SyncShell, state: ShellState, code: int) -> None:
    """Give a fresh shell the state; background processes do not come back."""
    names = 'for __sandlot_v in $(compgen -e); do unset "$__sandlot_v" 2>/dev/null; done; unset __sandlot_v'
    shell.run(f"cd {state.folder} 2>/dev/null; {names}; unset OLDPWD\n{state.script}\n(exit {code})", timeout=_TIMEOUT)
