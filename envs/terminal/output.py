"""From a command's bytes to what the agent reads."""

from __future__ import annotations

import re

from ...sandboxes.spec import ExecResult
from ..core.text_env import printable

# Escape sequences of terminals: CSI, OSC (to its end), and the two-character ones.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_]|[ -/]+[0-~])")
_RETURNS = re.compile(r"[^\n]*\r(?=[^\n])")


def show(result: ExecResult, seconds: float) -> str:
    """The output as text, with notes in brackets on all that is not output.

    Colours and cursor movements are taken out, a line that overwrites itself shows its last state, bytes that are no
    UTF-8 and control characters become U+FFFD.

    Args:
        result: of the command.
        seconds: the time limit that it had.
    """
    text = _ESCAPES.sub("", result.text).replace("\r\n", "\n")
    text = printable(_RETURNS.sub("", text).replace("\r", "")).rstrip("\n")
    notes = []
    if result.truncated:
        notes.append(f"[output cut after {len(result.stdout)} of {max(result.total_bytes, len(result.stdout))} bytes]")
    if result.timed_out:
        notes.append(f"[the command was ended after {seconds:g} seconds]")
    elif result.oom:
        notes.append("[the command was ended: out of memory]")
    if result.shell_exited:
        notes.append("[the shell ended; a new one was started]")
    elif result.exit_code and not result.timed_out:
        notes.append(f"[exit code {result.exit_code}]")
    lines = [text, *notes] if text else notes or ["[no output]"]
    return "\n".join(lines)
