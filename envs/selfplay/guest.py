"""What runs inside the sandbox: it loads a foreign `Game` or `Solution` and calls it, one request at a time.

Its text is sent there; on this side it is never called. The foreign code shares its interpreter, and may break or fool
it: that makes the program's answers wrong, which is for the gates to find, and touches nothing outside the sandbox.
"""

from __future__ import annotations

import builtins
import json
import resource
import sys
from typing import Any

_HIDDEN = (
    *("open", "exec", "eval", "compile", "input", "breakpoint", "help", "exit", "quit", "copyright", "credits"),
    *("license", "globals", "locals", "vars", "memoryview"),
)
_TABLE: dict[str, Any] = {}
_ENCODE = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def _limit(memory: int) -> None:
    """Limits of this process that its user cannot raise again; the sandbox has its own besides."""
    wanted = {"AS": memory, "FSIZE": 0, "NPROC": 0, "NOFILE": 16, "CORE": 0}
    for name, value in wanted.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))


def _load(source: str, kind: str, imports: list[str], memory: int) -> None:
    """Run the source in a module of its own, with the imports that it names and no others."""
    known = {name: __import__(name, fromlist=["*"]) for name in imports}
    sys.meta_path.clear()
    sys.path.clear()
    sys.path_hooks.clear()

    def give(name: str, scope: Any = None, locals_: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if level or name not in known:
            raise ImportError(f"{name!r:.80} may not be imported")
        return known[name] if fromlist else known[name.partition(".")[0]]

    names = {name: value for name, value in vars(builtins).items() if name not in _HIDDEN}
    space = {"__name__": kind.lower(), "__builtins__": {**names, "__import__": give}}
    _limit(memory)
    _TABLE["space"] = space
    exec(compile(source, f"{kind}.py", "exec", dont_inherit=True), space)  # the sandbox is what it is for
    _TABLE["class"] = space[kind]


def _state(game: Any) -> str | None:
    """The whole state as canonical text, where the program tells it."""
    if not hasattr(game, "state"):
        return None
    return _ENCODE(game.state())


def _moment(game: Any, observation: Any, reward: Any, terminated: Any) -> list[Any]:
    actions = list(game.actions()) if hasattr(game, "actions") and not terminated else None
    _TABLE["state"] = _state(game)
    return [observation, reward, terminated, actions, _TABLE["state"]]


def _reset(seed: int) -> list[Any]:
    game = _TABLE["game"] = _TABLE["class"]()
    return _moment(game, game.reset(seed), 0.0, False)


def _step(action: str) -> list[Any]:
    game = _TABLE["game"]
    before = _TABLE["state"]  # since the last answer nothing has happened
    try:
        observation, reward, terminated = game.step(action)
    except ValueError as error:
        return ["refused", f"{error}"[:1000], None if before is None else before == _state(game)]
    return _moment(game, observation, reward, terminated)


def _replay(seed: int, actions: list[str]) -> list[Any]:
    """A whole episode at once; a refusal ends it."""
    moments = [_reset(seed)]
    for action in actions:
        moments.append(_step(action))
        if len(moments[-1]) == 3:
            break
    return moments


def _start(seed: int) -> None:
    solution = _TABLE["game"] = _TABLE["class"]()
    solution.start(seed)


def _act(observation: str) -> Any:
    return _TABLE["game"].act(observation)


def _hint(seed: int) -> Any:
    """None where the solution has no hints of its own."""
    solution = _TABLE["class"]()
    return solution.hint(seed) if hasattr(solution, "hint") else None


_VERBS = {
    "load": _load,
    "reset": _reset,
    "step": _step,
    "replay": _replay,
    "start": _start,
    "act": _act,
    "hint": _hint,
}


def _place(error: BaseException) -> str:
    """In which line of the foreign source it happened."""
    line, trace = getattr(error, "lineno", None) or 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals is _TABLE.get("space"):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f" (line {line})" if line else ""


def handle(request: list[Any]) -> list[Any]:
    """Answer `["ok", value]` or `["error", name, message]`."""
    try:
        return ["ok", _VERBS[request[0]](*request[1:])]
    except BaseException as error:  # also SystemExit: the program does not decide when it ends
        return ["error", type(error).__name__, f"{error}"[:1000] + _place(error)]
