"""What a program's source may say: it parses, imports little, and stays away from what reaches out of it.

This keeps generated programs plain, and tells a designer at once what will not work. It is no wall: whatever gets past
it meets the sandbox, which is one.
"""

from __future__ import annotations

import ast
import importlib
import threading
import types
from collections.abc import Iterator
from functools import cache, lru_cache

from .reasons import Reason

MODULES = (
    *("bisect", "collections", "copy", "dataclasses", "enum", "fractions", "functools", "heapq", "itertools", "json"),
    *("math", "operator", "random", "re", "statistics", "string", "textwrap", "typing", "__future__"),
)
"""What may be imported."""
NAMES = (
    *("__import__", "breakpoint", "compile", "delattr", "dir", "eval", "exec", "exit", "getattr", "globals", "hash"),
    *("help", "id", "input", "locals", "memoryview", "open", "quit", "setattr", "vars", "__builtins__", "__loader__"),
    *("__spec__",),
)
"""What may not be named."""
METHODS = {"Game": ("reset", "step"), "Solution": ("start", "act")}
"""The class that each source defines, with what it must have."""
_METHODS = (
    *("init", "repr", "str", "eq", "ne", "lt", "le", "gt", "ge", "hash", "len", "iter", "next", "contains", "getitem"),
    *("setitem", "delitem", "add", "sub", "mul", "bool", "call", "post_init"),
)
_DUNDERS = frozenset(f"__{name}__" for name in _METHODS)
_FRAMES = ("gi_frame", "gi_code", "gi_yieldfrom", "tb_frame", "tb_next", "f_back", "f_globals", "f_builtins", "f_code")
_FORMAT = ("format", "format_map")  # "{0.__class__}".format(x) reads attributes
Problem = tuple[Reason, str]


_PARSING = threading.Lock()


def parse(source: str) -> ast.Module:
    """`ast.parse` for programs that are played in threads: at once in two of them, Python 3.11's fails."""
    with _PARSING:
        return ast.parse(source)


@lru_cache(maxsize=1024)
def imported_modules(source: str) -> tuple[str, ...]:
    """The allowed modules that a source imports; none where it does not parse."""
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(sorted({name for _, name in _imports(tree)} & set(MODULES)))


def check_source(source: str, kind: str) -> list[Problem]:
    """What is wrong with the text of `class kind`, each with the line; empty where nothing is."""
    try:
        tree = parse(source)
    except SyntaxError as error:
        return [(Reason.SYNTAX, f"{error.msg} (line {error.lineno})")]
    except (ValueError, RecursionError, MemoryError) as error:
        return [(Reason.SYNTAX, f"it cannot be parsed: {type(error).__name__}: {error}")]
    try:
        problems = [*_imports_problems(tree), *_names_problems(tree), *_class_problems(tree, kind)]
    except RecursionError:
        return [(Reason.SYNTAX, "it is nested too deeply")]
    return list(dict.fromkeys(problems))[:20]


def _imports(tree: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node, "." * node.level + (node.module or "")


def _imports_problems(tree: ast.AST) -> Iterator[Problem]:
    for node, name in _imports(tree):
        if name not in MODULES:
            allowed = ", ".join(module for module in MODULES if not module.startswith("_"))
            yield Reason.IMPORT, f"{name!r:.60} may not be imported (line {node.lineno}); allowed are {allowed}"
        elif isinstance(node, ast.ImportFrom) and name != "__future__":
            for alias in node.names:
                if alias.name not in _public(name):
                    yield Reason.IMPORT, f"{alias.name!r:.60} may not be imported from {name} (line {node.lineno})"


def _names_problems(tree: ast.AST) -> Iterator[Problem]:
    modules = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name in MODULES
    }
    bases = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in NAMES:
            yield Reason.NAME, f"{node.id} may not be used (line {node.lineno})"
        elif isinstance(node, ast.Name) and node.id in modules and id(node) not in bases:
            yield Reason.NAME, f"a module may only be used as in {node.id}.name (line {node.lineno})"
        elif isinstance(node, ast.Global):
            yield Reason.NAME, f"global state may not be used: keep it on self (line {node.lineno})"
        elif isinstance(node, ast.Attribute):
            base = node.value.id if isinstance(node.value, ast.Name) else ""
            own = base in ("self", "cls") or (isinstance(node.value, ast.Call) and _is_super(node.value))
            hidden = node.attr.startswith("_") and not (own and (node.attr in _DUNDERS or node.attr[:2] != "__"))
            if hidden or node.attr in _FRAMES:
                yield Reason.NAME, f"the attribute {node.attr} may not be used (line {node.lineno})"
            elif node.attr in _FORMAT:
                yield Reason.NAME, f"{node.attr} may not be used: write an f-string (line {node.lineno})"
            elif base in modules and not isinstance(node.ctx, ast.Load):
                yield Reason.NAME, f"{base}.{node.attr} may not be changed (line {node.lineno})"
            elif base in modules and node.attr not in _public(modules[base]):
                instead = ": use random.Random(seed)" if modules[base] == "random" else ""
                yield Reason.NAME, f"{base}.{node.attr} may not be used{instead} (line {node.lineno})"
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("__") and node.name not in _DUNDERS:
            yield Reason.NAME, f"the method {node.name} may not be defined (line {node.lineno})"
        elif isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            yield Reason.NAME, f"async may not be used (line {node.lineno})"


def _class_problems(tree: ast.Module, kind: str) -> Iterator[Problem]:
    found = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind]
    if not found:
        yield Reason.SYNTAX, f"it defines no class {kind}"
        return
    methods = {node.name for node in found[-1].body if isinstance(node, ast.FunctionDef)}
    for name in METHODS[kind]:
        if name not in methods:
            yield Reason.SYNTAX, f"class {kind} has no method {name}"


def _is_super(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "super"


@cache
def _public(module: str) -> frozenset[str]:
    """What a module offers: its public names that are no modules, and do not read attributes by their names."""
    if module == "random":  # the others draw from a generator that no seed sets
        return frozenset({"Random"})
    found = importlib.import_module(module)
    names = {name for name in dir(found) if not name.startswith("_")}
    names -= {name for name in names if isinstance(getattr(found, name), types.ModuleType)}
    return frozenset(names - {"attrgetter", "methodcaller", "SystemRandom", "get_type_hints", "ForwardRef"})
