"""Packing: recorded calls become prefix trees of token nodes, so that every shared token is computed once.

A history that grows is one chain: each prompt begins with the one before plus its completion. A history that is
rewritten (windows, folding, sub-agents) forks, and the candidates of a "choice" call are side branches. Ids are used
as they were recorded; nothing is encoded again. Calls of one session share nodes; those of sessions that begin with the
same prompt (a group's episodes) may, where that costs less.

The logits that predict node n are those of its parent, so every completion token needs a prompt token before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .records import Call

__all__ = ["Packing", "batch_indices", "micro_batches", "pack"]

# What a node costs: attention to the nodes above it, and as much as LINEAR of them for everything else (6 hidden sizes
# of a transformer block). In a row with forks attention also looks at some that it masks, about half a block of them.
# Only used to choose between one tree with forks and separate rows; both give the same numbers.
LINEAR, MASKED = 1024, 64


@dataclass(frozen=True, slots=True)
class Packing:
    """A forest over the nodes `0 .. N-1`: one tree per row, the rows' nodes one after the other.

    A parent's number is always below its children's, and a row whose parents all are the node just before is a chain.
    """

    ids: np.ndarray
    """(N,) int64 token ids."""
    parent: np.ndarray
    """(N,) int64 node numbers, -1 at each row's root."""
    position: np.ndarray
    """(N,) int64 distance from the root: the token's position in its sequence."""
    starts: np.ndarray
    """(R + 1,) int64: row r holds the nodes `starts[r] .. starts[r + 1] - 1`."""
    completion: tuple[np.ndarray, ...]
    """Per call, the (units,) nodes of its completion; of the chosen candidate for a "choice" call."""
    candidates: tuple[tuple[np.ndarray, ...] | None, ...]
    """Per "choice" call, the nodes of each candidate; None for the others."""
    value: np.ndarray
    """(calls,) int64 node of each call's last prompt token."""

    @property
    def rows(self) -> int:
        """Number of trees."""
        return len(self.starts) - 1

    @property
    def lengths(self) -> np.ndarray:
        """(R,) nodes per row."""
        return np.diff(self.starts)

    @property
    def chains(self) -> np.ndarray:
        """(R,) bool: the row has no fork, so ordinary causal attention serves."""
        forks = self.parent != np.arange(-1, len(self.ids) - 1)
        forks[self.starts[:-1]] = False
        return np.add.reduceat(forks, self.starts[:-1]) == 0 if self.rows else np.zeros(0, dtype=bool)

    def path(self, node: int) -> tuple[int, ...]:
        """The ids from the root to `node`, both included."""
        ids = []
        while node >= 0:
            ids.append(int(self.ids[node]))
            node = int(self.parent[node])
        return tuple(reversed(ids))


class _Tree:
    """One row while it grows."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.parent: list[int] = []
        self.position: list[int] = []
        self.forks: dict[tuple[int, int], int] = {}  # children other than the node just after
        self.last: tuple[tuple[int, ...], int] = ((), -1)  # the path inserted last: a growing history begins with it
        self.start = 0

    def insert(self, ids: Sequence[int], node: int) -> list[int]:
        """The nodes that spell `ids` below `node`; missing ones are added."""
        nodes: list[int] = []
        for token in ids:
            child = node + 1
            if not (child < len(self.ids) and self.parent[child] == node and self.ids[child] == token):
                child = self.forks.get((node, token), -1)
                if child < 0:
                    break
            nodes.append(child)
            node = child
        if missing := ids[len(nodes) :]:
            first, depth = len(self.ids), self.position[node] + 1 if node >= 0 else 0
            if first != node + 1:
                self.forks[node, missing[0]] = first
            self.ids += missing
            self.parent += (node, *range(first, first + len(missing) - 1))
            self.position += range(depth, depth + len(missing))
            nodes += range(first, first + len(missing))
        return nodes

    def insert_prompt(self, ids: tuple[int, ...]) -> int:
        """The node of the prompt's last token."""
        known, node = self.last
        if ids[: len(known)] != known:
            known, node = (), -1
        rest = self.insert(ids[len(known) :], node)
        return rest[-1] if rest else node

    @property
    def pairs(self) -> int:
        """How many nodes all nodes see, themselves included."""
        return sum(self.position) + len(self.ids)

    @property
    def cost(self) -> int:
        return _cost(len(self.ids), self.pairs, bool(self.forks))


_Nodes = tuple[_Tree, Sequence[int]]


@dataclass(slots=True)
class _Placed:
    """Where one call's tokens lie."""

    value: _Nodes
    completion: _Nodes
    candidates: list[_Nodes] | None


def pack(calls: Sequence[Call], *, forks: bool = True, share: bool = False) -> Packing:
    """The forest of `calls`: rows in the order in which the sessions first appear, per-call parts in the calls' order.

    A session's rows do not depend on the order of its calls. Where the branches of a rewritten history share so little
    that one tree would cost more than separate rows, they become separate rows.

    Args:
        calls: calls with token ids.
        forks: False gives chains only (for models whose attention takes no mask of ours): a rewritten history starts
            a row of its own, and so does every candidate.
        share: sessions whose first prompts are equal may be one tree; a row then holds several sessions.

    Raises:
        ValueError: a call has no prompt ids, or candidates that are not token ids, or no valid choice among them.
    """
    for call in calls:
        _check(call)
    trees: list[_Tree] = []
    placed: dict[int, _Placed] = {}
    for members, built in _families(calls, forks, share and forks):
        for rows, found in [_build(members, calls, forks)] if built is None else built:
            trees += rows
            placed.update(found)
    return _freeze(trees, [placed[index] for index in range(len(calls))])


def micro_batches(calls: Sequence[Call], max_tokens: int) -> list[list[Call]]:
    """`calls` cut into batches for `evaluate`; see `batch_indices`."""
    return [[calls[index] for index in batch] for batch in batch_indices(calls, max_tokens)]


def batch_indices(calls: Sequence[Call], max_tokens: int, *, share: bool = False) -> list[list[int]]:
    """Indices of `calls` per batch: whole sessions, trees before chains, similar lengths together, longest first.

    A batch holds at most `max_tokens` token slots, padding included, except that a session (with `share`, a tree of
    several) which alone is larger is a batch by itself. Within a batch the indices rise.
    """
    for call in calls:
        _check(call)
    shapes = []
    for members, built in _families(calls, True, share):
        rows = [tree for some, _ in ([_build(members, calls, True)] if built is None else built) for tree in some]
        chains = not any(tree.forks for tree in rows)
        shapes.append((chains, max(len(tree.ids) for tree in rows), len(rows), members))
    shapes.sort(key=lambda shape: (shape[0], -shape[1], shape[3][0]))
    batches: list[list[int]] = []
    width, rows = 0, 0
    for _, length, count, members in shapes:
        if not batches or max(width, length) * (rows + count) > max_tokens:
            batches.append([])
            width, rows = 0, 0
        batches[-1] += members
        width, rows = max(width, length), rows + count
    return [sorted(batch) for batch in batches]


_Built = list[tuple[list[_Tree], dict[int, _Placed]]]


def _families(calls: Sequence[Call], forks: bool, share: bool) -> list[tuple[list[int], _Built | None]]:
    """The calls that are packed together, shorter prompts of a session first, and how; None is one tree, to be built.

    Sessions join the tree of those before them with the same first prompt where that costs less than a row of their
    own: what they have in common is saved, a row without forks is not one any more.
    """
    sessions: dict[str, list[int]] = {}
    for index, call in enumerate(calls):
        sessions.setdefault(call.session, []).append(index)
    families: list[tuple[list[int], _Built | None]] = []
    opened: dict[tuple[int, ...], tuple[int, tuple[int, int, bool]]] = {}  # first prompt -> family, what `_cost` takes
    for members in sessions.values():
        members.sort(key=lambda i: _order(calls[i]))
        built = _session(members, calls, forks)
        if share and len(built) == len(built[0][0]) == 1:
            prompt, tree = calls[members[0]].prompt_ids, built[0][0][0]
            if prompt in opened:
                family, before = opened[prompt]
                joined = families[family][0] + members
                apart = _cost(*before) + tree.cost
                same = len(prompt)
                shape, merged = (
                    (before[0] + len(tree.ids) - same, before[1] + tree.pairs - same * (same + 1) // 2, True),
                    None,
                )
                if _cost(*shape) > apart:  # by the prompt alone; they may have more in common
                    (row,), placed = _build(joined, calls, True)
                    shape, merged = (len(row.ids), row.pairs, bool(row.forks)), [([row], placed)]
                if _cost(*shape) <= apart:
                    families[family], opened[prompt] = (joined, merged), (family, shape)
                    continue
            opened[prompt] = (len(families), (len(tree.ids), tree.pairs, bool(tree.forks)))
        families.append((members, built))
    return families


def _session(members: Sequence[int], calls: Sequence[Call], forks: bool) -> _Built:
    """One session as one tree or, where its branches share little, as several."""
    branches = _branches(members, calls)
    built = [_build(branch, calls, forks) for branch in branches]
    if forks and len(branches) > 1:
        merged = _build(members, calls, forks)
        if sum(tree.cost for tree in merged[0]) <= sum(tree.cost for rows, _ in built for tree in rows):
            return [merged]
    return built


def _cost(nodes: int, pairs: int, forked: bool) -> int:
    return pairs + nodes * (LINEAR + MASKED * forked)


def _check(call: Call) -> None:
    if not call.prompt_ids:
        raise ValueError(f"call {call.id!r} has no prompt ids: nothing predicts its first token")
    if call.choices is not None:
        if not 0 <= call.choice < len(call.choices):
            raise ValueError(f"call {call.id!r} chose number {call.choice} of {len(call.choices)} candidates")
        if isinstance(call.choices[0], str):
            raise ValueError(f"call {call.id!r} chose among texts: only token-id candidates can be packed")


def _order(call: Call) -> tuple[Any, ...]:
    return len(call.prompt_ids), call.prompt_ids, call.completion_ids, call.choices or ()


def _chosen(call: Call) -> tuple[int, ...]:
    return call.completion_ids if call.choices is None else tuple(call.choices[call.choice])


def _branches(members: Sequence[int], calls: Sequence[Call]) -> list[list[int]]:
    """`members` (shorter prompts first) cut into growing histories: each call's prompt begins with the path before."""
    branches: list[list[int]] = []
    ends: list[tuple[int, ...]] = []
    for index in members:
        prompt = calls[index].prompt_ids
        path = prompt + _chosen(calls[index])
        for branch in reversed(range(len(ends))):
            if prompt[: len(ends[branch])] == ends[branch] or path == ends[branch]:
                branches[branch].append(index)
                ends[branch] = path
                break
        else:
            branches.append([index])
            ends.append(path)
    return branches


def _build(members: Sequence[int], calls: Sequence[Call], forks: bool) -> tuple[list[_Tree], dict[int, _Placed]]:
    trunk = _Tree()
    trees, placed = [trunk], {}
    for index in members:
        call = calls[index]
        value = trunk.insert_prompt(call.prompt_ids)
        completion = trunk.insert(_chosen(call), value)
        trunk.last = (call.prompt_ids + _chosen(call), completion[-1] if completion else value)
        candidates: list[_Nodes] | None = None
        if call.choices is not None:
            candidates = []
            for number, candidate in enumerate(call.choices):
                tree, node = trunk, value
                if not forks and number != call.choice:
                    tree = _Tree()
                    trees.append(tree)
                    node = tree.insert(call.prompt_ids, -1)[-1]
                candidates.append((tree, tree.insert(candidate, node)))
        placed[index] = _Placed((trunk, [value]), (trunk, completion), candidates)
    return trees, placed


def _freeze(trees: Sequence[_Tree], placed: Sequence[_Placed]) -> Packing:
    starts = np.cumsum([0, *(len(tree.ids) for tree in trees)], dtype=np.int64)
    for tree, start in zip(trees, starts):
        tree.start = int(start)

    def numbers(nodes: _Nodes) -> np.ndarray:
        return np.array(nodes[1], dtype=np.int64) + nodes[0].start

    parent = np.array([parent for tree in trees for parent in tree.parent], dtype=np.int64)
    parent[parent >= 0] += np.repeat(starts[:-1], np.diff(starts))[parent >= 0]
    return Packing(
        ids=np.array([token for tree in trees for token in tree.ids], dtype=np.int64),
        parent=parent,
        position=np.array([position for tree in trees for position in tree.position], dtype=np.int64),
        starts=starts,
        completion=tuple(numbers(place.completion) for place in placed),
        candidates=tuple(
            None if place.candidates is None else tuple(numbers(nodes) for nodes in place.candidates)
            for place in placed
        ),
        value=np.array([place.value[0].start + place.value[1][0] for place in placed], dtype=np.int64),
    )
