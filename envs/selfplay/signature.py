"""What makes two programs near-duplicates: the structure of their code, and how they play."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

from .source import parse

SHINGLE = 6
"""Neighbouring nodes of the syntax tree that make one shingle."""
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class Signature:
    """Three sets of 32-bit numbers; the share that two programs have in common says how like each other they are."""

    structure: frozenset[int]
    """Shingles of the syntax tree, without names and texts, with numbers."""
    behaviour: frozenset[int]
    """What scripted episodes showed: texts without numbers, rewards, ends."""
    shape: frozenset[int]
    """The same without the texts: steps, rewards, ends, how many actions there are."""

    def to_dict(self) -> dict[str, list[int]]:
        """Plain values."""
        return {name: sorted(value) for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, data: dict[str, list[int]]) -> Signature:
        """What `to_dict` gave."""
        return cls(*(frozenset(data[name]) for name in ("structure", "behaviour", "shape")))


@dataclass(frozen=True)
class Known:
    """A program that a new one must differ from."""

    id: str
    signature: Signature


def likeness(first: frozenset[int], second: frozenset[int]) -> float:
    """The share of both sets together that is in each (Jaccard), 1 for two empty ones."""
    together = len(first | second)
    return len(first & second) / together if together else 1.0


def structure(source: str) -> frozenset[int]:
    """The shingles of a source that parses. A renamed variable or another wording changes none, a number some."""
    nodes = list(_nodes(parse(source)))
    return frozenset(
        crc32(" ".join(nodes[start : start + SHINGLE]).encode()) for start in range(max(1, len(nodes) - SHINGLE + 1))
    )


def _nodes(root: ast.AST) -> Iterator[str]:
    """The tree in order, each node as its kind; closing marks keep depth. A deep tree needs no deep recursion."""
    todo: list[ast.AST | None] = [root]
    while todo:
        node = todo.pop()
        if node is None:
            yield ")"
        elif isinstance(node, ast.Constant):
            yield repr(node.value) if isinstance(node.value, int | float) else type(node.value).__name__
        else:
            yield type(node).__name__
            todo += [None, *reversed(list(ast.iter_child_nodes(node)))]


Trace = Sequence[tuple[str, float, bool, int]]
"""Of one episode: observation, reward, terminated, number of listed actions (-1 where they are not listed)."""


def behaviour(traces: Iterable[Trace]) -> tuple[frozenset[int], frozenset[int]]:
    """`Signature.behaviour` and `Signature.shape` of episodes that are played alike for every program."""
    texts: set[int] = set()
    shapes: set[int] = set()
    for episode, trace in enumerate(traces):
        for step, (observation, reward, terminated, count) in enumerate(trace):
            facts = f"{episode} {step} {reward:.6f} {terminated} {count}"
            shapes.add(crc32(facts.encode()))
            texts.add(crc32(f"{facts} {_DIGITS.sub('#', observation)}".encode()))
    return frozenset(texts), frozenset(shapes)
