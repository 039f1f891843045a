"""Python debugging: a small module with faults that its own tests do not all show."""

from __future__ import annotations

from typing import Any

from ..dice import Dice
from ..draft import Draft

_MERGE = """
def merge(a, b):
    out, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        if a[i] <= b[j]:
            out.append(a[i])
            i += 1
        else:
            out.append(b[j])
            j += 1
    return out + a[i:] + b[j:]
"""
_MEDIAN = """
def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2
"""
_WRAP = """
def wrap(text, width):
    lines, line = [], ''
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f'{line} {word}' if line else word
    return lines + [line] if line else lines
"""
_ROMAN = """
def roman(number):
    out = ''
    for value, sign in (
        (1000, 'M'), (900, 'CM'), (500, 'D'), (400, 'CD'), (100, 'C'), (90, 'XC'),
        (50, 'L'), (40, 'XL'), (10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I'),
    ):
        while number >= value:
            out += sign
            number -= value
    return out
"""
_INTERVALS = """
def intervals(pairs):
    out = []
    for start, end in sorted(pairs):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out
"""
_RUNS = """
def runs(text):
    out = []
    for char in text:
        if out and out[-1][0] == char:
            out[-1] = (char, out[-1][1] + 1)
        else:
            out.append((char, 1))
    return out
"""
# What each function is said to do, its correct source, its possible faults as (right, wrong), and arguments to try.
_FUNCTIONS: dict[str, tuple[str, str, tuple[tuple[str, str], ...], tuple[str, ...]]] = {
    "merge": (
        "merge(a, b): the sorted list of the elements of two sorted lists",
        _MERGE,
        (("return out + a[i:] + b[j:]", "return out + a[i:]"), ("if a[i] <= b[j]", "if a[i] >= b[j]")),
        ("[1, 4], [2, 3, 9]", "[], [1]", "[5], []", "[1, 1], [1]", "[2], [1, 3, 4]"),
    ),
    "median": (
        "median(values): the middle of a list of numbers, for an even number of them the mean of the two in the middle",
        _MEDIAN,
        (("ordered = sorted(values)", "ordered = list(values)"), ("ordered[middle - 1]", "ordered[middle + 1]")),
        ("[3, 1, 2]", "[4, 1, 3, 2]", "[7]", "[1, 2]", "[9, 1, 5, 3]"),
    ),
    "wrap": (
        "wrap(text, width): the words of a text as a list of lines of at most width characters, as full as possible",
        _WRAP,
        (("len(line) + 1 + len(word) > width", "len(line) + len(word) > width"), ("  line = word\n", "  line = ''\n")),
        ("'a bb ccc dd', 5", "'', 4", "'one two three four five', 9", "'aa bb', 4", "'aaa bb c', 4"),
    ),
    "roman": (
        "roman(number): a positive integer below 4000 as a Roman numeral",
        _ROMAN,
        (("while number >= value", "while number > value"), ("(90, 'XC'),", ""), ("(9, 'IX')", "(9, 'XI')")),
        ("4", "9", "1994", "3999", "90", "58"),
    ),
    "intervals": (
        "intervals(pairs): overlapping or touching (start, end) pairs joined, sorted by their start",
        _INTERVALS,
        (
            ("start <= out[-1][1]", "start < out[-1][1]"),
            ("max(out[-1][1], end)", "end"),
            ("in sorted(pairs)", "in pairs"),
        ),
        ("[(1, 3), (2, 5)]", "[(1, 2), (2, 3)]", "[(5, 6), (1, 2)]", "[(1, 9), (2, 3)]", "[]"),
    ),
    "runs": (
        "runs(text): the text's runs of equal characters as a list of (character, length) pairs",
        _RUNS,
        (
            ("out.append((char, 1))", "out.append((char, 0))"),
            ("if out and out[-1][0] == char", "if out and out[0][0] == char"),
        ),
        ("'aabccc'", "''", "'abab'", "'zz'", "'aabaa'"),
    ),
}
_CHECKS = """
def value(module, expression):
    # A process of its own: the code is the agent's.
    code = f"import sys; sys.path.insert(0, {str(APP)!r}); import {module}; print(ascii({module}.{expression}))"
    return run("python3", "-c", code, seconds=5).stdout.strip()


def test_module_loads():
    code = f"import sys; sys.path.insert(0, {str(APP)!r}); import {GOLD['module']}"
    assert run("python3", "-c", code, seconds=5).returncode == 0


def test_shown_cases():
    for expression, wanted in GOLD["shown"]:
        assert value(GOLD["module"], expression) == wanted, expression


def test_other_cases():
    for expression, wanted in GOLD["cases"]:
        assert value(GOLD["module"], expression) == wanted, expression
"""


def draft(dice: Dice, level: int) -> Draft:
    """As many functions as the level, each with one fault; a syntax error on top at level 3."""
    module = f"{dice.word()}_tools"
    chosen = dice.sample(sorted(_FUNCTIONS), level)
    right, wrong, about, cases = [], [], [], []
    for name in chosen:
        said, body, faults, arguments = _FUNCTIONS[name]
        good, bad = dice.choice(faults)
        right.append(body.lstrip())
        wrong.append(body.replace(good, bad).lstrip())
        about.append(said)
        cases += [[f"{name}({given})", _value(body, f"{name}({given})")] for given in arguments]
    broken = "\n\n".join(wrong)
    if level == 3:
        broken = broken.replace("    return out", "     return out", 1)
    shown = cases[:2]
    tests = f"import {module}\n\n" + "".join(f"assert {module}.{call} == {wanted}\n" for call, wanted in shown)
    fixed = "\n\n".join(right)
    return Draft(
        instruction=(
            f"The module /app/{module}.py has faults. It should hold these functions: {'; '.join(about)}. Repair it. "
            f"/app/check.py tests a few cases (python3 check.py); all others must be right as well."
        ),
        files={f"{module}.py": broken, "check.py": tests},
        solution=(f"cat > {module}.py <<'END'\n{fixed}END", "python3 check.py"),
        checks=_CHECKS,
        gold={"module": module, "cases": cases, "shown": shown},
        hint="Try each function on small and empty inputs, and read its loop conditions and its last line.",
        secrets=tuple(right),
    )


def _value(source: str, expression: str) -> str:
    """The value of an expression under `source`, one of this file's own texts; an exception's name where it fails."""
    space: dict[str, Any] = {}
    exec(source, space)
    try:
        return ascii(eval(expression, space))
    except Exception as error:
        return type(error).__name__
